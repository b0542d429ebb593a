// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/detail/copy/copy_units.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstddef>
#include <cstdint>

namespace {

using ballast::strided_copy;
using ballast::detail::run_cursor;
using ballast::detail::unit_of;

strided_copy at_addresses(std::uintptr_t from, std::uintptr_t to, std::size_t from_stride,
                          std::size_t to_stride, std::size_t run)
{
  return {reinterpret_cast<std::byte const*>(from),
          reinterpret_cast<std::byte*>(to),
          from_stride,
          to_stride,
          run,
          2};
}

TEST(UnitOf, DividesAllThatACopyIsMadeOf)
{
  EXPECT_EQ(unit_of(at_addresses(4096, 8192, 512, 1024, 256)), 16U);
  EXPECT_EQ(unit_of(at_addresses(4096 + 8, 8192, 512, 1024, 256)), 8U);
  EXPECT_EQ(unit_of(at_addresses(4096, 8192 + 4, 512, 1024, 256)), 4U);
  EXPECT_EQ(unit_of(at_addresses(4096, 8192, 514, 1024, 256)), 2U);
  EXPECT_EQ(unit_of(at_addresses(4096, 8192, 512, 1025, 256)), 1U);
  EXPECT_EQ(unit_of(at_addresses(4096, 8192, 512, 1024, 24)), 8U);
  EXPECT_EQ(unit_of(at_addresses(4096, 8192, 0, 1024, 256)), 16U);
}

RC_GTEST_PROP(RunCursor, GoesOnAsItBegins, ())
{
  auto const run = *rc::gen::oneOf(rc::gen::inRange<std::uint32_t>(1, 600),
                                   rc::gen::inRange<std::uint32_t>(1, (1U << 30) + 1));
  auto const begin = *rc::gen::inRange<std::uint32_t>(0, 1U << 30);
  auto const bytes = *rc::gen::inRange<std::uint32_t>(1, 513);
  auto place = run_cursor::at(begin, run);
  auto const step = run_cursor::at(bytes, run);
  for (std::uint32_t steps = 1; steps <= 8; ++steps) {
    place.advance(step, run);
    auto const expected = run_cursor::at(begin + steps * bytes, run);
    RC_ASSERT(place.row == expected.row);
    RC_ASSERT(place.column == expected.column);
  }
}

TEST(RunCursor, ReachesBeyondFourGigabytes)
{
  constexpr run_cursor far{70'000, 12};
  static_assert(far.offset(100'000) == 7'000'000'012);
  static_assert(far.offset(std::size_t{1} << 32) == (std::size_t{70'000} << 32) + 12);
}

}  // namespace
