// SPDX-License-Identifier: Apache-2.0
#include "../../route/random_rows.hpp"
#include "../gpu_test.hpp"
#include "../staged_on_device.hpp"

#include <gtest/gtest.h>
#include <nccl.h>

#include <ballast/cuda/route_rows.cuh>
#include <ballast/gpu/nccl_communicator.hpp>
#include <ballast/route/route_plan.hpp>

#include <chrono>

namespace {

using ballast::rank_id;
using ballast::row_array;
using ballast::tokens;
using ballast_test::device_bytes;

using device_tables = ballast_test::staged_on_device<ballast::route_plan>;
using prepared_tables = ballast_test::prepared_on_device<ballast::prepared_route>;
using bytes = std::vector<std::byte>;
using communicator = ballast::nccl_communicator<>;

// Rows that one rank exchanges with itself, so that NCCL has a message to move: two blocks of
// `block` rows change places, first through a message and the other as rows that stay.
ballast::route_plan swapped_blocks(tokens block, tokens rows)
{
  ballast::route_plan plan;
  plan.rows_before = plan.rows_after = rows;
  plan.sent.start(1);
  plan.received.start(1);
  tokens const half = block / 2;
  plan.sent.add(rank_id{0}, {0, half});
  plan.sent.add(rank_id{0}, {half, block - half});
  plan.received.add(rank_id{0}, {rows - block, block});
  plan.kept.push_back({block, 0, rows - block});
  plan.sent.finish();
  plan.received.finish();
  return plan;
}

// Of rows `width` bytes wide, by its definition: the first block goes to the end.
bytes swapped(bytes const& from, tokens block, std::size_t width)
{
  bytes to = from;
  std::ranges::rotate(to, to.begin() + block * static_cast<tokens>(width));
  return to;
}

/// NCCL takes one rank per GPU, and a test can count on one GPU.
class NcclRouteOnDevice : public ballast_test::gpu_test {
 protected:
  void SetUp() override
  {
    gpu_test::SetUp();
    if (IsSkipped() || HasFatalFailure()) { return; }
    ASSERT_EQ(ncclCommInitAll(&nccl_, 1, nullptr), ncclSuccess);
    auto made =
        communicator::over(nccl_, stream(), {.deadline = std::chrono::minutes(1), .verify = false});
    ASSERT_TRUE(made);
    comm_.emplace(*std::move(made));
  }

  void TearDown() override
  {
    comm_.reset();
    if (nccl_ != nullptr) { EXPECT_EQ(ncclCommDestroy(nccl_), ncclSuccess); }
    gpu_test::TearDown();
  }

  static constexpr tokens rows = 1000;
  static constexpr std::size_t wide = 3072;
  static constexpr std::size_t narrow = 3;

  [[nodiscard]] bytes random_rows(std::size_t width)
  {
    return ballast_test::random_bytes(static_cast<std::size_t>(rows) * width, random);
  }

  ballast::random_source random{20240607};
  std::optional<communicator> comm_;

 private:
  ncclComm_t nccl_ = nullptr;
};

TEST_F(NcclRouteOnDevice, BringsEveryRowAndBackOnOneStream)
{
  device_tables tables({.ranks = 1, .ranges = 4});
  auto& there = *tables;
  bytes const x = random_rows(wide);
  bytes const tags = random_rows(narrow);
  auto const x_from = to_device(x);
  auto const tags_from = to_device(tags);
  device_bytes const x_to(x.size()), tags_to(tags.size());
  device_bytes const x_back(x.size()), tags_back(tags.size());
  row_array const wide_rows{x_from.span(), x_to.span(), wide};
  row_array const narrow_rows{tags_from.span(), tags_to.span(), narrow};
  device_bytes const temporary(ballast::route_bytes(there.bound(), wide_rows, narrow_rows));
  for (tokens const block : {tokens{1}, tokens{33}, tokens{500}}) {
    ASSERT_TRUE(there.stage(swapped_blocks(block, rows)));
    ASSERT_EQ(there.upload(stream()), cudaSuccess);
    prepared_tables const ready(there, ballast::device_rows(std::array{wide_rows, narrow_rows}));
    ASSERT_EQ(ready->prepare(stream()), cudaSuccess);
    EXPECT_TRUE(ballast::route(*comm_, *ready, temporary.span(), wide_rows, narrow_rows));
    EXPECT_TRUE(ballast::reverse_route(*comm_, *ready, temporary.span(),
                                       row_array{x_to.span(), x_back.span(), wide},
                                       row_array{tags_to.span(), tags_back.span(), narrow}));
    EXPECT_TRUE(comm_->wait());
    EXPECT_EQ(to_host(x_to), swapped(x, block, wide));
    EXPECT_EQ(to_host(tags_to), swapped(tags, block, narrow));
    EXPECT_EQ(to_host(x_back), x);
    EXPECT_EQ(to_host(tags_back), tags);
  }
}

// The sizes of messages are in the graph, the rows that they are made of are not.
TEST_F(NcclRouteOnDevice, IsReplayedWithOtherRowsInMessagesOfTheSameSize)
{
  device_tables tables({.ranks = 1, .ranges = 4});
  auto& there = *tables;
  bytes const x = random_rows(wide);
  auto const from = to_device(x);
  device_bytes const to(x.size());
  row_array const array{from.span(), to.span(), wide};
  device_bytes const temporary(ballast::route_bytes(there.bound(), array));

  constexpr tokens block = 200;
  auto const plan = swapped_blocks(block, rows);
  ASSERT_TRUE(there.stage(plan));
  ASSERT_EQ(there.upload(stream()), cudaSuccess);
  prepared_tables const prepared(there, ballast::device_rows(std::array{array}));
  auto const& ready = *prepared;
  ASSERT_EQ(ready.prepare(stream()), cudaSuccess);
  ASSERT_TRUE(ballast::route(*comm_, ready, temporary.span(), array));  // NCCL connects
  ASSERT_TRUE(comm_->wait());
  auto const graph = ballast_test::graph_of(stream(), [&](cudaStream_t stream) {
    cudaError_t const uploaded = there.upload(stream);
    EXPECT_EQ(ready.prepare(stream), cudaSuccess);
    EXPECT_TRUE(ballast::route(*comm_, ready, temporary.span(), array));
    return uploaded;
  });

  // The last block goes to the beginning.
  ballast::route_plan other;
  other.rows_before = other.rows_after = rows;
  other.sent.start(1);
  other.received.start(1);
  other.sent.add(rank_id{0}, {rows - block, block});
  other.received.add(rank_id{0}, {0, block});
  other.kept.push_back({0, block, rows - block});
  other.sent.finish();
  other.received.finish();
  ASSERT_TRUE(there.stage(other));
  ASSERT_EQ(graph.replay(stream()), cudaSuccess);
  EXPECT_EQ(to_host(to), swapped(x, rows - block, wide));
  ASSERT_TRUE(there.stage(plan));
  ASSERT_EQ(graph.replay(stream()), cudaSuccess);
  EXPECT_EQ(to_host(to), swapped(x, block, wide));
}

}  // namespace
