// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/comm/mpi_communicator.hpp>

#include <mpi.h>

#include <cstddef>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>

/// Calls train(comm) on so many processes of MPI, which several threads of each may use. What it
/// throws is told, and ends the job.
template <class Train>
void on_processes(char const* program, std::size_t ranks, Train const& train)
{
  int level = MPI_THREAD_SINGLE;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
  try {
    if (level < MPI_THREAD_MULTIPLE) { throw std::runtime_error("MPI serves a single thread"); }
    auto comm = ballast::mpi_communicator::over(MPI_COMM_WORLD).value();
    if (comm.size() != ranks) {
      throw std::runtime_error("run it on " + std::to_string(ranks) + " processes");
    }
    train(comm);
  } catch (std::exception const& problem) {
    std::fprintf(stderr, "%s: %s\n", program, problem.what());
    MPI_Abort(MPI_COMM_WORLD, 1);  // others may be waiting for this rank
  }
  MPI_Finalize();
}
