// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../comm/pipe_communicator.hpp"
#include "../support/test.hpp"
#include "../support/time_limits.hpp"
#include "copy_engine_threads.hpp"  // defines: ballast_test::cuda_streams

#include <ballast/gpu/process_copy_engine_communicator.hpp>

namespace ballast_test {

/// Calls body(communicator) in a process per rank, forked while no stream is there; all must end as
/// they should, and leave nothing.
template <class Body>
void run_copy_engine_processes(std::size_t ranks, ballast::copy_engine_options options,
                               Body const& body)
{
  shared_cuda const shared;
  auto const statuses = run_pipe_processes(ranks, time_bound, [&](pipe_communicator& host) {
    cuda_streams const streams(1);
    // [join]
    auto comm = ballast::process_copy_engine_communicator<pipe_communicator>::join(
        std::move(host), streams[0], options);
    // [join]
    ASSERT_TRUE(comm) << comm.error().message;
    body(*comm);
  });
  EXPECT_EQ(statuses, std::vector<int>(ranks, 0));
  EXPECT_EQ(shared.rules_broken(), 0U);
  EXPECT_EQ(shared.arrays_left(), 0U);
}

}  // namespace ballast_test
