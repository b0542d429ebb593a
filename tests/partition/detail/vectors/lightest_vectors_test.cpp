#include <ballast/partition/detail/vectors/lightest_vectors.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

using ballast::cost_vector;
using ballast::detail::lightest_vectors;

template <std::size_t D>
std::size_t scan(std::vector<cost_vector<D>> const& loads, cost_vector<D> const& cost)
{
  std::size_t best = 0;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::size_t bin = 0; bin < loads.size(); ++bin) {
    std::int64_t most = 0;
    for (std::size_t d = 0; d < D; ++d) { most = std::max(most, loads[bin][d] + cost[d]); }
    if (most < least) {
      least = most;
      best = bin;
    }
  }
  return best;
}

template <std::size_t D>
void expect_what_a_scan_finds(std::uint64_t seed)
{
  ballast::random_source random(seed);
  for (int trial = 0; trial < 100; ++trial) {
    std::vector<cost_vector<D>> loads(1 + random.below(70), cost_vector<D>{});
    std::int64_t const heaviest = random.below(2) == 0 ? 3 : 1000;  // with and without ties
    for (auto& load : loads) {
      for (auto& part : load) { part = random.between(0, heaviest); }
    }
    ballast::workspace memory;
    auto scratch = memory.open();
    lightest_vectors<D> bins(loads, scratch);
    for (int step = 0; step < 100; ++step) {
      cost_vector<D> cost;
      for (auto& part : cost) { part = random.between(0, heaviest); }
      std::size_t const bin = bins.lightest(cost);
      ASSERT_EQ(bin, scan(loads, cost)) << "trial " << trial << " step " << step;
      bins.add(bin, cost);
      for (std::size_t d = 0; d < D; ++d) { loads[bin][d] += cost[d]; }
    }
  }
}

TEST(LightestVectors, FindsWhatAScanOfAllBinsFinds)  // Ensures (1)
{
  expect_what_a_scan_finds<1>(1);
  expect_what_a_scan_finds<2>(2);
  expect_what_a_scan_finds<3>(3);
}

TEST(LightestVectors, WorksUpToTheLargestLoad)
{
  constexpr auto most = std::numeric_limits<std::int64_t>::max() - 2;
  std::vector<cost_vector<2>> const loads{{most, 0}, {most - 1, 0}, {most, 0}};
  ballast::workspace memory;
  auto scratch = memory.open();
  lightest_vectors<2> const bins(loads, scratch);
  EXPECT_EQ(bins.lightest({1, 0}), 1U);
  EXPECT_EQ(bins.lightest({0, most}), 0U);
}

}  // namespace
