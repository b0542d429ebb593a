#include <ballast/partition/exact.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"
#include "../support/vector_checks.hpp"

#include <ballast/partition/concepts.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/topology/bag_layout.hpp>

namespace {

using namespace ballast;
using namespace ballast_test;

static_assert(cost_vector_policy<exact<>, 2>);
static_assert(cost_vector_policy<exact<exact<>>, 3>);

TEST(VectorExact, PlacesEverySample)  // Ensures (1) (2)
{
  expect_valid_vector_plans(exact<>{.vector_nodes = 200}, 201);
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
  EXPECT_EQ(plan->makespan, (ratio{11'000, 1}));
  EXPECT_TRUE(plan->proven_optimal());
  EXPECT_EQ(most, 7900);
}

// The largest load in each dimension, the largest first.
template <std::size_t D>
cost_vector<D> largest_first(std::vector<cost_vector<D>> const& loads)
{
  cost_vector<D> largest{};
  for (auto const& load : loads) {
    for (std::size_t d = 0; d < D; ++d) { largest[d] = std::max(largest[d], load[d]); }
  }
  std::ranges::sort(largest, std::greater{});
  return largest;
}

// How often refine finds the best of all plans, which exact always has to.
template <std::size_t D>
int expect_best_of_all(std::uint64_t seed, std::size_t samples)
{
  random_source random(seed);
  int refined = 0;
  for (int trial = 0; trial < trials_of(150); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial << " dimensions " << D);
    auto const step = random_vectors<D>(random, samples, 3);
    std::vector<std::int64_t> weights(step.costs.size());
    for (auto& weight : weights) { weight = random.between(1, 9); }
    auto loads = idle<D>(step.gpus.size());
    std::vector<std::int64_t> before;
    partition_constraints given;
    if (trial % 3 == 1) {
      for (auto& load : loads) {
        for (auto& part : load) { before.push_back(part = random.between(0, 400)); }
      }
      given.starting_loads = before;
    }
    if (trial % 2 == 0) { given.most_per_gpu = random.between(9, 30), given.weights = weights; }
    auto const plan = plan_in_bins(step.costs, step.gpus.size(), exact<>{}, given);
    auto const held_by = [&](assignment const& owner) {
      return sums_of(owner, weights, std::vector<std::int64_t>(step.gpus.size(), 0));
    };
    // Oracle: all plans in which no bin weighs too much; the least of their largest loads.
    auto const best = least_of_all(step.costs.size(), step.gpus.size(),
                                   [&](assignment const& owner) -> std::optional<cost_vector<D>> {
                                     if (std::ranges::max(held_by(owner)) > given.most_per_gpu) {
                                       return std::nullopt;
                                     }
                                     return largest_first(loads_of(step.costs, owner, loads));
                                   });
    EXPECT_EQ(plan.has_value(), best.has_value());
    if (!plan) { continue; }
    EXPECT_EQ(largest_first(plan->loads), best);
    EXPECT_TRUE(plan->proven_optimal());
    EXPECT_LE(std::ranges::max(held_by(assignment_of(plan->owner))), given.most_per_gpu);
    auto const nearly = plan_in_bins(step.costs, step.gpus.size(), refine{}, given);
    refined += largest_first(nearly.value().loads) == best ? 1 : 0;
  }
  return refined;
}

TEST(VectorExact, FindsTheBestOfAllQuantitiesInSmallSteps)  // Ensures (6)
{
  EXPECT_GE(expect_best_of_all<2>(206, 7), trials_of(100));
  EXPECT_GE(expect_best_of_all<3>(207, 6), trials_of(100));
  EXPECT_GE(expect_best_of_all<4>(208, 6), trials_of(100));
}

TEST(VectorExact, IsNotWorseThanTheInnerPolicyNorThanWithFewerNodes)  // Ensures (3)
{
  random_source random(203);
  for (int trial = 0; trial < 50; ++trial) {
    auto const step = random_vectors<2>(random, 30, 6);
    ratio last{no_cost};
    for (std::uint64_t const nodes : {0U, 100U, 1'000U, 20'000U}) {
      auto const plan = plan_vectors(step, exact{refine{}, 0, nodes});
      ASSERT_TRUE(plan);
      EXPECT_LE(plan->makespan, last);
      last = plan->makespan;
    }
  }
}

TEST(VectorExact, ProvesPlansOfSeveralSpeeds)  // Ensures (4)
{
  random_source random(205);
  std::size_t better = 0;
  for (int trial = 0; trial < trials_of(100); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto step = random_vectors<2>(random, 7, 3);
    step.gpu_speeds.resize(step.gpus.size());
    for (auto& speed : step.gpu_speeds) {
      speed = 1 + static_cast<std::uint32_t>(random.below(10));
    }
    auto const plan = plan_vectors(step, exact{}).value();
    expect_valid_vector_plan(step, plan);
    EXPECT_TRUE(plan.proven_optimal());
    EXPECT_EQ(plan.makespan, step.optimum());
    better += plan.makespan < plan_vectors(step, longest_processing_time{})->makespan ? 1U : 0U;
  }
  EXPECT_GE(better, 1U);
}

}  // namespace
