#include <ballast/partition/detail/greedy/first_fit_tree.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using ballast::detail::first_fit_tree;

TEST(FirstFitTree, AgreesWithAScanOfAllBins)  // Ensures (1)
{
  ballast::random_source random(31);
  ballast::workspace memory;
  for (std::size_t const bins : {1U, 2U, 3U, 7U, 8U, 9U, 100U}) {
    SCOPED_TRACE(testing::Message() << bins << " bins");
    auto scratch = memory.open();
    first_fit_tree tree(bins, scratch);
    for (int round = 0; round < 5; ++round) {  // a tree can be filled again
      std::vector<std::int64_t> room(bins);
      for (std::int64_t& each : room) { each = random.between(0, 50); }
      tree.fill([&](std::size_t bin) { return room[bin]; });
      for (int step = 0; step < 200; ++step) {
        std::int64_t const weight = random.between(0, 20);
        auto const scanned = std::ranges::find_if(room, [&](auto each) { return each >= weight; });
        auto const expected = static_cast<std::size_t>(scanned - room.begin());
        ASSERT_EQ(tree.first_with(weight), expected);
        if (expected == bins) { continue; }
        tree.take(expected, weight);
        room[expected] -= weight;
        ASSERT_EQ(tree.room(expected), room[expected]);
      }
    }
  }
}

TEST(FirstFitTree, TellsNoRoomFromRoomForNothing)
{
  ballast::workspace memory;
  auto scratch = memory.open();
  first_fit_tree tree(3, scratch);  // one leaf of the tree is no bin
  tree.fill([](std::size_t) { return 0; });
  EXPECT_EQ(tree.first_with(0), 0U);
  EXPECT_EQ(tree.first_with(1), 3U);
}

}  // namespace
