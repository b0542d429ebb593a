// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../support/hand_moved_clock.hpp"
#include "../support/test.hpp"

#include <ballast/comm/communicator.hpp>
#include <ballast/comm/thread_communicator.hpp>

#include <latch>
#include <new>

namespace ballast_test {

/// Every rank of so many in turn does not come to `run(comm)`, or leaves. All others name it, in
/// that call or in their next.
template <class Run>
void expect_dead_rank_named(std::size_t ranks, Run const& run)
{
  constexpr std::chrono::milliseconds deadline(200);
  hand_moved_clock clock;
  for (bool const leaves : {true, false}) {
    for (std::size_t dead = 0; dead < ranks; ++dead) {
      SCOPED_TRACE(testing::Message() << "rank " << dead << (leaves ? " left" : " is late"));
      std::latch over(static_cast<std::ptrdiff_t>(ranks));
      auto const ends = ballast::run_ranks(
          ranks,
          [&](ballast::thread_communicator& comm) {
            ballast::result<void> done;
            bool const is_dead = to_index(comm.rank()) == dead;
            if (!is_dead) {
              done = run(comm);
              if (done) { done = comm.barrier(); }  // whoever has nothing to do with it
            } else if (!leaves) {
              clock.pass_when(ranks - 1, deadline);
            }
            if (is_dead && leaves) {
              over.count_down();
            } else {
              over.arrive_and_wait();
            }
            return done;
          },
          deadline);
      for (std::size_t rank = 0; rank < ends.size(); ++rank) {
        if (rank == dead) { continue; }
        ASSERT_FALSE(ends[rank]);
        EXPECT_EQ(ends[rank].error().code,
                  leaves ? ballast::error_code::peer_lost : ballast::error_code::timed_out);
        EXPECT_EQ(ends[rank].error().ranks, std::vector{ballast::to_id<ballast::rank_id>(dead)})
            << ends[rank].error().message;
      }
    }
  }
}

/// One rank, alone: its transfers end when the test says so, and one may throw or fail. It receives
/// what it sends then.
struct lone_rank {
  ballast::rank_id self{};
  std::size_t ranks = 2;
  std::size_t throws_at = 1'000'000;
  std::size_t fails_at = 1'000'000;  // the first wait that fails
  bool arrived = false;
  std::size_t under_way = 0;  // is_done says so of this and later transfers, once `arrived`
  std::size_t begun = 0;
  std::size_t waited = 0;
  std::size_t ended = 0;
  std::vector<ballast::transfer_id> cancelled = {};
  std::span<std::byte> receives = {};

  [[nodiscard]] ballast::rank_id rank() const { return self; }
  [[nodiscard]] std::size_t size() const { return ranks; }
  ballast::result<ballast::transfer_id> send(std::span<std::byte const> bytes, ballast::rank_id)
  {
    if (bytes.size() == receives.size()) { std::ranges::copy(bytes, receives.begin()); }
    return begin();
  }
  ballast::result<ballast::transfer_id> receive(std::span<std::byte> bytes, ballast::rank_id)
  {
    receives = bytes;
    return begin();
  }
  ballast::result<void> start() { return {}; }
  ballast::result<bool> is_done(ballast::transfer_id transfer)
  {
    return arrived && (under_way == 0 || ballast::to_index(transfer) < under_way);
  }
  ballast::result<void> wait_for(ballast::transfer_id)
  {
    if (waited++ >= fails_at) { return ballast::fail(ballast::error_code::transport, 0, "broken"); }
    ++ended;
    return {};
  }
  bool cancel(ballast::transfer_id transfer)
  {
    cancelled.push_back(transfer);
    ++ended;
    return true;
  }

 private:
  ballast::result<ballast::transfer_id> begin()
  {
    if (begun == throws_at) { throw std::bad_alloc(); }
    return ballast::to_id<ballast::transfer_id>(begun++);
  }
};
static_assert(ballast::point_to_point<lone_rank>);

}  // namespace ballast_test
