// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/detail/copy/row_copies.hpp>

#include "../../../route/instances.hpp"
#include "../../../route/random_rows.hpp"
#include "../../../support/trials.hpp"
#include "../../host_rows.hpp"

#include <gtest/gtest.h>
#include <ballast/cuda/device_route.hpp>
#include <ballast/cuda/strided_copy.hpp>
#include <ballast/route/pack_rows.hpp>
#include <ballast/route/route_plan.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

namespace {

using ballast::device_route;
using ballast::device_rows;
using ballast::rank_id;
using ballast::route_bound;
using ballast::route_plan;
using ballast::route_table;
using ballast::row_array;
using ballast::tokens;
using ballast::unpack_part;
using ballast_test::rank_bytes;
using ballast_test::route_memory;

using byte_array = std::vector<std::byte>;

byte_array unwritten_messages(route_table const& table, std::span<row_array const> arrays)
{
  std::vector<std::size_t> sizes(table.rows().size());
  ballast::message_bytes(table.rows(), arrays, sizes);
  return byte_array(std::reduce(sizes.begin(), sizes.end()), std::byte{0xee});
}

// Ranks of a random step, one after another in one device_route: what an earlier plan has left
// behind what is there must not matter.
struct RowCopies : testing::Test {
  static constexpr route_bound bound{.ranks = 11, .ranges = 300};

  template <class Check>
  void for_random_plans(int trials, Check const& check)
  {
    for (int trial = 0; trial < trials; ++trial) {
      std::size_t const ranks = 1 + random.below(9);
      auto const bags = ballast_test::random_bags(ranks, random);
      ballast_test::random_step const step(random.below(40), bags, random);
      auto const widths = ballast_test::random_widths(random);
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        SCOPED_TRACE(testing::Message()
                     << "trial " << trial << ", rank " << rank << " of " << ranks);
        auto const plan = ballast::plan_route(step.read, step.computed, rank_id{rank});
        ASSERT_TRUE(there.stage(plan));
        memory.upload();
        rank_bytes own(widths, plan.rows_before, plan.rows_after, random);
        check(plan, own);
        if (testing::Test::HasFailure()) { return; }
      }
    }
  }

  ballast::random_source random{20240607};
  route_memory memory{bound};
  device_route there{bound, memory.device(), memory.pinned()};
};

TEST_F(RowCopies, PackTheHostsMessagesToTheLastByte)  // of a thousand plans
{
  for_random_plans(ballast_test::trials_of(200), [&](route_plan const& plan, rank_bytes& own) {
    auto const arrays = own.arrays();
    byte_array expected = unwritten_messages(plan.sent, arrays);
    byte_array messages = expected;
    ballast::pack_rows(plan.sent, arrays, expected);
    ballast_test::pack_by_list(there.sent(), device_rows(arrays), messages.data());
    EXPECT_EQ(messages, expected);
  });
}

void keep_on_host(route_plan const& plan, bool reverse, std::span<row_array const> arrays)
{
  for (row_array const& array : arrays) {
    for (auto const [before, after, count] : plan.kept) {
      auto const from = static_cast<std::size_t>(reverse ? after : before) * array.row_bytes;
      auto const to = static_cast<std::size_t>(reverse ? before : after) * array.row_bytes;
      std::memcpy(&array.to[to], &array.from[from],
                  static_cast<std::size_t>(count) * array.row_bytes);
    }
  }
}

TEST_F(RowCopies, UnpackAndKeepAsTheHostAndTouchNothingElse)
{
  for_random_plans(ballast_test::trials_of(100), [&](route_plan const& plan, rank_bytes& own) {
    auto const arrays = own.arrays();
    byte_array const messages =
        ballast_test::random_bytes(unwritten_messages(plan.received, arrays).size(), random);
    ballast::unpack_rows(plan.received, arrays, messages);
    keep_on_host(plan, false, arrays);
    std::vector<byte_array> to;
    auto const there_arrays = own.arrays_to(to);
    ballast_test::unpack_by_list(there.received(), there.kept(), false, device_rows(there_arrays),
                                 messages.data());
    EXPECT_EQ(to, own.to());

    // Backwards, into where the rows come from, in two parts.
    for (row_array const& array : there_arrays) {
      byte_array back(array.from.size(), std::byte{0xee});
      byte_array expected = back;
      std::vector const reversed{row_array{array.to, back, array.row_bytes}};
      std::vector const on_host{row_array{array.to, expected, array.row_bytes}};
      byte_array const coming =
          ballast_test::random_bytes(unwritten_messages(plan.sent, on_host).size(), random);
      byte_array const unread = ballast_test::random_bytes(coming.size(), random);
      ballast::unpack_rows(plan.sent, on_host, coming);
      keep_on_host(plan, true, on_host);
      for (unpack_part const part : {unpack_part::kept, unpack_part::messages}) {
        bool const is_kept = part == unpack_part::kept;
        ballast_test::unpack_by_list(there.sent(), there.kept(), true, device_rows(reversed),
                                     is_kept ? unread.data() : coming.data(), part);
      }
      EXPECT_EQ(back, expected);
    }
  });
}

