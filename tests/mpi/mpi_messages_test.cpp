// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm/detail/mpi/mpi_messages.hpp>

#include <gtest/gtest.h>
#include "../support/counted_allocations.hpp"
#include "mpi_world.hpp"  // defines: ballast_test::{world_members, world_rank, world_size, ...}

#include <ballast/comm/detail/mpi/mpi_channel.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace {

using ballast::detail::mpi_channel;
using ballast::detail::mpi_messages;
using bytes = std::vector<std::byte>;

// The byte that stands at `index` of the part of `rank`.
std::byte content(std::size_t rank, std::size_t index)
{
  return static_cast<std::byte>(31 * rank + index);
}

// All processes in an order of its own, that begins with the process in the middle.
class MpiMessages : public testing::TestWithParam<std::size_t> {
 protected:
  MpiMessages()
  {
    MPI_Comm_dup(MPI_COMM_WORLD, &channel_->data);
    MPI_Comm_dup(MPI_COMM_WORLD, &channel_->control);
    std::vector<int> members = ballast_test::world_members();
    for (int& member : members) { member = (member + first_) % static_cast<int>(size_); }
    EXPECT_TRUE(messages_.open(/*tag=*/5, members, self_));
  }
  ~MpiMessages() override { messages_.requests().stop_listening(); }

  std::size_t const size_ = ballast_test::world_size();
  int const first_ = static_cast<int>(size_ / 2);
  std::size_t const self_ = (ballast_test::world_rank() + size_ - size_ / 2) % size_;
  std::shared_ptr<mpi_channel> const channel_ = std::make_shared<mpi_channel>();
  mpi_messages messages_{channel_,
                         {.deadline = std::chrono::seconds(20), .largest_message = GetParam()}};
};

TEST_P(MpiMessages, GatherTheBytesOfAllRanks)
{
  for (std::size_t const length : {0U, 1U, 3U, 1000U}) {
    bytes all(size_ * length);
    for (std::size_t index = 0; index < length; ++index) {
      all[self_ * length + index] = content(self_, index);
    }
    std::size_t before = 0;
    for (int round = 0; round < 2; ++round) {
      before = ballast_test::allocations();
      ASSERT_TRUE(messages_.all_gather("gather", all, length));
    }
    EXPECT_EQ(ballast_test::allocations(), before);
    for (std::size_t at = 0; at < all.size(); ++at) {
      ASSERT_EQ(all[at], content(at / length, at % length)) << at;
    }
  }
}

TEST_P(MpiMessages, BroadcastFromEachRank)
{
  for (std::size_t root = 0; root < size_; ++root) {
    for (std::size_t const length : {0U, 1U, 1000U}) {
      bytes all(length);
      for (std::size_t index = 0; index < length && self_ == root; ++index) {
        all[index] = content(root, index);
      }
      ASSERT_TRUE(messages_.broadcast("broadcast", all, root));
      for (std::size_t index = 0; index < length; ++index) {
        ASSERT_EQ(all[index], content(root, index)) << root;
      }
    }
  }
}

TEST_P(MpiMessages, SendEachRankItsOwn)
{
  // From rank a to rank b, a + 2 b bytes.
  std::vector<bytes> to(size_);
  std::vector<bytes> from(size_);
  for (std::size_t peer = 0; peer < size_; ++peer) {
    to[peer] = bytes(self_ + 2 * peer, content(self_, peer));
    from[peer] = bytes(peer + 2 * self_);
  }
  ASSERT_TRUE(messages_.all_to_all(
      "exchange", [&](std::size_t peer) { return std::span<std::byte const>(to[peer]); },
      [&](std::size_t peer) { return std::span<std::byte>(from[peer]); }));
  for (std::size_t peer = 0; peer < size_; ++peer) {
    EXPECT_EQ(from[peer], bytes(peer + 2 * self_, content(peer, self_)));
  }
}

INSTANTIATE_TEST_SUITE_P(LargestMessage, MpiMessages, testing::Values(1 << 20, 300, 7));

}  // namespace
