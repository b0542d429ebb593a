// SPDX-License-Identifier: Apache-2.0
#include <ballast/gpu/nccl_communicator.hpp>

#include "../comm/communicator_suite.hpp"  // defines: ballast_test::{Communicators, conformance}
#include "../support/hand_moved_clock.hpp"
#include "../support/test.hpp"
#include "../support/time_limits.hpp"
#include "nccl_ranks.hpp"

#include <ballast/comm/communicator.hpp>

#include <latch>

namespace {

using ballast::error_code;
using ballast::nccl_communicator_options;
using ballast::rank_id;
using ballast_test::hand_moved_clock;
using ballast_test::nccl_ranks;
using ballast_test::time_bound;
using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;

using communicator = ballast::nccl_communicator<>;
using pinned_bytes = std::vector<std::byte, ballast::pinned_allocator<std::byte>>;
using conformance = ballast_test::conformance<communicator, pinned_bytes>;

static_assert(ballast::communicator<communicator>);
static_assert(!std::is_copy_constructible_v<communicator>);

// As little alignment as an allocator may give.
template <class T>
struct barely_aligned_allocator : std::allocator<T> {
  barely_aligned_allocator() = default;
  template <class U>
  barely_aligned_allocator(barely_aligned_allocator<U> const&)
  {}
  template <class U>
  struct rebind {
    using other = barely_aligned_allocator<U>;
  };
  T* allocate(std::size_t count) { return std::allocator<T>::allocate(count + 1) + 1; }
  void deallocate(T* memory, std::size_t count)
  {
    std::allocator<T>::deallocate(memory - 1, count + 1);
  }
};

// All that is asked of memory.
template <class T>
struct minimal_allocator {
  using value_type = T;
  minimal_allocator() = default;
  template <class U>
  minimal_allocator(minimal_allocator<U> const&)
  {}
  T* allocate(std::size_t);
  void deallocate(T*, std::size_t);
  friend bool operator==(minimal_allocator, minimal_allocator) { return true; }
};
static_assert(ballast::communicator<ballast::nccl_communicator<minimal_allocator<std::byte>>>);

template <class Allocator>
concept usable_memory = requires { typename ballast::nccl_communicator<Allocator>; };
static_assert(usable_memory<std::allocator<std::byte>>);
static_assert(!usable_memory<std::allocator<float>>);

constexpr nccl_communicator_options trusting = {.deadline = time_bound, .verify = false};
constexpr nccl_communicator_options verifying = {.deadline = time_bound, .verify = true};
constexpr milliseconds deadline{500};  // which a test has pass

/// On the first of two ranks, a thread that has the deadline pass when both wait.
std::jthread passes_when_both_wait(communicator const& comm)
{
  return comm.rank() == rank_id{0} ? hand_moved_clock::passes_when(2, deadline) : std::jthread();
}

void expect_again(ballast::result<void> const& done, ballast::result<void> const& first)
{
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error(), first.error());
}

/// In the list of communicators whose ranks are threads: comparing sizes or not, over communicators
/// of NCCL that are ready at once or after so many looks.
template <bool Verify, std::size_t Polls>
struct nccl_stand_in : ballast_test::communicator_model<communicator, pinned_bytes> {
  static std::vector<std::size_t> sizes() { return {1, 2, 3, 8}; }
  static constexpr bool compares = Verify;
  struct group {
    group(std::size_t size, milliseconds patience) : ranks(size)
    {
      if (Polls > 0) { ranks.make_non_blocking(Polls); }
      comms = ranks.communicators({.deadline = patience, .verify = Verify});
    }
    nccl_ranks ranks;
    std::vector<communicator> comms;
  };
  static void expect_nothing_left()
  {
    EXPECT_EQ(ballast_test::live_communicators(), 0U);
    EXPECT_EQ(ballast_test::live_pinned_arrays(), 0U);
  }
};

// ---- Queues ----

TEST(NcclCommunicator, QueuesWithoutWaitingForItsPeers)
{
  nccl_ranks ranks(2);
  std::latch queued(1);
  ranks.run(trusting, [&](communicator& comm) {
    bool const first = to_index(comm.rank()) == 0;
    if (!first) { queued.wait(); }
    pinned_bytes send(8, std::byte{1}), receive(8, std::byte{0});
    std::vector<std::size_t> const counts = {4, 4};
    EXPECT_TRUE(comm.all_to_all_v(send, counts, receive, counts));
    EXPECT_TRUE(comm.all_gather(std::span(send).first(4), receive));
    EXPECT_TRUE(comm.broadcast(receive, rank_id{1}));
    if (first) {
      EXPECT_EQ(cudaStreamQuery(comm.stream()), cudaErrorNotReady);
      EXPECT_EQ(std::ranges::count(std::span(receive).last(4), std::byte{0}), 4);
      queued.count_down();
    }
    EXPECT_TRUE(comm.wait());
    EXPECT_EQ(cudaStreamQuery(comm.stream()), cudaSuccess);
    EXPECT_EQ(std::ranges::count(receive, std::byte{1}), 8);
  });
}

