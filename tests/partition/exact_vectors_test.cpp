#include <ballast/partition/exact.hpp>  // first: proves it is self-contained

#include "../support/vector_checks.hpp"

#include <gtest/gtest.h>
#include <ballast/partition/longest_processing_time.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using ballast::cost_vector;
using ballast::exact;
using ballast::longest_processing_time;
using ballast::refine;

static_assert(ballast::cost_vector_policy<exact<>, 2>);
static_assert(ballast::cost_vector_policy<exact<exact<>>, 3>);

TEST(VectorExact, PlacesEverySample)  // Ensures (1) (2)
{
  ballast_test::expect_valid_vector_plans(exact<>{.vector_nodes = 200}, 201);
  ballast_test::expect_starting_vectors_counted(exact<>{});
}

TEST(VectorExact, FindsTheBestPlanOfSmallSteps)  // Ensures (4)
{
  ballast::random_source random(202);
  std::size_t better = 0;
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = ballast_test::random_vectors<2>(random, 8, 4);
    auto const plan = ballast_test::plan_in_bins(step.costs, step.bins,
                                                 exact<longest_processing_time>{{}, 0, 10'000'000});
    auto const inner = ballast_test::plan_in_bins(step.costs, step.bins, longest_processing_time{});
    ASSERT_TRUE(plan && inner);
    ballast_test::expect_valid_vector_plan(step, *plan);
    ASSERT_EQ(plan->makespan.numerator, ballast_test::optimum(step));
    better += plan->makespan < inner->makespan ? 1U : 0U;
  }
  EXPECT_GE(better, 10U);
}

TEST(VectorExact, IsNotWorseThanTheInnerPolicyNorThanWithFewerNodes)  // Ensures (3)
{
  ballast::random_source random(203);
  for (int trial = 0; trial < 50; ++trial) {
    auto const step = ballast_test::random_vectors<2>(random, 30, 6);
    ballast::ratio last{ballast::no_cost};
    for (std::uint64_t const nodes : {0U, 100U, 1'000U, 20'000U}) {
      auto const plan =
          ballast_test::plan_in_bins(step.costs, step.bins, exact{refine{}, 0, nodes});
      ASSERT_TRUE(plan);
      EXPECT_LE(plan->makespan, last);
      last = plan->makespan;
    }
  }
}

TEST(VectorExact, KeepsToTheCapacities)  // Ensures (1)
{
  ballast::random_source random(204);
  std::size_t planned = 0;
  for (int trial = 0; trial < 200; ++trial) {
    auto const step = ballast_test::random_vectors<2>(random, 9, 3);
    std::vector<std::int64_t> weights(step.costs.size());
    for (auto& weight : weights) { weight = random.between(1, 9); }
    std::int64_t const most = random.between(9, 30);
    auto const plan = ballast_test::plan_in_bins(step.costs, step.bins, exact{}, {},
                                                 {.most_per_gpu = most, .weights = weights});
    if (!plan) { continue; }
    ++planned;
    std::vector<std::int64_t> held(step.bins);
    for (std::size_t sample = 0; sample < weights.size(); ++sample) {
      held[to_index(plan->owner[sample])] += weights[sample];
    }
    EXPECT_LE(std::ranges::max(held), most);
  }
  EXPECT_GE(planned, 100U);
}

TEST(VectorExact, LeavesBinsOfSeveralSpeedsToTheInnerPolicy)
{
  std::vector<cost_vector<1>> const costs{{5}, {4}, {3}, {3}};
  std::vector<std::uint32_t> const speeds{1, 2};
  ballast::cost_vector_problem<1> problem{costs};
  problem.speeds = speeds;
  std::vector<std::vector<ballast::bag_id>> owners;
  ballast::workspace memory;
  auto const run = [&](auto const& policy) {
    std::vector<cost_vector<1>> loads(2);
    std::vector<ballast::bag_id> owner(4, ballast::bag_id{2});
    policy(problem, std::span(loads), std::span(owner), memory);
    owners.push_back(owner);
  };
  run(longest_processing_time{});
  run(exact{longest_processing_time{}});
  EXPECT_EQ(owners[0], owners[1]);
}

}  // namespace
