// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/data/producer_count.hpp>

#include "../../support/test.hpp"

namespace {

using ballast::producer_count;

// Oracle: adds loaders until they load a step, and a quarter more, in the time of one.
std::size_t counted(ballast::time_units loading, ballast::time_units computing, std::size_t least,
                    std::size_t most)
{
  std::size_t loaders = least;
  while (loaders < most &&
         static_cast<ballast::time_units>(loaders) * computing * 4 < loading * 5) {
    ++loaders;
  }
  return loaders;
}

TEST(ProducerCount, IsWhatLoadsAStepInTheTimeOfOne)  // Ensures (1)
{
  ballast::random_source random(4);
  for (int trial = 0; trial < 2000; ++trial) {
    std::size_t const least = 1 + random.below(3);
    std::size_t const most = least + random.below(9);
    auto const loading = random.between(0, 1000);
    auto const computing = random.between(0, 200);
    producer_count count(least, most);
    EXPECT_EQ(count.now(), least);
    EXPECT_EQ(count.after(loading, computing), counted(loading, computing, least, most))
        << loading << " " << computing;
  }
}

TEST(ProducerCount, GrowsAtOnceAndShrinksSlowly)  // Ensures (2)
{
  producer_count count(1, 8);
  EXPECT_EQ(count.after(400, 100), 5U);
  for (int step = 0; step < 3; ++step) { EXPECT_EQ(count.after(100, 100), 5U); }
  EXPECT_EQ(count.after(100, 100), 4U);
  for (int step = 0; step < 3; ++step) { EXPECT_EQ(count.after(100, 100), 4U); }
  EXPECT_EQ(count.after(400, 100), 5U);
  EXPECT_EQ(count.after(std::numeric_limits<ballast::time_units>::max(), 1), 8U);
}

}  // namespace
