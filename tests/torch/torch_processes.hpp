// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../support/test.hpp"
#include "../support/time_limits.hpp"

#include <ballast/interop/torch_communicator.hpp>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>

namespace ballast_test {

/// Forks a process for each rank, which meet at a port that rank 0 got and told the others by a
/// pipe, and call body(communicator). Returns how each ended, as waitpid says.
template <class Body>
std::vector<int> torch_processes(std::size_t ranks, std::chrono::milliseconds deadline, Body body)
{
  int pipe[2] = {};
  if (::pipe(pipe) != 0) { throw std::runtime_error("pipe"); }
  auto const run = [&](std::size_t rank) {
    c10d::TCPStoreOptions options;
    options.isServer = rank == 0;
    options.waitWorkers = false;
    options.port = 0;  // a free one
    options.timeout = time_bound;
    if (rank > 0 && ::read(pipe[0], &options.port, sizeof(options.port)) != sizeof(options.port)) {
      return 3;
    }
    auto const store = c10::make_intrusive<c10d::TCPStore>("localhost", options);
    std::uint16_t const port = store->getPort();
    for (std::size_t other = 1; rank == 0 && other < ranks; ++other) {
      if (::write(pipe[1], &port, sizeof(port)) != sizeof(port)) { return 3; }
    }
    auto comm = ballast::join_torch_job(store, rank, ranks, deadline);
    if (!comm) {
      std::fprintf(stderr, "%s\n", comm.error().message.c_str());
      return 2;
    }
    auto const& checked = *testing::UnitTest::GetInstance()->current_test_info()->result();
    int const failed_before = checked.total_part_count();  // the parent's, before the fork
    body(*comm);
    return checked.total_part_count() > failed_before ? 1 : 0;
  };
  std::vector<pid_t> children;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    children.push_back(::fork());
    if (children.back() == 0) { ::_exit(run(rank)); }
  }
  ::close(pipe[0]);
  ::close(pipe[1]);
  std::vector<int> ends;
  for (pid_t const child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    ends.push_back(status);
  }
  return ends;
}

}  // namespace ballast_test
