// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/detail/warp_copies.hpp>

#include "../../../support/test.hpp"
#include "../../copies_on_host.hpp"
#include "../../copy_batches.hpp"
#include "../../made_copies.hpp"

namespace {

using ballast::strided_copy;
using ballast::detail::copy_tile;
using ballast::detail::joined;
using ballast::detail::piece_vectors;
using ballast::detail::tile_bounds;
using ballast::detail::tile_search;
using ballast::detail::tiles_of;
using ballast::detail::unit_of;
using ballast::detail::warp_lanes;
using ballast_test::copy_shape;
using ballast_test::kinds;
using ballast_test::listed_copies;
using ballast_test::made_copy;
using ballast_test::random_bytes;
using ballast_test::run_on_host;

using all_copies = listed_copies<kinds::all>;

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

// Nothing is read or written there: only addresses count.
piece_vectors vectors_of(std::uintptr_t from, std::uintptr_t to, std::size_t bytes,
                         std::size_t begin, std::size_t end)
{
  return piece_vectors::of(reinterpret_cast<std::byte const*>(from),
                           reinterpret_cast<std::byte const*>(to), bytes, begin, end);
}

RC_GTEST_PROP(PieceVectors, LieOnBoundariesAndReadNothingElse, ())  // Ensures (1) (2) (3)
{
  auto const from = (std::uintptr_t{1} << 44) + *rc::gen::inRange<std::uintptr_t>(0, 16);
  auto const to = (std::uintptr_t{1} << 46) + *rc::gen::inRange<std::uintptr_t>(0, 16);
  // Short ones, and pieces far from both ends of many GB.
  auto const bytes = *rc::gen::oneOf(rc::gen::inRange<std::size_t>(0, 200),
                                     rc::gen::inRange<std::size_t>(0, std::size_t{1} << 40));
  auto const begin = *rc::gen::inRange<std::size_t>(0, bytes + 1);
  auto const end = std::min(bytes, begin + *rc::gen::inRange<std::size_t>(0, 5000));

  auto const vectors = vectors_of(from, to, bytes, begin, end);
  std::size_t const last = vectors.first + std::size_t{vectors.count} * 16;
  RC_ASSERT(begin <= vectors.first);
  RC_ASSERT(last <= end);
  if (vectors.count == 0) {
    RC_ASSERT(end - begin < 47U);
    return;
  }
  RC_ASSERT((to + vectors.first) % 16 == 0U);
  RC_ASSERT((from + vectors.first) % 16 == vectors.shift);
  RC_ASSERT(vectors.first - begin <= 31U);
  RC_ASSERT(end - last <= 31U);
  if (vectors.shift != 0) {
    RC_ASSERT(vectors.first >= vectors.shift);
    RC_ASSERT(last - vectors.shift + 16 <= bytes);
  }
}

TEST(PieceVectors, OfAnAlignedPieceAreAllOfIt)
{
  auto const all = vectors_of(1 << 20, 1 << 21, 10'000, 4096, 8192);
  EXPECT_EQ(all.first, 4096U);
  EXPECT_EQ(all.count, 256U);
  EXPECT_EQ(all.shift, 0U);
}

TEST(PieceVectors, LeaveOutWhatHasNoBoundary)
{
  auto const some = vectors_of((1 << 20) + 3, (1 << 21) + 3, 8192, 0, 8192);
  EXPECT_EQ(some.first, 13U);
  EXPECT_EQ(some.count, 511U);
  EXPECT_EQ(some.shift, 0U);
}

// The first 16 bytes begin in a vector of which 15 bytes are not theirs, the last 16 end in one of
// which one byte is.
TEST(PieceVectors, LeaveOutWhatWouldBeReadTogetherWithOtherBytes)
{
  auto const whole = vectors_of((1 << 20) + 15, 1 << 21, 80, 0, 80);
  EXPECT_EQ(whole.first, 16U);
  EXPECT_EQ(whole.count, 3U);
  EXPECT_EQ(whole.shift, 15U);
  auto const inner = vectors_of((1 << 20) + 15, 1 << 21, 112, 16, 96);
  EXPECT_EQ(inner.first, 16U);
  EXPECT_EQ(inner.count, 5U);  // what is read beyond is of the copy, though not of the piece
}

template <kinds Kind>
void expect_all_copies()
{
  auto const count = *rc::gen::inRange<std::uint32_t>(1, 200);
  auto const beyond = *rc::gen::inRange<std::uint32_t>(0, 100);
  auto const seed = *rc::gen::arbitrary<std::uint64_t>();
  auto const tile_bytes = *rc::gen::element(64U, 1024U, 4096U);
  auto const warps = *rc::gen::inRange<std::uint64_t>(1, 300);
  ballast_test::copy_batch_case const batch(Kind, count, seed);
  auto const from = random_bytes(batch.from_bytes(), seed);
  auto to = random_bytes(batch.to_bytes(), seed + 1);
  auto expected = to;
  batch.run(from, expected);
  auto const copies = batch.copies(from.data(), to.data());
  // In two parts, of which the first may have no copies.
  auto const cut = *rc::gen::inRange<std::uint32_t>(0, count);
  listed_copies<Kind> const list{copies.data(), count};
  run_on_host(list, cut, warps, tile_bytes);
  run_on_host(list, count + beyond, warps, tile_bytes, cut);
  RC_ASSERT(to == expected);
}

RC_GTEST_PROP(CopyShare, MakesAllCopiesOfAList, ())
{
  expect_all_copies<kinds::all>();
}

RC_GTEST_PROP(CopyShare, MakesAllCopiesOfAContiguousList, ())
{
  expect_all_copies<kinds::contiguous>();
}

// One long copy after, between and before many that are empty: no warp gets lost among them.
TEST(CopyShare, PassesLongRunsOfEmptyCopies)
{
  constexpr std::uint32_t count = 40'000;
  auto const from = random_bytes(50'000, 1);
  for (std::uint32_t const index : {0U, 31U, 32U, 1024U, count / 2, count - 1}) {
    SCOPED_TRACE(index);
    std::vector<std::byte> to(from.size());
    std::vector<strided_copy> copies(count);
    copies[index] = strided_copy::contiguous(from.data(), to.data(), 25'000);
    copies[count - 1 - index] =
        strided_copy::contiguous(from.data() + 25'000, to.data() + 25'000, 25'000);
    run_on_host(all_copies{copies.data(), count}, count, 7);
    EXPECT_EQ(to, from);
  }
}

TEST(CopyShare, OfEmptyCopiesIsNothing)
{
  run_on_host(all_copies{nullptr, 0}, 1000);
}

TEST(CopyShare, IsATileAtLeastAndAQuarterOfAWarpsTilesAtMost)
{
  all_copies const list{nullptr, 0};
  auto const shares = [&](std::uint64_t tiles) {
    return ballast::detail::tiled_list<all_copies>{list, &tiles, 1, 4096}.shares(20);
  };
  EXPECT_EQ(shares(0), 0U);
  EXPECT_EQ(shares(5), 5U);
  EXPECT_EQ(shares(20), 20U);
  EXPECT_EQ(shares(20 * 32 - 1), 20U);  // of less than 32 tiles otherwise
  EXPECT_EQ(shares(30 * 32), 30U);
  EXPECT_EQ(shares(1'000'000), 80U);
}

TEST(TileSearch, DoesNotWrapAtTheGreatestRange)
{
  constexpr auto most = std::numeric_limits<std::uint32_t>::max();
  tile_search const all{0, most};
  EXPECT_EQ(all.probe(31), most - 1);
  EXPECT_EQ(all.narrowed(31).end, most);
  EXPECT_EQ(all.narrowed(31).begin, 31U << 27);
  tile_search const last{most - 3, most};
  EXPECT_TRUE(last.is_done());
  EXPECT_EQ(last.probe(0), most - 3);
  EXPECT_EQ(last.probe(31), most - 1);
}

}  // namespace