TEST(NcclCommunicator, KeepsTheOrderOfItsCalls)
{
  nccl_ranks ranks(3);
  ranks.run(trusting, [&](communicator& comm) {
    auto const self = static_cast<std::byte>(to_index(comm.rank()));
    pinned_bytes own(1, self), gathered(3), turned(3), shared(3);
    std::vector<std::size_t> const counts = {1, 1, 1};
    EXPECT_TRUE(comm.all_gather(own, gathered));
    EXPECT_TRUE(comm.all_to_all_v(gathered, counts, turned, counts));
    EXPECT_TRUE(comm.broadcast(turned, rank_id{2}));
    EXPECT_TRUE(comm.all_to_all_v(turned, counts, shared, counts));
    EXPECT_TRUE(comm.wait());
    EXPECT_EQ(gathered, (pinned_bytes{std::byte{0}, std::byte{1}, std::byte{2}}));
    EXPECT_EQ(turned, (pinned_bytes{std::byte{2}, std::byte{2}, std::byte{2}}));
    EXPECT_EQ(shared, turned);
  });
}

TEST(NcclCommunicator, SendsOneMessageToEachRankAndNoneForZeroBytes)  // Ensures (1)
{
  nccl_ranks ranks(4);
  std::size_t const before = ballast_test::messages_queued();
  ranks.run(trusting, [&](communicator& comm) {
    // To the next rank and to itself.
    std::size_t const self = to_index(comm.rank());
    std::vector<std::size_t> to(4), from(4);
    to[self] = from[self] = 5;
    to[(self + 1) % 4] = from[(self + 3) % 4] = 1000;
    pinned_bytes send(1005), receive(1005);
    EXPECT_TRUE(comm.all_to_all_v(send, to, receive, from));
    EXPECT_TRUE(comm.wait());
  });
  EXPECT_EQ(ballast_test::messages_queued() - before, 8U);
}

TEST(NcclCommunicator, AlignsItsScratchWhateverTheAllocator)
{
  using allocator = barely_aligned_allocator<std::byte>;
  nccl_ranks ranks(1);
  auto comm = ballast::nccl_communicator<allocator>::over(ranks.comm(0), ranks.stream(0)).value();
  for (std::size_t const count : {1U, 64U, 10'000U, 100U}) {
    auto const memory = comm.scratch(count);
    EXPECT_EQ(memory.size(), count);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % 64, 0U);
    std::ranges::fill(memory, std::byte{1});
  }
}

TEST(NcclCommunicator, WaitsInItsDestructorForWhatUsesItsScratch)
{
  nccl_ranks ranks(2);
  std::latch queued(1);
  pinned_bytes received(100);
  ranks.run(trusting, [&](communicator& borrowed) {
    auto const rank = to_index(borrowed.rank());
    std::optional comm = communicator::over(ranks.comm(rank), ranks.stream(rank), trusting).value();
    std::vector<std::size_t> to(2), from(2);
    if (rank == 0) {
      auto const memory = comm->scratch(100);
      std::ranges::fill(memory, std::byte{7});
      to[1] = 100;
      EXPECT_TRUE(comm->all_to_all_v(memory, to, {}, from));
      queued.count_down();
      comm.reset();
      EXPECT_EQ(cudaStreamQuery(ranks.stream(0)), cudaSuccess);
    } else {
      queued.wait();
      from[0] = 100;
      EXPECT_TRUE(comm->all_to_all_v({}, to, received, from));
      EXPECT_TRUE(comm->wait());
    }
  });
  EXPECT_EQ(std::ranges::count(received, std::byte{7}), 100);
}

// ---- What each rank was made with ----

