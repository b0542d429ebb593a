// SPDX-License-Identifier: Apache-2.0
#include <ballast/gpu/copy_engine_communicator.hpp>

#include <gmock/gmock.h>
#include "../comm/conformance.hpp"  // defines: ballast_test::conformance
#include "../comm/out_of_memory.hpp"
#include "../support/hand_moved_clock.hpp"
#include "../support/time_limits.hpp"
#include "copy_engine_threads.hpp"  // defines: ballast_test::{cuda_streams, launch, ...}

#include <ballast/gpu/stream_communicator.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using ballast::copy_engine_options;
using ballast::error_code;
using ballast::rank_id;
using ballast_test::cuda_streams;
using ballast_test::launch;
using ballast_test::run_copy_engine_ranks;
using ballast_test::time_bound;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using testing::HasSubstr;

using communicator = ballast::copy_engine_communicator<>;
using pinned_bytes = std::vector<std::byte, ballast::pinned_allocator<std::byte>>;
using conformance = ballast_test::conformance<communicator, pinned_bytes>;

static_assert(ballast::stream_communicator<communicator>);
static_assert(
    ballast::stream_communicator<ballast::copy_engine_communicator<std::allocator<std::byte>>>);
static_assert(!std::is_copy_constructible_v<communicator>);

template <class Allocator>
concept usable_memory = requires { typename ballast::copy_engine_communicator<Allocator>; };
static_assert(!usable_memory<std::allocator<float>>);

constexpr copy_engine_options patient = {.deadline = time_bound};

std::vector<communicator> made(cuda_streams const& streams, copy_engine_options options = patient)
{
  return communicator::make(streams.all(), options).value();
}

// ---- What every communicator promises ----

class CopyEngineConformance
    : public testing::TestWithParam<std::tuple<std::size_t, conformance::check>> {
 protected:
  static void pass(microseconds delay)
  {
    auto const& [size, check] = GetParam();
    ballast_test::delay_copies(delay);
    {
      cuda_streams const streams(size);
      run_copy_engine_ranks(streams.all(), patient, [&](communicator& comm) {
        SCOPED_TRACE(testing::Message() << "rank " << to_index(comm.rank()));
        check.run(comm);
      });
    }
    ballast_test::delay_copies(microseconds(0));
    EXPECT_EQ(ballast_test::live_pinned_arrays(), 0U);
    EXPECT_EQ(ballast_test::live_events(), 0U);
  }
};

TEST_P(CopyEngineConformance, AtOnce)
{
  pass(microseconds(0));
}

TEST_P(CopyEngineConformance, WithDelays)
{
  pass(microseconds(50));
}

std::string name_of_case(testing::TestParamInfo<CopyEngineConformance::ParamType> const& info)
{
  auto const& [size, check] = info.param;
  return std::string(check.name).append("On").append(std::to_string(size));
}

