// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace ballast_test {

/// How often this program has called operator new: a steady state must leave it as it is. A program
/// that calls this gets a counting operator new.
[[nodiscard]] std::size_t allocations() noexcept;

/// The same, by this thread alone.
[[nodiscard]] std::size_t allocations_of_thread() noexcept;

/// How many of them have not been given back; 0 where allocations cannot fail.
[[nodiscard]] std::size_t allocations_alive() noexcept;

/// Whether failing_allocation has an effect: not under the thread sanitizer, which has an operator
/// new of its own.
[[nodiscard]] bool allocations_can_fail() noexcept;

/// As long as it lives, the n-th allocation of its thread fails, once; n counts from 1, and 0 is
/// none.
class failing_allocation {
 public:
  explicit failing_allocation(std::size_t n) noexcept;
  failing_allocation(failing_allocation const&) = delete;
  failing_allocation& operator=(failing_allocation const&) = delete;
  ~failing_allocation();

  /// Whether there was an n-th allocation.
  [[nodiscard]] bool has_failed() const noexcept;
};

/// As long as it lives, no allocation of its thread fails or is counted as the n-th: for stand-ins,
/// whose memory is not ours.
class spared_allocations {
 public:
  spared_allocations() noexcept;
  spared_allocations(spared_allocations const&) = delete;
  spared_allocations& operator=(spared_allocations const&) = delete;
  ~spared_allocations();

 private:
  std::size_t to_go_;
};

/// Whether an allocation by other means than operator new is the one to fail.
[[nodiscard]] bool allocation_fails() noexcept;

}  // namespace ballast_test
