// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/detail/bounds/disjoint_sums.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

namespace {

using ballast::time_units;
using ballast::detail::disjoint_sums;
using time_list = std::vector<time_units>;

// Oracle: every microbatch goes to the first tasks, to the second, or to neither.
time_units most_of_all(time_list const& first, time_list const& second, std::size_t n,
                       std::size_t k, std::size_t without, std::size_t at = 0)
{
  if (at == first.size()) { return n + k == 0 ? 0 : std::numeric_limits<time_units>::min() / 2; }
  time_units most = most_of_all(first, second, n, k, without, at + 1);
  if (at == without) { return most; }
  if (n > 0) {
    most = std::max(most, first[at] + most_of_all(first, second, n - 1, k, without, at + 1));
  }
  if (k > 0) {
    most = std::max(most, second[at] + most_of_all(first, second, n, k - 1, without, at + 1));
  }
  return most;
}

TEST(DisjointSums, AreTheMostOfAllChoices)
{
  ballast::random_source random(5);
  for (int trial = 0; trial < 200; ++trial) {
    std::size_t const microbatches = 1 + random.below(7);
    time_units const longest = trial % 2 == 0 ? 3 : 1000;
    time_list first(microbatches);
    time_list second(microbatches);
    for (auto& time : first) { time = random.between(0, longest); }
    for (auto& time : second) { time = random.between(0, longest); }
    ballast::workspace memory;
    auto scratch = memory.open();
    disjoint_sums sums(first, second, scratch);
    for (std::size_t without = 0; without <= microbatches; ++without) {
      std::size_t const others = microbatches - (without < microbatches ? 1 : 0);
      for (std::size_t n = 0; n <= others; ++n) {
        for (std::size_t k = 0; n + k <= others; ++k) {
          ASSERT_EQ(sums.most(n, k, without), most_of_all(first, second, n, k, without))
              << "trial " << trial << ": " << n << " and " << k << " without " << without;
        }
      }
    }
  }
}

TEST(DisjointSumsDeathTest, RefusesMoreTasksThanMicrobatches)
{
  time_list const two{1, 2};
  ballast::workspace memory;
  auto scratch = memory.open();
  disjoint_sums sums(two, two, scratch);
  EXPECT_EQ(sums.most(1, 1, 2), 3);
  EXPECT_DEATH((void)sums.most(1, 1, 0), "n \\+ k <= others");
}

}  // namespace
