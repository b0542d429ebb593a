// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/detail/bounds/slowest_microbatches.hpp>  // first: proves it is self-contained

#include "../../../support/random_schedules.hpp"
#include "../../../support/random_times.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using ballast::pass;
using ballast::time_units;
using ballast::detail::microbatch_paths;
using ballast::detail::slowest_microbatches;
using ballast::detail::time_columns;

// Oracle: the longest of all paths, link by link.
time_units longest_path(ballast::stage_graph const& stages, time_columns const& columns,
                        std::size_t microbatch, pass direction, std::size_t from, std::size_t to)
{
  time_units longest = from == to ? 0 : slowest_microbatches::no_path;
  for (auto const& link : stages.links_out_of(ballast::to_id<ballast::stage_id>(from))) {
    std::size_t const next = ballast::to_index(link.to);
    if (direction == pass::backward && !stages[link.from].backward) { continue; }
    time_units const rest = longest_path(stages, columns, microbatch, direction, next, to);
    if (rest == slowest_microbatches::no_path) { continue; }
    time_units const time =
        next == to ? 0 : columns[time_columns::column_of(link.to, direction)][microbatch];
    longest = std::max(longest, link.transfer + time + rest);
  }
  return longest;
}

TEST(SlowestMicrobatches, HaveTheLongestPathsFromStageToStage)  // Ensures (1) (2)
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
    microbatch_paths const paths(stages, columns, scratch);
    slowest_microbatches const slowest(stages, columns, paths, 3, scratch);
    std::vector<std::uint32_t> longest_first(microbatches);
    for (std::uint32_t at = 0; at < microbatches; ++at) { longest_first[at] = at; }
    std::ranges::sort(longest_first, [&](std::uint32_t a, std::uint32_t b) {
      return std::pair(-paths.longest_of(a, columns), a) <
             std::pair(-paths.longest_of(b, columns), b);
    });
    longest_first.resize(std::min<std::size_t>(3, microbatches));
    ASSERT_EQ(std::vector(slowest.microbatches().begin(), slowest.microbatches().end()),
              longest_first);
    for (std::size_t one = 0; one < longest_first.size(); ++one) {
      for (std::size_t from = 0; from < stages.stages(); ++from) {
        for (std::size_t to = from; to < stages.stages(); ++to) {
          ASSERT_EQ(slowest.down(one, from, to),
                    longest_path(stages, columns, longest_first[one], pass::forward, from, to));
          ASSERT_EQ(slowest.up(one, from, to),
                    longest_path(stages, columns, longest_first[one], pass::backward, from, to));
        }
      }
    }
  }
}

TEST(SlowestMicrobatches, AreNoneWhereNoneIsAskedFor)
{
  auto const stages = ballast::chain_of_stages(2, 2);
  ballast::pipeline_times const times(3, 2);
  ballast::workspace memory;
  auto scratch = memory.open();
  time_columns const columns(times, scratch);
  microbatch_paths const paths(stages, columns, scratch);
  EXPECT_TRUE(slowest_microbatches(stages, columns, paths, 0, scratch).microbatches().empty());
}

}  // namespace
