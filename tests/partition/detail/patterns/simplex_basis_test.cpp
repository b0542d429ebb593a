#include <ballast/partition/detail/patterns/simplex_basis.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using ballast::detail::pattern_entry;
using ballast::detail::pattern_list;
using ballast::detail::simplex_basis;
using ballast::detail::simplex_number;
using ballast::detail::work_budget;

constexpr std::int64_t unit_one = simplex_number::one;

/// Two kinds, of which there are 3 and 2; patterns of one sample, and one of two and one.
struct two_kinds {
  ballast::workspace memory;
  ballast::workspace::frame scratch = memory.open();
  pattern_list patterns{3, 4, scratch};
  simplex_basis basis{2, patterns, scratch};
  work_budget nodes{1'000'000};

  two_kinds()
  {
    for (std::uint32_t kind = 0; kind < 2; ++kind) {
      EXPECT_TRUE(patterns.add(std::array{pattern_entry{kind, 1}}));
    }
    EXPECT_TRUE(patterns.add(std::array{pattern_entry{0, 2}, pattern_entry{1, 1}}));
    basis.start(std::array<std::uint32_t, 2>{3, 2});
  }
};

/// Up to what demands are raised by.
void expect_about(std::int64_t value, double expected)
{
  EXPECT_NEAR(static_cast<double>(value) / static_cast<double>(unit_one), expected, 1e-5);
}

TEST(SimplexBasis, StartsFromSingleSamples)
{
  two_kinds program;
  expect_about(program.basis.amounts()[0], 3);
  expect_about(program.basis.amounts()[1], 2);
  expect_about(program.basis.value(), 5);
  EXPECT_GT(program.basis.value(), 5 * unit_one) << "demands are raised";
  EXPECT_LE(program.basis.value(), 5 * unit_one + program.basis.tolerance());
  EXPECT_EQ(program.basis.prices()[0], unit_one);
  EXPECT_EQ(program.basis.reduced_cost(2), -2 * unit_one) << "three samples for one";
  EXPECT_EQ(program.basis.reduced_cost(simplex_basis::surplus), unit_one);
}

TEST(SimplexBasis, ExchangesColumns)
{
  two_kinds program;
  std::vector<std::int64_t> step(2);
  program.basis.copy_step(2, step);
  EXPECT_EQ(step, (std::vector{2 * unit_one, unit_one}));

  program.basis.exchange(0, 2, -2 * unit_one, step, program.nodes);

  ASSERT_TRUE(program.basis.is_usable());
  EXPECT_EQ(program.basis.column(0), 2U);
  expect_about(program.basis.amounts()[0], 1.5);
  expect_about(program.basis.amounts()[1], 0.5);
  expect_about(program.basis.value(), 2);
  EXPECT_EQ(program.basis.prices()[0], 0) << "two of it and one of the other cost as much as that";
  EXPECT_EQ(program.basis.prices()[1], unit_one);
  program.basis.copy_step(simplex_basis::surplus, step);
  EXPECT_EQ(step, (std::vector{-unit_one / 2, unit_one / 2}));
  std::vector<std::int64_t> row(2);
  program.basis.copy_row(1, row);
  EXPECT_EQ(row, (std::vector{-unit_one / 2, unit_one}));

  program.basis.take(0);
  expect_about(program.basis.amounts()[0], 0.5);
  expect_about(program.basis.value(), 1);
}

TEST(SimplexBasis, InvertsAnewWhereItIsInexact)
{
  two_kinds program;
  std::vector<std::int64_t> step(2);
  program.basis.copy_step(2, step);
  step[1] += unit_one / 64;  // as if errors had grown that far
  program.basis.exchange(0, 2, -2 * unit_one, step, program.nodes);
  std::uint64_t const before = program.nodes.left();

  program.basis.invert_if_inexact(program.nodes);

  EXPECT_LT(program.nodes.left(), before);
  expect_about(program.basis.value(), 2);
  bool has_the_pattern = false;
  for (std::size_t at = 0; at < 2; ++at) { has_the_pattern |= program.basis.column(at) == 2; }
  EXPECT_TRUE(has_the_pattern);

  std::uint64_t const exact = program.nodes.left();
  program.basis.invert_if_inexact(program.nodes);
  EXPECT_EQ(program.nodes.left(), exact) << "nothing to do";
}

TEST(SimplexBasis, IsNoLongerUsableWhereNumbersGrowTooLarge)
{
  two_kinds program;
  std::vector<std::int64_t> step{1, 0};
  program.basis.exchange(0, 2, -2 * unit_one, step, program.nodes);
  EXPECT_FALSE(program.basis.is_usable());
}

}  // namespace
