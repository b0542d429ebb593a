// SPDX-License-Identifier: Apache-2.0
#include "../support/test.hpp"

#include <ballast/gpu/process_copy_engine_communicator.hpp>

#include "../comm/communicator_suite.hpp"  // defines: ballast_test::{Communicators, random_traffic, ...}
#include "../comm/pipe_communicator.hpp"
#include "../support/time_limits.hpp"
#include "copy_engine_processes.hpp"
#include "copy_engine_threads.hpp"  // defines: ballast_test::{cuda_streams, launch, ...}

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/cuda/reduce_scatter.cuh>
#include <ballast/gpu/streams.hpp>

#include <unistd.h>

namespace {

using ballast::error_code;
using ballast::rank_id;
using ballast_test::cuda_streams;
using ballast_test::launch;
using ballast_test::pipe_communicator;
using ballast_test::shared_cuda;
using ballast_test::time_bound;
using testing::Each;
using testing::HasSubstr;

using by_process = ballast::process_copy_engine_communicator<pipe_communicator>;
using memory_of_host = std::vector<std::byte, ballast::pinned_allocator<std::byte>>;
using process_conformance = ballast_test::conformance<by_process, memory_of_host>;

static_assert(ballast::stream_communicator<by_process>);
static_assert(ballast::splitting_communicator<by_process>);

constexpr ballast::copy_engine_options waits_long{.deadline = time_bound};

template <class Body>
void run_processes(std::size_t ranks, Body const& body)
{
  ballast_test::run_copy_engine_processes(ranks, waits_long, body);
}

/// In the list of communicators that the suite runs over.
template <std::size_t Ranks, int Delay>
struct processes : ballast_test::communicator_model<by_process, memory_of_host> {
  static std::vector<std::size_t> sizes()
  {
    // With a sanitizer many are slow, and know no more.
    return ballast_test::is_sanitized && Ranks > 2 ? std::vector<std::size_t>()
                                                   : std::vector{Ranks};
  }
  static constexpr bool counts = false;
  template <class Body>
  static void run(std::size_t ranks, Body const& body)
  {
    ballast_test::delay_copies(std::chrono::microseconds(Delay));
    run_processes(ranks, body);
    ballast_test::delay_copies(std::chrono::microseconds(0));
  }
};

/// One alone, whose host is a thread of this process.
struct process_alone
    : ballast_test::communicator_model<
          ballast::process_copy_engine_communicator<ballast::thread_communicator>, memory_of_host> {
  static std::vector<std::size_t> sizes() { return {1}; }
  template <class Body>
  static void run(std::size_t, Body const& body)
  {
    shared_cuda const shared;
    cuda_streams const streams(1);
    auto hosts = ballast::thread_communicator::make(1);
    auto comm = communicator::join(std::move(hosts[0]), streams[0], waits_long).value();
    body(comm);
  }
};

// ---- The same bytes as from threads ----

/// Digests of what a rank has received in calls of random shapes. Nobody waits in between, and each
/// array is written anew as soon as the stream allows.
template <class C>
std::vector<std::uint64_t> history_of(C& comm)
{
  constexpr std::size_t most = 3000;
  std::size_t const ranks = comm.size();
  std::size_t const self = to_index(comm.rank());
  auto const calls = static_cast<std::size_t>(ballast_test::trials_of(200));
  std::vector<std::uint64_t> found(calls);
  memory_of_host own(ranks * most), received(ranks * most);
  std::span<std::byte> lent = own;
  if constexpr (requires { comm.lend(own.size()); }) { lent = comm.lend(own.size()).value(); }
  ballast::workspace memory;
  ballast::random_source random(20240607);
  for (std::size_t call = 0; call < calls; ++call) {
    auto const counts = ballast_test::random_traffic(random, ranks, most);
    std::size_t const each = 8 * random.below(most / 8);
    auto const root = ballast::to_id<rank_id>(random.below(ranks));
    std::uint64_t const kind = random.below(4);
    std::span<std::byte> const from = random.below(2) == 0 ? own : lent;
    std::span<std::byte> const to = received;
    EXPECT_EQ(launch(comm.stream(),
                     [=, &received] {
                       std::ranges::fill(received, std::byte{0});
                       ballast::random_source content(1000 * call + self);
                       for (std::byte& byte : from) { byte = static_cast<std::byte>(content()); }
                     }),
              cudaSuccess);
    ballast::result<void> done;
    auto const sent = counts.sent_by(self);
    auto const expected = counts.received_by(self);
    switch (kind) {
      case 0: done = comm.all_gather(from.first(each), to.first(ranks * each)); break;
      case 1:
        done = comm.all_to_all_v(from.first(ballast_test::total(sent)), sent,
                                 to.first(ballast_test::total(expected)), expected);
        break;
      case 2: done = comm.broadcast(from.first(each), root); break;
      default:
        auto const words = [&](std::span<std::byte> all) {
          return std::span(reinterpret_cast<std::uint64_t*>(all.data()), ranks * each / 8);
        };
        done = ballast::all_reduce(comm, words(from), words(to), memory);
    }
    EXPECT_TRUE(done);
    EXPECT_EQ(launch(comm.stream(),
                     [=, &found] {
                       ballast::digest all;
                       for (std::byte const byte : from) {
                         all.add(static_cast<std::uint64_t>(byte));
                       }
                       for (std::byte const byte : to) {
                         all.add(static_cast<std::uint64_t>(byte));
                       }
                       found[call] = all.value();
                     }),
              cudaSuccess);
  }
  EXPECT_TRUE(comm.barrier());
  EXPECT_EQ(cudaStreamSynchronize(comm.stream()), cudaSuccess);
  return found;
}

TEST(ProcessCopyEngineCommunicator, MovesTheBytesThatThreadsMove)
{
  ballast_test::delay_copies(std::chrono::microseconds(30));
  for (std::size_t const ranks : {2U, 4U}) {
    std::vector<std::vector<std::uint64_t>> of_threads(ranks);
    {
      cuda_streams const streams(ranks);
      ballast_test::run_copy_engine_ranks(streams.all(), waits_long, [&](auto& comm) {
        of_threads[to_index(comm.rank())] = history_of(comm);
      });
    }
    run_processes(ranks, [&](by_process& comm) {
      EXPECT_EQ(history_of(comm), of_threads[to_index(comm.rank())]);
    });
  }
  ballast_test::delay_copies(std::chrono::microseconds(0));
}

TEST(ProcessCopyEngineCommunicator, CopiesOnceWhatLiesInLentMemory)
{
  run_processes(2, [](by_process& comm) {
    auto const lent = comm.lend(100).value();
    ASSERT_EQ(lent.size(), 100U);
    memory_of_host own(100), all(200);
    std::size_t const before = ballast_test::copies_queued();
    EXPECT_TRUE(comm.all_gather(lent, all));
    EXPECT_EQ(ballast_test::copies_queued() - before, 2U);
    EXPECT_TRUE(comm.all_gather(own, all));
    EXPECT_EQ(ballast_test::copies_queued() - before, 5U);
    EXPECT_TRUE(comm.wait());         // the arrays go
    if (comm.rank() == rank_id{0}) {  // more than there was room for
      EXPECT_EQ(comm.lend(std::size_t{3} << 20U).value().size(), std::size_t{3} << 20U);
    }
  });
}

// ---- Failures ----

TEST(ProcessCopyEngineCommunicator, NamesTheProcessThatDied)
{
  for (std::size_t const ranks : {2U, 4U}) {
    shared_cuda const shared;
    auto const statuses =
        ballast_test::run_pipe_processes(ranks, time_bound, [&](pipe_communicator& host) {
          cuda_streams streams(1);
          auto comm = by_process::join(std::move(host), streams[0],
                                       {.deadline = std::chrono::milliseconds(50)});
          ASSERT_TRUE(comm) << comm.error().message;
          memory_of_host own(3), all(3 * ranks);
          EXPECT_TRUE(comm->all_gather(own, all));
          if (comm->rank() == rank_id{1}) { ::_exit(0); }
          process_conformance::expect_broken(*comm, error_code::peer_lost, {rank_id{1}});
          auto const again = comm->barrier();
          ASSERT_FALSE(again);
          EXPECT_THAT(again.error().message, HasSubstr("rank 1 left before it was complete"));
          // A stream that waits for the dead one's event may never be empty.
          ::_exit(testing::Test::HasFailure() ? 1 : 0);
        });
    EXPECT_THAT(statuses, Each(0));
    EXPECT_EQ(shared.rules_broken(), 0U);
  }
}

TEST(ProcessCopyEngineCommunicator, TellsItsPeersOfAFailureOfCuda)
{
  struct refused_call {
    char const* name;
    std::size_t before;
    bool is_met;  // the others have exchanged what they wanted
  };
  for (auto const& call :
       {refused_call{"cudaMemcpyBatchAsync", 0, false},  // to staging
        refused_call{"cudaEventRecord", 0, false}, refused_call{"cudaMemcpyBatchAsync", 1, true},
        refused_call{"cudaStreamWaitEvent", 3, true}}) {
    shared_cuda const shared;
    auto const statuses =
        ballast_test::run_pipe_processes(3, time_bound, [&](pipe_communicator& host) {
          cuda_streams const streams(1);
          auto comm = by_process::join(std::move(host), streams[0], waits_long).value();
          bool const fails = comm.rank() == rank_id{2};
          if (fails) {
            ballast_test::fail_cuda_call(call.name, call.before, cudaErrorLaunchFailure);
          }
          memory_of_host own(3), all(9);
          EXPECT_EQ(comm.all_gather(own, all).has_value(), !fails && call.is_met);
          if (fails) {
            process_conformance::expect_broken(comm, error_code::transport, {});
          } else {
            process_conformance::expect_broken(comm, error_code::peer_lost, {rank_id{2}});
          }
        });
    EXPECT_THAT(statuses, Each(0)) << call.name;
    EXPECT_EQ(shared.rules_broken(), 0U);
  }
}

TEST(ProcessCopyEngineCommunicator, SaysOnAllRanksWhatCannotBeShared)
{
  for (char const* const call :
       {"cudaStreamGetDevice", "cudaEventCreateWithFlags", "cudaIpcGetEventHandle", "cudaMalloc",
        "cudaIpcGetMemHandle", "cudaIpcOpenEventHandle", "cudaIpcOpenMemHandle"}) {
    shared_cuda const shared;
    auto const statuses =
        ballast_test::run_pipe_processes(3, time_bound, [&](pipe_communicator& host) {
          cuda_streams const streams(1);
          bool const fails = host.rank() == rank_id{1};
          bool const opens = std::string_view(call).find("Open") != std::string_view::npos;
          if (fails) { ballast_test::fail_cuda_call(call, 0, cudaErrorInvalidValue); }
          auto const comm = by_process::join(std::move(host), streams[0], waits_long);
          ASSERT_FALSE(comm);
          EXPECT_EQ(comm.error().code, fails ? error_code::transport : error_code::peer_lost);
          EXPECT_THAT(comm.error().message,
                      HasSubstr(!fails  ? "join: rank 1 left"
                                : opens ? "rank 0's memory and events cannot be opened here"
                                        : call));
        });
    EXPECT_THAT(statuses, Each(0)) << call;
  }
}

TEST(ProcessCopyEngineCommunicatorDeathTest, RefusesTheDefaultStream)
{
  auto hosts = ballast_test::pipe_group(1, time_bound);
  EXPECT_DEATH((void)by_process::join(std::move(hosts[0]), nullptr),
               "the stream of rank 0 is the legacy default stream");
}

}  // namespace

namespace ballast_test {

using process_models = testing::Types<processes<2, 50>, processes<4, 0>, process_alone>;
INSTANTIATE_TYPED_TEST_SUITE_P(Processes, Communicators, process_models);

}  // namespace ballast_test
