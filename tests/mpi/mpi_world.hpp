// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_MPI_MPI_WORLD_HPP
#define BALLAST_TESTS_MPI_MPI_WORLD_HPP

#include <ballast/comm/mpi_communicator.hpp>

#include <mpi.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <new>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

namespace ballast_test {

inline std::size_t world_rank()
{
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return static_cast<std::size_t>(rank);
}

inline std::size_t world_size()
{
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return static_cast<std::size_t>(size);
}

/// The ranks of MPI_COMM_WORLD, in order.
inline std::vector<int> world_members()
{
  std::vector<int> members(world_size());
  std::iota(members.begin(), members.end(), 0);
  return members;
}

/// Where processes meet that cannot, or must not yet, meet in a communicator of ours.
inline void world_barrier()
{
  MPI_Barrier(MPI_COMM_WORLD);
}

/// All processes of the test, with a deadline that ends it if we are at fault.
inline ballast::mpi_communicator over_world(ballast::mpi_communicator_options options = {
                                                .deadline = std::chrono::seconds(20)})
{
  auto made = ballast::mpi_communicator::over(MPI_COMM_WORLD, options);
  if (!made) { throw std::runtime_error(made.error().message); }
  return *std::move(made);
}

/// The processes by rank. They are all on one machine.
inline std::vector<pid_t> world_processes()
{
  static_assert(sizeof(pid_t) == sizeof(int));
  int const own = getpid();
  std::vector<pid_t> all(world_size());
  MPI_Allgather(&own, 1, MPI_INT, all.data(), 1, MPI_INT, MPI_COMM_WORLD);
  return all;
}

/// A word for processes that must not call MPI while they wait for another, in memory that all
/// share. Collective.
class shared_flag {
 public:
  shared_flag()
  {
    MPI_Aint const bytes = world_rank() == 0 ? sizeof(std::atomic<int>) : 0;
    MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &flag_, &window_);
    MPI_Aint size = 0;
    int unit = 0;
    MPI_Win_shared_query(window_, 0, &size, &unit, &flag_);
    if (world_rank() == 0) { new (flag_) std::atomic<int>(0); }
    world_barrier();
  }
  shared_flag(shared_flag const&) = delete;
  shared_flag& operator=(shared_flag const&) = delete;
  ~shared_flag() { MPI_Win_free(&window_); }

  void raise() { *flag_ = 1; }

  /// Whether it was raised in time.
  [[nodiscard]] bool wait(std::chrono::milliseconds most = std::chrono::minutes(1)) const
  {
    auto const end = std::chrono::steady_clock::now() + most;
    while (*flag_ == 0 && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return *flag_ != 0;
  }

 private:
  MPI_Win window_ = MPI_WIN_NULL;
  std::atomic<int>* flag_ = nullptr;
};

/// Stops this process wherever it then is, until another one sends it SIGCONT.
inline void stop_in(std::chrono::milliseconds delay)
{
  std::signal(SIGALRM, [](int) { std::raise(SIGSTOP); });
  itimerval timer{};
  timer.it_value.tv_usec = std::chrono::microseconds(delay).count();
  setitimer(ITIMER_REAL, &timer, nullptr);
}

}  // namespace ballast_test

#endif  // BALLAST_TESTS_MPI_MPI_WORLD_HPP
