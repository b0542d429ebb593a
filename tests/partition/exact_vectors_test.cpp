#include <ballast/partition/exact.hpp>  // first: proves it is self-contained

#include "../support/vector_checks.hpp"

#include <gtest/gtest.h>
#include <ballast/core/quantities.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/partition/cost_vector.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/no_length.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
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

TEST(VectorExact, MakesTheQuantityThatDoesNotBindSmallToo)  // Ensures (6)
{
  // [others]
  // All tokens of eight samples, and those that count in the loss.
  std::vector<ballast::cost_vector<2>> const samples = {{8000, 200}, {8000, 7900}, {4000, 3900},
                                                        {4000, 100}, {6000, 3000}, {2000, 1900},
                                                        {7000, 300}, {1000, 900}};
  auto const plan = ballast::partition(samples, ballast::one_gpu_bags(4), ballast::exact{},
                                       std::identity{}, ballast::no_length{});
  // The largest total is 11,000, and no plan is below it; of these plans, this one has the least
  // number of tokens that count, 7,900.
  // [others]
  ASSERT_TRUE(plan) << plan.error().message;
  std::int64_t most = 0;
  for (auto const& load : plan->loads) { most = std::max(most, load[1]); }
  EXPECT_EQ(plan->makespan, (ballast::ratio{11'000, 1}));
  EXPECT_TRUE(plan->proven_optimal());
  EXPECT_EQ(most, 7900);
}

// Oracle: all plans; the largest loads in each dimension of the plan with the least `other`, of
// those that do not have more than `most` in the one that binds.
std::int64_t least_other(std::vector<cost_vector<2>> const& costs, std::size_t bins,
                         std::size_t binding, std::int64_t most)
{
  std::int64_t best = ballast::no_cost;
  std::vector<std::size_t> owner(costs.size(), 0);
  for (;;) {
    std::vector<cost_vector<2>> loads(bins, cost_vector<2>{});
    cost_vector<2> largest{};
    for (std::size_t sample = 0; sample < costs.size(); ++sample) {
      for (std::size_t d = 0; d < 2; ++d) {
        loads[owner[sample]][d] += costs[sample][d];
        largest[d] = std::max(largest[d], loads[owner[sample]][d]);
      }
    }
    if (largest[binding] <= most) { best = std::min(best, largest[1 - binding]); }
    std::size_t next = 0;
    while (next < owner.size() && ++owner[next] == bins) { owner[next++] = 0; }
    if (next == owner.size()) { return best; }
  }
}

TEST(VectorExact, FindsTheBestOfTheOtherQuantityInSmallSteps)  // Ensures (6)
{
  ballast::random_source random(206);
  for (int trial = 0; trial < 100; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = ballast_test::random_vectors<2>(random, 6, 3);
    auto const plan = ballast_test::plan_in_bins(step.costs, step.bins, exact<>{});
    ASSERT_TRUE(plan);
    ballast_test::expect_valid_vector_plan(step, *plan);
    ASSERT_EQ(plan->makespan.numerator, ballast_test::optimum(step));
    cost_vector<2> largest{};
    for (auto const& load : plan->loads) {
      for (std::size_t d = 0; d < 2; ++d) { largest[d] = std::max(largest[d], load[d]); }
    }
    std::size_t const binding = largest[0] >= largest[1] ? 0 : 1;
    ASSERT_EQ(largest[1 - binding], least_other(step.costs, step.bins, binding, largest[binding]));
  }
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

TEST(VectorExact, ProvesPlansOfSeveralSpeeds)  // Ensures (4)
{
  ballast::random_source random(205);
  std::size_t better = 0;
  for (int trial = 0; trial < ballast_test::trials_of(100); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = ballast_test::random_vectors<2>(random, 7, 3);
    std::vector<std::uint32_t> speeds(step.bins);
    for (auto& speed : speeds) { speed = 1 + static_cast<std::uint32_t>(random.below(10)); }
    auto const bags = ballast::one_gpu_bags(step.bins).with_speeds(speeds);
    auto const run = [&](auto const& policy) {
      return ballast::partition(step.costs, bags, policy, std::identity{}, ballast::no_length{})
          .value();
    };
    auto const plan = run(exact{});
    EXPECT_TRUE(plan.proven_optimal());
    auto const inner = run(longest_processing_time{});
    better += plan.makespan < inner.makespan ? 1U : 0U;
    // All assignments, each a number whose digits are bins.
    std::size_t all = 1;
    for (std::size_t sample = 0; sample < step.costs.size(); ++sample) { all *= step.bins; }
    for (std::size_t each = 0; each < all; ++each) {
      std::vector<cost_vector<2>> loads(step.bins, cost_vector<2>{});
      std::size_t digits = each;
      for (cost_vector<2> const& cost : step.costs) {
        for (std::size_t d = 0; d < 2; ++d) { loads[digits % step.bins][d] += cost[d]; }
        digits /= step.bins;
      }
      ballast::ratio latest;
      for (std::size_t bin = 0; bin < step.bins; ++bin) {
        latest = std::max(latest, ballast::ratio{std::ranges::max(loads[bin]), speeds[bin]});
      }
      ASSERT_GE(latest, plan.makespan);
    }
  }
  EXPECT_GE(better, 1U);
}

}  // namespace
