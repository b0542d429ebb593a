// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "time_limits.hpp"

#include <ballast/core/detail/wait_clock.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

namespace ballast_test {

/// While it lives, what waits in this process waits by a clock that stands still until `pass`.
class hand_moved_clock {
 public:
  using clock = ballast::detail::wait_clock;

  hand_moved_clock() { clock::move_to(clock::now()); }
  ~hand_moved_clock() { clock::move_no_longer(); }
  hand_moved_clock(hand_moved_clock const&) = delete;
  hand_moved_clock& operator=(hand_moved_clock const&) = delete;

  static void pass(clock::duration time) { clock::move_to(clock::now() + time); }

  /// The same, once so many waits of this process are under way beside those of `acting`, and none
  /// of them would end before. Returns when all have ended or looked again.
  static void pass_when(std::size_t waiting, clock::duration time)
  {
    // In the second round all have looked after all had begun to wait.
    auto ended = round(waiting);
    for (auto before = ended - 1; before != ended; ended = round(waiting)) { before = ended; }
    pass(time);
    (void)round(waiting, ended);
  }

  /// A thread that does so, and so many times.
  [[nodiscard]] static std::jthread passes_when(std::size_t waiting, clock::duration time,
                                                int times = 1)
  {
    return std::jthread([=] {
      for (int each = 0; each < times; ++each) { pass_when(waiting, time); }
    });
  }

  /// Waits for so long by the clock.
  static void sleep(clock::duration time)
  {
    clock::watched_wait own;
    for (auto const end = clock::now() + time; clock::now() < end;) {
      own.look_in_vain();
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }

  /// Threads that wait or act, which others count for a test.
  static void begin_to_act(std::size_t threads = 1) { change_acting(threads); }
  static void end_to_act() { change_acting(std::size_t{0} - 1); }
  struct acts_until_here {
    acts_until_here() = default;
    acts_until_here(acts_until_here const&) = delete;
    acts_until_here& operator=(acts_until_here const&) = delete;
    ~acts_until_here() { end_to_act(); }
  };
  [[nodiscard]] static std::size_t acting()
  {
    std::lock_guard const lock(clock::all_waits().mutex);
    return acting_;
  }

 private:
  static void change_acting(std::size_t by)
  {
    clock::waits& all = clock::all_waits();
    std::lock_guard const lock(all.mutex);
    acting_ += by;
    ++all.ended;
  }

  /// Returns how many waits have ended when so many that are under way have looked anew, where
  /// those count too that have ended since `before` had.
  static std::uint64_t round(std::size_t waiting, std::optional<std::uint64_t> before = {})
  {
    clock::waits& all = clock::all_waits();
    std::unique_lock lock(all.mutex);
    ++all.round;
    all.looked = 0;
    auto const end = std::chrono::steady_clock::now() + time_bound;
    while (all.looked + (before ? all.ended - *before : 0) < waiting + acting_) {
      if (std::chrono::steady_clock::now() > end) {
        std::fprintf(stderr, "%zu wait, and not %zu and %zu\n", all.looked, waiting, acting_);
        std::abort();
      }
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      lock.lock();
    }
    return all.ended;
  }

  static inline std::size_t acting_ = 0;
};

/// A clock that passes by such steps whenever all threads that take part wait for it.
class passing_time {
 public:
  explicit passing_time(hand_moved_clock::clock::duration step)
      : mover_([step](std::stop_token const& over) {
          while (!over.stop_requested()) {
            if (hand_moved_clock::acting() > 0) { hand_moved_clock::pass_when(0, step); }
            std::this_thread::sleep_for(std::chrono::microseconds(100));
          }
        })
  {}

 private:
  hand_moved_clock clock_;
  std::jthread mover_;
};

}  // namespace ballast_test
