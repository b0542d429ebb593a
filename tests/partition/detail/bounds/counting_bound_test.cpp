#include <ballast/partition/detail/bounds/counting_bound.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace {

using ballast::cost_units;
using ballast::ratio;

// How many of the t heaviest samples a bag can have done by `time`, the lightest first.
std::size_t most_samples(std::vector<cost_units> const& costs, std::size_t t, std::uint32_t speed,
                         ratio time)
{
  cost_units work = 0;
  std::size_t held = 0;
  while (held < t && ratio{work + costs[t - 1 - held], speed} <= time) {
    work += costs[t - 1 - held++];
  }
  return held;
}

// Oracle: all times at which a bag has done some of the lightest of the t heaviest.
ratio scan_times(std::vector<cost_units> const& costs, std::vector<std::uint32_t> const& speeds,
                 ratio bound)
{
  std::vector<ratio> times{bound};
  for (std::size_t t = 1; t <= costs.size(); ++t) {
    for (std::uint32_t const speed : speeds) {
      cost_units work = 0;
      for (std::size_t lightest = 0; lightest < t; ++lightest) {
        times.push_back({work += costs[t - 1 - lightest], speed});
      }
    }
  }
  std::ranges::sort(times, std::less{});
  auto const suffices = [&](ratio time) {
    for (std::size_t t = 1; t <= costs.size(); ++t) {
      std::size_t held = 0;
      for (std::uint32_t const speed : speeds) { held += most_samples(costs, t, speed, time); }
      if (held < t) { return false; }
    }
    return time >= bound;
  };
  return *std::ranges::find_if(times, suffices);
}

TEST(CountingBound, IsTheFirstTimeByWhichAllSamplesAreCounted)  // Ensures (1)
{
  ballast::random_source random(5);
  ballast::workspace memory;
  int above = 0;
  for (int trial = 0; trial < 1000; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::vector<std::uint32_t> speeds(1 + random.below(5));
    for (auto& speed : speeds) { speed = static_cast<std::uint32_t>(1 + random.below(6)); }
    std::ranges::sort(speeds, std::greater{});
    std::vector<cost_units> costs(random.below(12));
    auto const spread = random.below(2) == 0 ? 3U : 60U;
    for (auto& cost : costs) {
      cost = static_cast<cost_units>(random.below(spread) + random.below(40));
    }
    std::ranges::sort(costs, std::greater{});
    std::vector<cost_units> before{0};
    for (cost_units const cost : costs) { before.push_back(before.back() + cost); }
    ratio const bound{static_cast<cost_units>(random.below(50)),
                      1 + static_cast<cost_units>(random.below(5))};
    ratio const found = ballast::detail::counting_bound(before, speeds, bound, memory);
    ASSERT_EQ(found, scan_times(costs, speeds, bound));
    above += found > bound ? 1 : 0;
  }
  EXPECT_GT(above, 200);
}

TEST(CountingBound, EndsWhereThereAreVeryManySamples)
{
  // The oracle has one look: all samples cost the same, so that only t = n counts.
  std::vector<std::uint32_t> speeds;
  for (std::uint32_t speed = 100; speed > 50; --speed) { speeds.push_back(speed); }
  std::size_t const samples = 200'000;
  std::vector<cost_units> before(samples + 1);
  for (std::size_t i = 0; i <= samples; ++i) { before[i] = static_cast<cost_units>(i) * 1'000'000; }
  ballast::workspace memory;
  ratio const mean{before.back(), 3775};
  ratio const found = ballast::detail::counting_bound(before, speeds, mean, memory);
  std::size_t held = 0;
  for (std::uint32_t const speed : speeds) {
    held += static_cast<std::size_t>(found.numerator) * speed /
            (static_cast<std::size_t>(found.denominator) * 1'000'000);
  }
  EXPECT_GE(held, samples);
  EXPECT_GT(found, mean);
  // It goes from moment to moment, and so from mean loads without a fraction, a few samples each.
  EXPECT_LT(gap_above(found, mean), 1e-3);
}

TEST(CountingBound, IsWhatItIsGivenWithoutSamples)
{
  ballast::workspace memory;
  std::vector<cost_units> const before{0};
  std::vector<std::uint32_t> const speeds{2, 1};
  EXPECT_EQ(ballast::detail::counting_bound(before, speeds, {3, 2}, memory), (ratio{3, 2}));
}

}  // namespace
