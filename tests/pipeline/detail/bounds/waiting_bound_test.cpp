// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/detail/bounds/waiting_bound.hpp>  // first: proves it is self-contained

#include "../../../support/random_times.hpp"

#include <gtest/gtest.h>
#include <ballast/pipeline/stage_graph.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <vector>

namespace {

using ballast::time_units;
using ballast::detail::most_shortfall;
using ballast::detail::waiting_bound;
using side = ballast::detail::synchronised_steps::side;
using time_list = std::vector<time_units>;

TEST(MostShortfall, IsThatOfTheBestLevel)
{
  ballast::random_source random(9);
  for (int trial = 0; trial < 500; ++trial) {
    time_list a(1 + random.below(6));
    time_list b(a.size());
    for (auto* of : {&a, &b}) {
      for (auto& time : *of) { time = random.between(0, 12); }
      std::ranges::sort(*of);
    }
    time_units most = 0;
    for (time_units level = 0; level <= 13; ++level) {
      time_units sum = 0;
      for (std::size_t at = 0; at < a.size(); ++at) {
        sum += std::max<time_units>(0, level - a[at]) - std::max<time_units>(0, level - b[at]);
      }
      most = std::max(most, sum);
    }
    ASSERT_EQ(most_shortfall(a, b), most) << "trial " << trial;
  }
}

// Oracle: any microbatches may be those of a column, each once, whichever the other columns have.
time_units least_waiting(std::array<side, 2> const& sides, std::size_t steps,
                         ballast::detail::time_columns const& columns)
{
  std::size_t const all = columns.microbatches();
  std::array<std::vector<std::size_t>, 2> picks;  // of the first and second column of one side
  auto const each_side = [&](side const& of) {
    std::vector<time_list> found;
    for (auto& pick : picks) {
      pick.resize(all);
      for (std::size_t at = 0; at < all; ++at) { pick[at] = at; }
    }
    bool more = true;
    while (more) {
      time_list sums(steps);
      for (std::size_t step = 0; step < steps; ++step) {
        sums[step] = columns[of.columns[0]][picks[0][step]];
        if (of.tasks == 2) {
          std::size_t const other = of.one_microbatch ? picks[0][step] : picks[1][step];
          sums[step] += columns[of.columns[1]][other];
        }
      }
      found.push_back(sums);
      more = std::ranges::next_permutation(picks[0]).found ||
             (of.tasks == 2 && !of.one_microbatch && std::ranges::next_permutation(picks[1]).found);
    }
    return found;
  };
  time_units least = std::numeric_limits<time_units>::max();
  auto const owns = each_side(sides[0]);
  auto const others = each_side(sides[1]);
  for (time_list const& own : owns) {
    for (time_list const& other : others) {
      time_units waiting = 0;
      for (std::size_t step = 0; step < steps; ++step) {
        waiting += std::max<time_units>(0, other[step] - own[step]);
      }
      least = std::min(least, waiting);
    }
  }
  return least;
}

TEST(WaitingBound, IsNotAboveAnyChoiceOfMicrobatches)  // Ensures (1)
{
  ballast::random_source random(10);
  int above_zero = 0;
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const microbatches = 1 + static_cast<std::size_t>(random.below(4));
    std::size_t const steps = 1 + random.below(microbatches);
    auto const given = ballast_test::random_times(random, microbatches, 2, 20);
    ballast::workspace memory;
    auto scratch = memory.open();
    ballast::detail::time_columns const columns(
        given, ballast::chain_of_stages(given.stages, given.stages), scratch);
    std::array const sides{
        side{1 + random.below(2), {1, 0}, random.below(2) == 0},
        side{1 + random.below(2), {2, 3}, random.below(2) == 0},
    };
    time_units const bound = waiting_bound(sides[0], sides[1], steps, columns, memory);
    ASSERT_LE(bound, least_waiting(sides, steps, columns));
    above_zero += bound > 0 ? 1 : 0;
  }
  EXPECT_GT(above_zero, 50);
}

TEST(WaitingBound, IsExactAgainstASideThatDoesNotVary)
{
  ballast::pipeline_times given(3, 2);
  given.rows = {{10, 20}, {20, 40}, {20, 40}, {20, 40}, {60, 120}, {20, 40}};
  ballast::workspace memory;
  auto scratch = memory.open();
  ballast::detail::time_columns const columns(
      given, ballast::chain_of_stages(given.stages, given.stages), scratch);
  side const varies{2, {1, 0}, false};
  side const turns{2, {0, 1}, true};
  side const steady{2, {2, 3}, false};
  // 20 + 60, 40 + 20 and 120 + 10; the steady side takes 60.
  EXPECT_EQ(waiting_bound(varies, steady, 3, columns, memory), 0);
  EXPECT_EQ(waiting_bound(steady, varies, 3, columns, memory), 20 + 0 + 70);
  // Its own two passes in one step: 30, 60 and 180.
  EXPECT_EQ(waiting_bound(turns, steady, 3, columns, memory), 30);
  EXPECT_EQ(waiting_bound(steady, turns, 3, columns, memory), 120);
}

}  // namespace
