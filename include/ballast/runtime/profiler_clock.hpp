// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_PROFILER_CLOCK_HPP
#define BALLAST_RUNTIME_PROFILER_CLOCK_HPP

#include <ballast/core/result.hpp>

#include <chrono>
#include <concepts>
#include <cstdint>

namespace ballast::inline v0 {

/// What times the profiler's calls. Every decision of the profiler is made on its numbers alone.
///
/// time(work) calls work once and returns how long that took; now() is the time since some moment,
/// from which a budget is counted. Both in nanoseconds.
///
/// The models are host_clock, event_clock of ballast/gpu for work on a CUDA stream, and
/// agreed_clock for ranks that profile together.
template <class Clock>
concept profiler_clock = requires(Clock& clock, void (*work)()) {
  { clock.time(work) } -> std::same_as<result<std::int64_t>>;
  { clock.now() } -> std::same_as<result<std::int64_t>>;
};

/// The time of the calling thread's work, by the steady clock.
struct host_clock {
  template <class Work>
  [[nodiscard]] result<std::int64_t> time(Work&& work) const
  {
    auto const before = std::chrono::steady_clock::now();
    work();
    return nanoseconds(std::chrono::steady_clock::now() - before);
  }

  [[nodiscard]] result<std::int64_t> now() const
  {
    return nanoseconds(std::chrono::steady_clock::now().time_since_epoch());
  }

 private:
  [[nodiscard]] static std::int64_t nanoseconds(std::chrono::steady_clock::duration time)
  {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
  }
};

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_PROFILER_CLOCK_HPP
