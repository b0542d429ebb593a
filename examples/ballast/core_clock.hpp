// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/runtime/model_profiler.hpp>

#include <time.h>

namespace cli {

/// A clock of the profiler for work of the calling thread: the time that a core has spent on it.
/// Time that other programs have the core does not count, so that a busy machine disturbs less.
class core_clock {
 public:
  template <class Work>
  [[nodiscard]] ballast::result<std::int64_t> time(Work&& work) const
  {
    std::int64_t const before = spent();
    work();
    return spent() - before;
  }

  /// A budget is of time as it passes.
  [[nodiscard]] ballast::result<std::int64_t> now() const { return ballast::host_clock{}.now(); }

 private:
  [[nodiscard]] static std::int64_t spent()
  {
    timespec time{};
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  }
};

static_assert(ballast::profiler_clock<core_clock>);

}  // namespace cli
