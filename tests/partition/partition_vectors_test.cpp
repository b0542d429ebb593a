#include <ballast/partition/partition.hpp>  // first: proves it is self-contained

#include "../support/steady_state.hpp"
#include "../support/test.hpp"
#include "../support/vector_checks.hpp"

#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/refine.hpp>

namespace {

using namespace ballast;
using namespace ballast_test;

static_assert(cost_vector_projection<std::identity, std::vector<cost_vector<2>>>);
static_assert(!cost_vector_projection<std::identity, std::vector<cost_units>>);
static_assert(!cost_vector_projection<std::identity, std::vector<std::array<double, 2>>>);

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
  auto const plan = ballast::partition(samples, ballast::one_gpu_bags(2), ballast::refine{},
                                       encoder_and_llm, ballast::no_length{});
  // [vectors]
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_THAT(plan->costs, testing::ElementsAre(cost_vector<2>{5400, 2600}, cost_vector<2>{0, 3200},
                                                cost_vector<2>{3000, 3400}, cost_vector<2>{0, 1600},
                                                cost_vector<2>{2400, 1600}));
  EXPECT_THAT(plan->loads,
              testing::ElementsAre(cost_vector<2>{5400, 5800}, cost_vector<2>{5400, 6600}));
  EXPECT_THAT(plan->samples[bag_id{0}], testing::ElementsAre(sample_id{0}, sample_id{1}));
  EXPECT_EQ(plan->makespan, ratio{6600});
  EXPECT_GE(plan->lower_bound, ratio{6200});  // the mean of the LLM
}

TEST(PartitionVectors, PlansTheEdges)
{
  std::vector<cost_vector<2>> const none;
  auto const empty = plan_in_bins(none, 3, refine{}).value();
  EXPECT_EQ(empty.gap(), 0.0);
  EXPECT_EQ(empty.samples.size(), 3U);

  std::vector<cost_vector<2>> const zeros(5, cost_vector<2>{});
  auto const idle = plan_in_bins(zeros, 3, refine{}).value();
  EXPECT_TRUE(idle.proven_optimal());

  std::vector<cost_vector<2>> const few{{7, 1}, {1, 7}};
  auto const sparse = plan_in_bins(few, 5, refine{}).value();
  EXPECT_TRUE(sparse.proven_optimal());
  auto const single = plan_in_bins(few, 1, refine{}).value();
  EXPECT_TRUE(single.proven_optimal());
  EXPECT_THAT(single.loads, testing::ElementsAre(cost_vector<2>{8, 8}));
}

TEST(PartitionVectors, NamesTheSampleThatCannotBePlanned)
{
  std::vector<cost_vector<2>> const negative{{1, 1}, {1, -1}};
  auto const plan = plan_in_bins(negative, 2, refine{});
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, error_code::out_of_range);
  EXPECT_EQ(plan.error().position, 1U);
  EXPECT_THAT(plan.error().message,
              testing::HasSubstr("sample 1 has a negative cost in dimension 1"));

  std::vector<cost_vector<2>> const unpriced{{no_cost, 0}};
  auto const without_cost = plan_in_bins(unpriced, 2, refine{});
  ASSERT_FALSE(without_cost);
  EXPECT_THAT(without_cost.error().message,
              testing::HasSubstr("sample 0 has no cost in dimension 0"));

  std::vector<cost_vector<2>> const huge{{0, no_cost - 1}, {0, 1}};
  auto const overflow = plan_in_bins(huge, 2, refine{});
  ASSERT_FALSE(overflow);
  EXPECT_EQ(overflow.error().position, 1U);
  EXPECT_THAT(overflow.error().message, testing::HasSubstr("63 bits"));

  auto const nowhere = plan_in_bins(negative, 0, refine{});
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, error_code::infeasible);
}

TEST(PartitionVectors, FindsTheSamePlanAgain)  // Ensures (2)
{
  random_source random(111);
  cost_vector_plan<3> reused;
  workspace memory;
  for (int trial = 0; trial < 50; ++trial) {
    auto const step = random_vectors<3>(random, 300, 20);
    auto const plan = plan_in_bins(step.costs, step.bins, refine{});
    ASSERT_TRUE(plan && partition_into(reused, memory, step.costs, one_gpu_bags(step.bins),
                                       refine{}, std::identity{}, no_length{}));
    EXPECT_EQ(plan->digest(), reused.digest());
    EXPECT_EQ(plan->lower_bound, reused.lower_bound);
  }
}

template <class Policy>
void expect_no_vector_allocation(Policy const& policy)
{
  random_source random(3);
  std::vector<cost_vector<2>> costs(1000);
  cost_vector_plan<2> plan;
  workspace memory;
  auto const bags = one_gpu_bags(32);
  expect_steady_state([&] {
    for (auto& cost : costs) { cost = {random.between(0, 9000), random.between(0, 9000)}; }
    return partition_into(plan, memory, costs, bags, policy, std::identity{}, no_length{})
        .has_value();
  });
}

TEST(PartitionVectors, AllocatesNothingInTheSteadyState)  // Ensures (3)
{
  expect_no_vector_allocation(longest_processing_time{});
  expect_no_vector_allocation(refine{});
}

// A policy that is wrong in one of two ways.
struct wrong_vector_policy {
  bool forgets_loads = false;
  void operator()(cost_vector_problem<2> const&, std::span<cost_vector<2>>, std::span<bag_id> owner,
                  workspace&) const
  {
    for (bag_id& bin : owner) {
      if (forgets_loads) { bin = bag_id{0}; }
    }
  }
};

TEST(PartitionVectorsDeathTest, EndsTheProgramWhenAPolicyIsWrong)
{
  std::vector<cost_vector<2>> const costs{{1, 1}};
  EXPECT_DEATH((void)plan_in_bins(costs, 2, wrong_vector_policy{true}), "load");
  EXPECT_DEATH((void)plan_in_bins(costs, 2, wrong_vector_policy{false}),
               "left sample 0 without a bag");
}

}  // namespace