TEST(NcclCommunicator, NamesThoseWhoseOptionsDiffer)
{
  nccl_communicator_options longer = trusting;
  longer.deadline += milliseconds(1);
  for (auto const& [option, differs] : {std::pair{"verify", verifying}, {"deadline", longer}}) {
    nccl_ranks ranks(3);
    ranks.run([&](std::size_t rank) {
      auto const comm =
          communicator::over(ranks.comm(rank), ranks.stream(rank), rank == 1 ? differs : trusting);
      ASSERT_FALSE(comm);
      EXPECT_EQ(comm.error().code, error_code::mismatch);
      EXPECT_EQ(comm.error().ranks, std::vector{rank_id{1}});
      EXPECT_THAT(comm.error().message, HasSubstr(std::string("the option ") + option));
      EXPECT_NE(ranks.comm(rank), nullptr);
      EXPECT_TRUE(communicator::over(ranks.comm(rank), ranks.stream(rank), trusting));
    });
  }
}

TEST(NcclCommunicator, IsNotMadeWhereARankDoesNotCome)
{
  hand_moved_clock clock;
  auto const passing = clock.passes_when(1, deadline);
  nccl_ranks ranks(2);
  auto const comm = communicator::over(ranks.comm(0), ranks.stream(0), {.deadline = deadline});
  ASSERT_FALSE(comm);
  EXPECT_EQ(comm.error().code, error_code::timed_out);
  EXPECT_EQ(ranks.comm(0), nullptr);
}

// ---- Graphs ----

