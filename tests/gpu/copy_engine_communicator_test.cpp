// SPDX-License-Identifier: Apache-2.0
#include <ballast/gpu/copy_engine_communicator.hpp>

#include "../comm/communicator_suite.hpp"  // defines: ballast_test::{Communicators, conformance}
#include "../support/test.hpp"
#include "../support/time_limits.hpp"
#include "copy_engine_threads.hpp"  // defines: ballast_test::{cuda_streams, launch, ...}

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/gpu/streams.hpp>

namespace {

using ballast::copy_engine_options;
using ballast_test::cuda_streams;
using ballast_test::launch;
using ballast_test::run_copy_engine_ranks;
using std::chrono::microseconds;
using std::chrono::milliseconds;

using communicator = ballast::copy_engine_communicator<>;
using pinned_bytes = std::vector<std::byte, ballast::pinned_allocator<std::byte>>;
using conformance = ballast_test::conformance<communicator, pinned_bytes>;

static_assert(ballast::stream_communicator<communicator>);
static_assert(
    ballast::stream_communicator<ballast::copy_engine_communicator<std::allocator<std::byte>>>);
static_assert(!std::is_copy_constructible_v<communicator>);
static_assert(copy_engine_options{}.deadline == ballast::default_deadline);
static_assert(copy_engine_options{}.beside_kernels);

template <class Stream>
struct threads_with : ballast::thread_communicator {
  [[nodiscard]] Stream stream() const;
  ballast::result<threads_with> split(std::uint32_t colour);
};
static_assert(ballast::stream_communicator<threads_with<cudaStream_t>>);
static_assert(ballast::communicator<threads_with<int>>);
static_assert(!ballast::stream_communicator<threads_with<int>>);
static_assert(!ballast::stream_communicator<ballast::thread_communicator>);

template <class Allocator>
concept usable_memory = requires { typename ballast::copy_engine_communicator<Allocator>; };
static_assert(!usable_memory<std::allocator<float>>);

constexpr copy_engine_options patient = {.deadline = ballast_test::time_bound};

std::vector<communicator> made(cuda_streams const& streams, copy_engine_options options = patient)
{
  return communicator::make(streams.all(), options).value();
}

/// In the list of communicators whose ranks are threads, with copies that take so many us.
template <int Delay>
struct copy_engines : ballast_test::communicator_model<communicator, pinned_bytes> {
  static std::vector<std::size_t> sizes() { return {1, 2, 3, 5, 8}; }
  static constexpr bool meets = true;
  struct group {
    group(std::size_t ranks, milliseconds deadline)
        : streams(ranks), comms(made(streams, {.deadline = deadline}))
    {
      ballast_test::delay_copies(microseconds(Delay));
    }
    cuda_streams streams;
    std::vector<communicator> comms;
  };
  static void expect_nothing_left()
  {
    ballast_test::delay_copies(microseconds(0));
    EXPECT_EQ(ballast_test::live_pinned_arrays(), 0U);
    EXPECT_EQ(ballast_test::live_events(), 0U);
  }
};

// ---- Streams ----

// Nobody waits on the host between calls: the streams alone keep what belongs together together.
TEST(CopyEngineCommunicator, ChainsItsCallsOnTheStreams)  // Ensures (2)
{
  ballast_test::delay_copies(microseconds(200));
  constexpr std::size_t size = 5;
  cuda_streams const streams(size);
  run_copy_engine_ranks(streams.all(), patient, [](communicator& comm) {
    std::size_t const self = to_index(comm.rank());
    std::vector<std::size_t> const counts(size, 1);
    pinned_bytes own(1), gathered(size), turned(size), shared(size);
    std::vector<std::byte> found;
    for (std::size_t round = 0; round < 40; ++round) {
      EXPECT_EQ(
          launch(comm.stream(), [&, round] { own[0] = static_cast<std::byte>(self + round); }),
          cudaSuccess);
      EXPECT_TRUE(comm.all_gather(own, gathered));
      EXPECT_TRUE(comm.all_to_all_v(gathered, counts, turned, counts));
      EXPECT_TRUE(comm.broadcast(turned, ballast::to_id<ballast::rank_id>(round % size)));
      EXPECT_TRUE(comm.all_to_all_v(turned, counts, shared, counts));
      EXPECT_EQ(
          launch(comm.stream(), [&] { found.insert(found.end(), shared.begin(), shared.end()); }),
          cudaSuccess);
    }
    EXPECT_TRUE(comm.wait());
    // Turned, rank r has everybody's value of r: the root's own value is what all then have.
    for (std::size_t place = 0; place < found.size(); ++place) {
      std::size_t const round = place / size;
      EXPECT_EQ(found[place], static_cast<std::byte>(round % size + round));
    }
    EXPECT_EQ(found.size(), 40 * size);
  });
  ballast_test::delay_copies(microseconds(0));
}

// A rank that goes on to another group records its events anew while peers still look for them.
TEST(CopyEngineCommunicator, ServesSeveralGroupsWithTheSameEvents)
{
  ballast_test::delay_copies(microseconds(100));
  constexpr std::size_t size = 6;
  cuda_streams const streams(size);
  run_copy_engine_ranks(streams.all(), patient, [](communicator& comm) {
    std::size_t const self = to_index(comm.rank());
    EXPECT_EQ(ballast_test::live_events(), 2 * size);
    auto half = comm.split(static_cast<std::uint32_t>(self % 2)).value();
    auto pair = comm.split(static_cast<std::uint32_t>(self / 2)).value();
    EXPECT_EQ(half.stream(), comm.stream());
    pinned_bytes word(1), all(size), odd_or_even(size / 2), both(2);
    int wrong = 0;
    for (std::size_t round = 0; round < 60; ++round) {
      auto const value = [round](std::size_t rank) {
        return static_cast<std::byte>(7 * round + rank);
      };
      EXPECT_EQ(launch(comm.stream(), [&, value] { word[0] = value(self); }), cudaSuccess);
      EXPECT_TRUE(comm.all_gather(word, all));
      EXPECT_TRUE(half.all_gather(word, odd_or_even));
      EXPECT_TRUE(pair.all_gather(word, both));
      EXPECT_EQ(launch(comm.stream(),
                       [&, value] {
                         for (std::size_t rank = 0; rank < size; ++rank) {
                           wrong += all[rank] != value(rank) ? 1 : 0;
                           if (rank % 2 == self % 2) {
                             wrong += odd_or_even[rank / 2] != value(rank) ? 1 : 0;
                           }
                           if (rank / 2 == self / 2) {
                             wrong += both[rank % 2] != value(rank) ? 1 : 0;
                           }
                         }
                       }),
                cudaSuccess);
    }
    EXPECT_EQ(ballast_test::live_events(), 2 * size);
    EXPECT_TRUE(comm.wait() && half.wait() && pair.wait());
    EXPECT_EQ(wrong, 0);
    EXPECT_TRUE(comm.barrier());
  });
  ballast_test::delay_copies(microseconds(0));
  EXPECT_EQ(ballast_test::live_events(), 0U);
}

TEST(CopyEngineCommunicator, HasItsStreamEmptyAfterABarrier)
{
  ballast_test::delay_copies(milliseconds(5));
  cuda_streams const streams(3);
  run_copy_engine_ranks(streams.all(), patient, [&](communicator& comm) {
    pinned_bytes own(4), all(12);
    EXPECT_TRUE(comm.all_gather(own, all));
    EXPECT_TRUE(comm.barrier());
    for (cudaStream_t const each : streams.all()) { EXPECT_EQ(cudaStreamQuery(each), cudaSuccess); }
  });
  ballast_test::delay_copies(microseconds(0));
}

TEST(CopyEngineCommunicator, CopiesEachMessageOnceAndNoneOfZeroBytes)
{
  cuda_streams const streams(4);
  std::size_t const before = ballast_test::copies_queued();
  run_copy_engine_ranks(streams.all(), patient, [&](communicator& comm) {
    // To the next rank and to itself.
    std::size_t const self = to_index(comm.rank());
    std::vector<std::size_t> to(4), from(4);
    to[self] = from[self] = 5;
    to[(self + 1) % 4] = from[(self + 3) % 4] = 1000;
    pinned_bytes send(1005, std::byte{1}), receive(1005);
    EXPECT_TRUE(comm.all_to_all_v(send, to, receive, from));
    EXPECT_TRUE(comm.wait());
  });
  EXPECT_EQ(ballast_test::copies_queued() - before, 8U);
}

// ---- Memory ----

TEST(CopyEngineCommunicator, GivesPinnedMemoryNoDeviceToWaitFor)
{
  cuda_streams const streams(1);
  std::size_t const before = ballast_test::pinned_calls_behind_work();
  {
    pinned_bytes all(100);
    auto comms = made(streams);
    for (std::size_t const size : {10U, 100U}) {
      auto const memory = comms[0].scratch(size);
      ASSERT_EQ(memory.size(), size);
      EXPECT_EQ(launch(streams[0], [] { std::this_thread::sleep_for(milliseconds(5)); }),
                cudaSuccess);
      EXPECT_TRUE(comms[0].all_gather(memory, std::span(all).first(size)));
    }
    EXPECT_EQ(comms[0].scratch(1000).size(), 1000U);
    EXPECT_TRUE(comms[0].all_gather(std::span(all).first(10), std::span(all).last(10)));
    comms.clear();
  }
  EXPECT_EQ(ballast_test::pinned_calls_behind_work(), before);
}

// ---- Expects ----

TEST(CopyEngineCommunicatorDeathTest, RefusesAGroupOfNobodyOrOnTheDefaultStream)
{
  EXPECT_DEATH((void)communicator::make({}), "there are no streams");
  for (cudaStream_t const legacy : {cudaStream_t{}, cudaStreamLegacy}) {
    EXPECT_DEATH((void)communicator::make({&legacy, 1}),
                 "the stream of rank 0 is the legacy default stream");
  }
}

}  // namespace

namespace ballast_test {

using copy_engine_models = testing::Types<copy_engines<0>, copy_engines<50>>;
INSTANTIATE_TYPED_TEST_SUITE_P(CopyEngines, Communicators, copy_engine_models);
INSTANTIATE_TYPED_TEST_SUITE_P(CopyEngines, CommunicatorsOfThreads, copy_engine_models);

}  // namespace ballast_test
