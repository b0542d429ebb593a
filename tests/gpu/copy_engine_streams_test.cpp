// SPDX-License-Identifier: Apache-2.0
// For what the streams of copy engines wait, for what they do not, and what CUDA refuses them.
#include <ballast/gpu/copy_engine_communicator.hpp>

#include "../support/test.hpp"
#include "../support/time_limits.hpp"
#include "copy_engine_threads.hpp"  // defines: ballast_test::{cuda_streams, launch}

#include <atomic>
#include <latch>

namespace {

using ballast::error_code;
using ballast::result;
using ballast_test::cuda_streams;
using ballast_test::launch;
using ballast_test::time_bound;
using std::chrono::milliseconds;

constexpr auto long_enough = milliseconds(30);  // for a stream that nothing holds up
constexpr std::size_t block = 5000;

/// Ranks each of which has a block for each rank, and room for one from each.
class CopyEngineStreams : public testing::Test {
 protected:
  struct rank {
    ballast::copy_engine_communicator<> comm;
    std::vector<std::byte> send;
    std::vector<std::byte> receive;
  };

  void make(std::size_t ranks, milliseconds deadline = time_bound)
  {
    all.clear();
    streams_ = std::make_unique<cuda_streams>(ranks);
    auto made = ballast::copy_engine_communicator<>::make(streams_->all(), {.deadline = deadline});
    for (auto& comm : made.value()) {
      all.push_back({std::move(comm), std::vector<std::byte>(ranks * block, std::byte{0xdd}),
                     std::vector<std::byte>(ranks * block, std::byte{0xee})});
    }
  }
  ~CopyEngineStreams() override
  {
    all.clear();
    EXPECT_EQ(ballast_test::live_events(), 0U);
  }

  /// self gets the blocks of those that send to it, one behind the other: sends(from, to).
  template <class Sends>
  result<void> exchange(std::size_t self, Sends sends)
  {
    std::vector<std::size_t> out, in;
    for (std::size_t peer = 0; peer < all.size(); ++peer) {
      out.push_back(sends(self, peer) ? block : 0);
      in.push_back(sends(peer, self) ? block : 0);
    }
    auto const part = [](std::vector<std::byte>& array, std::vector<std::size_t> const& counts) {
      return std::span(array).first(
          block * (counts.size() - static_cast<std::size_t>(std::ranges::count(counts, 0U))));
    };
    return all[self].comm.all_to_all_v(part(all[self].send, out), out, part(all[self].receive, in),
                                       in);
  }
  result<void> gather(std::size_t self)
  {
    return all[self].comm.all_gather(std::span(all[self].send).first(block), all[self].receive);
  }

  [[nodiscard]] cudaStream_t stream(std::size_t self) const { return (*streams_)[self]; }

  /// Queues what fills the rank's blocks.
  void write(std::size_t self, std::byte value)
  {
    EXPECT_EQ(launch(stream(self), [=, this] { std::ranges::fill(all[self].send, value); }),
              cudaSuccess);
  }
  /// Queues what holds the stream up.
  void hold_up(std::size_t self, std::latch& go)
  {
    EXPECT_EQ(launch(stream(self), [&go] { go.wait(); }), cudaSuccess);
  }