void expect_all_freed()
{
  // A thread of its own ends what waited for a graph.
  auto const end = std::chrono::steady_clock::now() + time_bound;
  while (ballast_test::live_communicators() > 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
  EXPECT_EQ(ballast_test::live_communicators(), 0U);
}

// Nothing tells the communicator when a graph is launched, and nothing ends it while a graph lives.
TEST(NcclCommunicator, WaitsForWhatAGraphRunsAgain)
{
  hand_moved_clock clock;
  {
    nccl_ranks ranks(2);
    ranks.run({.deadline = deadline}, [&](communicator& comm) {
      pinned_bytes one(1, static_cast<std::byte>(to_index(comm.rank()) + 1)), two(2);
      ballast_test::capture(comm.stream(), true);
      EXPECT_TRUE(comm.all_gather(one, two));
      ballast_test::capture(comm.stream(), false);
      EXPECT_TRUE(comm.wait());
      EXPECT_EQ(two[1], std::byte{0}) << "it was captured and has not run";
      for (int launch = 0; launch < 3; ++launch) {
        std::ranges::fill(two, std::byte{0});
        ballast_test::launch_graph(comm.stream());
        EXPECT_TRUE(comm.wait());
        EXPECT_EQ(two, (pinned_bytes{std::byte{1}, std::byte{2}}));
      }
      if (comm.rank() == rank_id{0}) {
        ballast_test::launch_graph(comm.stream());
        auto const done = comm.wait();
        ASSERT_FALSE(done);
        EXPECT_EQ(done.error().code, error_code::timed_out);
        EXPECT_EQ(comm.native(), nullptr);
        EXPECT_EQ(cudaStreamQuery(comm.stream()), cudaSuccess) << "arrays are no longer in use";
      } else {
        clock.pass_when(1, deadline);
        clock.pass_when(1, deadline);  // NCCL waits for the graph's end
      }
      ballast_test::destroy_graph(comm.stream());
    });
  }
  expect_all_freed();
}

TEST(NcclCommunicator, WaitsInItsDestructorForWhatAGraphRuns)
{
  hand_moved_clock clock;
  {
    nccl_ranks ranks(2);
    pinned_bytes one(1), two(2);
    auto comms = ranks.communicators({.deadline = deadline});
    ballast_test::capture(ranks.stream(0), true);
    EXPECT_TRUE(comms[0].all_gather(one, two));
    ballast_test::capture(ranks.stream(0), false);
    EXPECT_TRUE(comms[0].wait());
    ballast_test::launch_graph(ranks.stream(0));
    {
      auto const passing =
          clock.passes_when(1, deadline, 2);  // then NCCL waits for the graph's end
      comms.clear();
    }
    EXPECT_EQ(ranks.comm(0), nullptr);  // given up at the deadline, since nobody came
    EXPECT_EQ(cudaStreamQuery(ranks.stream(0)), cudaSuccess);
    ballast_test::destroy_graph(ranks.stream(0));
  }
  expect_all_freed();
}

TEST(NcclCommunicator, DestroysAPartWhileAGraphLivesThatHasItsWork)
{
  hand_moved_clock clock;
  {
    nccl_ranks ranks(2);
    ranks.run({.deadline = deadline}, [&](communicator& comm) {
      pinned_bytes one(1);
      std::jthread passing;
      {
        auto part = comm.split(0).value();
        ballast_test::capture(comm.stream(), true);
        EXPECT_TRUE(part.broadcast(one, rank_id{0}));
        ballast_test::capture(comm.stream(), false);
        passing = passes_when_both_wait(comm);
      }
      EXPECT_TRUE(comm.barrier());  // and the deadline has passed
      ballast_test::destroy_graph(comm.stream());
    });
  }
  expect_all_freed();
}

// A peer's kernel waits for this thread: a free, for which CUDA may wait, would wait for ever.
TEST(NcclCommunicator, FreesNothingWhileAPeersKernelWaits)
{
  nccl_ranks ranks(2);
  auto comms = ranks.communicators({.deadline = time_bound});
  pinned_bytes own(1), all(2), own_of_peer(1), all_of_peer(2);
  (void)comms[0].scratch(1'000);
  EXPECT_TRUE(comms[1].all_gather(own_of_peer, all_of_peer));
  std::size_t const before = ballast_test::frees_behind_work();
  for (std::size_t bytes = 1'000; bytes < 1'000'000; bytes *= 3) {
    EXPECT_EQ(comms[0].scratch(bytes).size(), bytes);
  }
  EXPECT_EQ(ballast_test::frees_behind_work(), before);
  EXPECT_TRUE(comms[0].all_gather(own, all));
  EXPECT_TRUE(comms[1].wait());
  EXPECT_TRUE(comms[0].wait());
}

// ---- Ranks that do not come ----

// Who is missing only the words tell that ranks compare: in split always.
TEST(NcclCommunicator, EndsAtTheDeadline)
{
  hand_moved_clock clock;
  using operation = ballast::result<void> (*)(communicator&);
  operation const barrier = [](communicator& comm) { return comm.barrier(); };
  operation const split = [](communicator& comm) -> ballast::result<void> {
    auto const part = comm.split(1);
    return part ? ballast::result<void>() : tl::unexpected(part.error());
  };
  for (bool const verify : {false, true}) {
    for (auto const& [call, names] : {std::pair{barrier, verify}, {split, true}}) {
      nccl_ranks ranks(3);
      ranks.run({.deadline = deadline, .verify = verify}, [&](communicator& comm) {
        if (comm.rank() == rank_id{0}) { return clock.pass_when(2, deadline); }
        auto const done = call(comm);
        ASSERT_FALSE(done);
        EXPECT_EQ(done.error().code, error_code::timed_out);
        EXPECT_THAT(done.error().message, HasSubstr(call == split ? "split: " : "barrier: "));
        EXPECT_EQ(done.error().ranks, names ? std::vector{rank_id{0}} : std::vector<rank_id>());
        EXPECT_EQ(comm.native(), nullptr);
        if (!verify) {
          conformance::expect_broken(comm, error_code::timed_out, done.error().ranks);
        }
      });
    }
  }
  EXPECT_EQ(ballast_test::live_communicators(), 0U);
}

TEST(NcclCommunicator, EndsAtTheDeadlineWhereSizesDifferUnverified)
{
  hand_moved_clock clock;
  nccl_ranks ranks(2);
  ranks.run({.deadline = deadline}, [](communicator& comm) {
    pinned_bytes memory(9);
    std::vector<std::size_t> const none = {0, 0};
    std::vector<std::size_t> const to_second = {0, 4};
    std::vector<std::size_t> const from_first = {5, 0};
    EXPECT_TRUE(comm.rank() == rank_id{0}
                    ? comm.all_to_all_v(std::span(memory).first(4), to_second, {}, none)
                    : comm.all_to_all_v({}, none, std::span(memory).last(5), from_first));
    auto const passing = passes_when_both_wait(comm);
    auto const done = comm.wait();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, error_code::timed_out);
  });
}

TEST(NcclCommunicator, IsNotGivenUpByAWaitWhileTheStreamIsCaptured)
{
  for (bool const verify : {false, true}) {
    nccl_ranks ranks(3);
    ranks.run({.deadline = time_bound, .verify = verify}, [&](communicator& comm) {
      pinned_bytes one(1), three(3);
      if (!verify) { EXPECT_TRUE(comm.all_gather(one, three)); }
      ballast_test::capture(comm.stream(), true);
      auto const expect_refused = [](auto const& done) {
        ASSERT_FALSE(done);
        EXPECT_EQ(done.error().code, error_code::wrong_order) << done.error().message;
      };
      expect_refused(comm.barrier());
      expect_refused(comm.split(0));
      expect_refused(verify ? comm.all_gather(one, three) : comm.wait());
      ballast_test::capture(comm.stream(), false);
      EXPECT_TRUE(comm.barrier());
      EXPECT_NE(comm.native(), nullptr);
    });
  }
}

// The array of the rank that gave up is gone when its peer comes.
TEST(NcclCommunicator, LeavesArraysAloneOnceItGaveUp)  // Ensures (2)
{
  hand_moved_clock clock;
  nccl_ranks ranks(2);
  std::latch gone(1);
  ranks.run({.deadline = deadline}, [&](communicator& comm) {
    std::vector<std::size_t> const counts = {50, 50};
    if (comm.rank() == rank_id{1}) {
      clock.pass_when(1, deadline);
      gone.wait();
    }
    {
      pinned_bytes send(100), receive(100);
      EXPECT_TRUE(comm.all_to_all_v(send, counts, receive, counts));
      auto const done = comm.wait();
      ASSERT_FALSE(done);
      EXPECT_EQ(done.error().code, error_code::timed_out);
    }
    if (comm.rank() == rank_id{0}) {
      gone.count_down();
      clock.pass_when(1, deadline);
    }
  });
}

TEST(NcclCommunicator, HasArraysForItselfWhereAnAbortReturnsBeforeItsKernelsEnd)  // Ensures (2)
{
  hand_moved_clock clock;
  nccl_ranks ranks(3);
  ballast_test::abort_before_kernels_end(milliseconds(100));
  ranks.run({.deadline = deadline}, [&](communicator& comm) {
    if (comm.rank() == rank_id{2}) { return clock.pass_when(2, deadline); }
    pinned_bytes own(3), all(9);
    EXPECT_TRUE(comm.all_gather(own, all));
    EXPECT_FALSE(comm.wait());
    EXPECT_EQ(cudaStreamQuery(comm.stream()), cudaSuccess);
  });
  ballast_test::abort_before_kernels_end(milliseconds(0));
}

TEST(NcclCommunicator, ComesBackFromAnAbortThatWaitsForAnotherStream)  // Ensures (2)
{
  hand_moved_clock clock;
  {
    nccl_ranks first(2);
    nccl_ranks second(2);
    ballast_test::have_aborts_wait_for_all_kernels(true);
    pinned_bytes own(1), all(2);
    auto in_first = first.communicators({.deadline = deadline});
    auto in_second = second.communicators({.deadline = deadline});
    EXPECT_TRUE(in_first[0].all_gather(own, all));
    EXPECT_TRUE(in_second[0].all_gather(own, all));
    {
      auto const passing = clock.passes_when(1, deadline, 2);  // then NCCL waits
      EXPECT_FALSE(in_first[0].wait());
    }
    EXPECT_EQ(first.comm(0), nullptr);
    EXPECT_EQ(cudaStreamQuery(first.stream(0)), cudaSuccess);
    EXPECT_NE(second.comm(0), nullptr) << "its own deadline has not passed";
    auto const passing = clock.passes_when(1, deadline);
    EXPECT_FALSE(in_second[0].wait());
    EXPECT_EQ(cudaStreamQuery(second.stream(0)), cudaSuccess);
  }
  ballast_test::have_aborts_wait_for_all_kernels(false);
  expect_all_freed();
}

TEST(NcclCommunicator, BlamesNobodyWhereNcclCannotConnect)
{
  hand_moved_clock clock;
  for (bool const verify : {false, true}) {
    nccl_ranks ranks(2);
    ranks.run({.deadline = deadline, .verify = verify}, [&](communicator& comm) {
      auto const passing = passes_when_both_wait(comm);
      ballast_test::make_non_blocking(comm.native(), ballast_test::never);
      conformance::expect_broken(comm, error_code::timed_out, {});
    });
  }
}

// A rank that leaves in the midst of a step, or has another communicator there: its owner gets the
// error, and destroys nothing twice.
TEST(NcclCommunicator, TellsTheOwnerWhatWasAborted)  // Ensures (3)
{
  hand_moved_clock clock;
  for (bool const assigned : {false, true}) {
    nccl_ranks ranks(2);
    nccl_ranks next(1);
    {
      pinned_bytes own(4), all(8);
      auto comms = ranks.communicators({.deadline = deadline});
      auto const passing = clock.passes_when(1, deadline);  // not while ranks wait to connect
      EXPECT_TRUE(comms[0].all_gather(own, all));
      if (assigned) {
        comms[0] = communicator::over(next.comm(0), next.stream(0), trusting).value();
        EXPECT_EQ(comms[0].native(), next.comm(0));
        EXPECT_TRUE(comms[0].barrier());
      }
      comms.clear();
    }
    EXPECT_EQ(ranks.comm(0), nullptr);
    EXPECT_NE(ranks.comm(1), nullptr);
    EXPECT_EQ(ballast_test::live_communicators(), 2U);  // and that of `next`
  }
}

TEST(NcclCommunicator, GivesPinnedMemoryNoDeviceToWaitFor)
{
  hand_moved_clock clock;
  nccl_ranks ranks(2);
  auto comms = ranks.communicators({.deadline = deadline});
  auto passing = clock.passes_when(1, deadline);
  std::size_t const before = ballast_test::pinned_calls_behind_work();
  {
    pinned_bytes own(4), all(8);
    {
      auto comm = std::move(comms[0]);
      (void)comm.scratch(100);
      EXPECT_TRUE(comm.all_gather(own, all));
      EXPECT_EQ(comm.scratch(100'000).size(), 100'000U);
      auto const done = comm.wait();
      ASSERT_FALSE(done);
      EXPECT_EQ(done.error().code, error_code::timed_out);
      EXPECT_EQ(ranks.comm(0), nullptr);
    }
    EXPECT_TRUE(comms[1].all_gather(own, all));
    passing = clock.passes_when(1, deadline);
    comms.clear();
  }
  EXPECT_EQ(ballast_test::pinned_calls_behind_work(), before);
}

// ---- Failures of the libraries beneath ----

TEST(NcclCommunicator, ReportsAnAsynchronousErrorAndAborts)
{
  hand_moved_clock clock;
  nccl_ranks ranks(3);
  ranks.run({.deadline = deadline}, [&](communicator& comm) {
    bool const cut_off = comm.rank() == rank_id{1};
    pinned_bytes own(10), all(30);
    EXPECT_TRUE(comm.all_gather(own, all));
    EXPECT_TRUE(comm.wait());
    EXPECT_TRUE(comm.barrier());
    if (cut_off) { ballast_test::fail_asynchronously(comm.native(), ncclRemoteError); }
    // Its peers have their part of this one, or not; but none of them gets through the next.
    (void)comm.all_gather(own, all);
    auto done = comm.wait();
    if (done && !cut_off) { done = comm.barrier(); }
    if (cut_off) { clock.pass_when(2, deadline); }
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, cut_off ? error_code::transport : error_code::timed_out);
    if (cut_off) {
      EXPECT_EQ(done.error().position, static_cast<std::size_t>(ncclRemoteError));
      EXPECT_THAT(done.error().message,
                  AllOf(HasSubstr("remote process exited"), HasSubstr("a link went down")));
    }
    EXPECT_EQ(comm.native(), nullptr);
    expect_again(comm.broadcast(own, rank_id{0}), done);
    expect_again(comm.wait(), done);
  });
  EXPECT_EQ(ballast_test::live_communicators(), 0U);
}

TEST(NcclCommunicator, ReportsACallThatFails)
{
  pinned_bytes memory(8);
  std::vector<std::size_t> const counts = {8};
  auto const expect_named = [&](char const* call, std::size_t calls_before, auto operation) {
    SCOPED_TRACE(call);
    nccl_ranks ranks(1);
    ranks.run(trusting, [&](communicator& comm) {
      ballast_test::fail_call(comm.native(), calls_before, ncclInvalidArgument);
      ballast::result<void> const done = operation(comm);
      ASSERT_FALSE(done);
      EXPECT_EQ(done.error().code, error_code::transport);
      EXPECT_EQ(done.error().position, static_cast<std::size_t>(ncclInvalidArgument));
      EXPECT_THAT(done.error().message,
                  AllOf(HasSubstr(std::string(call).append(" failed with code 4")),
                        HasSubstr("invalid argument"), HasSubstr("told to fail")));
      EXPECT_EQ(comm.native(), nullptr);
      expect_again(operation(comm), done);
    });
  };
  pinned_bytes other(8);
  expect_named("ncclAllGather", 0, [&](communicator& c) { return c.all_gather(memory, other); });
  expect_named("ncclBroadcast", 0,
               [&](communicator& c) { return c.broadcast(memory, rank_id{0}); });
  expect_named("ncclAllReduce", 0, [](communicator& c) { return c.barrier(); });
  auto const exchange = [&](communicator& c) {
    return c.all_to_all_v(memory, counts, other, counts);
  };
  expect_named("ncclSend", 0, exchange);
  expect_named("ncclRecv", 1, exchange);
  // A roll call of one rank, a send and a receive, goes before.
  expect_named("ncclCommSplit", 2, [](communicator& c) -> ballast::result<void> {
    if (auto part = c.split(0); !part) { return tl::unexpected(part.error()); }
    return {};
  });
}

TEST(NcclCommunicator, LeavesNoGroupOpenBehindACallThatFails)
{
  nccl_ranks broken(1);
  nccl_ranks healthy(1);
  pinned_bytes send(8, std::byte{3}), receive(8);
  std::vector<std::size_t> const counts = {8};
  auto first = communicator::over(broken.comm(0), broken.stream(0), trusting).value();
  auto second = communicator::over(healthy.comm(0), healthy.stream(0), trusting).value();
  ballast_test::fail_call(broken.comm(0), 0, ncclSystemError);
  EXPECT_FALSE(first.all_to_all_v(send, counts, receive, counts));
  EXPECT_TRUE(second.all_to_all_v(send, counts, receive, counts));
  EXPECT_TRUE(second.wait());
  EXPECT_EQ(receive, send);
}

TEST(NcclCommunicator, ReportsAFailedStream)
{
  nccl_ranks ranks(1);
  ranks.run(trusting, [](communicator& comm) {
    ballast_test::fail_stream(comm.stream(), cudaErrorLaunchFailure);
    auto const done = comm.barrier();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, error_code::transport);
    EXPECT_EQ(done.error().position, static_cast<std::size_t>(cudaErrorLaunchFailure));
    EXPECT_THAT(done.error().message, HasSubstr("cudaStreamQuery failed with code 719: unspecified "
                                                "launch failure"));
    EXPECT_EQ(comm.native(), nullptr);
  });
}

