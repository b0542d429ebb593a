// SPDX-License-Identifier: Apache-2.0
#pragma once

/// All of ballast/comm: the communicator concept, ranks that are threads, and what is built on any
/// communicator. MPI is in ballast/comm/mpi_communicator.hpp.

// IWYU pragma: begin_exports
#include <ballast/comm/checked_group.hpp>
#include <ballast/comm/collective_check.hpp>
#include <ballast/comm/communicator.hpp>
#include <ballast/comm/gather_samples.hpp>
#include <ballast/comm/thread_communicator.hpp>
#include <ballast/comm/thread_meeting.hpp>
// IWYU pragma: end_exports
