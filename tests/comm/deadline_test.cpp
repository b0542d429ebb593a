// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm/deadline.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"

#include <ballast/comm/thread_communicator.hpp>

namespace {

namespace comm_failure = ballast::comm_failure;
using ballast::error;
using ballast::error_code;
using ballast::rank_id;

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

// What a deadline is given to on the host: a group of two that meets and exchanges a message.
void meet_within(std::chrono::milliseconds deadline)
{
  ballast::run_ranks(
      2,
      [](ballast::thread_communicator& comm) {
        std::array<std::byte, 4> bytes{};
        std::array<std::byte, 4> other{};
        rank_id const peer{comm.rank() == rank_id{0} ? 1U : 0U};
        auto const come = comm.receive(other, peer).value();
        auto const gone = comm.send(bytes, peer).value();
        ballast::or_throw(comm.barrier());
        ballast::or_throw(comm.wait_for(come));
        ballast::or_throw(comm.wait_for(gone));
      },
      deadline);
}

TEST(Deadline, IsNoneAtTheLongest)
{
  using std::chrono::milliseconds;
  meet_within(milliseconds::max());
  meet_within(milliseconds::max() - milliseconds(1));
}

TEST(DeadlineDeathTest, IsAboveZero)
{
  using std::chrono::milliseconds;
  for (milliseconds const none : {milliseconds(0), milliseconds(-1), milliseconds::min()}) {
    EXPECT_DEATH(meet_within(none), "ms; give one above 0, milliseconds::max\\(\\) for none");
  }
}

}  // namespace