TEST(NcclCommunicator, ReportsACommunicatorThatIsNone)
{
  ncclComm_t none = nullptr;
  auto const comm = communicator::over(none, nullptr);
  ASSERT_FALSE(comm);
  EXPECT_EQ(comm.error().code, error_code::transport);
  EXPECT_EQ(comm.error().position, static_cast<std::size_t>(ncclInvalidArgument));
}

// ---- Whose handles ----

TEST(NcclCommunicator, DestroysWhatItSplitOffAndNothingBorrowed)
{
  nccl_ranks ranks(4);
  ranks.run(trusting, [&](communicator& comm) {
    auto const mine = to_index(comm.rank());
    EXPECT_EQ(comm.native(), ranks.comm(mine));
    EXPECT_EQ(comm.stream(), ranks.stream(mine));
    {
      auto part = comm.split(static_cast<std::uint32_t>(mine % 2)).value();
      EXPECT_NE(part.native(), comm.native());
      EXPECT_EQ(part.stream(), comm.stream());
      EXPECT_TRUE(comm.barrier());
      EXPECT_EQ(ballast_test::live_communicators(), 8U);
      EXPECT_TRUE(comm.barrier());
      communicator moved = std::move(part);
      moved = moved.split(0).value();  // the one it was is destroyed
      EXPECT_TRUE(comm.barrier());
      EXPECT_EQ(ballast_test::live_communicators(), 8U);
      EXPECT_TRUE(comm.barrier());
    }
    EXPECT_TRUE(comm.barrier());
    EXPECT_EQ(ballast_test::live_communicators(), 4U);
    EXPECT_TRUE(comm.barrier());
  });
  EXPECT_EQ(ballast_test::live_communicators(), 4U);
}

