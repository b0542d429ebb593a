// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_HPP
#define BALLAST_COMM_HPP

/// All of ballast/comm: the communicator concept, ranks that are threads, and what is built on any
/// communicator. MPI is in ballast/comm/mpi_communicator.hpp.

// IWYU pragma: begin_exports
#include <ballast/comm/agree.hpp>
#include <ballast/comm/call_offers.hpp>
#include <ballast/comm/collective_check.hpp>
#include <ballast/comm/comm_failure.hpp>
#include <ballast/comm/concepts.hpp>
#include <ballast/comm/deadline.hpp>
#include <ballast/comm/gather_samples.hpp>
#include <ballast/comm/mpi_communicator_options.hpp>
#include <ballast/comm/point_to_point.hpp>
#include <ballast/comm/rank_pair.hpp>
#include <ballast/comm/run_ranks.hpp>
#include <ballast/comm/thread_communicator.hpp>
#include <ballast/comm/thread_meeting.hpp>
// IWYU pragma: end_exports

#endif  // BALLAST_COMM_HPP
