#include <ballast/partition/detail/padding/attention_search.hpp>  // first: proves it is self-contained

#include "../../../support/attention_checks.hpp"
#include "../../../support/trials.hpp"

#include <gtest/gtest.h>
#include <ballast/core/workspace.hpp>

#include <cstdint>
#include <vector>

namespace {

using ballast_test::attention_instance;
using ballast_test::attention_problem;

TEST(AttentionSearch, FindsTheOptimumUnlessItsWorkIsUsedUp)  // Ensures (1)
{
  ballast::random_source random(7);
  for (int trial = 0; trial < ballast_test::trials_of(300); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    attention_problem const problem(attention_instance(random, 7, 4, 3), trial % 2 == 0);
    ballast::workspace memory;
    auto scratch = memory.open();
    auto const view = problem.view();
    ballast::detail::finishing_times const times(view, problem.starts, scratch);
    if (!times.exact()) { continue; }
    auto const items = ballast::detail::sorted_attention_items(view, scratch);
    ballast::detail::attention_search search(items, view, times, scratch);
    std::vector<ballast::bag_id> owner(items.size(), ballast::bag_id{0});
    auto best = times.finish_anywhere(ballast::detail::cost_of_one_batch(items)) + 1;
    std::uint64_t work = 1 << 20;
    search.improve(best, work, owner);
    ASSERT_GT(work, 0U);
    ASSERT_EQ(times.makespan(best), problem.optimum());
    ASSERT_EQ(problem.makespan_of(owner), problem.optimum());

    std::uint64_t none = 0;
    auto unchanged = best;
    search.improve(unchanged, none, owner);
    ASSERT_EQ(unchanged, best);
  }
}

}  // namespace