// Three samples as long as samples can be, in rows wider than 4 KiB: places are beyond 2^44 bytes.
TEST(RowCopiesOf, ManyGibibytesAreWhereTheyShouldBe)
{
  constexpr tokens longest = ballast::longest_sample;
  route_plan plan;
  plan.sent.start(3);
  plan.sent.add(rank_id{1}, {5, longest});
  plan.sent.add(rank_id{2}, {longest + 5, longest});
  plan.sent.add(rank_id{2}, {2 * longest + 5, 1});
  plan.sent.finish();
  plan.received.start(3);
  plan.received.finish();
  plan.kept.push_back({3 * longest, 4 * longest, longest});
  plan.rows_before = 4 * longest;
  plan.rows_after = 5 * longest;
  route_bound const bound{.ranks = 3, .ranges = 4};
  route_memory memory(bound);
  device_route there(bound, memory.device(), memory.pinned());
  ASSERT_TRUE(there.stage(plan));
  memory.upload();

  // Addresses that are never read.
  auto* const from = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 50);
  auto* const to = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 51);
  auto* const messages = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 52);
  constexpr std::size_t wide = 6145;
  constexpr std::size_t narrow = 2;
  auto const rows_of = [](std::byte* array, tokens rows, std::size_t row_bytes) {
    return std::span(array, static_cast<std::size_t>(rows) * row_bytes);
  };
  std::vector const arrays{
      row_array{rows_of(from, plan.rows_before, wide), rows_of(to, plan.rows_after, wide), wide},
      row_array{rows_of(from, plan.rows_before, narrow), rows_of(to, plan.rows_after, narrow),
                narrow}};
  device_rows const rows(arrays);
  ballast_test::found_places found(there.sent(), rows);
  ballast::detail::message_pieces const pieces{there.sent(), rows, found.places()};
  ballast::detail::pack_copies const pack{pieces, messages};
  ballast::detail::unpack_copies const unpack{pieces, there.kept(), false, messages};

  auto const samples = static_cast<std::size_t>(longest);
  std::size_t const second =
      ballast::block_bytes(longest, wide) + ballast::block_bytes(longest, narrow);
  EXPECT_EQ(pack(0).from, from + 5 * wide);
  EXPECT_EQ(pack(0).to, messages);
  EXPECT_EQ(pack(0).bytes(), samples * wide);
  EXPECT_EQ(pack(1).from, from + (samples + 5) * wide);
  EXPECT_EQ(pack(1).to, messages + second);
  EXPECT_EQ(pack(2).from, from + (2 * samples + 5) * wide);
  EXPECT_EQ(pack(2).to, messages + second + samples * wide);
  EXPECT_EQ(pack(2).bytes(), wide);
  EXPECT_EQ(pack(3).bytes(), 0U);
  EXPECT_EQ(pack(4).to, messages + ballast::block_bytes(longest, wide));
  EXPECT_EQ(pack(6).to,
            messages + second + ballast::block_bytes(longest + 1, wide) + samples * narrow);
  EXPECT_EQ(unpack(2).from, pack(2).to);
  EXPECT_EQ(unpack(2).to, to + (2 * samples + 5) * wide);

  std::uint32_t const kept = pieces.count();
  EXPECT_EQ(unpack(kept).from, from + 3 * samples * wide);
  EXPECT_EQ(unpack(kept).to, to + 4 * samples * wide);
  EXPECT_EQ(unpack(kept + 4).bytes(), samples * narrow);
  ballast::detail::unpack_copies const back{pieces, there.kept(), true, messages};
  EXPECT_EQ(back(kept + 4).from, from + 4 * samples * narrow);
  EXPECT_EQ(back(kept + 4).to, to + 3 * samples * narrow);
}

}  // namespace
