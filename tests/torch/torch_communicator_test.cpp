// SPDX-License-Identifier: Apache-2.0
#include <ballast/interop/torch_communicator.hpp>

#include "../support/time_limits.hpp"
#include "torch_processes.hpp"  // defines: ballast_test::torch_processes

#include <gtest/gtest.h>
#include "../comm/conformance.hpp"  // defines: ballast_test::conformance

#include <ballast/comm/concepts.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/result.hpp>

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <vector>

namespace {

using ballast::error_code;
using ballast::rank_id;
using ballast::torch_communicator;
using ballast_test::torch_processes;
using suite = ballast_test::conformance<torch_communicator>;
using namespace std::chrono_literals;

static_assert(ballast::splitting_communicator<torch_communicator>);

void run_all(torch_communicator& comm)
{
  for (auto const& checks : {suite::data_checks(), suite::mismatch_checks()}) {
    for (auto const& [name, run] : checks) {
      SCOPED_TRACE(testing::Message() << name << " on rank " << to_index(comm.rank()));
      run(comm);
    }
  }
}

TEST(TorchCommunicator, ConformsOnProcesses)
{
  for (std::size_t const ranks : {1U, 4U}) {
    EXPECT_EQ(torch_processes(ranks, ballast_test::time_bound, run_all),
              std::vector<int>(ranks, 0));
  }
}

TEST(TorchCommunicator, NamesTheRankThatDies)
{
  auto const ends = torch_processes(4, ballast_test::time_bound, [](torch_communicator& comm) {
    EXPECT_TRUE(comm.barrier());
    if (comm.rank() == rank_id{1}) { std::raise(SIGKILL); }
    suite::expect_broken(comm, error_code::peer_lost, {rank_id{1}});
  });
  EXPECT_EQ(ends, (std::vector<int>{0, SIGKILL, 0, 0}));
}

// Of a part, by its place there; the other part goes on. Who comes when all have given up names
// them: gloo has closed their connections.
TEST(TorchCommunicator, NamesTheRankThatDoesNotCome)
{
  int given_up[2] = {};
  ASSERT_EQ(::pipe(given_up), 0);
  auto const ends = torch_processes(4, 2s, [&](torch_communicator& comm) {
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
