// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/prepared_route.cuh>

#include "../route/instances.hpp"
#include "../route/random_rows.hpp"
#include "gpu_test.hpp"
#include "staged_on_device.hpp"

#include <gtest/gtest.h>
#include <ballast/cuda/tables.hpp>
#include <ballast/gpu/device_memory.hpp>
#include <ballast/gpu/streams.hpp>
#include <ballast/route/route_plan.hpp>
#include <ballast/route/row_array.hpp>

#include <cstring>

namespace {

using ballast::device_rows;
using ballast::prepared_route;
using ballast::rank_id;
using ballast::route_bound;
using ballast::route_plan;
using ballast::route_table;
using ballast::row_array;
using ballast::tokens;
using ballast::unpack_part;
using ballast_test::device_bytes;
using ballast_test::rank_bytes;

using device_tables = ballast_test::staged_on_device<route_plan>;
using byte_vector = std::vector<std::byte>;

std::size_t message_bytes_of(route_table const& table, std::span<row_array const> arrays)
{
  std::vector<std::size_t> sizes(table.rows().size());
  ballast::message_bytes(table.rows(), arrays, sizes);
  return std::reduce(sizes.begin(), sizes.end());
}

void keep_on_host(route_plan const& plan, std::span<row_array const> arrays)
{
  for (row_array const& array : arrays) {
    for (auto const [from, to, count] : plan.kept) {
      std::memcpy(&array.to[static_cast<std::size_t>(to) * array.row_bytes],
                  &array.from[static_cast<std::size_t>(from) * array.row_bytes],
                  static_cast<std::size_t>(count) * array.row_bytes);
    }
  }
}

/// What one rank packs, unpacks and keeps of some arrays.
struct moved_rows {
  byte_vector messages;
  std::vector<byte_vector> to;
};

class RowsOnDevice : public ballast_test::gpu_test {
 protected:
  /// A rank's arrays on the device: the content and the misalignment of the host's.
  struct device_rank {
    std::vector<device_bytes> from;
    std::vector<device_bytes> to;
    std::vector<row_array> arrays;
    device_bytes outgoing;
    device_bytes incoming;

    [[nodiscard]] device_rows rows() const { return device_rows(arrays); }
  };

  device_rank on_device(rank_bytes& host, byte_vector const& outgoing, byte_vector const& incoming)
  {
    device_rank rank{{}, {}, {}, to_device(outgoing), to_device(incoming)};
    auto const arrays = host.arrays();
    for (std::size_t index = 0; index < arrays.size(); ++index) {
      rank.from.push_back(to_device(host.from()[index]));
      rank.to.push_back(to_device(host.to()[index]));
      auto const shift =
          static_cast<std::size_t>(arrays[index].from.data() - host.from()[index].data());
      rank.arrays.push_back({rank.from.back().span().subspan(shift),
                             rank.to.back().span().subspan(shift), arrays[index].row_bytes});
    }
    return rank;
  }

  [[nodiscard]] moved_rows read(device_rank const& rank) const
  {
    moved_rows moved{to_host(rank.outgoing), {}};
    for (device_bytes const& array : rank.to) { moved.to.push_back(to_host(array)); }
    return moved;
  }

  /// The same by the host.
  [[nodiscard]] static moved_rows by_host(route_plan const& plan, rank_bytes& own,
                                          byte_vector const& outgoing, byte_vector const& incoming)
  {
    moved_rows moved{outgoing, {}};
    auto const arrays = own.arrays_to(moved.to);
    auto const received = message_bytes_of(plan.received, arrays);
    ballast::pack_rows(plan.sent, arrays,
                       std::span(moved.messages).first(message_bytes_of(plan.sent, arrays)));
    ballast::unpack_rows(plan.received, arrays, std::span(incoming).first(received));
    keep_on_host(plan, arrays);
    return moved;
  }

