// SPDX-License-Identifier: Apache-2.0
#include <ballast/gpu/detail/copy_engine_member.hpp>

#include "../../support/time_limits.hpp"
#include "../copy_engine_threads.hpp"  // defines: ballast_test::{cuda_streams, launch}

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <latch>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using ballast::collective;
using ballast::error_code;
using ballast::result;
using ballast::thread_meeting;
using copy_engine_member = ballast::detail::copy_engine_member<thread_meeting>;
using ballast::detail::copy_engine_pull;
using ballast_test::launch;
using ballast_test::time_bound;
using std::chrono::milliseconds;

constexpr auto long_enough = milliseconds(30);  // for a stream that nothing holds up
constexpr std::size_t block = 5000;

/// Ranks each of which has a block to send, and room for one from each rank.
class CopyEngineSeat : public testing::Test {
 protected:
  struct rank {
    std::vector<std::byte> send;
    std::vector<std::byte> receive;
    std::unique_ptr<copy_engine_member> seat;
  };

  void make(std::size_t ranks, milliseconds deadline = time_bound)
  {
    streams_ = std::make_unique<ballast_test::cuda_streams>(ranks);
    auto const members = ballast::detail::make_copy_engine_ranks(streams_->all()).value();
    auto const group = std::make_shared<thread_meeting>(ranks, deadline);
    for (std::size_t self = 0; self < ranks; ++self) {
      all.push_back(
          {std::vector<std::byte>(block, std::byte{0xdd}),
           std::vector<std::byte>(ranks * block, std::byte{0xee}),
           std::make_unique<copy_engine_member>(
               group, self, members, ballast::copy_engine_options{.deadline = deadline})});
    }
  }

  ~CopyEngineSeat() override
  {
    all.clear();
    EXPECT_EQ(ballast_test::live_events(), 0U);
  }

  /// self gets the blocks of those that send to it: sends(from, to).
  template <class Sends>
  result<void> exchange(std::size_t self, Sends sends)
  {
    std::span<std::byte const> const nothing;
    return all[self].seat->exchange(
        {{collective::all_gather, block}, all[self].send},
        [&](std::size_t peer) {
          return copy_engine_pull{
              sends(peer, self) ? all[self].seat->group->offers()[peer].send : nothing,
              all[self].receive.data() + peer * block};
        },
        [&](std::size_t peer) { return sends(self, peer) ? block : 0; });
  }

  result<void> gather(std::size_t self)
  {
    return exchange(self, [](std::size_t, std::size_t) { return true; });
  }

  [[nodiscard]] cudaStream_t stream(std::size_t self) const { return (*streams_)[self]; }

  /// Queues what fills the rank's block.
  void write(std::size_t self, std::byte value, milliseconds late = milliseconds(0))
  {
    EXPECT_EQ(launch(stream(self),
                     [this, self, value, late] {
                       std::this_thread::sleep_for(late);
                       all[self].send.assign(block, value);
                     }),
              cudaSuccess);
  }

  [[nodiscard]] bool has(std::size_t self, std::size_t from, std::byte value) const
  {
    auto const received = std::span(all[self].receive).subspan(from * block, block);
    return std::ranges::all_of(received, [=](std::byte each) { return each == value; });
  }

  /// Until the streams are empty too: what they do may use what the body has.
  template <class Body>
  void on_ranks(Body body)
  {
    std::vector<std::thread> threads;
    for (std::size_t self = 0; self < all.size(); ++self) { threads.emplace_back(body, self); }
    for (std::thread& thread : threads) { thread.join(); }
    for (cudaStream_t const each : streams_->all()) {
      EXPECT_EQ(cudaStreamSynchronize(each), cudaSuccess);
    }
  }

  std::vector<rank> all;

 private:
  std::unique_ptr<ballast_test::cuda_streams> streams_;
};

// ---- Each event is needed: without it one of these reads the wrong bytes ----

TEST_F(CopyEngineSeat, PullsWhenItsPeersAreReady)
{
  make(3);
  on_ranks([&](std::size_t self) {
    write(self, static_cast<std::byte>(self), self == 1 ? long_enough : milliseconds(0));
    EXPECT_TRUE(gather(self));
    EXPECT_TRUE(all[self].seat->drain("wait"));
    for (std::size_t from = 0; from < 3; ++from) {
      EXPECT_TRUE(has(self, from, static_cast<std::byte>(from)));
    }
  });
}

