// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/detail/bounds/time_columns.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <vector>

namespace {

using ballast::time_units;
using ballast::detail::time_columns;

TEST(TimeColumns, SumsTheLongestAndTheShortestOfEveryColumn)
{
  ballast::random_source random(1);
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::size_t const microbatches = 1 + random.below(9);
    ballast::pipeline_times times(microbatches, 1 + random.below(3));
    for (auto& time : times.rows) { time = {random.between(0, 5), random.between(0, 500)}; }
    ballast::workspace memory;
    auto scratch = memory.open();
    time_columns const columns(times, scratch);
    for (std::size_t column = 0; column < 2 * times.stages; ++column) {
      std::vector<time_units> sorted;
      for (std::size_t at = 0; at < microbatches; ++at) {
        auto const& [forward, backward] = times.rows[at * times.stages + column / 2];
        sorted.push_back(column % 2 == 0 ? forward : backward);
        ASSERT_EQ(columns[column][at], sorted.back());
      }
      std::ranges::sort(sorted, std::greater{});
      auto const sum = [&](std::size_t begin, std::size_t end) {
        return std::accumulate(sorted.begin() + static_cast<std::ptrdiff_t>(begin),
                               sorted.begin() + static_cast<std::ptrdiff_t>(end), time_units{0});
      };
      for (std::size_t tasks = 0; tasks <= microbatches; ++tasks) {
        ASSERT_EQ(columns.most(column, tasks), sum(0, tasks));
        ASSERT_EQ(columns.least(column, tasks), sum(microbatches - tasks, microbatches));
      }
      ASSERT_EQ(columns.total(column), sum(0, microbatches));
      for (std::size_t n = 0; n < microbatches; ++n) {
        ASSERT_EQ(columns.longest(column, n), sorted[n]);
      }
      for (std::size_t without = 0; without < microbatches; ++without) {
        std::vector<time_units> others = sorted;
        others.erase(std::ranges::find(others, columns[column][without]));
        for (std::size_t tasks = 0; tasks < microbatches; ++tasks) {
          ASSERT_EQ(
              columns.most_without(column, tasks, without),
              std::accumulate(others.begin(), others.begin() + static_cast<std::ptrdiff_t>(tasks),
                              time_units{0}));
        }
      }
    }
  }
}

TEST(TimeColumns, NumbersThePassesOfAStageNextToEachOther)
{
  auto const stage = ballast::stage_id{3};
  EXPECT_EQ(time_columns::column_of(stage, ballast::pass::forward), 6U);
  EXPECT_EQ(time_columns::column_of({0, stage, ballast::pass::backward}), 7U);
}

}  // namespace
