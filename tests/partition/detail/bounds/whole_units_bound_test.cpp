#include <ballast/partition/detail/bounds/whole_units_bound.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>
#include <ballast/partition/detail/bounds/work_limits.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

namespace {

using ballast::cost_units;
using ballast::ratio;
using ballast::detail::whole_units_bound;
using ballast::detail::work_until;

cost_units units_done(std::vector<std::uint32_t> const& speeds, ratio time)
{
  cost_units sum = 0;
  for (std::uint32_t const speed : speeds) { sum += work_until(time, speed); }
  return sum;
}

// Oracle: all times k / speed in increasing order.
ratio scan_times(std::vector<std::uint32_t> const& speeds, cost_units work, ratio bound)
{
  std::vector<ratio> times{bound};
  for (std::uint32_t const speed : speeds) {
    for (cost_units k = 0; k <= work; ++k) { times.push_back({k, speed}); }
  }
  std::ranges::sort(times, std::less{});
  for (ratio const time : times) {
    if (bound <= time && units_done(speeds, time) >= work) { return time; }
  }
  return {0, 1};
}

TEST(WholeUnitsBound, IsTheFirstTimeAtWhichWholeUnitsSuffice)  // Ensures (1)
{
  ballast::random_source random(3);
  ballast::workspace memory;
  int above_mean = 0;
  for (int trial = 0; trial < 500; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::vector<std::uint32_t> speeds(1 + random.below(5));
    for (auto& speed : speeds) { speed = static_cast<std::uint32_t>(1 + random.below(6)); }
    cost_units const work = random.between(0, 40);
    ratio const mean{work, std::accumulate(speeds.begin(), speeds.end(), std::int64_t{0})};
    ratio const bound = std::max(mean, ratio{random.between(0, 30), random.between(1, 5)});
    ratio const found = whole_units_bound(speeds, work, bound, memory);
    ASSERT_EQ(found, scan_times(speeds, work, bound));
    above_mean += mean < found && bound == mean ? 1 : 0;
  }
  EXPECT_GT(above_mean, 50);
}

TEST(WholeUnitsBound, WorksUpToTheLargestTotal)
{
  constexpr auto most = std::numeric_limits<std::int64_t>::max() - 1;
  ballast::workspace memory;
  std::vector<std::uint32_t> const speeds{1, 4'000'000'000};
  // One sample of all work on the slow bag: the fast one would do more than 64 bits hold.
  EXPECT_EQ(whole_units_bound(speeds, most, {most, 1}, memory), (ratio{most, 1}));
  EXPECT_GE(whole_units_bound(speeds, most, {most, 4'000'000'001}, memory),
            (ratio{most, 4'000'000'001}));
}

}  // namespace