TEST_F(CopyEngineSeat, LetsSendersGoOnWhenAllHaveTaken)
{
  make(2);
  std::latch queued(2);
  std::latch go(1);
  std::atomic<bool> overwritten = false;
  on_ranks([&](std::size_t self) {
    write(self, static_cast<std::byte>(10 + self));
    if (self == 0) {
      EXPECT_EQ(launch(stream(0), [&] { go.wait(); }), cudaSuccess);
    }
    EXPECT_TRUE(gather(self)) << "no thread waits for a stream";
    write(self, std::byte{0xbb});
    if (self == 1) {
      EXPECT_EQ(launch(stream(1), [&] { overwritten = true; }), cudaSuccess);
    }
    queued.arrive_and_wait();
    if (self == 1) {
      std::this_thread::sleep_for(long_enough);
      EXPECT_FALSE(overwritten);
      go.count_down();
    }
    EXPECT_TRUE(all[self].seat->drain("wait"));
    EXPECT_TRUE(has(self, 0, std::byte{10}));
    EXPECT_TRUE(has(self, 1, std::byte{11}));
  });
  EXPECT_TRUE(overwritten);
}

// The next exchange of a rank writes what others may still read of the last.
TEST_F(CopyEngineSeat, KeepsExchangesApart)
{
  constexpr std::size_t ranks = 4;
  ballast_test::delay_copies(std::chrono::microseconds(300));
  make(ranks);
  on_ranks([&](std::size_t self) {
    std::vector<char> right(50);
    for (std::size_t round = 0; round < right.size(); ++round) {
      write(self, static_cast<std::byte>(ranks * round + self));
      EXPECT_TRUE(gather(self));
      EXPECT_EQ(launch(stream(self),
                       [&, round] {
                         right[round] = 1;
                         for (std::size_t from = 0; from < ranks; ++from) {
                           if (!has(self, from, static_cast<std::byte>(ranks * round + from))) {
                             right[round] = 0;
                           }
                         }
                       }),
                cudaSuccess);
    }
    EXPECT_TRUE(all[self].seat->drain("wait"));
    EXPECT_EQ(right, std::vector<char>(right.size(), 1));
  });
  ballast_test::delay_copies(std::chrono::microseconds(0));
}

// ---- And no wait is too many ----

TEST_F(CopyEngineSeat, WaitsForNobodyWithWhomItExchangesNothing)  // Ensures (1)
{
  make(3);
  std::latch go(1);
  std::latch done(2);
  on_ranks([&](std::size_t self) {
    if (self == 2) {
      EXPECT_EQ(launch(stream(2), [&] { go.wait(); }), cudaSuccess);
    }
    EXPECT_TRUE(exchange(self, [](auto from, auto to) { return from < 2 && to < 2; }));
    if (self < 2) {
      EXPECT_EQ(cudaStreamSynchronize(stream(self)), cudaSuccess);
      done.count_down();
    } else {
      done.wait();
      go.count_down();
    }
  });
}

TEST_F(CopyEngineSeat, PullsWhileItsPeersStillPull)
{
  make(3);
  std::latch go(1);
  std::latch pulled(1);
  on_ranks([&](std::size_t self) {
    write(self, static_cast<std::byte>(self));
    if (self == 2) {
      EXPECT_EQ(launch(stream(2), [&] { go.wait(); }), cudaSuccess);
    }
    // Rank 1 cannot pull from rank 2; rank 0, which pulls from rank 1 after it, can.
    EXPECT_TRUE(exchange(self, [&](auto from, auto to) {
      if (self == 0 && to == 0) { std::this_thread::sleep_for(milliseconds(5)); }
      return from == to + 1;
    }));
    if (self == 0) {
      EXPECT_EQ(cudaStreamSynchronize(stream(0)), cudaSuccess);
      EXPECT_TRUE(has(0, 1, std::byte{1}));
      pulled.count_down();
    } else if (self == 2) {
      pulled.wait();
      go.count_down();
    }
  });
}

// ---- Failures ----

void expect_transport(result<void> const& done, std::string const& call)
{
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, error_code::transport);
  EXPECT_EQ(done.error().message, call + " failed with code 719: unspecified launch failure");
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

struct failing_call {
  char const* name;
  std::size_t before;  // of the calls of that name of one exchange of three ranks
  bool is_met;         // the others have exchanged what they wanted
};

