// SPDX-License-Identifier: Apache-2.0
// What no call of a communicator brings about when it is asked to.
#include <ballast/comm/detail/mpi_requests.hpp>

#include "../support/test.hpp"
#include "mpi_world.hpp"  // defines: ballast_test::{world_barrier, world_rank, world_size, ...}

namespace {

using ballast::rank_id;
using ballast::detail::mpi_missing_ranks;
using ballast::detail::mpi_requests;
using ballast_test::world_barrier;
using namespace std::chrono_literals;
using presence = mpi_missing_ranks::presence;

// On communicators of their own, which stay: messages that were not received may be left.
class MpiRequests : public testing::Test {
 protected:
  MpiRequests()
  {
    MPI_Comm_dup(MPI_COMM_WORLD, &data_);
    MPI_Comm_dup(MPI_COMM_WORLD, &control_);
    MPI_Comm_set_errhandler(data_, MPI_ERRORS_RETURN);
  }

  mpi_requests listening(std::chrono::milliseconds deadline)
  {
    mpi_requests requests(deadline);
    EXPECT_TRUE(requests.listen(control_, tag_, ballast_test::world_members(), self_));
    return requests;
  }

  // MPI sends its messages at any time, so it stays as well.
  mpi_missing_ranks& roll_of(std::vector<int> members, std::size_t place)
  {
    static std::vector<mpi_missing_ranks> kept;
    kept.reserve(10);
    kept.emplace_back().open(control_, tag_, std::move(members), place);
    return kept.back();
  }

  static void hear(mpi_missing_ranks& roll, std::size_t messages)
  {
    for (std::size_t message = 0; message < messages; ++message) {
      MPI_Request request = MPI_REQUEST_NULL;
      MPI_Status status{};
      ASSERT_EQ(roll.hear(request), MPI_SUCCESS);
      MPI_Wait(&request, &status);
      roll.take_down(status);
    }
  }

  static constexpr int tag_ = 17;
  std::size_t const self_ = ballast_test::world_rank();
  std::size_t const peers_ = ballast_test::world_size() - 1;
  MPI_Comm data_ = MPI_COMM_NULL;
  MPI_Comm control_ = MPI_COMM_NULL;
};

// The test of a transfer that finds it done is the first after the deadline.
TEST_F(MpiRequests, WaitForATransferThatIsDoneJustAfterTheDeadline)
{
  ballast_test::hand_moved_clock clock;
  auto requests = listening(1s);
  int tests = 0;
  auto const done = requests.wait_for("transfer", self_, [&]() -> ballast::result<bool> {
    clock.pass(150ms);
    return ++tests == 7;
  });
  EXPECT_TRUE(done) << done.error().message;
  world_barrier();
  requests.stop_listening();
}

TEST_F(MpiRequests, ReportTheFirstThatMpiRefuses)
{
  auto requests = listening(20s);
  int const sent = 1;
  requests.expect(2);
  int const nobody = static_cast<int>(peers_) + 5;
  requests.started("MPI_Isend", MPI_Isend(&sent, 1, MPI_INT, nobody, 0, data_, requests.next()));
  requests.started("MPI_Ibcast", MPI_ERR_COUNT);
  auto const done = requests.wait("refused");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ballast::error_code::transport);
  EXPECT_EQ(done.error().position, static_cast<std::size_t>(MPI_ERR_RANK));
  EXPECT_EQ(done.error().message.find("MPI_Isend failed with code "), 0U) << done.error().message;
  EXPECT_NE(done.error().message.find("MPI_ERR_RANK"), std::string::npos) << done.error().message;
  requests.stop_listening();
}

// As from a group that has had the same tag, some ranks of which have not given it up.
TEST_F(MpiRequests, IgnoreRollCallsOfRanksThatAreNotInTheGroup)
{
  if (peers_ < 2) { return; }
  if (self_ == 0) {
    roll_of({0, 2}, 0).call(presence::here, 1s);
  } else if (self_ == 2) {
    auto& pair = roll_of({1, 2}, 1);
    hear(pair, 1);
    EXPECT_EQ(pair.heard(), 0U);
  }
}

// Each rank from 1 on has come to one operation more than the one before; the roll is for 2.
TEST_F(MpiRequests, CompareOperationsWhoseNumbersBeginAgain)
{
  for (int const earlier : {0, 4'000, 8'190}) {  // the last goes on from 0
    MPI_Comm_dup(MPI_COMM_WORLD, &control_);
    auto& roll = roll_of(ballast_test::world_members(), self_);
    for (int left = earlier + (self_ == 0 ? 2 : static_cast<int>(self_)); left > 0; --left) {
      roll.come();
    }
    if (self_ == 0) {
      roll.call(presence::here, 1s);
      continue;
    }
    hear(roll, 1);
    EXPECT_EQ(roll.standing(), self_ > 2 ? presence::here : presence::late) << earlier;
  }
}

// A rank that has told all that it is here, and then hears that it was missing, is late for all.
TEST_F(MpiRequests, CorrectWhatARankSaidBeforeItWasMissed)
{
  if (peers_ == 0) { return; }
  std::vector<rank_id> const late = {rank_id{1}};
  auto& roll = roll_of(ballast_test::world_members(), self_);
  if (self_ == 1) { world_barrier(); }
  roll.call(presence::here, 1s);
  if (self_ != 1) {
    hear(roll, peers_ - 1);
    EXPECT_EQ(roll.missing(), late);
    world_barrier();
    hear(roll, 2);  // that rank 1 is here, and that it is late
  } else {
    hear(roll, peers_);
    roll.correct();
    hear(roll, peers_);
    roll.correct();
    roll.correct();  // once only
  }
  EXPECT_TRUE(roll.is_settled());
  world_barrier();
  EXPECT_EQ(roll.missing(), late);
}

}  // namespace
