// SPDX-License-Identifier: Apache-2.0
#include <ballast/interop/torch_communicator.hpp>

#include "../support/test.hpp"
#include "../support/time_limits.hpp"
#include "torch_processes.hpp"  // defines: ballast_test::torch_processes

#include "../comm/communicator_suite.hpp"  // defines: ballast_test::{Communicators, conformance}

#include <ballast/comm/communicator.hpp>

#include <signal.h>
#include <unistd.h>

#include <csignal>

namespace {

using ballast::error_code;
using ballast::rank_id;
using ballast::torch_communicator;
using ballast_test::torch_processes;
using suite = ballast_test::conformance<torch_communicator>;
using namespace std::chrono_literals;

static_assert(ballast::splitting_communicator<torch_communicator>);

/// In the list of communicators that the suite runs over.
struct torch_jobs : ballast_test::communicator_model<torch_communicator> {
  static std::vector<std::size_t> sizes() { return {1, 4}; }
  static constexpr bool counts = false;
  template <class Body>
  static void run(std::size_t ranks, Body const& body)
  {
    EXPECT_THAT(torch_processes(ranks, ballast_test::time_bound, body), testing::Each(0));
  }
};

TEST(TorchCommunicator, NamesTheRankThatDies)
{
  auto const ends = torch_processes(4, ballast_test::time_bound, [](torch_communicator& comm) {
    EXPECT_TRUE(comm.barrier());
    if (comm.rank() == rank_id{1}) { std::raise(SIGKILL); }
    suite::expect_broken(comm, error_code::peer_lost, {rank_id{1}});
  });
  EXPECT_EQ(ends, (std::vector<int>{0, SIGKILL, 0, 0}));
}

// Who sees it first leaves as well, so that a third may name both; each ends, and one names it alone.
TEST(TorchCommunicator, EndsOnAllRanksWhereverOneDies)
{
  for (std::size_t moment = 0; moment < 10; ++moment) {
    auto const victim = ballast::to_id<rank_id>(moment % 4);
    int named[2] = {};
    ASSERT_EQ(::pipe(named), 0);
    auto const ends = torch_processes(4, 30s, [&](torch_communicator& comm) {
      std::vector<std::size_t> const counts(4, 100'000);
      std::vector<std::byte> send(400'000), receive(400'000);
      auto const one = std::span(send).first(8);
      EXPECT_TRUE(comm.barrier());
      for (std::size_t call = 0;; ++call) {
        if (call == moment && comm.rank() == victim) { std::raise(SIGKILL); }
        auto const done = call % 3 == 0   ? comm.all_gather(one, std::span(receive).first(32))
                          : call % 3 == 1 ? comm.all_to_all_v(send, counts, receive, counts)
                                          : comm.broadcast(one, rank_id{1});
        if (done) { continue; }
        EXPECT_LE(call, moment) << done.error().message;
        char const names_it_alone = done.error().ranks == std::vector{victim};
        EXPECT_EQ(::write(named[1], &names_it_alone, 1), 1);
        return;
      }
    });
    std::vector<int> expected(4, 0);
    expected[to_index(victim)] = SIGKILL;
    EXPECT_EQ(ends, expected) << "moment " << moment;
    char naming[3] = {};
    EXPECT_EQ(::read(named[0], naming, 3), 3);
    EXPECT_GE(naming[0] + naming[1] + naming[2], 1) << "moment " << moment;
    ::close(named[0]);
    ::close(named[1]);
  }
}

TEST(TorchCommunicator, IgnoresASignalThatWouldEndTheProcess)
{
  auto const ends = torch_processes(1, 30s, [](torch_communicator&) {
    struct sigaction at_pipe = {};
    EXPECT_EQ(::sigaction(SIGPIPE, nullptr, &at_pipe), 0);
    EXPECT_EQ(at_pipe.sa_handler, SIG_IGN);
  });
  EXPECT_EQ(ends, std::vector<int>{0});
}

// Of a part, by its place there; the other part goes on. Who comes when all have given up names
// them: gloo has closed their connections.
TEST(TorchCommunicator, NamesTheRankThatDoesNotCome)
{
  int given_up[2] = {};
  ASSERT_EQ(::pipe(given_up), 0);
  auto const ends = torch_processes(4, 6s, [&](torch_communicator& comm) {
    char word = 0;
    auto part = comm.split(to_index(comm.rank()) % 2);
    ASSERT_TRUE(part) << part.error().message;
    if (comm.rank() == rank_id{3}) {
      EXPECT_EQ(::read(given_up[0], &word, 1), 1);
      suite::expect_broken(*part, error_code::peer_lost, {rank_id{0}});
    } else if (comm.rank() == rank_id{1}) {
      suite::expect_broken(*part, error_code::timed_out, {rank_id{1}});
      EXPECT_EQ(::write(given_up[1], &word, 1), 1);
    } else {
      EXPECT_TRUE(part->barrier());
    }
  });
  EXPECT_EQ(ends, std::vector<int>(4, 0));
}

}  // namespace

namespace ballast_test {

INSTANTIATE_TYPED_TEST_SUITE_P(Torch, Communicators, torch_jobs);

}  // namespace ballast_test
