// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/detail/row_copies.hpp>

#include "../../../route/instances.hpp"
#include "../../../route/random_rows.hpp"
#include "../../../support/test.hpp"
#include "../../host_rows.hpp"
#include "../../staged_on_host.hpp"

#include <ballast/cuda/tables.hpp>
#include <ballast/route/route_plan.hpp>
#include <ballast/route/row_array.hpp>

namespace {

using ballast::device_rows;
using ballast::rank_id;
using ballast::route_bound;
using ballast::route_plan;
using ballast::row_array;
using ballast::tokens;
using ballast_test::staged_on_host;

// Rows without an alignment, of ranks one after another in one staged plan: what an earlier plan
// has left behind what is there must not matter. That they are unpacked is seen over NCCL.
TEST(RowCopies, PackTheHostsMessagesToTheLastByte)
{
  constexpr route_bound bound{.ranks = 11, .ranges = 300};
  ballast::random_source random(20240607);
  staged_on_host<route_plan> there(bound);
  for (int trial = 0; trial < ballast_test::trials_of(100); ++trial) {
    std::size_t const ranks = 1 + random.below(9);
    auto const bags = ballast_test::random_bags(ranks, random);
    ballast_test::random_step const step(random.below(40), bags, random);
    auto const widths = ballast_test::random_widths(random);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      SCOPED_TRACE(testing::Message() << "trial " << trial << ", rank " << rank);
      auto const plan = ballast::plan_route(step.read, step.computed, rank_id{rank});
      there.hold(plan);
      ballast_test::rank_bytes own(widths, plan.rows_before, plan.rows_after, random);
      auto const arrays = own.arrays();
      std::vector<std::size_t> sizes(plan.ranks());
      ballast::message_bytes(plan.sent.rows(), arrays, sizes);
      std::vector<std::byte> messages(std::reduce(sizes.begin(), sizes.end()), std::byte{0xee});
      auto expected = messages;
      ballast::pack_rows(plan.sent, arrays, expected);
      ballast_test::pack_by_list(there->tables().sent, device_rows(arrays), messages.data());
      ASSERT_EQ(messages, expected);
    }
  }
}

// Three samples as long as samples can be, in rows wider than 4 KiB: places are beyond 2^44 bytes.
TEST(RowCopies, OfManyGibibytesAreWhereTheyShouldBe)
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
  staged_on_host<route_plan> there(bound);
  there.hold(plan);

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
  ballast_test::found_places found(there->tables().sent, rows);
  ballast::detail::message_pieces const pieces{there->tables().sent, rows, found.places()};
  ballast::detail::pack_copies const pack{pieces, messages};
  ballast::detail::unpack_copies const unpack{pieces, there->tables().kept, false, messages};

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
  ballast::detail::unpack_copies const back{pieces, there->tables().kept, true, messages};
  EXPECT_EQ(back(kept + 4).from, from + 4 * samples * narrow);
  EXPECT_EQ(back(kept + 4).to, to + 3 * samples * narrow);
}

}  // namespace