  [[nodiscard]] bool has(std::size_t self, std::size_t place, std::byte value) const
  {
    auto const received = std::span(all[self].receive).subspan(place * block, block);
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
  std::unique_ptr<cuda_streams> streams_;
};

TEST_F(CopyEngineStreams, LetSendersGoOnWhenAllHaveTaken)  // Ensures (2)
{
  make(2);
  std::latch queued(2);
  std::latch go(1);
  std::atomic<bool> overwritten = false;
  on_ranks([&](std::size_t self) {
    write(self, static_cast<std::byte>(10 + self));
    if (self == 0) { hold_up(0, go); }
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
    EXPECT_TRUE(all[self].comm.wait());
    EXPECT_TRUE(has(self, 0, std::byte{10}) && has(self, 1, std::byte{11}));
  });
  EXPECT_TRUE(overwritten);
}

TEST_F(CopyEngineStreams, WaitForNobodyWithWhomTheyExchangeNothing)  // Ensures (3)
{
  make(3);
  std::latch go(1);
  std::latch done(2);
  on_ranks([&](std::size_t self) {
    if (self == 2) { hold_up(2, go); }
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

// Rank 1 cannot copy from rank 2; rank 0, which copies from rank 1, can.
TEST_F(CopyEngineStreams, CopyWhileTheirPeersStillCopy)
{
  make(3);
  std::latch go(1);
  std::latch copied(1);
  on_ranks([&](std::size_t self) {
    write(self, static_cast<std::byte>(self));
    if (self == 2) { hold_up(2, go); }
    if (self == 0) { std::this_thread::sleep_for(milliseconds(5)); }
    EXPECT_TRUE(exchange(self, [](auto from, auto to) { return from == to + 1; }));
    if (self == 0) {
      EXPECT_EQ(cudaStreamSynchronize(stream(0)), cudaSuccess);
      EXPECT_TRUE(has(0, 0, std::byte{1}));
      copied.count_down();
    } else if (self == 2) {
      copied.wait();
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

TEST_F(CopyEngineStreams, BreakWhereCudaFailsAndTellTheirPeers)  // Errors: transport
{
  struct failing_call {
    char const* name;
    std::size_t before;  // of the calls of that name of one exchange of three ranks
    bool is_met;         // the others have exchanged what they wanted
  };
  for (failing_call const& call : {failing_call{"cudaEventRecord", 0, false},
                                   {"cudaEventRecord", 1, true},
                                   {"cudaStreamWaitEvent", 0, true},
                                   {"cudaStreamWaitEvent", 1, true},
                                   {"cudaStreamWaitEvent", 2, true},
                                   {"cudaStreamWaitEvent", 3, true},
                                   {"cudaMemcpyBatchAsync", 0, true}}) {
    SCOPED_TRACE(testing::Message() << call.name << " after " << call.before);
    make(3);
    for (rank& each : all) { std::ranges::fill(each.send, std::byte{4}); }
    ballast_test::fail_cuda_call(call.name, call.before, cudaErrorLaunchFailure, stream(1));
    on_ranks([&](std::size_t self) {
      auto const first = gather(self);
      auto const second = gather(self);
      auto const waited = all[self].comm.wait();
      if (self == 1) {
        for (auto const& each : {first, second, waited}) { expect_transport(each, call.name); }
        return;
      }
      EXPECT_EQ(first.has_value(), call.is_met);
      ASSERT_FALSE(second);
      EXPECT_EQ(second.error().code, error_code::peer_lost);
      EXPECT_EQ(second.error().ranks, std::vector{ballast::rank_id{1}});
      EXPECT_EQ(waited.error(), second.error());
      EXPECT_EQ(has(self, 0, std::byte{4}) && has(self, 2, std::byte{4}), call.is_met);
    });
  }
}

TEST_F(CopyEngineStreams, ReportWhatTheyRanInto)
{
  make(1);
  EXPECT_TRUE(gather(0));
  EXPECT_EQ(cudaStreamSynchronize(stream(0)), cudaSuccess);
  ballast_test::fail_stream(stream(0), cudaErrorLaunchFailure);
  expect_transport(all[0].comm.wait(), "cudaStreamQuery");
  expect_transport(gather(0), "cudaStreamQuery");
}

// So that a rank that got the error knows when arrays are no longer used.
TEST_F(CopyEngineStreams, AreWaitedForAfterAFailureToo)
{
  make(1);
  EXPECT_EQ(launch(stream(0), [] { std::this_thread::sleep_for(long_enough); }), cudaSuccess);
  EXPECT_TRUE(gather(0));
  ballast_test::fail_cuda_call("cudaEventRecord", 0, cudaErrorLaunchFailure);
  expect_transport(gather(0), "cudaEventRecord");
  expect_transport(all[0].comm.wait(), "cudaEventRecord");
  EXPECT_EQ(cudaStreamQuery(stream(0)), cudaSuccess);
}

TEST_F(CopyEngineStreams, AreGivenUpAtTheDeadline)  // Errors: timed_out
{
  make(1, milliseconds(50));
  std::latch go(1);
  hold_up(0, go);
  EXPECT_TRUE(all[0].comm.wait()) << "that is none of its own";
  EXPECT_TRUE(gather(0));
  auto const waited = all[0].comm.wait();
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code, error_code::timed_out);
  EXPECT_EQ(waited.error().ranks, std::vector<ballast::rank_id>());
  EXPECT_EQ(gather(0).error(), waited.error());
  go.count_down();
  EXPECT_EQ(cudaStreamSynchronize(stream(0)), cudaSuccess);
}

// Rank 1 has still to read rank 0's block.
TEST_F(CopyEngineStreams, AreWaitedForWhenTheirCommunicatorEnds)
{
  make(2);
  std::latch go(1);
  on_ranks([&](std::size_t self) {
    if (self == 1) { hold_up(1, go); }
    EXPECT_TRUE(gather(self));
    if (self == 1) {
      std::this_thread::sleep_for(milliseconds(5));
      go.count_down();
      return;
    }
    {
      auto const ending = std::move(all[0].comm);
    }
    all[0].send = std::vector<std::byte>();
  });
  EXPECT_TRUE(has(1, 0, std::byte{0xdd}));
}

// ---- Devices ----

/// Streams of devices 0, 1, 2, 0, of which 1 is the current one meanwhile.
struct CopyEngineDevices : testing::Test {
  CopyEngineDevices()
  {
    ballast_test::pretend_devices(3, true);
    for (int const device : {0, 1, 2, 0}) {
      EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
      each.push_back(std::make_unique<cuda_streams>(1));
      streams.push_back((*each.back())[0]);
    }
    EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  }
  CopyEngineDevices(CopyEngineDevices const&) = delete;
  CopyEngineDevices& operator=(CopyEngineDevices const&) = delete;
  ~CopyEngineDevices() override
  {
    int device = -1;
    EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
    EXPECT_EQ(device, 1) << "it has been left as it was";
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    EXPECT_EQ(ballast_test::live_events(), 0U);
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    ballast_test::pretend_devices(1, false);
  }

  /// Whether a group can be made of the streams, and gathers.
  [[nodiscard]] bool gather() const
  {
    std::atomic<bool> all = true;
    ballast_test::run_copy_engine_ranks(streams, {.deadline = time_bound}, [&](auto& comm) {
      std::vector<std::byte> const own(3, static_cast<std::byte>(to_index(comm.rank())));
      std::vector<std::byte> got(12);
      bool const done = comm.all_gather(own, got) && comm.barrier();
      if (!done || got[11] != std::byte{3} || got[0] != std::byte{0}) { all = false; }
    });
    return all;
  }

  std::vector<std::unique_ptr<cuda_streams>> each;
  std::vector<cudaStream_t> streams;
};

TEST_F(CopyEngineDevices, ReachEachOther)
{
  EXPECT_TRUE(gather());
  EXPECT_EQ(ballast_test::accesses_enabled(), 6U);  // both directions, once for each pair
  EXPECT_TRUE(gather()) << "or another has done so before";
  EXPECT_EQ(ballast_test::accesses_enabled(), 6U);
}

TEST_F(CopyEngineDevices, CopyThroughTheHostWhereTheyCannotOrMapNoMorePeers)
{
  ballast_test::pretend_devices(3, false);
  EXPECT_TRUE(gather());
  EXPECT_EQ(ballast_test::accesses_enabled(), 0U);
  ballast_test::pretend_devices(3, true, 1);
  EXPECT_TRUE(gather());
  EXPECT_EQ(ballast_test::accesses_enabled(), 3U);  // one of each device
}

TEST_F(CopyEngineDevices, ReportWhatCudaRefuses)
{
  for (char const* const call : {"cudaStreamGetDevice", "cudaSetDevice", "cudaEventCreateWithFlags",
                                 "cudaDeviceCanAccessPeer", "cudaDeviceEnablePeerAccess"}) {
    for (std::size_t const before : {0U, 1U, 2U}) {
      ballast_test::pretend_devices(3, true);
      ballast_test::fail_cuda_call(call, before, cudaErrorInvalidValue);
      auto const made = ballast::copy_engine_communicator<>::make(streams);
      ASSERT_FALSE(made) << call;
      EXPECT_EQ(made.error().code, error_code::transport);
      EXPECT_EQ(made.error().message, std::string(call) + " failed with code 1: invalid argument");
    }
  }
}

}  // namespace