TEST(NcclCommunicator, SurvivesItsPartsFailure)
{
  hand_moved_clock clock;
  nccl_ranks ranks(3);
  std::latch broken(1);
  ranks.run({.deadline = deadline, .verify = true}, [&](communicator& comm) {
    {
      auto part = comm.split(to_index(comm.rank()) == 0 ? 9 : 8).value();
      if (comm.rank() == rank_id{1}) {
        conformance::expect_broken(part, error_code::timed_out, {rank_id{1}});
        broken.count_down();
      } else if (comm.rank() == rank_id{2}) {
        clock.pass_when(1, deadline);
      }
    }
    broken.wait();
    EXPECT_TRUE(comm.barrier());
  });
  EXPECT_EQ(ballast_test::live_communicators(), 3U);
}

// Rank 1 does not come to its part: whatever rank 0 has behind that can never be done.
TEST(NcclCommunicator, BreaksWithAPartThatItsWorkIsBehind)
{
  hand_moved_clock clock;
  nccl_ranks ranks(2);
  ranks.run({.deadline = deadline}, [&](communicator& comm) {
    pinned_bytes own(1), all(2);
    auto part = comm.split(0).value();
    if (comm.rank() == rank_id{0}) { EXPECT_TRUE(part.all_gather(own, all)); }
    EXPECT_TRUE(comm.all_gather(own, all));
    auto const passing = passes_when_both_wait(comm);
    auto const done = comm.wait();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, error_code::timed_out);
    if (comm.rank() == rank_id{0}) {
      expect_again(part.wait(), done);
      EXPECT_EQ(part.native(), nullptr);
      EXPECT_EQ(cudaStreamQuery(comm.stream()), cudaSuccess);
    } else {
      EXPECT_TRUE(part.wait()) << "it did nothing there";
    }
  });
  EXPECT_EQ(ballast_test::live_communicators(), 0U);
}

