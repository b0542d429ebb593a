// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/detail/fits_nodes.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace {

using ballast::module_layout;
using ballast::detail::fits_nodes;

/// Tries every node for every group.
bool can_be_placed(std::vector<std::uint32_t>& free, std::vector<std::uint32_t> const& groups,
                   std::size_t next)
{
  if (next == groups.size()) { return true; }
  for (std::uint32_t& node : free) {
    if (node < groups[next]) { continue; }
    node -= groups[next];
    bool const placed = can_be_placed(free, groups, next + 1);
    node += groups[next];
    if (placed) { return true; }
  }
  return false;
}

TEST(FitsNodes, FindsAPlaceForPowersOfTwoWhereverThereIsOne)
{
  ballast::random_source random(3);
  int placed = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    auto const per_node = std::uint32_t{1} << random.below(4);
    auto const gpus = static_cast<std::uint32_t>(1 + random.below(20));
    std::vector<module_layout> modules(1 + random.below(3));
    std::vector<std::uint32_t> groups;
    for (module_layout& each : modules) {
      each.tp = std::min(per_node, std::uint32_t{1} << random.below(4));
      each.dp = static_cast<std::uint32_t>(1 + random.below(4));
      groups.insert(groups.end(), each.dp, each.tp);
    }
    std::sort(groups.rbegin(), groups.rend());
    std::vector<std::uint32_t> free(gpus / per_node, per_node);
    free.push_back(gpus % per_node);
    bool const expected = can_be_placed(free, groups, 0);
    EXPECT_EQ(fits_nodes(modules, gpus, per_node), expected);
    placed += expected ? 1 : 0;
  }
  EXPECT_GT(placed, 400);
  EXPECT_LT(placed, 1600);
}

TEST(FitsNodes, PutsGroupsOfOtherSizesBesideEachOther)
{
  std::array<module_layout, 2> const halves_and_thirds{{{3, 1, 2}, {2, 1, 3}}};
  EXPECT_TRUE(fits_nodes(halves_and_thirds, 12, 6));
  EXPECT_FALSE(fits_nodes(halves_and_thirds, 12, 4));  // 3, 3, 2 + 2, and 2 are left
  EXPECT_FALSE(fits_nodes(halves_and_thirds, 11, 6));
  std::array<module_layout, 2> const uneven{{{3, 1, 3}, {2, 1, 1}}};
  EXPECT_TRUE(fits_nodes(uneven, 11, 6));  // the last node has 5
}

}  // namespace
