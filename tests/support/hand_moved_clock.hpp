// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_SUPPORT_HAND_MOVED_CLOCK_HPP
#define BALLAST_TESTS_SUPPORT_HAND_MOVED_CLOCK_HPP

#include <ballast/core/detail/wait_clock.hpp>

namespace ballast_test {

/// While it lives, what waits in this process waits by a clock that stands still until `pass`.
class hand_moved_clock {
 public:
  using clock = ballast::detail::wait_clock;

  hand_moved_clock() { clock::move_to(clock::now()); }
  ~hand_moved_clock() { clock::move_no_longer(); }
  hand_moved_clock(hand_moved_clock const&) = delete;
  hand_moved_clock& operator=(hand_moved_clock const&) = delete;

  void pass(clock::duration time) { clock::move_to(clock::now() + time); }
};

}  // namespace ballast_test

#endif  // BALLAST_TESTS_SUPPORT_HAND_MOVED_CLOCK_HPP
