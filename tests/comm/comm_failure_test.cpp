// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm/communicator.hpp>

#include "../support/test.hpp"

namespace {

namespace comm_failure = ballast::comm_failure;
using ballast::error;
using ballast::error_code;
using ballast::rank_id;

std::vector<rank_id> first_ranks(std::size_t count)
{
  std::vector<rank_id> ranks;
  for (std::size_t rank = 0; rank < count; ++rank) {
    ranks.push_back(ballast::to_id<rank_id>(rank));
  }
  return ranks;
}

TEST(CommFailure, ListsRanksAsPeopleDo)
{
  EXPECT_EQ(comm_failure::ranks_text({rank_id{3}}), "rank 3");
  EXPECT_EQ(comm_failure::ranks_text({rank_id{0}, rank_id{7}}), "ranks 0 and 7");
  EXPECT_EQ(comm_failure::ranks_text({rank_id{0}, rank_id{2}, rank_id{5}}), "ranks 0, 2 and 5");
}

TEST(CommFailure, CountsRanksAboveTen)
{
  EXPECT_EQ(comm_failure::ranks_text(first_ranks(10)), "ranks 0, 1, 2, 3, 4, 5, 6, 7, 8 and 9");
  EXPECT_EQ(comm_failure::ranks_text(first_ranks(11)),
            "ranks 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 1 more");
  EXPECT_EQ(comm_failure::ranks_text(first_ranks(512)),
            "ranks 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 502 more");
}

TEST(CommFailure, SaysWhatRanksDisagreeOn)
{
  EXPECT_EQ(
      comm_failure::mismatch("all_to_all_v", "the size of messages", {rank_id{1}, rank_id{4}})
          .value(),
      (error{
          error_code::mismatch,
          0,
          "all_to_all_v: ranks disagree on the size of messages (ranks 1 and 4 differ from "
          "the others); nothing was sent. Make every rank plan from the same gathered lengths and "
          "settings",
          {rank_id{1}, rank_id{4}}}));
  EXPECT_EQ(
      comm_failure::mismatch("agree", "the plan", {}).value().message,
      "agree: ranks disagree on the plan; nothing was sent. Make every rank plan from the same "
      "gathered lengths and settings");
}

TEST(CommFailure, NamesThePeerWhoseMessageDiffers)
{
  EXPECT_EQ(comm_failure::different_message("receive", rank_id{4}, 10, 12).value(),
            (error{error_code::mismatch,
                   0,
                   "receive: this rank has a message of 10 bytes, and rank 4 one of 12; make both "
                   "ranks plan from the same gathered lengths and settings, and give arrays of the "
                   "same types and widths",
                   {rank_id{4}}}));
}

TEST(CommFailure, AdvisesByWhatDiffers)
{
  EXPECT_EQ(comm_failure::different_content("all_to_all_v", true, {rank_id{1}}).value().message,
            "all_to_all_v: ranks disagree on the number of arrays, the type of their elements or "
            "their width (rank 1 differs from the others); nothing was sent. Make every rank give "
            "arrays of the same types and widths");
  EXPECT_EQ(
      comm_failure::different_content("finish", false, {rank_id{1}}, "all is lost").value().message,
      "finish: ranks disagree on the plan or its direction (rank 1 differs from the others); "
      "all is lost. Make every rank plan from the same gathered lengths and settings");
  EXPECT_EQ(comm_failure::different_options("over", "verify", {rank_id{0}}).value().message,
            "over: ranks disagree on the option verify (rank 0 differs from the others); nothing "
            "was sent. Make every rank give the same options");
}

TEST(CommFailure, SaysWhoLeft)
{
  EXPECT_EQ(comm_failure::peer_lost("broadcast", {rank_id{0}}).value(),
            (error{error_code::peer_lost,
                   0,
                   "broadcast: rank 0 left before it was complete; look at the first failure there",
                   {rank_id{0}}}));
  EXPECT_EQ(comm_failure::peer_lost("broadcast", {}).value().message,
            "broadcast: a rank left before it was complete; look at the first failure there");
}

TEST(CommFailure, KeepsTheCodeAndTextOfTheLibraryBeneath)
{
  EXPECT_EQ(
      comm_failure::transport("MPI_Isend", 16, "MPI_ERR_OTHER: known error not in list").value(),
      (error{error_code::transport, 16,
             "MPI_Isend failed with code 16: MPI_ERR_OTHER: known error not in list"}));
}

TEST(CommFailure, SaysWhoIsMissingAndForHowLong)
{
  EXPECT_EQ(comm_failure::timed_out("barrier", std::chrono::seconds(2), {rank_id{5}}).value(),
            (error{error_code::timed_out,
                   0,
                   "barrier: rank 5 did not arrive within 2000 ms; look for what holds them up, or "
                   "raise the deadline",
                   {rank_id{5}}}));
  EXPECT_EQ(comm_failure::timed_out("barrier", std::chrono::milliseconds(1), {}).value().message,
            "barrier: some ranks did not arrive within 1 ms; look for what holds them up, or raise "
            "the deadline");
}

}  // namespace