  void expect_moved_as_by_host(ballast::staged<route_plan>& there, route_plan const& plan,
                               rank_bytes& own)
  {
    ASSERT_TRUE(there.stage(plan));
    ASSERT_EQ(there.upload(stream()), cudaSuccess);
    // With an end that must not be written.
    byte_vector const outgoing(message_bytes_of(plan.sent, own.arrays()) + 16, std::byte{0xee});
    byte_vector const incoming =
        ballast_test::random_bytes(message_bytes_of(plan.received, own.arrays()), random);
    device_rank const rank = on_device(own, outgoing, incoming);
    auto const shapes = rank.rows();
    device_bytes const memory(ballast_test::prepared_bytes<prepared_route>(there, shapes));
    prepared_route const ready(there, rank.rows(), memory.span());
    ASSERT_EQ(ready.prepare(stream()), cudaSuccess);
    ASSERT_EQ(ready.pack(true, rank.rows(), rank.outgoing.data(), stream()), cudaSuccess);
    auto const expected = by_host(plan, own, outgoing, incoming);
    EXPECT_EQ(to_host(rank.outgoing), expected.messages);
    write(rank.outgoing, outgoing);  // prepared once, it packs as often as wished
    ASSERT_EQ(ready.pack(true, rank.rows(), rank.outgoing.data(), stream()), cudaSuccess);
    ASSERT_EQ(ready.unpack(true, rank.rows(), rank.incoming.data(), stream()), cudaSuccess);
    ASSERT_EQ(wait(), cudaSuccess);
    auto const moved = read(rank);
    EXPECT_EQ(moved.messages, expected.messages);
    EXPECT_EQ(moved.to, expected.to);
  }

