// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/detail/bounds/held_ways.hpp>  // first: proves it is self-contained

#include "../../../support/order_checks.hpp"
#include "../../../support/random_schedules.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using ballast::pass;
using ballast::time_units;
using ballast::detail::held_ways;
using ballast::detail::own_paths;
using ballast::detail::time_columns;

// Oracle: the longest of all ways, link by link.
time_units longest_way(ballast::stage_graph const& stages, time_columns const& columns,
                       std::size_t microbatch, pass way, std::size_t from, std::size_t to)
{
  time_units longest = from == to ? 0 : held_ways::no_way;
  for (auto const& link : stages.links_out_of(ballast::to_id<ballast::stage_id>(from))) {
    std::size_t const next = ballast::to_index(link.to);
    if (way == pass::backward && !stages[link.from].backward) { continue; }
    time_units const rest = longest_way(stages, columns, microbatch, way, next, to);
    if (rest == held_ways::no_way) { continue; }
    time_units const time =
        next == to ? 0 : columns[time_columns::column_of(link.to, way)][microbatch];
    longest = std::max(longest, link.transfer + time + rest);
  }
  return longest;
}

TEST(HeldWays, AreTheLongestFromStageToStage)  // Ensures (1) (2)
{
  ballast::random_source random(15);
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const stages = ballast_test::random_stages(random, true);
    std::size_t const microbatches = 1 + random.below(5);
    auto const times = ballast_test::random_times(random, microbatches, stages.stages(), 9);
    ballast::workspace memory;
    auto scratch = memory.open();
    time_columns const columns(times, scratch);
    own_paths const paths(stages, columns, scratch);
    held_ways const ways(stages, columns, paths, 3, scratch);
    std::vector<std::uint32_t> longest_first(microbatches);
    for (std::uint32_t at = 0; at < microbatches; ++at) { longest_first[at] = at; }
    std::ranges::sort(longest_first, [&](std::uint32_t a, std::uint32_t b) {
      return std::pair(-paths.way_of(a, columns), a) < std::pair(-paths.way_of(b, columns), b);
    });
    longest_first.resize(std::min<std::size_t>(3, microbatches));
    ASSERT_EQ(std::vector(ways.microbatches().begin(), ways.microbatches().end()), longest_first);
    for (std::size_t held = 0; held < longest_first.size(); ++held) {
      for (std::size_t from = 0; from < stages.stages(); ++from) {
        for (std::size_t to = from; to < stages.stages(); ++to) {
          ASSERT_EQ(ways.down(held, from, to),
                    longest_way(stages, columns, longest_first[held], pass::forward, from, to));
          ASSERT_EQ(ways.up(held, from, to),
                    longest_way(stages, columns, longest_first[held], pass::backward, from, to));
        }
      }
    }
  }
}

TEST(HeldWays, HoldNoMicrobatchWhereNoneIsAskedFor)
{
  auto const stages = ballast::chain_of_stages(2, 2);
  ballast::pipeline_times const times(3, 2);
  ballast::workspace memory;
  auto scratch = memory.open();
  time_columns const columns(times, scratch);
  own_paths const paths(stages, columns, scratch);
  EXPECT_TRUE(held_ways(stages, columns, paths, 0, scratch).microbatches().empty());
}

}  // namespace
