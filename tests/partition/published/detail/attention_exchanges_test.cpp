#include <ballast/partition/published/detail/attention_exchanges.hpp>  // first: proves it is self-contained

#include "../../../support/attention_checks.hpp"

#include <gtest/gtest.h>
#include <ballast/core/workspace.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace {

using ballast_test::attention_instance;
using ballast_test::attention_problem;

TEST(AttentionExchanges, EndWhereNoMoveAndNoSwapRelievesTheLastBag)
{
  ballast::random_source random(6);
  for (int trial = 0; trial < 150; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    attention_problem const problem(attention_instance(random, 14, 4, 1), trial % 2 == 0);
    ballast::workspace memory;
    auto scratch = memory.open();
    auto const view = problem.view();
    ballast::detail::finishing_times const times(view, problem.starts, scratch);
    if (!times.exact()) { continue; }
    auto const items = ballast::detail::sorted_attention_items(view, scratch);
    ballast::detail::attention_exchanges batches(items, view, times, scratch);
    std::vector<ballast::bag_id> owner(items.size());
    for (auto& bag : owner) {
      bag = ballast::to_id<ballast::bag_id>(random.below(view.gpus.size()));
    }
    auto const before = problem.makespan_of(owner);
    batches.load(owner);
    EXPECT_EQ(times.makespan(batches.finish()), before);
    std::uint64_t work = 1 << 20;
    batches.relieve(0, work);
    batches.store(owner);
    auto const after = problem.makespan_of(owner);
    ASSERT_EQ(times.makespan(batches.finish()), after);
    ASSERT_LE(after, before);

    auto const loads = problem.of.loads_of(owner);
    for (std::size_t bag = 0; bag < loads.size(); ++bag) {
      ASSERT_EQ(batches.work(bag), loads[bag]);
    }
    auto const finish_of = [&](std::vector<ballast::bag_id> const& of, std::size_t bag) {
      return times.finish(bag, problem.of.loads_of(of)[bag]);
    };
    std::size_t last = 0;
    for (std::size_t bag = 0; bag < loads.size(); ++bag) {
      if (finish_of(owner, bag) > finish_of(owner, last)) { last = bag; }
    }
    auto const is_no_relief = [&](std::vector<ballast::bag_id> const& other, std::size_t bag) {
      return std::max(finish_of(other, last), finish_of(other, bag)) >= batches.finish();
    };
    for (std::size_t out = 0; out < owner.size(); ++out) {
      if (to_index(owner[out]) != last) { continue; }
      for (std::size_t bag = 0; bag < loads.size(); ++bag) {
        if (bag == last) { continue; }
        auto moved = owner;
        moved[out] = ballast::to_id<ballast::bag_id>(bag);
        ASSERT_TRUE(is_no_relief(moved, bag));
        for (std::size_t in = 0; in < owner.size(); ++in) {
          if (to_index(owner[in]) != bag) { continue; }
          auto swapped = moved;
          swapped[in] = owner[out];
          ASSERT_TRUE(is_no_relief(swapped, bag));
        }
      }
    }
    batches.shake(random);
    batches.store(owner);
    ASSERT_EQ(times.makespan(batches.finish()), problem.makespan_of(owner));
  }
}

}  // namespace
