#include <ballast/partition/detail/padding/attention_filling.hpp>  // first: proves it is self-contained

#include "../../../support/attention_checks.hpp"

#include <gtest/gtest.h>
#include <ballast/core/workspace.hpp>

#include <algorithm>
#include <vector>

namespace {

using ballast_test::attention_instance;
using ballast_test::attention_problem;

TEST(AttentionFilling, FinishesByTheTimeIfItPlacesAll)
{
  ballast::random_source random(5);
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    attention_problem const problem(attention_instance(random, 20, 5, 4), trial % 2 == 0);
    ballast::workspace memory;
    auto scratch = memory.open();
    auto const view = problem.view();
    ballast::detail::finishing_times const times(view, problem.starts, scratch);
    auto const items = ballast::detail::sorted_attention_items(view, scratch);
    ballast::detail::attention_filling filling(items, view, times, scratch);
    auto const enough = times.finish_anywhere(ballast::detail::cost_of_one_batch(items));
    std::vector<ballast::bag_id> owner(items.size());
    for (int part = 1; part <= 8; ++part) {
      auto const time = std::max(times.least(), enough * static_cast<unsigned>(part) / 8);
      auto const filled = filling.fill(time, owner);
      if (part == 8) { ASSERT_TRUE(filled.placed); }
      if (!filled.placed) { continue; }
      ASSERT_LE(filled.finish, time);
      auto const loads = problem.of.loads_of(owner);
      for (std::size_t bag = 0; bag < loads.size(); ++bag) {
        ASSERT_LE(loads[bag] == 0 ? 0 : times.finish(bag, loads[bag]), filled.finish);
      }
      for (std::size_t sample = 0; sample < owner.size(); ++sample) {
        ASSERT_TRUE(view.fits(view.lengths[sample], view.gpus[to_index(owner[sample])]));
      }
    }
  }
}

TEST(AttentionFilling, LetsASmallerSamplePassThatFits)
{
  // By 12: 6 + 4 leave 2 for the first bag, where 3 does not fit and 2 does.
  ballast_test::direct_problem const problem(
      ballast_test::instance{{1, 1, 1, 1}, {6, 4, 3, 2}, {1, 1}});
  auto view = problem.view();
  std::vector<ballast::cost_units> const none(4, 0);
  std::vector<ballast::cost_units> const starts(2, 0);
  view.attention = none;
  ballast::workspace memory;
  auto scratch = memory.open();
  ballast::detail::finishing_times const times(view, starts, scratch);
  auto const items = ballast::detail::sorted_attention_items(view, scratch);
  ballast::detail::attention_filling filling(items, view, times, scratch);
  std::vector<ballast::bag_id> owner(4);
  EXPECT_TRUE(filling.fill(12, owner).placed);
  EXPECT_EQ(owner, (std::vector{ballast::bag_id{0}, ballast::bag_id{0}, ballast::bag_id{1},
                                ballast::bag_id{0}}));
}

}  // namespace
