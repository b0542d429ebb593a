// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../support/hand_moved_clock.hpp"

#include <ballast/comm/mpi_communicator.hpp>

#include <mpi.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <numeric>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <utility>
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

/// An object in memory that all processes share, also while others are dead. Collective.
template <class T>
class shared_object {
 public:
  shared_object()
  {
    MPI_Aint const bytes = world_rank() == 0 ? sizeof(T) : 0;
    MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &all_, &window_);
    MPI_Aint size = 0;
    int unit = 0;
    MPI_Win_shared_query(window_, 0, &size, &unit, &all_);
    if (world_rank() == 0) { new (all_) T(); }
    world_barrier();
  }
  shared_object(shared_object const&) = delete;
  shared_object& operator=(shared_object const&) = delete;
  ~shared_object() { MPI_Win_free(&window_); }

  [[nodiscard]] T& operator*() const { return *all_; }
  [[nodiscard]] T* operator->() const { return all_; }

 private:
  MPI_Win window_ = MPI_WIN_NULL;
  T* all_ = nullptr;
};

/// A word for processes that must not call MPI while they wait for another.
class shared_flag {
 public:
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
  shared_object<std::atomic<int>> flag_;
};

/// A clock that stands still in all processes until so many of them wait, and none of them gets on;
/// then a deadline passes in each. Collective.
class clock_of_processes {
 public:
  explicit clock_of_processes(std::size_t waiting) : waiting_(static_cast<std::ptrdiff_t>(waiting))
  {}
  clock_of_processes(clock_of_processes const&) = delete;
  clock_of_processes& operator=(clock_of_processes const&) = delete;
  ~clock_of_processes() { mover_ = {}; }

  /// This process waits from now on, until the deadline has passed.
  void waits_until(std::chrono::milliseconds deadline)
  {
    mover_ = std::jthread([this, deadline, rank = world_rank()](std::stop_token const& over) {
      while (!over.stop_requested() && all_->quiet_rounds < 3) {
        int round = all_->round;
        all_->looked_in[rank] = looks_again(over) ? round : 0;
        if (all_->looked_in[rank] == 0) {
          all_->quiet_rounds = 0;
        } else if (std::ranges::count_if(all_->looked_in,
                                         [round](auto const& each) { return each == round; }) >=
                       waiting_ &&
                   all_->round.compare_exchange_strong(round, round + 1)) {
          ++all_->quiet_rounds;
        }
      }
      // Longer steps are the absence of a process that was stopped.
      for (int step = 0; step < 5 && !over.stop_requested(); ++step) {
        hand_moved_clock::pass(deadline / 5);
        if (!looks_again(over)) { return; }
      }
    });
  }

 private:
  struct told {
    std::atomic<int> round = 1;
    std::atomic<int> quiet_rounds = 0;  // one after the other in which all looked in vain
    std::array<std::atomic<int>, 16> looked_in{};
  };

  /// Returns once this process has looked anew whether it waits still, or that it waits no more.
  bool looks_again(std::stop_token const& over)
  {
    auto& own = hand_moved_clock::clock::all_waits();
    std::unique_lock lock(own.mutex);
    ++own.round;
    own.looked = 0;
    while (!over.stop_requested() && own.looked == 0 && own.ended == ended_) {
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      lock.lock();
    }
    return std::exchange(ended_, own.ended) == own.ended;
  }

  hand_moved_clock clock_;
  std::ptrdiff_t waiting_;
  shared_object<told> all_;
  std::uint64_t ended_ = 0;  // waits of this process
  std::jthread mover_;
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