auto const sizes = testing::Values<std::size_t>(1, 2, 3, 5, 8);
INSTANTIATE_TEST_SUITE_P(Data, CopyEngineConformance,
                         testing::Combine(sizes, testing::ValuesIn(conformance::data_checks())),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Mismatch, CopyEngineConformance,
                         testing::Combine(sizes, testing::ValuesIn(conformance::mismatch_checks())),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(SteadyState, CopyEngineConformance,
                         testing::Combine(sizes,
                                          testing::ValuesIn(conformance::steady_state_checks())),
                         name_of_case);

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
      EXPECT_TRUE(comm.broadcast(turned, ballast::to_id<rank_id>(round % size)));
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

TEST(CopyEngineCommunicator, QueuesWithoutWaitingForAStream)
{
  cuda_streams const streams(2);
  std::latch go(1);
  run_copy_engine_ranks(streams.all(), patient, [&](communicator& comm) {
    bool const first = to_index(comm.rank()) == 0;
    pinned_bytes own(4, std::byte{1}), all(8, std::byte{0});
    if (first) {
      EXPECT_EQ(launch(comm.stream(), [&] { go.wait(); }), cudaSuccess);
    }
    EXPECT_TRUE(comm.all_gather(own, all));
    EXPECT_TRUE(comm.broadcast(all, rank_id{1}));
    if (first) {
      EXPECT_EQ(cudaStreamQuery(comm.stream()), cudaErrorNotReady);
      (void)cudaGetLastError();
      EXPECT_EQ(std::ranges::count(all, std::byte{0}), 8);
      go.count_down();
    }
    EXPECT_TRUE(comm.wait());
    EXPECT_EQ(cudaStreamQuery(comm.stream()), cudaSuccess);
    EXPECT_EQ(std::ranges::count(all, std::byte{1}), 8);
  });
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

// ---- Ranks that do not come, or leave ----

TEST(CopyEngineCommunicator, NamesWhoIsMissingAtTheDeadline)
{
  ballast_test::hand_moved_clock clock;
  for (std::size_t const size : {2U, 5U}) {
    for (auto const& absent : conformance::absences(size)) {
      cuda_streams const streams(size);
      auto comms = made(streams, {.deadline = milliseconds(500)});
      std::vector<std::jthread> threads;
      for (communicator& comm : comms) {
        threads.emplace_back([&] {
          EXPECT_TRUE(comm.barrier());
          if (comm.rank() == absent.front()) {
            clock.pass_when(size - absent.size(), milliseconds(500));
          }
          if (std::ranges::count(absent, comm.rank()) > 0) { return; }
          conformance::expect_broken(comm, error_code::timed_out, absent);
        });
      }
    }
  }
}

TEST(CopyEngineCommunicator, NamesWhoLeft)
{
  for (std::size_t const size : {2U, 3U, 8U}) {
    for (auto const& absent : conformance::absences(size)) {
      cuda_streams const streams(size);
      auto comms = made(streams);
      for (rank_id const rank : absent) {
        communicator const leaving = std::move(comms[to_index(rank)]);
      }
      std::vector<std::jthread> threads;
      for (std::size_t rank = 0; rank < size; ++rank) {
        if (std::ranges::count(absent, ballast::to_id<rank_id>(rank)) > 0) { continue; }
        threads.emplace_back([&comm = comms[rank], &absent] {
          conformance::expect_broken(comm, error_code::peer_lost, absent);
        });
      }
    }
  }
}

TEST(CopyEngineCommunicator, BreaksInPartsAlone)
{
  ballast_test::hand_moved_clock clock;
  cuda_streams const streams(4);
  auto comms = made(streams, {.deadline = milliseconds(500)});
  std::latch first_part(2);
  std::latch broken(4);
  std::vector<std::jthread> threads;
  for (communicator& comm : comms) {
    threads.emplace_back([&] {
      auto part = comm.split(static_cast<std::uint32_t>(to_index(comm.rank()) / 2));
      ASSERT_TRUE(part);
      if (comm.rank() == rank_id{2}) {
        auto const met = part->barrier();
        ASSERT_FALSE(met);
        EXPECT_EQ(met.error().code, error_code::timed_out);
        EXPECT_EQ(met.error().ranks, std::vector{rank_id{1}});
        EXPECT_THAT(met.error().message, HasSubstr("500 ms"));
      } else if (comm.rank() != rank_id{3}) {
        EXPECT_TRUE(part->barrier());
        first_part.count_down();
      } else {
        first_part.wait();
        clock.pass_when(1, milliseconds(500));
      }
      broken.arrive_and_wait();
      pinned_bytes own(3), all(12);
      EXPECT_TRUE(comm.all_gather(own, all));
      EXPECT_TRUE(comm.wait());
    });
  }
}

TEST(CopyEngineCommunicator, WaitsAsLongAsItIsTold)
{
  cuda_streams const streams(2);
  run_copy_engine_ranks(streams.all(), {.deadline = milliseconds::max()}, [](communicator& comm) {
    pinned_bytes own(1), all(2);
    EXPECT_TRUE(comm.all_gather(own, all));
    EXPECT_TRUE(comm.barrier());
  });
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

TEST(CopyEngineCommunicatorDeathTest, RefusesAGroupOfNobodyWithoutTimeOrOnTheDefaultStream)
{
  cuda_streams const streams(1);
  EXPECT_DEATH((void)communicator::make({}), "there are no streams");
  EXPECT_DEATH((void)communicator::make(streams.all(), {.deadline = milliseconds(0)}),
               "the deadline is 0 ms");
  for (cudaStream_t const legacy : {cudaStream_t{}, cudaStreamLegacy}) {
    EXPECT_DEATH((void)communicator::make({&legacy, 1}),
                 "the stream of rank 0 is the legacy default stream");
  }
}

TEST(CopyEngineCommunicatorDeathTest, RefusesArraysOfOtherSizesThanCounts)
{
  cuda_streams const streams(1);
  auto comms = made(streams);
  auto& comm = comms[0];
  pinned_bytes four(4), five(5);
  std::vector<std::size_t> const count{4}, counts{2, 2};
  EXPECT_DEATH((void)comm.all_gather(four, five),
               "`receive` has 5 bytes, and each of 1 rank sends 4");
  EXPECT_DEATH((void)comm.all_to_all_v(five, count, four, count), "`send` has 5 bytes");
  EXPECT_DEATH((void)comm.all_to_all_v(four, count, five, count), "`receive` has 5 bytes");
  EXPECT_DEATH((void)comm.all_to_all_v(four, counts, four, counts), "`send_bytes` has 2 entries");
  EXPECT_DEATH((void)comm.broadcast(four, rank_id{1}), "root");
}

// ---- Memory that runs out ----

TEST(CopyEngineCommunicatorMemory, AnswersWhereverItRunsOut)
{
  if (!ballast_test::allocations_can_fail()) { GTEST_SKIP() << "operator new is a sanitizer's"; }
  ballast_test::expect_answers_wherever_memory_runs_out([](std::size_t n) {
    cuda_streams const streams(3);
    std::vector<ballast_test::memory_answer> answers(3);
    run_copy_engine_ranks(
        streams.all(), {.deadline = ballast_test::memory_deadline}, [&](communicator& comm) {
          answers[to_index(comm.rank())] =
              ballast_test::exchange_without_memory<communicator, pinned_bytes>(comm, n);
          ballast_test::hand_moved_clock::end_to_act();
        });
    return answers;
  });
}

}  // namespace
