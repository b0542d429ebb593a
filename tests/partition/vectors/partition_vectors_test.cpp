#include <ballast/partition/vectors/partition_vectors.hpp>  // first: proves it is self-contained

#include "../../support/counted_allocations.hpp"
#include "../../support/vector_checks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/partition/vectors/vector_longest_processing_time.hpp>
#include <ballast/partition/vectors/vector_refine.hpp>

#include <array>
#include <cstdint>
#include <vector>

namespace {

using ballast::bin_id;
using ballast::cost_units;
using ballast::cost_vector;
using ballast::error_code;
using ballast::sample_id;
using ballast::vector_longest_processing_time;
using ballast::vector_refine;

static_assert(ballast::vector_projection<std::identity, std::vector<cost_vector<2>>>);
static_assert(!ballast::vector_projection<std::identity, std::vector<cost_units>>);
static_assert(!ballast::vector_projection<std::identity, std::vector<std::array<double, 2>>>);

TEST(PartitionVectors, DescribesThePlanItMakes)  // Ensures (1)
{
  // [vectors]
  struct sample {
    ballast::tokens text;
    ballast::tokens image;
  };
  std::vector<sample> const samples{{100, 900}, {400, 0}, {300, 500}, {200, 0}, {100, 400}};
  auto const encoder_and_llm = [](sample const& s) {
    return ballast::cost_vector<2>{6 * s.image, 8 * (s.text + s.image / 4)};
  };
  auto const plan =
      ballast::partition_vectors(samples, 2, ballast::vector_refine{}, encoder_and_llm);
  // [vectors]
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_THAT(plan->costs, testing::ElementsAre(cost_vector<2>{5400, 2600}, cost_vector<2>{0, 3200},
                                                cost_vector<2>{3000, 3400}, cost_vector<2>{0, 1600},
                                                cost_vector<2>{2400, 1600}));
  EXPECT_THAT(plan->loads,
              testing::ElementsAre(cost_vector<2>{5400, 5800}, cost_vector<2>{5400, 6600}));
  EXPECT_THAT(plan->samples[bin_id{0}], testing::ElementsAre(sample_id{0}, sample_id{1}));
  EXPECT_EQ(plan->makespan, 6600);
  EXPECT_GE(plan->lower_bound, 6200);  // the mean of the LLM
}

TEST(PartitionVectors, PlansTheEdges)
{
  std::vector<cost_vector<2>> const none;
  auto const empty = ballast::partition_vectors(none, 3, vector_refine{});
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->gap(), 0.0);
  EXPECT_EQ(empty->samples.size(), 3U);

  std::vector<cost_vector<2>> const zeros(5, cost_vector<2>{});
  auto const idle = ballast::partition_vectors(zeros, 3, vector_refine{});
  ASSERT_TRUE(idle);
  EXPECT_TRUE(idle->proven_optimal());

  std::vector<cost_vector<2>> const few{{7, 1}, {1, 7}};
  auto const sparse = ballast::partition_vectors(few, 5, vector_refine{});
  ASSERT_TRUE(sparse);
  EXPECT_TRUE(sparse->proven_optimal());
  auto const single = ballast::partition_vectors(few, 1, vector_refine{});
  ASSERT_TRUE(single);
  EXPECT_TRUE(single->proven_optimal());
  EXPECT_THAT(single->loads, testing::ElementsAre(cost_vector<2>{8, 8}));
}

TEST(PartitionVectors, NamesTheSampleThatCannotBePlanned)
{
  std::vector<cost_vector<2>> const negative{{1, 1}, {1, -1}};
  auto const plan = ballast::partition_vectors(negative, 2, vector_refine{});
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, error_code::out_of_range);
  EXPECT_EQ(plan.error().position, 1U);
  EXPECT_THAT(plan.error().message,
              testing::HasSubstr("sample 1 has a negative cost in dimension 1"));

  std::vector<cost_vector<2>> const unpriced{{ballast::no_cost, 0}};
  auto const without_cost = ballast::partition_vectors(unpriced, 2, vector_refine{});
  ASSERT_FALSE(without_cost);
  EXPECT_THAT(without_cost.error().message,
              testing::HasSubstr("sample 0 has no cost in dimension 0"));

  std::vector<cost_vector<2>> const huge{{0, ballast::no_cost - 1}, {0, 1}};
  auto const overflow = ballast::partition_vectors(huge, 2, vector_refine{});
  ASSERT_FALSE(overflow);
  EXPECT_EQ(overflow.error().position, 1U);
  EXPECT_THAT(overflow.error().message, testing::HasSubstr("63 bits"));

  auto const nowhere = ballast::partition_vectors(negative, 0, vector_refine{});
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, error_code::infeasible);
}

TEST(PartitionVectors, FindsTheSamePlanAgain)  // Ensures (2)
{
  ballast::random_source random(111);
  ballast::vector_plan<3> reused;
  ballast::workspace memory;
  for (int trial = 0; trial < 50; ++trial) {
    auto const step = ballast_test::random_vectors<3>(random, 300, 20);
    auto const plan = ballast::partition_vectors(step.costs, step.bins, vector_refine{});
    ASSERT_TRUE(plan && ballast::partition_vectors_into(reused, memory, step.costs, step.bins,
                                                        vector_refine{}));
    EXPECT_EQ(plan->digest(), reused.digest());
    EXPECT_EQ(plan->lower_bound, reused.lower_bound);
  }
}

template <class Policy>
void expect_no_vector_allocation(Policy const& policy)
{
  ballast::random_source random(3);
  std::vector<cost_vector<2>> costs(1000);
  ballast::vector_plan<2> plan;
  ballast::workspace memory;
  for (int step = 0; step < 5; ++step) {
    for (auto& cost : costs) { cost = {random.between(0, 9000), random.between(0, 9000)}; }
    std::size_t const before = ballast_test::allocations();
    auto const done = ballast::partition_vectors_into(plan, memory, costs, 32, policy);
    std::size_t const during = ballast_test::allocations() - before;
    ASSERT_TRUE(done);
    if (step > 0) { EXPECT_EQ(during, 0U) << "step " << step; }
    costs.pop_back();  // later steps may be smaller
  }
}

TEST(PartitionVectors, AllocatesNothingInTheSteadyState)  // Ensures (3)
{
  expect_no_vector_allocation(vector_longest_processing_time{});
  expect_no_vector_allocation(vector_refine{});
}

// A policy that is wrong in one of two ways.
struct wrong_vector_policy {
  bool forgets_loads = false;
  void operator()(ballast::vector_problem<2> const&, std::span<cost_vector<2>>,
                  std::span<bin_id> owner, ballast::workspace&) const
  {
    for (bin_id& bin : owner) {
      if (forgets_loads) { bin = bin_id{0}; }
    }
  }
};

TEST(PartitionVectorsDeathTest, EndsTheProgramWhenAPolicyIsWrong)
{
  std::vector<cost_vector<2>> const costs{{1, 1}};
  EXPECT_DEATH((void)ballast::partition_vectors(costs, 2, wrong_vector_policy{true}), "load");
  EXPECT_DEATH((void)ballast::partition_vectors(costs, 2, wrong_vector_policy{false}),
               "left sample 0 without a bin");
}

}  // namespace
