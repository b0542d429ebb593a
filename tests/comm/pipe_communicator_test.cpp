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

/// Ranks that are threads, in the list of communicators that the suite runs over.
struct pipes : ballast_test::communicator_model<pipe_communicator> {
  static std::vector<std::size_t> sizes() { return {1, 2, 3, 8}; }
  static constexpr bool compares = false;
  static constexpr bool counts = false;
  struct group {
    group(std::size_t ranks, std::chrono::milliseconds deadline)
        : comms(ballast_test::pipe_group(
              ranks, std::chrono::duration_cast<std::chrono::seconds>(deadline)))
    {}
    std::vector<communicator> comms;
  };
};

/// Ranks that are processes.
struct pipes_of_processes : ballast_test::communicator_model<pipe_communicator> {
  static std::vector<std::size_t> sizes() { return {4}; }
  static constexpr bool compares = false;
  static constexpr bool counts = false;
  template <class Body>
  static void run(std::size_t ranks, Body const& body)
  {
    EXPECT_THAT(ballast_test::run_pipe_processes(ranks, time_bound, body), testing::Each(0));
  }
};

TEST(PipeCommunicator, NamesWhoIsSilentForTooLong)
{
  auto comms = ballast_test::pipe_group(3, std::chrono::seconds(2));
  std::jthread const first([&] {
    pipe_conformance::expect_broken(comms[0], ballast::error_code::peer_lost, {rank_id{1}});
  });
  pipe_conformance::expect_broken(comms[2], ballast::error_code::peer_lost, {rank_id{1}});
}

}  // namespace

namespace ballast_test {

using pipe_models = testing::Types<pipes, pipes_of_processes>;
INSTANTIATE_TYPED_TEST_SUITE_P(Pipes, Communicators, pipe_models);

}  // namespace ballast_test
