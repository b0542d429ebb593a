// SPDX-License-Identifier: Apache-2.0
#include "pipe_communicator.hpp"
#include "../support/time_limits.hpp"

#include <gtest/gtest.h>
#include "conformance.hpp"  // defines: ballast_test::conformance

#include <ballast/comm/concepts.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <thread>
#include <utility>
#include <vector>

namespace {

using ballast::rank_id;
using ballast_test::pipe_communicator;
using ballast_test::time_bound;
using pipe_conformance = ballast_test::conformance<pipe_communicator>;

static_assert(ballast::communicator<pipe_communicator>);

void run_all(pipe_communicator& comm)
{
  for (auto const& [name, run] : pipe_conformance::data_checks()) {
    SCOPED_TRACE(testing::Message() << name << " on rank " << to_index(comm.rank()));
    run(comm);
  }
}

TEST(PipeCommunicator, ConformsOnThreads)
{
  for (std::size_t const ranks : {1U, 2U, 3U, 8U}) {
    auto comms = ballast_test::pipe_group(ranks, time_bound);
    std::vector<std::jthread> threads;
    for (auto& comm : comms) {
      threads.emplace_back([&comm] { run_all(comm); });
    }
  }
}

TEST(PipeCommunicator, ConformsOnProcesses)
{
  auto comms = ballast_test::pipe_group(4, time_bound);
  std::vector<pid_t> children;
  for (std::size_t rank = 0; rank < comms.size(); ++rank) {
    children.push_back(::fork());
    ASSERT_GE(children.back(), 0);
    if (children.back() == 0) {
      pipe_communicator own = std::move(comms[rank]);
      comms.clear();  // or the others' ends would stay open here
      run_all(own);
      ::_exit(testing::Test::HasFailure() ? 1 : 0);
    }
  }
  comms.clear();
  for (pid_t const child : children) {
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

TEST(PipeCommunicator, NamesWhoIsSilentForTooLong)
{
  auto comms = ballast_test::pipe_group(3, std::chrono::seconds(2));
  std::jthread const first([&] {
    pipe_conformance::expect_broken(comms[0], ballast::error_code::peer_lost, {rank_id{1}});
  });
  pipe_conformance::expect_broken(comms[2], ballast::error_code::peer_lost, {rank_id{1}});
}

TEST(PipeCommunicator, NamesWhoLeft)
{
  auto comms = ballast_test::pipe_group(3, time_bound);
  comms.erase(comms.begin() + 1);
  std::jthread const first([&] {
    pipe_conformance::expect_broken(comms[0], ballast::error_code::peer_lost, {rank_id{1}});
  });
  pipe_conformance::expect_broken(comms[1], ballast::error_code::peer_lost, {rank_id{1}});
}

}  // namespace
