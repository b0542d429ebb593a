// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_AGREED_CLOCK_HPP
#define BALLAST_RUNTIME_AGREED_CLOCK_HPP

#include <ballast/comm/concepts.hpp>
#include <ballast/core/result.hpp>
#include <ballast/runtime/profiler_clock.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace ballast::inline v0 {

/// The clock of ranks that profile together, such as those of a tensor-parallel group: a call has
/// taken as long as on the slowest rank, and it is as late as on the latest. So all ranks have the
/// same profile, and stop at the same point when the budget is used up.
///
/// Expects     every rank uses it for the same calls in the same order; comm and clock outlive it.
/// Errors      those of the communicator, and of its own clock, which leaves the others waiting
///             until their deadline.
template <communicator C, profiler_clock Clock = host_clock>
class agreed_clock {
 public:
  explicit agreed_clock(C& comm, Clock clock = {}) : comm_(comm), clock_(clock) {}

  template <class Work>
  [[nodiscard]] result<std::int64_t> time(Work&& work)
  {
    return clock_.time(work).and_then([this](std::int64_t own) { return latest(own); });
  }

  [[nodiscard]] result<std::int64_t> now()
  {
    return clock_.now().and_then([this](std::int64_t own) { return latest(own); });
  }

 private:
  [[nodiscard]] result<std::int64_t> latest(std::int64_t own)
  {
    constexpr std::size_t bytes = sizeof(own);
    std::span<std::byte> const memory = comm_.scratch(bytes * (comm_.size() + 1));
    std::memcpy(memory.data(), &own, bytes);
    std::span<std::byte> const all = memory.subspan(bytes);
    if (auto done = comm_.all_gather(memory.first(bytes), all); !done) {
      return tl::unexpected(done.error());
    }
    if (auto done = comm_.wait(); !done) { return tl::unexpected(done.error()); }
    for (std::size_t rank = 0; rank < comm_.size(); ++rank) {
      std::int64_t other = 0;
      std::memcpy(&other, &all[rank * bytes], bytes);
      own = std::max(own, other);
    }
    return own;
  }

  C& comm_;
  Clock clock_;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_AGREED_CLOCK_HPP
