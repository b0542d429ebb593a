// SPDX-License-Identifier: Apache-2.0
#include "pipe_communicator.hpp"
#include "../support/test.hpp"
#include "../support/time_limits.hpp"

#include "communicator_suite.hpp"  // defines: ballast_test::{Communicators, conformance}

#include <ballast/comm/communicator.hpp>

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

/// As in the list of communicators whose ranks are threads.
struct pipes {
  using communicator = pipe_communicator;
  using buffer = std::vector<std::byte>;
  static constexpr std::array<std::size_t, 4> sizes{1, 2, 3, 8};
  static constexpr bool compares = false;
  static constexpr bool meets = false;
  static constexpr bool counts = false;
  struct group {
    group(std::size_t ranks, std::chrono::milliseconds deadline)
        : comms(ballast_test::pipe_group(
              ranks, std::chrono::duration_cast<std::chrono::seconds>(deadline)))
    {}
    std::vector<communicator> comms;
  };
  static void expect_nothing_left() {}
};

TEST(PipeCommunicator, ConformsOnProcesses)
{
  EXPECT_EQ(ballast_test::run_pipe_processes(4, time_bound, run_all), std::vector<int>(4, 0));
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

namespace ballast_test {

INSTANTIATE_TYPED_TEST_SUITE_P(Pipes, Communicators, pipes);

}  // namespace ballast_test
