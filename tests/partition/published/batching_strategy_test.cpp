#include <ballast/partition/published/batching_strategy.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/partition/partition.hpp>

#include <concepts>
#include <vector>

namespace {

using ballast::batching;
using ballast::batching_of;
using ballast::batching_strategy;
using ballast::policy_for;

static_assert(
    std::same_as<policy_for<batching_strategy::no_padding>, ballast::longest_processing_time>);
static_assert(std::same_as<policy_for<batching_strategy::padding>, ballast::padded_batches>);
static_assert(
    std::same_as<policy_for<batching_strategy::quadratic>, ballast::quadratic_with_tolerance>);
static_assert(std::same_as<policy_for<batching_strategy::conv_transformer>,
                           ballast::conv_transformer_batches>);

static_assert(batching_of(policy_for<batching_strategy::no_padding>{}) == batching::packed);
static_assert(batching_of(policy_for<batching_strategy::padding>{}) == batching::padded);
static_assert(batching_of(policy_for<batching_strategy::quadratic>{}) == batching::packed);
static_assert(batching_of(policy_for<batching_strategy::conv_transformer>{}) ==
              batching::attention_padded);

template <batching_strategy Strategy>
ballast::partition_plan plan_phase()
{
  std::vector<ballast::tokens> const lengths{9, 5, 4, 4, 3, 1};
  return *ballast::partition(lengths, ballast::one_gpu_bags(3), policy_for<Strategy>{},
                             ballast::quadratic_cost{1});
}

TEST(BatchingStrategy, GivesEachPhaseItsPolicy)
{
  EXPECT_EQ(plan_phase<batching_strategy::no_padding>().makespan, (ballast::ratio{9, 1}));
  EXPECT_EQ(plan_phase<batching_strategy::padding>().makespan, (ballast::ratio{12, 1}));
  EXPECT_EQ(plan_phase<batching_strategy::quadratic>().makespan, (ballast::ratio{9, 1}));
  EXPECT_EQ(plan_phase<batching_strategy::conv_transformer>().makespan, (ballast::ratio{9, 1}));
}

}  // namespace