TEST(NcclCommunicator, SurvivesAPartThatItHasNothingBehind)
{
  hand_moved_clock clock;
  nccl_ranks ranks(2);
  ranks.run({.deadline = deadline}, [&](communicator& comm) {
    pinned_bytes own(1), all(2);
    auto part = comm.split(0).value();
    if (comm.rank() == rank_id{0}) {
      EXPECT_TRUE(part.all_gather(own, all));
      EXPECT_TRUE(comm.wait());
      EXPECT_FALSE(part.wait());
      EXPECT_EQ(cudaStreamQuery(comm.stream()), cudaSuccess);
    } else {
      clock.pass_when(1, deadline);
    }
    EXPECT_NE(comm.native(), nullptr);
  });
  ranks.run(trusting, [](communicator& comm) { EXPECT_TRUE(comm.barrier()); });
}

TEST(NcclCommunicator, BreaksWhereItsPartDoesNotComeUp)
{
  hand_moved_clock clock;
  nccl_ranks ranks(2);
  ballast_test::make_parts_non_blocking(ranks.comm(0), ballast_test::never);
  ranks.run({.deadline = deadline}, [&](communicator& comm) {
    auto const passing = passes_when_both_wait(comm);
    auto const part = comm.split(0);
    EXPECT_EQ(part.has_value(), comm.rank() == rank_id{1});
    auto const done = comm.barrier();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, error_code::timed_out);
    if (!part) { EXPECT_EQ(done.error(), part.error()); }
    EXPECT_EQ(comm.native(), nullptr);
  });
  EXPECT_EQ(ballast_test::live_communicators(), 0U);
}

