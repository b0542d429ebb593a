// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/detail/warp_copies.hpp>

#include "../../../support/test.hpp"
#include "../../copies_on_host.hpp"
#include "../../copy_batches.hpp"

namespace {

using ballast::strided_copy;
using ballast::detail::tile_search;
using ballast::detail::tiled_list;
using ballast_test::copy_batch_case;
using ballast_test::kinds;
using ballast_test::listed_copies;
using ballast_test::random_bytes;
using ballast_test::run_on_host;

using all_copies = listed_copies<kinds::all>;

template <kinds Kind>
void expect_all_copies()
{
  auto const count = *rc::gen::inRange<std::uint32_t>(1, 200);
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
    return tiled_list<all_copies>{list, &tiles, 1, 4096}.shares(20);
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
