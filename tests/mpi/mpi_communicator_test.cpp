// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm/mpi_communicator.hpp>

#include "../comm/communicator_suite.hpp"  // defines: ballast_test::{Communicators, conformance, ...}
#include "../support/test.hpp"
#include "mpi_world.hpp"  // defines: ballast_test::{over_world, world_barrier, stop_in, ...}

#include <ballast/comm/communicator.hpp>

#include <csignal>
#include <deque>
#include <new>

namespace {

using ballast::error_code;
using ballast::mpi_communicator;
using ballast::rank_id;
using ballast::result;
using ballast_test::over_world;
using ballast_test::world_barrier;
using suite = ballast_test::conformance<mpi_communicator>;
using namespace std::chrono_literals;

static_assert(ballast::communicator<mpi_communicator>);
static_assert(!std::is_copy_constructible_v<mpi_communicator>);

/// In the list of communicators that the suite runs over: comparing sizes or not, with messages that
/// are cut from so many bytes on, some into parts of unequal length.
template <bool Verify, std::size_t Largest>
struct mpi_jobs : ballast_test::communicator_model<mpi_communicator> {
  static std::vector<std::size_t> sizes() { return {ballast_test::world_size()}; }
  static constexpr bool compares = Verify;
  static constexpr bool counts = Verify && Largest > 1000;
  template <class Body>
  static void run(std::size_t, Body const& body)
  {
    auto comm = over_world({.deadline = 20s, .verify = Verify, .largest_message = Largest});
    body(comm);
  }
};

// ---- What is particular to MPI ----

TEST(MpiCommunicator, KeepsItsMessagesApartFromTheCallers)
{
  auto comm = over_world();
  int const size = static_cast<int>(comm.size());
  int const rank = static_cast<int>(to_index(comm.rank()));
  int received = -1;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Irecv(&received, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);

  std::vector<std::size_t> const counts(comm.size(), 3);
  std::vector<std::byte> const send(3 * comm.size(), std::byte{7});
  std::vector<std::byte> receive(3 * comm.size());
  EXPECT_TRUE(comm.all_to_all_v(send, counts, receive, counts));
  EXPECT_EQ(receive, send);

  MPI_Send(&rank, 1, MPI_INT, (rank + 1) % size, 5, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  EXPECT_EQ(received, (rank + size - 1) % size);
}

TEST(MpiCommunicator, CanBeMovedBetweenOperations)
{
  auto first = over_world();
  EXPECT_TRUE(first.barrier());
  auto second = std::move(first);
  EXPECT_TRUE(second.barrier());
  first = over_world();
  EXPECT_TRUE(first.barrier());
  second = std::move(first);
  EXPECT_TRUE(second.barrier());
}

// MPI's communicators in use are limited. It tells of each copy's beginning and end whoever has
// attached a number to the original.
TEST(MpiCommunicator, GivesItsCommunicatorsBack)
{
  struct counts {
    int made = 0;
    int freed = 0;
  } copies;
  auto* const made = +[](MPI_Comm, int, void*, void* value, void* copied, int* is_copied) -> int {
    ++static_cast<counts*>(value)->made;
    *static_cast<void**>(copied) = value;
    *is_copied = 1;
    return MPI_SUCCESS;
  };
  auto* const freed = +[](MPI_Comm, int, void* value, void*) -> int {
    ++static_cast<counts*>(value)->freed;
    return MPI_SUCCESS;
  };
  int key = MPI_KEYVAL_INVALID;
  ASSERT_EQ(MPI_Comm_create_keyval(made, freed, &key, nullptr), MPI_SUCCESS);
  ASSERT_EQ(MPI_Comm_set_attr(MPI_COMM_WORLD, key, &copies), MPI_SUCCESS);
  for (int round = 0; round < 10; ++round) {
    auto comm = over_world();
    auto part = comm.split(0);
    EXPECT_TRUE(part && part->barrier());
  }
  EXPECT_GE(copies.made, 10);
  EXPECT_EQ(copies.freed, copies.made);
  MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
  MPI_Comm_free_keyval(&key);
}

// Rank 0 waits for rank 1, and no other rank waits.
result<void> one_byte_from_1_to_0(mpi_communicator& comm)
{
  std::vector<std::size_t> sent(comm.size(), 0), received(comm.size(), 0);
  sent[0] = comm.rank() == rank_id{1} ? 1 : 0;
  received[1] = comm.rank() == rank_id{0} ? 1 : 0;
  std::vector<std::byte> const send(sent[0]);
  static std::byte place{};  // stays as long as MPI
  return comm.all_to_all_v(send, sent, std::span(&place, received[1]), received);
}

// Ranks that had finished `first` get the error at the next operation.
void expect_missing(mpi_communicator& comm, result<void> const& first,
                    std::vector<rank_id> const& ranks)
{
  auto const done = first ? comm.barrier() : first;
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, error_code::timed_out);
  EXPECT_EQ(done.error().ranks, ranks) << done.error().message;
}

TEST(MpiCommunicator, NamesTheRanksThatDoNotCome)
{
  std::size_t const size = ballast_test::world_size();
  if (size < 2) { return; }
  for (std::vector<rank_id> const& missing : suite::absences(size)) {
    // Half of them do without the meeting, and find out while they wait for bytes.
    ballast_test::clock_of_processes clock(size - missing.size());
    auto comm = over_world({.deadline = 2s, .verify = missing.size() == 1});
    bool const absent = std::ranges::count(missing, comm.rank()) > 0;
    if (!absent) { clock.waits_until(comm.deadline()); }
    if (!absent) { suite::expect_broken(comm, error_code::timed_out, missing); }
    world_barrier();
    // A rank that comes when the others have given up gets the same error.
    if (absent) { suite::expect_broken(comm, error_code::timed_out, missing); }
    world_barrier();
  }
}

TEST(MpiCommunicator, NamesTheRanksThatDoNotComeByTheirPlaceInTheirPart)
{
  auto comm = over_world();
  if (comm.size() < 4) { return; }
  std::size_t const self = to_index(comm.rank());
  ballast_test::clock_of_processes clock((comm.size() - 2) / 2);
  auto slow = over_world({.deadline = 2s});
  auto part = slow.split(static_cast<std::uint32_t>(self % 2));
  ASSERT_TRUE(part) << part.error().message;
  bool const absent = self == 3;
  if (self % 2 == 0) {
    EXPECT_TRUE(part->barrier());
  } else if (!absent) {
    clock.waits_until(slow.deadline());
    suite::expect_broken(*part, error_code::timed_out, {rank_id{1}});
  }
  EXPECT_TRUE(comm.barrier());
  EXPECT_TRUE(slow.barrier()) << "a broken part must not break the whole";
}

// Without `verify` ranks get ahead of those that wait. They are here if they wait themselves.
TEST(MpiCommunicator, DoesNotMissRanksThatWaitFurtherOn)
{
  if (ballast_test::world_size() < 3) { return; }
  ballast_test::clock_of_processes clock(ballast_test::world_size() - 1);
  auto comm = over_world({.deadline = 2s, .verify = false});
  std::vector<rank_id> const missing = {rank_id{1}};
  if (comm.rank() != missing[0]) { clock.waits_until(comm.deadline()); }
  if (comm.rank() != missing[0]) { expect_missing(comm, one_byte_from_1_to_0(comm), missing); }
  world_barrier();
  if (comm.rank() == missing[0]) { expect_missing(comm, one_byte_from_1_to_0(comm), missing); }
  world_barrier();
}

// But while they compute they are as silent as the one that hangs, and learn of it afterwards. They
// do not call MPI in between, so messages that were sent to them in the meantime have not arrived.
TEST(MpiCommunicator, NamesTheSameRanksEverywhere)
{
  std::size_t const size = ballast_test::world_size();
  if (size < 3) { return; }
  std::vector<rank_id> silent;
  for (std::size_t rank = 1; rank < size; ++rank) {
    silent.push_back(ballast::to_id<rank_id>(rank));
  }
  ballast_test::shared_flag rank_0_gave_up;
  ballast_test::clock_of_processes clock(1);
  auto comm = over_world({.deadline = 2s, .verify = false});
  bool const absent = comm.rank() == rank_id{1};
  if (comm.rank() == rank_id{0}) { clock.waits_until(comm.deadline()); }
  result<void> first;
  if (!absent) { first = one_byte_from_1_to_0(comm); }
  EXPECT_EQ(first.has_value(), comm.rank() != rank_id{0});
  if (!first) { rank_0_gave_up.raise(); }
  EXPECT_TRUE(rank_0_gave_up.wait());
  if (absent) { first = one_byte_from_1_to_0(comm); }
  expect_missing(comm, first, silent);
  world_barrier();
}

// Pairs of ranks whose sizes nobody compares: rank 0 sends `sent` bytes and rank 1 expects another
// number, at least one, by each operation. Nothing is written past the end of an array.
TEST(MpiCommunicator, WritesNothingPastTheEndWithoutComparingSizes)
{
  auto comm = over_world({.deadline = 20s, .verify = false});
  std::size_t const pairs = comm.size() / 2;
  constexpr std::byte guard{0xa5};
  for (std::size_t const sent : {2U, 100U, 4'096U, 5'000U, 70'000U, 1'048'576U}) {
    for (std::size_t const expected : {sent - 1, sent / 2, sent + 1}) {
      for (auto const what : {ballast::collective::all_to_all_v, ballast::collective::broadcast,
                              ballast::collective::all_gather}) {
        auto pair = comm.split(static_cast<std::uint32_t>(to_index(comm.rank()) / 2)).value();
        if (to_index(comm.rank()) >= 2 * pairs) { continue; }
        bool const sends = pair.rank() == rank_id{0};
        std::size_t const bytes = sends ? sent : expected;
        static std::deque<std::vector<std::byte>> kept;  // as MPI may use them after a failure
        auto const& out = kept.emplace_back(bytes, std::byte{1});
        auto& in = kept.emplace_back(3 * bytes + 64, guard);
        std::vector<std::size_t> const none{0, 0}, leaving{0, bytes}, coming{bytes, 0};
        result<void> done;
        std::size_t room = bytes;
        if (what == ballast::collective::all_to_all_v && sends) {
          done = pair.all_to_all_v(out, leaving, {}, none);
        } else if (what == ballast::collective::all_to_all_v) {
          done = pair.all_to_all_v({}, none, std::span(in).first(bytes), coming);
        } else if (what == ballast::collective::broadcast) {
          done = pair.broadcast(std::span(in).first(bytes), rank_id{0});
        } else {
          room = 2 * bytes;
          done = pair.all_gather(out, std::span(in).first(room));
        }
        auto const past = std::span(in).subspan(room);
        EXPECT_EQ(std::ranges::count(past, guard), std::ssize(past)) << sent << " " << expected;
        bool const finds_out = !sends || what == ballast::collective::all_gather;
        EXPECT_EQ(done.has_value(), !finds_out);
        if (done) { continue; }
        EXPECT_EQ(done.error().code, error_code::mismatch) << done.error().message;
        EXPECT_EQ(done.error().ranks, std::vector{sends ? rank_id{1} : rank_id{0}});
        EXPECT_EQ(pair.wait().error(), done.error()) << "bytes may have moved";
      }
    }
  }
}

// What a rank sends to itself goes past MPI, but not past the end of `receive`.
TEST(MpiCommunicator, RefusesAnOwnPartThatIsLongerThanItsPlace)
{
  auto comm = over_world({.deadline = 20s, .verify = false});
  std::size_t const self = to_index(comm.rank());
  std::vector<std::size_t> sent(comm.size(), 0), received(comm.size(), 0);
  sent[self] = 64;
  received[self] = 32;
  std::vector<std::byte> const send(64, std::byte{1});
  std::vector<std::byte> receive(64);
  std::span<std::byte> const in_use = comm.scratch(1000);
  std::ranges::fill(in_use, std::byte{1});
  auto const done = comm.all_to_all_v(send, sent, std::span(receive).first(32), received);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, error_code::mismatch);
  EXPECT_EQ(done.error().ranks, std::vector{comm.rank()});
  EXPECT_EQ(std::ranges::count(receive, std::byte{0}), 64);
  EXPECT_EQ(comm.wait().error(), done.error());
  std::ranges::fill(comm.scratch(100'000), std::byte{2});
  EXPECT_EQ(std::ranges::count(in_use, std::byte{1}), 1000) << "MPI may still write there";
  world_barrier();
}

// In a call of more messages than any before, and before the first of them.
TEST(MpiCommunicator, NamesItselfWhereItsMemoryRanOut)
{
  if (!ballast_test::allocations_can_fail()) { GTEST_SKIP() << "operator new is a sanitizer's"; }
  auto comm = over_world({.verify = false, .largest_message = 100});
  if (comm.size() < 2) { return; }
  std::vector<std::byte> const own(5000);
  std::vector<std::byte> all(5000 * comm.size());
  bool threw = false;
  try {
    ballast_test::failing_allocation const failing(1);
    (void)comm.all_gather(own, all);
  } catch (std::bad_alloc const&) {
    threw = true;
  }
  EXPECT_TRUE(threw);
  suite::expect_broken(comm, error_code::peer_lost, {comm.rank()});
}

TEST(MpiCommunicator, IsMadeOfRanksWithTheSameOptions)  // Errors: mismatch
{
  if (ballast_test::world_size() < 2) { return; }
  ballast::mpi_communicator_options const usual{.deadline = 20s};
  auto verify = usual;
  verify.verify = false;
  auto deadline = usual;
  deadline.deadline += 1ms;
  auto largest = usual;
  largest.largest_message = 1;  // less than a word that ranks compare
  for (auto const& [name, other] :
       {std::pair("verify", verify), {"deadline", deadline}, {"largest_message", largest}}) {
    std::size_t const self = ballast_test::world_rank();
    auto const made =
        mpi_communicator::over(MPI_COMM_WORLD, self == 1 || self == 3 ? other : usual);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, error_code::mismatch);
    EXPECT_EQ(made.error().ranks.front(), rank_id{1});
    EXPECT_NE(made.error().message.find(std::string("the option ") + name), std::string::npos)
        << made.error().message;
    EXPECT_TRUE(over_world().barrier());
  }
}

TEST(MpiCommunicator, ExpectsADeadline)
{
  if (ballast_test::world_size() != 1) { return; }  // or each rank would have a child
  EXPECT_DEATH((void)mpi_communicator::over(MPI_COMM_WORLD, {.deadline = 0s}), "deadline");
}

// Stopped wherever it happens to be within an exchange or a split, over and over, and let go when all
// others have given up.
TEST(MpiCommunicator, NamesTheRankThatIsStopped)
{
  auto const processes = ballast_test::world_processes();
  for (auto const delay : {100ms, 7ms, 20ms, 33ms}) {
    auto comm = over_world({.deadline = 2s});
    if (comm.size() < 2) { return; }
    rank_id const stopped{1};
    std::vector<std::size_t> const counts(comm.size(), 500'000);
    std::vector<std::byte> const send(500'000 * comm.size());
    std::vector<std::byte> receive(send.size());
    auto const call = [&]() -> result<void> {
      if (delay == 100ms) { return comm.all_to_all_v(send, counts, receive, counts); }
      auto const part = comm.split(0);
      return part ? result<void>() : tl::unexpected(part.error());
    };
    EXPECT_TRUE(comm.barrier());
    if (comm.rank() == stopped) { ballast_test::stop_in(delay); }

    auto done = call();
    while (done) { done = call(); }
    EXPECT_EQ(done.error().code, error_code::timed_out);
    EXPECT_EQ(done.error().ranks, std::vector{stopped}) << done.error().message;
    if (comm.rank() == rank_id{0}) {
      for (std::size_t other = 2; other < comm.size(); ++other) {
        MPI_Recv(nullptr, 0, MPI_BYTE, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      }
      kill(processes[to_index(stopped)], SIGCONT);
    } else if (comm.rank() != stopped) {
      MPI_Send(nullptr, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
    world_barrier();  // the arrays stay until no rank is in the middle of a message
  }
}

// ---- Splits ----

TEST(MpiCommunicatorSplit, NamesTheMissing)
{
  ballast_test::clock_of_processes clock(ballast_test::world_size() - 1);
  auto comm = over_world({.deadline = 2s});
  if (comm.size() < 2) { return; }
  bool const absent = comm.rank() == rank_id{1};
  if (absent) { world_barrier(); }
  if (!absent) { clock.waits_until(comm.deadline()); }
  auto const part = comm.split(0);
  ASSERT_FALSE(part);
  EXPECT_EQ(part.error().code, error_code::timed_out);
  EXPECT_EQ(part.error().ranks, std::vector{rank_id{1}}) << part.error().message;
  if (!absent) { world_barrier(); }
  world_barrier();
}

// Groups of one colour and of another have the same tags, and each its own messages.
TEST(MpiCommunicatorSplit, KeepsTheMessagesOfItsPartsApart)
{
  auto comm = over_world();
  std::size_t const self = to_index(comm.rank());
  std::vector<mpi_communicator> parts;
  for (std::uint32_t parity : {0U, 1U, 2U}) {
    auto part = comm.split(parity == 2 ? 9 : (self + parity) % 2);
    ASSERT_TRUE(part) << part.error().message;
    auto of_part = part->split(static_cast<std::uint32_t>(to_index(part->rank()) / 2));
    ASSERT_TRUE(of_part) << of_part.error().message;
    parts.push_back(*std::move(part));
    parts.push_back(*std::move(of_part));
  }
  for (int round = 0; round < 50; ++round) {
    for (std::size_t index = 0; index < parts.size(); ++index) {
      std::vector<std::byte> const own(3, static_cast<std::byte>(40 * index + self));
      std::vector<std::byte> all(3 * parts[index].size());
      ASSERT_TRUE(parts[index].all_gather(own, all));
      EXPECT_EQ(all[3 * to_index(parts[index].rank())], own[0]);
      for (std::byte const each : all) { EXPECT_EQ(static_cast<std::size_t>(each) / 40, index); }
    }
  }
}

// What makes a group is compared whatever the options say.
TEST(MpiCommunicatorSplit, IsComparedWithoutVerify)
{
  auto comm = over_world({.deadline = 20s, .verify = false});
  if (comm.size() < 2) { return; }
  result<void> done;
  if (comm.rank() == rank_id{1}) {
    auto const part = comm.split(0);
    done = part ? result<void>() : result<void>(tl::unexpected(part.error()));
  } else {
    done = comm.barrier();
  }
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, error_code::mismatch);
  EXPECT_TRUE(comm.split(0));
}

// Ranks keep different numbers of parts, so their lowest free tags differ.
TEST(MpiCommunicatorSplit, GivesAPartATagThatIsFreeOnAllItsRanks)
{
  auto comm = over_world();
  std::size_t const self = to_index(comm.rank());
  std::vector<mpi_communicator> kept;
  for (std::size_t round = 0; round < 6; ++round) {
    auto part = comm.split(static_cast<std::uint32_t>(self));
    ASSERT_TRUE(part) << part.error().message;
    if (round < self) { kept.push_back(*std::move(part)); }
  }
  auto all = comm.split(7);
  auto half = comm.split(self < comm.size() / 2 ? 1 : 2);
  ASSERT_TRUE(all && half);
  for (int round = 0; round < 3; ++round) {
    EXPECT_TRUE(half->barrier());
    EXPECT_TRUE(all->barrier());
    EXPECT_TRUE(comm.barrier());
  }
}

TEST(MpiCommunicatorSplit, SaysSoIfAllTagsAreInUse)
{
  if (ballast_test::world_size() != 1) { return; }  // it takes a minute on several processes
  auto comm = over_world();
  std::vector<mpi_communicator> kept;
  for (int tag = 1; tag < 32768; ++tag) { kept.push_back(comm.split(0).value()); }
  kept.pop_back();  // its tag is free again
  kept.push_back(comm.split(0).value());
  auto const part = comm.split(0);
  ASSERT_FALSE(part);
  EXPECT_EQ(part.error().code, error_code::transport);
  EXPECT_EQ(part.error().position, static_cast<std::size_t>(MPI_ERR_TAG));
  EXPECT_NE(part.error().message.find("all tags are in use"), std::string::npos)
      << part.error().message;
}

// ---- Memory that runs out ----

TEST(MpiCommunicatorMemory, AnswersWhereverItRunsOut)
{
  if (ballast_test::world_size() < 2 || !ballast_test::allocations_can_fail()) { return; }
  int failures = 0;
  for (int failed = 1; failed != 0;) {
    auto comm = over_world({.deadline = ballast_test::memory_deadline});
    auto const answer =
        ballast_test::exchange_without_memory<mpi_communicator, std::vector<std::byte>>(
            comm, static_cast<std::size_t>(failures) + 1);
    failed = answer.had_failure ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (failed == 0) { EXPECT_FALSE(answer.error) << answer.error->message; }
    failures += failed;
  }
  EXPECT_GT(failures, 10);
}

// A job of its own: mpirun ends the others. What they say where it does not is in tests/survivors.
TEST(MpiDeath, EndsTheJob)
{
  auto comm = over_world({.deadline = 1h});
  if (comm.rank() == rank_id{1}) { std::raise(SIGKILL); }
  auto const done = comm.barrier();
  ADD_FAILURE() << "outlived the job: " << (done ? "nobody was missing" : done.error().message);
}

}  // namespace

namespace ballast_test {

using mpi_models = testing::Types<mpi_jobs<true, std::size_t{1} << 30U>, mpi_jobs<true, 1000>,
                                  mpi_jobs<false, std::size_t{1} << 30U>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Mpi, Communicators, mpi_models);

}  // namespace ballast_test
