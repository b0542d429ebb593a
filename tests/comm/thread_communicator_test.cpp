// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm/thread_communicator.hpp>

#include "../support/test.hpp"
#include "communicator_suite.hpp"  // defines: ballast_test::{Communicators, conformance}

#include <ballast/comm/communicator.hpp>
#include <ballast/comm/thread_meeting.hpp>

#include <stdexcept>

namespace {

using namespace std::chrono_literals;
using namespace ballast;
using thread_conformance = ballast_test::conformance<thread_communicator>;
using rank_list = std::vector<rank_id>;

static_assert(ballast::communicator<thread_communicator>);
static_assert(!std::is_copy_constructible_v<thread_communicator>, "a rank has one end");

/// In the list of communicators that the suite runs over.
struct threads : ballast_test::communicator_model<thread_communicator> {
  static std::vector<std::size_t> sizes() { return {1, 2, 3, 4, 5, 7, 8, 16}; }
  static constexpr bool meets = true;
  struct group {
    group(std::size_t ranks, std::chrono::milliseconds deadline)
        : comms(thread_communicator::make(ranks, deadline))
    {}
    std::vector<communicator> comms;
  };
};

TEST(ThreadCommunicatorGroup, OfManyRanks)
{
  ballast::run_ranks(256, [](thread_communicator& comm) {
    std::size_t const self = to_index(comm.rank());
    std::vector<std::size_t> const counts(comm.size(), 1);
    std::vector<std::byte> send(comm.size());
    std::vector<std::byte> receive(comm.size());
    for (std::size_t peer = 0; peer < comm.size(); ++peer) {
      send[peer] = static_cast<std::byte>(self ^ (3 * peer));
    }
    EXPECT_TRUE(comm.all_to_all_v(send, counts, receive, counts));
    for (std::size_t peer = 0; peer < comm.size(); ++peer) {
      EXPECT_EQ(receive[peer], static_cast<std::byte>(peer ^ (3 * self)));
    }
  });
}

// ---- Ranks that do not come, come late, or leave ----

TEST(ThreadCommunicatorGroup, NamesWhoLeavesWhileOthersWait)
{
  for (std::size_t leaving = 0; leaving < 4; ++leaving) {
    auto comms = thread_communicator::make(4, 60s);
    rank_list const lost{ballast::to_id<rank_id>(leaving)};
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < 4; ++rank) {
      threads.emplace_back([&lost, rank, leaving, comm = std::move(comms[rank])]() mutable {
        EXPECT_TRUE(comm.barrier());
        if (rank == leaving) { return std::this_thread::sleep_for(5ms); }
        thread_conformance::expect_broken(comm, error_code::peer_lost, lost);
      });
    }
  }
}

// Each rank frees its arrays as soon as its call has failed: a sanitizer sees later reads.
TEST(ThreadCommunicatorGroup, NeverReadsTheArraysOfWhoGaveUp)
{
  constexpr std::size_t size = 4;
  for (std::uint64_t trial = 0; trial < 200; ++trial) {
    auto const outcomes = ballast::run_ranks(
        size,
        [trial](thread_communicator& comm) {
          std::size_t const self = to_index(comm.rank());
          ballast::random_source random(size * trial + self);
          std::this_thread::sleep_for(std::chrono::microseconds(random.below(1500)));
          result<void> gathered;
          {
            std::vector<std::byte> const send(1000, static_cast<std::byte>(self));
            std::vector<std::byte> receive(size * send.size());
            gathered = comm.all_gather(send, receive);
            for (std::size_t place = 0; place < receive.size() && gathered; ++place) {
              EXPECT_EQ(receive[place], static_cast<std::byte>(place / send.size()));
            }
          }
          return gathered;
        },
        1ms);
    for (auto const& outcome : outcomes) {
      EXPECT_EQ(outcome.has_value(), outcomes[0].has_value());
      if (!outcome && !outcomes[0]) { EXPECT_TRUE(outcome.error() == outcomes[0].error()); }
    }
  }
}

// The others do not wait for a copy that will never be made.
TEST(ThreadMeeting, IsNotHeldUpByOneWhoThrows)
{
  ballast::thread_meeting meeting(3, 60s);
  std::vector<std::jthread> threads;
  for (std::size_t self = 0; self < 3; ++self) {
    threads.emplace_back([&meeting, self] {
      auto const take = [self] {
        if (self == 1) { throw std::runtime_error("no"); }
      };
      if (self == 1) {
        EXPECT_THROW((void)meeting.meet(self, {{collective::barrier}}, take), std::runtime_error);
      } else {
        EXPECT_TRUE(meeting.meet(self, {{collective::barrier}}, take));
      }
      EXPECT_TRUE(meeting.meet(self, {{collective::barrier}}, [] {}));
    });
  }
}

TEST(ThreadCommunicatorGroup, IsLeftByAssignment)
{
  auto first = thread_communicator::make(2, 60s);
  auto second = thread_communicator::make(1, 60s);
  first[1] = std::move(second[0]);
  EXPECT_EQ(first[1].size(), 1U);
  EXPECT_TRUE(first[1].barrier());
  thread_conformance::expect_broken(first[0], error_code::peer_lost, {rank_id{1}});
}

// ---- Expects ----

TEST(ThreadCommunicatorDeathTest, RefusesAGroupOfNobody)
{
  EXPECT_DEATH((void)thread_communicator::make(0), "a group of 0 ranks");
}

}  // namespace

namespace ballast_test {

INSTANTIATE_TYPED_TEST_SUITE_P(Threads, Communicators, threads);
INSTANTIATE_TYPED_TEST_SUITE_P(Threads, CommunicatorsOfThreads, threads);

}  // namespace ballast_test