TEST(NcclCommunicator, LosesNoHandleWhenASplitFails)
{
  nccl_ranks ranks(1);
  ranks.run(trusting, [&](communicator& comm) {
    EXPECT_TRUE(comm.barrier());
    ballast_test::refuse_pinned_memory(true);
    EXPECT_THROW((void)comm.split(0), std::bad_alloc);
    ballast_test::refuse_pinned_memory(false);
    EXPECT_EQ(ballast_test::live_communicators(), 1U);
    EXPECT_TRUE(comm.barrier());
  });
}

// ---- Preconditions ----

TEST(NcclCommunicatorDeathTest, RefusesAnOwnPartOfAnotherSize)
{
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  pinned_bytes four(4), five(5);
  EXPECT_DEATH(
      {
        nccl_ranks ranks(1);
        auto comm = communicator::over(ranks.comm(0), ranks.stream(0), trusting).value();
        (void)comm.all_to_all_v(four, std::vector<std::size_t>{4}, five,
                                std::vector<std::size_t>{5});
      },
      "rank 0 sends itself 4 bytes and receives 5 from itself");
}

TEST(NcclCommunicatorDeathTest, RefusesToVerifyWithinAnOpenGroup)
{
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        nccl_ranks ranks(1);
        auto comm = communicator::over(ranks.comm(0), ranks.stream(0), verifying).value();
        (void)ncclGroupStart();
        (void)comm.barrier();
      },
      "no_group_was_open");
}

}  // namespace

namespace ballast_test {

using nccl_models = testing::Types<nccl_stand_in<false, 0>, nccl_stand_in<true, 0>,
                                   nccl_stand_in<false, 3>, nccl_stand_in<true, 1>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Nccl, Communicators, nccl_models);
INSTANTIATE_TYPED_TEST_SUITE_P(Nccl, CommunicatorsOfThreads, nccl_models);

}  // namespace ballast_test
