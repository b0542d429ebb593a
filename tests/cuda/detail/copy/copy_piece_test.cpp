// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/detail/warp_copies.hpp>

#include "../../../support/test.hpp"

namespace {

using ballast::detail::piece_vectors;

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

}  // namespace
