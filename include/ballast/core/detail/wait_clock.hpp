// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core/contract.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <utility>

namespace ballast::inline v0::detail {

/// What deadlines are cut to where they are added to a clock, which longer ones overflow.
inline constexpr std::chrono::milliseconds longest_deadline = std::chrono::hours(24 * 365);

inline void expect_deadline(std::chrono::milliseconds deadline)
{
  BALLAST_EXPECTS(deadline > std::chrono::milliseconds(0), "the deadline is ", deadline.count(),
                  " ms; give one above 0, milliseconds::max() for none");
}

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

  /// The waits of this process while the clock is moved, for tests to know when nobody will act
  /// before it is moved again.
  struct waits {
    std::mutex mutex;
    std::uint64_t round = 1;
    std::size_t looked = 0;  // waits under way that have looked in vain in this round
    std::uint64_t ended = 0;
  };
  [[nodiscard]] static waits& all_waits() noexcept
  {
    static waits all;
    return all;
  }

  /// One wait, which says each time that what it waits for is not there.
  class watched_wait {
   public:
    watched_wait() = default;
    watched_wait(watched_wait const&) noexcept {}  // another wait
    watched_wait& operator=(watched_wait const&) = delete;
    ~watched_wait() { end(); }

    void look_in_vain()
    {
      if (!is_moved()) { return; }
      waits& all = all_waits();
      std::lock_guard const lock(all.mutex);
      if (round_ != all.round) { ++all.looked; }
      round_ = all.round;
    }
    void end() noexcept
    {
      if (round_ == 0) { return; }
      waits& all = all_waits();
      std::lock_guard const lock(all.mutex);
      if (std::exchange(round_, 0) == all.round) { --all.looked; }
      ++all.ended;
    }

   private:
    std::uint64_t round_ = 0;  // in which it has looked
  };

 private:
  static constexpr rep real = std::numeric_limits<rep>::min();
  static inline std::atomic<rep> moved_{real};
};

/// condition.wait_for(lock, limit, done) by that clock: whether done() holds. While it is moved this
/// looks every millisecond.
template <class Done>
bool wait_by_clock(std::condition_variable& condition, std::unique_lock<std::mutex>& lock,
                   std::chrono::milliseconds limit, Done done)
{
  wait_clock::watched_wait own;
  auto const end = wait_clock::now() + std::min(limit, longest_deadline);
  while (!done()) {
    if (wait_clock::now() >= end) { return false; }
    own.look_in_vain();
    if (wait_clock::is_moved()) {
      condition.wait_for(lock, std::chrono::milliseconds(1));
    } else {
      condition.wait_until(lock, end);
    }
  }
  return true;
}

}  // namespace ballast::inline v0::detail
