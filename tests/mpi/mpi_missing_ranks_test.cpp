// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm/detail/mpi/mpi_missing_ranks.hpp>

#include <gtest/gtest.h>
#include "mpi_world.hpp"  // defines: ballast_test::{world_barrier, world_rank, world_size}

#include <ballast/core/ids.hpp>

#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

namespace {

using ballast::rank_id;
using ballast::detail::mpi_missing_ranks;
using ballast_test::world_barrier;
using ballast_test::world_members;
using ballast_test::world_rank;
using ballast_test::world_size;
using namespace std::chrono_literals;
using presence = mpi_missing_ranks::presence;

// Each test on a communicator of its own, which stays: messages that were not received may be left.
class MpiRollCall : public testing::Test {
 protected:
  MpiRollCall()
  {
    MPI_Comm_dup(MPI_COMM_WORLD, &control_);
    roll_.open(control_, tag, world_members(), self_);
  }
  // MPI sends its messages at any time, so it stays as well.
  ~MpiRollCall() override { kept.push_back(std::move(roll_)); }

  void hear(std::size_t messages)
  {
    for (std::size_t message = 0; message < messages; ++message) {
      MPI_Request request = MPI_REQUEST_NULL;
      MPI_Status status{};
      ASSERT_EQ(roll_.hear(request), MPI_SUCCESS);
      MPI_Wait(&request, &status);
      roll_.take_down(status);
    }
  }

  void come(int operations)
  {
    for (int operation = 0; operation < operations; ++operation) { roll_.come(); }
  }

  static constexpr int tag = 17;
  static inline std::vector<mpi_missing_ranks> kept;

  std::size_t const self_ = world_rank();
  std::size_t const peers_ = world_size() - 1;
  MPI_Comm control_ = MPI_COMM_NULL;
  mpi_missing_ranks roll_;
};

TEST_F(MpiRollCall, FindsAllWhoAnswer)
{
  come(3);
  EXPECT_EQ(roll_.heard(), 0U);
  roll_.call(presence::here, 1s);
  hear(peers_);
  EXPECT_EQ(roll_.heard(), peers_);
  EXPECT_FALSE(roll_.is_settled()) << "this rank may be the one that is missing";
  EXPECT_EQ(roll_.missing(), std::vector<rank_id>{});
}

TEST_F(MpiRollCall, NamesThoseThatCameLast)
{
  if (peers_ == 0) { return; }
  come(1);
  roll_.wait_for(mpi_missing_ranks::everybody, true);
  roll_.call(presence::here, self_ == 1 ? 499ms : 1s);
  hear(peers_);
  EXPECT_EQ(roll_.missing(), std::vector<rank_id>{rank_id{1}});
}

// Rank 1 has not waited long, but the roll is not called for the operation in which it waits.
TEST_F(MpiRollCall, DoesNotNameThoseThatHaveNotWaitedLongFurtherOn)
{
  if (peers_ == 0) { return; }
  come(self_ == 1 ? 2 : 1);
  if (self_ == 1) { hear(1); }
  roll_.wait_for(mpi_missing_ranks::everybody, self_ != 1);
  roll_.call(presence::here, self_ == 1 ? 0ms : 1s);
  hear(self_ == 1 ? peers_ - 1 : peers_);
  EXPECT_EQ(roll_.missing(), std::vector<rank_id>{});
}

// Rank 1 has finished the operation, and heard the roll call when it looked: no one has waited for
// it.
TEST_F(MpiRollCall, DoesNotNameThoseThatHaveFinishedAndWaitInNone)
{
  if (peers_ == 0) { return; }
  come(1);
  roll_.wait_for(self_ == 1 ? mpi_missing_ranks::nobody : mpi_missing_ranks::everybody, self_ != 1);
  roll_.call(presence::here, self_ == 1 ? 0ms : 1s);
  hear(peers_);
  EXPECT_EQ(roll_.missing(), std::vector<rank_id>{});
}

// As from a group that has had the same tag, some ranks of which have not given it up.
TEST_F(MpiRollCall, IgnoresRanksThatAreNotInItsGroup)  // Ensures (3)
{
  if (peers_ < 2) { return; }
  if (self_ == 0) {
    mpi_missing_ranks pair;
    pair.open(control_, tag, {0, 2}, 0);
    pair.call(presence::here, 1s);
    kept.push_back(std::move(pair));
  } else if (self_ == 2) {
    mpi_missing_ranks pair;
    pair.open(control_, tag, {1, 2}, 1);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status{};
    ASSERT_EQ(pair.hear(request), MPI_SUCCESS);
    MPI_Wait(&request, &status);
    pair.take_down(status);
    EXPECT_EQ(pair.heard(), 0U);
  }
}

// Each rank from 1 on has come to one operation more than the one before; the roll is for 2.
TEST_F(MpiRollCall, ComparesOperations)
{
  for (int const earlier : {0, 4'000, 8'190}) {  // the last goes on from 0
    kept.push_back(std::exchange(roll_, mpi_missing_ranks()));
    MPI_Comm_dup(MPI_COMM_WORLD, &control_);
    roll_.open(control_, tag, world_members(), self_);
    come(earlier + (self_ == 0 ? 2 : static_cast<int>(self_)));
    if (self_ == 0) {
      roll_.call(presence::here, 1s);
      continue;
    }
    hear(1);
    EXPECT_EQ(roll_.standing(), self_ > 2 ? presence::here : presence::late) << earlier;
  }
}

// A rank that has told all that it is here, and then hears that it was missing, is late for all.
TEST_F(MpiRollCall, CorrectsWhatARankSaidBeforeItWasMissed)  // Ensures (1)
{
  if (peers_ == 0) { return; }
  std::vector<rank_id> const late = {rank_id{1}};
  if (self_ == 1) { world_barrier(); }
  roll_.call(presence::here, 1s);
  if (self_ != 1) {
    hear(peers_ - 1);
    EXPECT_EQ(roll_.missing(), late);
    world_barrier();
    hear(2);  // that rank 1 is here, and that it is late
  } else {
    hear(peers_);
    roll_.correct();
    hear(peers_);
    roll_.correct();
    roll_.correct();  // once only
  }
  EXPECT_TRUE(roll_.is_settled());
  world_barrier();
  EXPECT_EQ(roll_.missing(), late);
}

// Rank 0 is overdue for rank 1, which waits for the last; ranks in between are in an operation.
TEST_F(MpiRollCall, NamesThoseForWhichTransfersWait)
{
  if (peers_ < 2) { return; }
  bool const silent = self_ == peers_;
  if (!silent) {
    int const awaited = self_ == 0   ? 1
                        : self_ == 1 ? static_cast<int>(peers_)
                                     : mpi_missing_ranks::everybody;
    roll_.wait_for(awaited, self_ == 0);
    roll_.call(presence::here, 1s);
    hear(peers_ - 1);
    EXPECT_FALSE(roll_.is_settled());
    EXPECT_EQ(roll_.missing(), std::vector{ballast::to_id<rank_id>(peers_)});
  }
  world_barrier();
  if (silent) {  // and it says the same when it comes
    roll_.wait_for(mpi_missing_ranks::nobody, false);
    hear(peers_);
    roll_.call(presence::late, 0s);
    EXPECT_TRUE(roll_.is_settled());
    EXPECT_EQ(roll_.missing(), std::vector{ballast::to_id<rank_id>(peers_)});
  }
  world_barrier();
}

}  // namespace
