#include <ballast/partition/detail/patterns/fixed_point_inverse.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace {

using ballast::detail::fixed_point_inverse;
using ballast::detail::pattern_entry;
using ballast::detail::simplex_number;

TEST(FixedPointInverse, TimesTheMatrixIsTheIdentity)
{
  ballast::random_source random(20261102);
  ballast::workspace memory;
  auto scratch = memory.open();
  fixed_point_inverse inverse(8, scratch);
  std::vector<std::int64_t> step(8);
  for (int trial = 0; trial < 100; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::size_t const rows = 1 + random.below(8);
    std::vector<std::vector<pattern_entry>> columns(rows);
    for (std::uint32_t row = 0; row < rows; ++row) { columns[row] = {{row, 1}}; }
    inverse.reset(rows);
    for (int exchange = 0; exchange < 12; ++exchange) {
      std::vector<pattern_entry> column;
      for (std::uint32_t kind = 0; kind < rows; ++kind) {
        if (random.below(2) == 0) {
          column.push_back({kind, static_cast<std::uint32_t>(1 + random.below(3))});
        }
      }
      inverse.times(column, step);
      std::size_t const row = random.below(rows);
      if (std::abs(step[row]) < simplex_number::one / 8) { continue; }
      std::vector<std::int64_t> const before = step;
      ASSERT_TRUE(inverse.replace(row, step));
      EXPECT_EQ(step, before);
      columns[row] = column;
    }
    for (std::size_t each = 0; each < rows; ++each) {
      inverse.times(columns[each], step);
      for (std::size_t row = 0; row < rows; ++row) {
        std::int64_t const expected = row == each ? simplex_number::one : 0;
        EXPECT_LE(std::abs(step[row] - expected), simplex_number::one / 4096) << each << ' ' << row;
      }
    }
    for (std::size_t row = 0; row < rows; ++row) {
      std::vector<std::int64_t> in_row(rows);
      inverse.copy_row(row, in_row);
      for (std::size_t each = 0; each < rows; ++each) {
        EXPECT_EQ(in_row[each], inverse.column(each)[row]);
      }
    }
  }
}

TEST(FixedPointInverse, MultipliesLargeNumbersInMoreBits)
{
  constexpr std::int64_t one = simplex_number::one;
  ballast::workspace memory;
  auto scratch = memory.open();
  fixed_point_inverse inverse(2, scratch);
  inverse.reset(2);
  std::array<std::int64_t, 2> step{one / 1024, 4 * one};
  ASSERT_TRUE(inverse.replace(0, step));
  EXPECT_EQ(inverse.column(0)[0], 1024 * one);
  EXPECT_EQ(inverse.column(0)[1], -4096 * one);
  EXPECT_EQ(inverse.column(1)[0], 0);
  EXPECT_EQ(inverse.column(1)[1], one);
}

TEST(FixedPointInverse, SaysWhereNumbersBecomeTooLarge)
{
  ballast::workspace memory;
  auto scratch = memory.open();
  fixed_point_inverse inverse(2, scratch);
  inverse.reset(2);
  std::array<std::int64_t, 2> step{1, 0};  // a divisor of 2^-28 makes an entry of 2^28
  EXPECT_FALSE(inverse.replace(0, step));
  inverse.reset(2);
  step = {simplex_number::one, simplex_number::limit};
  EXPECT_FALSE(inverse.replace(0, step));
  inverse.reset(2);
  step = {simplex_number::one / 32'768, simplex_number::one * 1024};
  EXPECT_FALSE(inverse.replace(0, step));
}

}  // namespace
