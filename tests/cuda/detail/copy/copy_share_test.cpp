// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/detail/copy/copy_share.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "../../copy_batches.hpp"

namespace {

using ballast::copy_list;
using ballast::strided_copy;
using ballast::detail::copy_share;
using ballast::detail::tile_search;
using ballast::detail::tiled_list;
using ballast::detail::tiles_of;
using ballast::detail::warp_lanes;
using ballast_test::copy_batch_case;
using ballast_test::kinds;
using ballast_test::listed_copies;
using ballast_test::random_bytes;

using all_copies = listed_copies<kinds::all>;

// All lanes of all warps, one after another: what the kernel does.
template <copy_list List>
void make_copies(List const& list, std::uint32_t count, std::uint32_t tile_bytes,
                 std::uint64_t warps)
{
  std::vector<std::uint64_t> tiles_to;
  for (std::uint32_t index = 0; index < count; ++index) {
    tiles_to.push_back((index == 0 ? 0 : tiles_to.back()) + tiles_of(list(index), tile_bytes));
  }
  for (std::uint64_t warp = 0; warp < warps; ++warp) {
    for (std::uint32_t lane = 0; lane < warp_lanes; ++lane) {
      copy_share(tiled_list<List>{list, tiles_to.data(), count, tile_bytes}, warp, warps, lane);
    }
  }
}

template <kinds Kind>
void expect_all_copies()
{
  auto const count = *rc::gen::inRange<std::uint32_t>(1, 500);
  auto const beyond = *rc::gen::inRange<std::uint32_t>(0, 100);
  auto const seed = *rc::gen::arbitrary<std::uint64_t>();
  auto const tile_bytes = *rc::gen::element(64U, 1024U, 4096U);
  auto const warps = *rc::gen::inRange<std::uint64_t>(1, 300);
  copy_batch_case const batch(Kind, count, seed);
  auto const from = random_bytes(batch.from_bytes(), seed);
  auto to = random_bytes(batch.to_bytes(), seed + 1);
  auto expected = to;
  batch.run(from, expected);
  auto const copies = batch.copies(from.data(), to.data());
  make_copies(listed_copies<Kind>{copies.data(), count}, count + beyond, tile_bytes, warps);
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
    make_copies(all_copies{copies.data(), count}, count, 4096, 7);
    EXPECT_EQ(to, from);
  }
}

TEST(CopyShare, OfEmptyCopiesIsNothing)
{
  make_copies(all_copies{nullptr, 0}, 1000, 4096, 3);
}

// More warps than tiles: those that make one are evenly spread over the others.
TEST(CopyShare, GivesWarpsAsMuchAsTheyCanHave)
{
  auto const from = random_bytes(5 * 4096, 1);
  std::vector<std::byte> to(from.size());
  strided_copy const copy = strided_copy::contiguous(from.data(), to.data(), from.size());
  std::uint64_t const tiles = 5;
  for (std::uint64_t warp = 0; warp < 20; ++warp) {
    auto const before = to;
    for (std::uint32_t lane = 0; lane < warp_lanes; ++lane) {
      all_copies const list{&copy, 1};
      copy_share(tiled_list<all_copies>{list, &tiles, 1, 4096}, warp, 20, lane);
    }
    EXPECT_EQ(to != before, warp % 4 == 3) << "warp " << warp;
  }
  EXPECT_EQ(to, from);
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
