#include <ballast/partition/published/detail/attention_bound.hpp>  // first: proves it is self-contained

#include "../../../support/attention_checks.hpp"
#include "../../../support/trials.hpp"

#include <gtest/gtest.h>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/published/attention_padded_batches.hpp>

#include <algorithm>

namespace {

using ballast::ratio;
using ballast_test::attention_instance;
using ballast_test::attention_problem;

ratio bound_of(attention_problem const& problem)
{
  ballast::workspace memory;
  auto scratch = memory.open();
  auto const view = problem.view();
  ballast::detail::finishing_times const times(view, problem.starts, scratch);
  auto const items = ballast::detail::sorted_attention_items(view, scratch);
  ballast::detail::attention_bound const bound(items, view, problem.starts, times, scratch);
  return times.makespan(bound.least_time());
}

TEST(AttentionBound, IsNeverAboveTheOptimum)
{
  ballast::random_source random(3);
  double sum = 0;
  constexpr int cases = ballast_test::trials_of(600);
  for (int trial = 0; trial < cases; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    attention_problem const problem(attention_instance(random, 7, 4, trial % 3 == 0 ? 4 : 1),
                                    trial % 4 == 0);
    ratio const optimum = problem.optimum();
    ratio const bound = bound_of(problem);
    ASSERT_LE(bound, optimum);
    sum += gap_above(optimum, bound);
  }
  EXPECT_LT(sum / cases, 0.15);
}

TEST(AttentionBound, IsTheOptimumWhereNothingIsPacked)
{
  ballast::random_source random(4);
  for (int trial = 0; trial < ballast_test::trials_of(300); ++trial) {
    attention_instance step(random, 8, 4, 1);
    step.step.gpu_speeds.clear();
    step.attention = step.step.costs;
    attention_problem const problem(step);
    ASSERT_EQ(bound_of(problem), problem.optimum()) << "trial " << trial;
  }
}

// Finishing times are then rounded up, and a bound in them may be above the optimum.
TEST(AttentionBound, ProvesNothingWhereSpeedsHaveNoCommonMultiple)
{
  ballast::random_source random(5);
  for (int trial = 0; trial < 200; ++trial) {
    attention_instance step(random, 6, 3, 1);
    step.step.gpu_speeds.assign(step.step.gpus.size(), 4294967279);
    step.step.gpu_speeds.back() = 4294967291;
    bool const common = step.step.gpus.size() == 1;
    attention_problem const problem(step, trial % 2 == 0);
    ASSERT_LE(bound_of(problem), problem.optimum()) << "trial " << trial;
    if (!common) { ASSERT_EQ(bound_of(problem), ratio{}) << "trial " << trial; }
    ASSERT_LE(problem.run(ballast::attention_padded_batches{}).proven, problem.optimum());
  }
}

}  // namespace