  ballast::random_source random{20240607};
};

TEST_F(RowsOnDevice, AreTheHostsToTheLastByte)
{
  device_tables tables({.ranks = 9, .ranges = 300});
  for (int trial = 0; trial < 30; ++trial) {
    std::size_t const ranks = 1 + random.below(9);
    auto const bags = ballast_test::random_bags(ranks, random);
    ballast_test::random_step const step(random.below(40), bags, random);
    auto const widths = ballast_test::random_widths(random);
    auto const rank = ballast::to_id<rank_id>(random.below(ranks));
    SCOPED_TRACE(testing::Message() << "trial " << trial << ", " << ranks << " ranks");
    auto const plan = ballast::plan_route(step.read, step.computed, rank);
    rank_bytes own(widths, plan.rows_before, plan.rows_after, random);
    expect_moved_as_by_host(*tables, plan, own);
    if (testing::Test::HasFailure()) { return; }
  }
}

// A plan of one rank among many, made of random ranges: some peers have none.
route_plan plan_of_many(std::uint32_t ranks, std::size_t ranges, tokens longest,
                        ballast::random_source& random)
{
  route_plan plan;
  plan.sent.start(ranks);
  plan.received.start(ranks);
  for (std::size_t range = 0; range < ranges; ++range) {
    auto const count = static_cast<tokens>(random.below(static_cast<std::uint64_t>(longest) + 1));
    auto const peer = ballast::to_id<rank_id>(random.below(ranks));
    plan.sent.add(peer, {plan.rows_before, count});
    plan.received.add(peer, {plan.rows_after, count});
    plan.kept.push_back({plan.rows_before + count, plan.rows_after + count, count});
    plan.rows_before += 2 * count;
    plan.rows_after += 2 * count;
  }
  plan.sent.finish();
  plan.received.finish();
  return plan;
}

// More than one block finds the places of at once, and more ranges than a scan takes at once.
TEST_F(RowsOnDevice, OfAThousandRanksAreTheHosts)
{
  for (std::uint32_t const ranks : {255U, 256U, 257U, 1000U}) {
    SCOPED_TRACE(ranks);
    auto const plan = plan_of_many(ranks, 6000, 5, random);
    device_tables tables({.ranks = ranks, .ranges = 6000});
    rank_bytes own({6, 4, 1}, plan.rows_before, plan.rows_after, random);
    expect_moved_as_by_host(*tables, plan, own);
  }
}

TEST_F(RowsOnDevice, OfLongSamplesAreTheHosts)
{
  auto const plan = plan_of_many(8, 40, 300, random);
  device_tables tables({.ranks = 8, .ranges = 64});
  rank_bytes own({6144, 2050, 4}, plan.rows_before, plan.rows_after, random);
  expect_moved_as_by_host(*tables, plan, own);
}

TEST_F(RowsOnDevice, OfNoArraysAndOfNoRangesAreNothing)
{
  route_plan const plan = plan_of_many(3, 0, 0, random);
  device_tables tables({.ranks = 3, .ranges = 0});
  rank_bytes none({}, 0, 0, random);
  expect_moved_as_by_host(*tables, plan, none);
  rank_bytes empty({4, 4}, 0, 0, random);
  expect_moved_as_by_host(*tables, plan, empty);
}

// One graph of upload, prepare, pack and unpack, for all plans within the bound; what stays is copied
// on a side stream.
TEST_F(RowsOnDevice, OfAnotherPlanAreMovedByTheSameGraph)
{
  constexpr tokens rows = 4000;
  std::vector<std::size_t> const widths = {16, 3, 10};
  device_tables tables({.ranks = 5, .ranges = 40});
  auto& there = *tables;
  rank_bytes own(widths, rows, rows, random);
  std::size_t const room = static_cast<std::size_t>(rows) * (16 + 3 + 10) + 5 * 3 * 16;
  byte_vector const unwritten(room, std::byte{0xee});
  byte_vector const incoming = ballast_test::random_bytes(room, random);
  device_rank const rank = on_device(own, unwritten, incoming);
  auto const shapes = rank.rows();
  device_bytes const memory(ballast_test::prepared_bytes<prepared_route>(there, shapes));
  prepared_route const ready(there, rank.rows(), memory.span());

  auto const side = ballast::side_stream::make().value();
  auto const unpack = [&](cudaStream_t stream, unpack_part part) {
    return ready.unpack(true, rank.rows(), rank.incoming.data(), stream, part);
  };
  std::optional<ballast_test::replayable> graph;
  for (std::size_t const ranges : {20U, 0U, 40U, 1U, 33U}) {
    SCOPED_TRACE(ranges);
    auto const plan = plan_of_many(5, ranges, 45, random);
    ASSERT_LE(std::max(plan.rows_before, plan.rows_after), rows);
    ASSERT_TRUE(there.stage(plan));
    if (!graph) {
      graph = ballast_test::graph_of(stream(), [&](cudaStream_t stream) {
        cudaError_t error = there.upload(stream);
        if (error == cudaSuccess) { error = ready.prepare(stream); }
        if (error == cudaSuccess) {
          error = ready.pack(true, rank.rows(), rank.outgoing.data(), stream);
        }
        if (error == cudaSuccess) { error = side.mark(stream); }
        if (error == cudaSuccess) {
          error = side.beside(
              stream, [&](cudaStream_t beside) { return unpack(beside, unpack_part::kept); });
        }
        return error == cudaSuccess ? unpack(stream, unpack_part::messages) : error;
      });
    }
    write(rank.outgoing, unwritten);
    for (std::size_t array = 0; array < widths.size(); ++array) {
      write(rank.to[array], own.to()[array]);
    }
    ASSERT_EQ(graph->replay(stream()), cudaSuccess);
    auto const moved = read(rank);
    auto const expected = by_host(plan, own, unwritten, incoming);
    EXPECT_EQ(moved.messages, expected.messages);
    EXPECT_EQ(moved.to, expected.to);
  }
}

TEST_F(RowsOnDevice, ArePackedByAGraphAsTheDocumentationShows)
{
  auto const plan = plan_of_many(3, 10, 8, random);
  device_tables tables({.ranks = 3, .ranges = 10});
  auto& there = *tables;
  rank_bytes own({4, 12}, plan.rows_before, plan.rows_after, random);
  byte_vector const unwritten(message_bytes_of(plan.sent, own.arrays()), std::byte{0xee});
  byte_vector const incoming(message_bytes_of(plan.received, own.arrays()), std::byte{0});
  device_rank const rank = on_device(own, unwritten, incoming);
  auto const check = [](cudaError_t error) { EXPECT_EQ(error, cudaSuccess); };
  std::span<row_array const> const arrays = rank.arrays;
  std::byte* const messages = rank.outgoing.data();
  ballast::device_rows const rows(arrays);  // rows_of(...), rows_of(...)
  std::size_t bytes = 0;
  check(ballast::prepared_route::device_bytes(there, rows, bytes));
  ballast::device_array<std::byte> const memory(bytes);
  ballast::prepared_route const ready(there, rows, memory.span());

  cudaGraph_t graph = nullptr;
  cudaGraphExec_t packing = nullptr;
  check(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal));
  check(there.upload(stream()));
  check(ready.prepare(stream()));
  check(ready.pack(true, rows, messages, stream()));
  check(cudaStreamEndCapture(stream(), &graph));
  check(cudaGraphInstantiate(&packing, graph, 0));

  auto const staged = there.stage(plan);  // every step
  check(cudaGraphLaunch(packing, stream()));
  ASSERT_TRUE(staged);
  EXPECT_EQ(read(rank).messages, by_host(plan, own, unwritten, incoming).messages);
  check(cudaGraphExecDestroy(packing));
  check(cudaGraphDestroy(graph));
}

TEST_F(RowsOnDevice, ArePreparedInEnoughMemoryOrNotAtAll)
{
  device_tables tables({.ranks = 3, .ranges = 10});
  rank_bytes own({4}, 0, 0, random);
  device_rank const rank = on_device(own, {}, {});
  auto const shapes = rank.rows();
  device_bytes const memory(ballast_test::prepared_bytes<prepared_route>(*tables, shapes));
  prepared_route const ready(*tables, rank.rows(), memory.span().first(memory.size() - 1));
  EXPECT_EQ(ready.prepare(stream()), cudaErrorInvalidValue);
}

}  // namespace
