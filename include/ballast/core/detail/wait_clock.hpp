// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CORE_DETAIL_WAIT_CLOCK_HPP
#define BALLAST_CORE_DETAIL_WAIT_CLOCK_HPP

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <mutex>

namespace ballast::inline v0::detail {

/// The clock of all that waits for other threads and ranks: std::chrono::steady_clock, or, once
/// `move_to` was called in this process, a time that stands still until it is called again. Tests
/// move it, so that a deadline passes when they say so and never because a machine is busy.
struct wait_clock {
  using duration = std::chrono::steady_clock::duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr bool is_steady = true;

  [[nodiscard]] static time_point now() noexcept
  {
    rep const at = moved_.load(std::memory_order_acquire);
    return at == real ? std::chrono::steady_clock::now() : time_point(duration(at));
  }

  [[nodiscard]] static bool is_moved() noexcept
  {
    return moved_.load(std::memory_order_acquire) != real;
  }

  static void move_to(time_point time) noexcept
  {
    moved_.store(time.time_since_epoch().count(), std::memory_order_release);
  }

  static void move_no_longer() noexcept { moved_.store(real, std::memory_order_release); }

 private:
  static constexpr rep real = std::numeric_limits<rep>::min();
  static inline std::atomic<rep> moved_{real};
};

/// condition.wait_for(lock, limit, done) by that clock: whether done() holds. While the clock is
/// moved it looks every millisecond.
template <class Done>
bool wait_by_clock(std::condition_variable& condition, std::unique_lock<std::mutex>& lock,
                   wait_clock::duration limit, Done done)
{
  auto const end = wait_clock::now() + limit;
  while (!done()) {
    auto left = end - wait_clock::now();
    if (left <= left.zero()) { return false; }
    if (wait_clock::is_moved()) {
      left = std::min<wait_clock::duration>(left, std::chrono::milliseconds(1));
    }
    condition.wait_for(lock, left);
  }
  return true;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_CORE_DETAIL_WAIT_CLOCK_HPP