TEST_F(CopyEngineSeat, BreaksWhereCudaFailsAndTellsItsPeers)  // Ensures (2)
{
  constexpr failing_call calls[] = {
      {"cudaEventRecord", 0, false},    {"cudaEventRecord", 1, true},
      {"cudaStreamWaitEvent", 0, true}, {"cudaStreamWaitEvent", 1, true},
      {"cudaStreamWaitEvent", 2, true}, {"cudaStreamWaitEvent", 3, true},
      {"cudaMemcpyBatchAsync", 0, true}};
  for (failing_call const& call : calls) {
    SCOPED_TRACE(testing::Message() << call.name << " after " << call.before);
    all.clear();
    make(3);
    for (rank& each : all) { each.send.assign(block, std::byte{4}); }
    ballast_test::fail_cuda_call(call.name, call.before, cudaErrorLaunchFailure, stream(1));
    on_ranks([&](std::size_t self) {
      auto const first = gather(self);
      auto const second = gather(self);
      if (self == 1) {
        expect_transport(first, call.name);
        expect_transport(second, call.name);
        expect_transport(all[1].seat->drain("wait"), call.name);
        return;
      }
      EXPECT_EQ(first.has_value(), call.is_met);
      ASSERT_FALSE(second);
      EXPECT_EQ(second.error().code, error_code::peer_lost);
      EXPECT_EQ(second.error().ranks, std::vector{ballast::rank_id{1}});
      EXPECT_EQ(all[self].seat->quiesce(), cudaSuccess);
      EXPECT_EQ(has(self, 0, std::byte{4}) && has(self, 2, std::byte{4}), call.is_met);
    });
  }
}

TEST_F(CopyEngineSeat, ReportsWhatTheStreamRanInto)
{
  make(1);
  EXPECT_TRUE(gather(0));
  EXPECT_EQ(cudaStreamSynchronize(stream(0)), cudaSuccess);
  ballast_test::fail_stream(stream(0), cudaErrorLaunchFailure);
  expect_transport(all[0].seat->drain("wait"), "cudaStreamQuery");
  expect_transport(gather(0), "cudaStreamQuery");
}

// So that a rank that got the error knows when arrays are no longer used.
TEST_F(CopyEngineSeat, WaitsForWhatIsUnderWayAfterAFailureToo)
{
  make(1);
  EXPECT_EQ(launch(stream(0), [] { std::this_thread::sleep_for(long_enough); }), cudaSuccess);
  EXPECT_TRUE(gather(0));
  ballast_test::fail_cuda_call("cudaEventRecord", 0, cudaErrorLaunchFailure);
  expect_transport(gather(0), "cudaEventRecord");
  expect_transport(all[0].seat->drain("wait"), "cudaEventRecord");
  EXPECT_EQ(cudaStreamQuery(stream(0)), cudaSuccess);
}

TEST_F(CopyEngineSeat, GivesUpOnAStreamAtTheDeadline)
{
  make(1, milliseconds(50));
  std::latch go(1);
  EXPECT_EQ(launch(stream(0), [&] { go.wait(); }), cudaSuccess);
  EXPECT_TRUE(all[0].seat->drain("wait")) << "that is none of its own";
  EXPECT_TRUE(gather(0));
  auto const waited = all[0].seat->drain("wait");
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code, error_code::timed_out);
  EXPECT_EQ(waited.error().ranks, std::vector<ballast::rank_id>());
  EXPECT_EQ(gather(0).error(), waited.error());
  go.count_down();
  EXPECT_EQ(cudaStreamSynchronize(stream(0)), cudaSuccess);
}

TEST_F(CopyEngineSeat, WaitsForWhatIsUnderWayWhenItIsLeft)
{
  make(2);
  std::latch go(1);
  on_ranks([&](std::size_t self) {
    if (self == 1) {
      EXPECT_EQ(launch(stream(1), [&] { go.wait(); }), cudaSuccess);
    }
    EXPECT_TRUE(gather(self));
    if (self == 1) {
      std::this_thread::sleep_for(milliseconds(5));
      go.count_down();
      return;
    }
    // Rank 1 has still to read this one's block.
    all[0].seat.reset();
    all[0].send = std::vector<std::byte>();
  });
  EXPECT_TRUE(has(1, 0, std::byte{0xdd}));
}

}  // namespace
