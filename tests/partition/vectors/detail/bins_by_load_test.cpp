#include <ballast/partition/vectors/detail/bins_by_load.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <tuple>
#include <vector>

namespace {

using ballast::cost_vector;

TEST(BinsByLoad, StayInOrderWhileLoadsChange)  // Ensures (1)
{
  ballast::random_source random(81);
  for (std::int64_t const heaviest : {3, 1000}) {  // with and without ties
    std::vector<cost_vector<3>> loads(20);
    for (auto& load : loads) {
      for (auto& part : load) { part = random.between(0, heaviest); }
    }
    ballast::workspace memory;
    auto scratch = memory.open();
    ballast::detail::bins_by_load<3> bins(loads, scratch);
    for (int step = 0; step < 300; ++step) {
      std::size_t heaviest_dimension = 0;
      for (std::size_t d = 0; d < 3; ++d) {
        std::vector<std::uint32_t> expected(loads.size());
        std::iota(expected.begin(), expected.end(), std::uint32_t{0});
        std::ranges::sort(expected, [&](std::uint32_t a, std::uint32_t b) {
          return std::tuple(loads[a][d], a) < std::tuple(loads[b][d], b);
        });
        ASSERT_TRUE(std::ranges::equal(bins.lightest_first(d), expected)) << "step " << step;
        ASSERT_EQ(bins.latest_finish(d), ballast::ratio{loads[expected.back()][d]});
        if (bins.latest_finish(d) > bins.latest_finish(heaviest_dimension)) {
          heaviest_dimension = d;
        }
      }
      ASSERT_EQ(bins.heaviest_dimension(), heaviest_dimension);

      auto const from = static_cast<std::uint32_t>(random.below(20));
      auto const to = static_cast<std::uint32_t>((from + 1 + random.below(19)) % 20);
      cost_vector<3> work;
      for (auto& part : work) { part = random.between(-heaviest / 2, heaviest / 2); }
      auto expected = loads;
      for (std::size_t d = 0; d < 3; ++d) {
        expected[from][d] -= work[d];
        expected[to][d] += work[d];
      }
      bins.transfer(from, to, work);
      ASSERT_EQ(loads, expected);
    }
  }
}

TEST(BinsByLoad, LooksAtLoadsPerSpeed)  // Ensures (1)
{
  std::vector<cost_vector<2>> loads{{6, 1}, {5, 2}, {4, 3}};
  std::vector<std::uint32_t> const speeds{3, 1, 2};
  ballast::workspace memory;
  auto scratch = memory.open();
  ballast::detail::bins_by_load<2> bins(loads, scratch, speeds);
  EXPECT_TRUE(std::ranges::equal(bins.lightest_first(0), std::vector<std::uint32_t>{0, 2, 1}));
  EXPECT_TRUE(std::ranges::equal(bins.lightest_first(1), std::vector<std::uint32_t>{0, 2, 1}));
  EXPECT_EQ(bins.latest_finish(0), ballast::ratio{5});
  bins.transfer(1, 2, {4, 2});
  EXPECT_TRUE(std::ranges::equal(bins.lightest_first(0), std::vector<std::uint32_t>{1, 0, 2}));
  EXPECT_EQ(bins.latest_finish(1), (ballast::ratio{5, 2}));
  EXPECT_EQ(bins.heaviest_dimension(), 0U);
}

}  // namespace
