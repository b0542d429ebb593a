// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/detail/warp_copies.hpp>

#include "../../../support/test.hpp"
#include "../../made_copies.hpp"

namespace {

using ballast::strided_copy;
using ballast::detail::copy_tile;
using ballast::detail::joined;
using ballast::detail::tile_bounds;
using ballast::detail::tiles_of;
using ballast::detail::unit_of;
using ballast::detail::warp_lanes;
using ballast_test::copy_shape;
using ballast_test::made_copy;

struct tiled_copies {
  strided_copy operator()(std::uint32_t) const { return {}; }
};

struct contiguous_tiled_copies : tiled_copies {
  static constexpr bool contiguous = true;
};

// All lanes of all tiles, each into the same empty memory, to see which bytes each lane writes.
template <class List>
void expect_every_byte_once(copy_shape const& shape, std::uint32_t tile_bytes)
{
  made_copy made(shape);
  std::vector<int> writers(made.to().size());
  std::vector<std::byte> written(made.to().size());
  for (std::size_t tile = 0; tile < tiles_of(made.copy(), tile_bytes); ++tile) {
    for (std::uint32_t lane = 0; lane < warp_lanes; ++lane) {
      copy_tile<List>(joined(made.copy()), tile, tile_bytes, lane);
      for (std::size_t byte = 0; byte < written.size(); ++byte) {
        if (made.to()[byte] == std::byte{0}) { continue; }
        ++writers[byte];
        written[byte] = std::exchange(made.to()[byte], std::byte{0});
      }
    }
  }
  auto const expected = made.expected();
  for (std::size_t byte = 0; byte < written.size(); ++byte) {
    RC_ASSERT(written[byte] == expected[byte]);
    RC_ASSERT(writers[byte] == (expected[byte] == std::byte{0} ? 0 : 1));
  }
}

RC_GTEST_PROP(CopyTile, WritesEveryByteOfAContiguousCopyOnce, ())  // Ensures (1) (2)
{
  auto const shape = *ballast_test::contiguous_shapes(4000);
  auto const tile_bytes = *rc::gen::element(64U, 256U, 1024U, 4096U);
  expect_every_byte_once<contiguous_tiled_copies>(shape, tile_bytes);
  expect_every_byte_once<tiled_copies>(shape, tile_bytes);
}

RC_GTEST_PROP(CopyTile, WritesEveryByteOfAStridedCopyOnce, ())  // Ensures (1) (2)
{
  auto const shape = *ballast_test::strided_shapes();
  expect_every_byte_once<tiled_copies>(shape, *rc::gen::element(64U, 256U, 1024U, 4096U));
}

// The lengths at which heads, vectors and tails begin to exist, at all pairs of places.
TEST(CopyTile, WritesEveryByteOfShortCopiesOnce)
{
  std::vector<std::size_t> const lengths = {0,  1,  15, 16, 17, 30, 31, 32,
                                            33, 47, 48, 49, 63, 64, 65};
  for (std::size_t from = 0; from < 16; ++from) {
    for (std::size_t to = 0; to < 16; ++to) {
      for (std::size_t const bytes : lengths) {
        SCOPED_TRACE(testing::Message() << bytes << " bytes from " << from << " to " << to);
        made_copy made(copy_shape{from, to, bytes, bytes, bytes, 1});
        for (std::size_t tile = 0; tile < tiles_of(made.copy(), 64); ++tile) {
          for (std::uint32_t lane = 0; lane < warp_lanes; ++lane) {
            copy_tile<tiled_copies>(joined(made.copy()), tile, 64, lane);
          }
        }
        ASSERT_EQ(made.to(), made.expected());
      }
    }
  }
}

// Tiles beyond 5 GiB of a copy and of both its sides, of which only these bytes are there.
TEST(CopyTile, ReachesFarIntoHugeCopies)
{
  constexpr std::uint32_t tile_bytes = 4096;
  constexpr std::size_t tile = (std::size_t{5} << 30) / tile_bytes;
  constexpr std::size_t gap = 16;
  for (std::size_t const run : {std::size_t{64}, std::size_t{4096}, std::size_t{5} << 29,
                                (std::size_t{5} << 30) + 1000, std::size_t{6} << 30}) {
    SCOPED_TRACE(testing::Message() << "runs of " << run << " bytes");
    std::vector<std::byte> from(2 * tile_bytes);
    std::vector<std::byte> to(3 * tile_bytes);
    for (std::size_t i = 0; i < from.size(); ++i) { from[i] = static_cast<std::byte>(i % 251); }
    std::size_t const row = tile * tile_bytes / run;
    std::size_t const column = tile * tile_bytes % run;
    auto const from_0 = reinterpret_cast<std::uintptr_t>(from.data()) - row * (run + gap) - column;
    auto const to_0 = reinterpret_cast<std::uintptr_t>(to.data()) - row * (run + 2 * gap) - column;
    strided_copy const copy{reinterpret_cast<std::byte const*>(from_0),
                            reinterpret_cast<std::byte*>(to_0),
                            run + gap,
                            run + 2 * gap,
                            run,
                            row + 2 + tile_bytes / run};
    for (std::uint32_t lane = 0; lane < warp_lanes; ++lane) {
      copy_tile<tiled_copies>(joined(copy), tile, tile_bytes, lane);
    }
    std::vector<std::byte> expected(to.size());
    for (std::size_t i = 0; i < tile_bytes; ++i) {
      std::size_t const rows = (column + i) / run;
      expected[i + rows * 2 * gap] = from[i + rows * gap];
    }
    EXPECT_EQ(to, expected);
  }
}

RC_GTEST_PROP(TileBounds, AreAllBytesOnce, ())  // Ensures (1) (2)
{
  auto const bytes = *rc::gen::oneOf(rc::gen::inRange<std::size_t>(1, 10'000),
                                     rc::gen::inRange<std::size_t>(1, std::size_t{1} << 40));
  auto const tile_bytes = *rc::gen::element(64U, 512U, 4096U, 1U << 30);
  auto const early = *rc::gen::inRange<std::uint32_t>(0, 16);
  strided_copy copy;
  copy.run = bytes;
  copy.rows = 1;
  std::size_t const tiles = tiles_of(copy, tile_bytes);
  std::size_t const tile = *rc::gen::inRange<std::size_t>(0, tiles);
  auto const here = tile_bounds::of(bytes, tile, tile_bytes, early);
  RC_ASSERT(here.begin < here.end);
  RC_ASSERT(here.end - here.begin <= std::size_t{tile_bytes} + early);
  RC_ASSERT((tile + 1 == tiles) == (here.end == bytes));
  if (tile == 0) {
    RC_ASSERT(here.begin == 0U);
  } else {
    RC_ASSERT(here.begin == tile * tile_bytes - early);
    RC_ASSERT(here.begin == tile_bounds::of(bytes, tile - 1, tile_bytes, early).end);
  }
}

TEST(Joined, IsOneRunWhereRunsTouchOnBothSides)
{
  EXPECT_EQ(joined({nullptr, nullptr, 8, 8, 8, 9}).rows, 1U);
  EXPECT_EQ(joined({nullptr, nullptr, 8, 8, 8, 9}).run, 72U);
  EXPECT_EQ(joined({nullptr, nullptr, 50, 60, 8, 1}).run, 8U);
  EXPECT_EQ(joined({nullptr, nullptr, 8, 16, 8, 9}).rows, 9U);
}

TEST(TilesOf, CountsThoseOfHugeCopies)
{
  strided_copy copy;
  copy.rows = 1;
  EXPECT_EQ(tiles_of(copy, 4096), 0U);
  copy.run = std::size_t{1} << 40;
  EXPECT_EQ(tiles_of(copy, 4096), std::size_t{1} << 28);
  copy.run += 1;
  EXPECT_EQ(tiles_of(copy, 4096), (std::size_t{1} << 28) + 1);
  copy.run = std::size_t{3} << 32;
  copy.rows = 5;
  EXPECT_EQ(tiles_of(copy, 64), std::size_t{15} << 26);
  copy.run =
      std::numeric_limits<std::size_t>::max();  // no more than fit into memory, yet no overflow
  copy.rows = 1;
  EXPECT_EQ(tiles_of(copy, 64), std::size_t{1} << 58);
}

// The widest access that a copy allows: narrower ones would be right, and slow.
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

}  // namespace
