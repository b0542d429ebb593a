// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_AGREED_CLOCK_HPP
#define BALLAST_RUNTIME_AGREED_CLOCK_HPP

#include <ballast/comm/concepts.hpp>
#include <ballast/core/detail/thrown_by.hpp>
#include <ballast/core/digest.hpp>
#include <ballast/core/result.hpp>
#include <ballast/runtime/detail/gather_alike.hpp>
#include <ballast/runtime/model_profiler.hpp>
#include <ballast/runtime/profiler_clock.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>

namespace ballast::inline v0 {

/// The clock of ranks that profile together, such as those of a tensor-parallel group: a call has
/// taken as long as on the slowest rank, and it is as late as on the latest. So all ranks have the
/// same profile, and stop at the same point when the budget is used up.
///
/// Expects     every rank uses it for the same calls in the same order; comm and clock outlive it.
/// Errors      mismatch, on every rank: one calls time() and another now(); profile_module has
///             other settings or points left; or on some rank the clock has an error, which that
///             rank gets, or what is timed throws, and the exception leaves the call there. Those
///             of the communicator.
template <communicator C, profiler_clock Clock = host_clock>
class agreed_clock {
 public:
  explicit agreed_clock(C& comm, Clock clock = {}) : comm_(comm), clock_(clock) {}

  /// What further calls are for, which ranks compare in each of them. For profile_module.
  void about(profiler_settings const& settings, std::span<profiler_point const> points) noexcept
  {
    digest all;
    all.add(settings.warm_up).add(settings.runs);
    all.add(static_cast<std::uint64_t>(settings.budget_ns));
    for (profiler_point const& each : points) {
      all.add(static_cast<std::uint64_t>(each.part)).add(static_cast<std::uint64_t>(each.size));
      all.add(each.tp).add(each.sp).add(each.ep);
    }
    about_ = all.value();
  }

  template <class Work>
  [[nodiscard]] result<std::int64_t> time(Work&& work)
  {
    return latest(call::time, [&] { return clock_.time(work); });
  }

  [[nodiscard]] result<std::int64_t> now()
  {
    return latest(call::now, [&] { return clock_.now(); });
  }

 private:
  enum class call : std::uint64_t { none, time, now };

  template <class Read>
  [[nodiscard]] result<std::int64_t> latest(call which, Read const& read)
  {
    result<std::int64_t> own;
    if (auto const thrown = detail::thrown_by([&] { own = read(); })) {
      (void)gather(call::none, 0);  // so that no rank waits for this one
      std::rethrow_exception(thrown);
    }
    auto const all = gather(own ? which : call::none, own.value_or(0));
    if (!own) { return own; }
    if (!all) { return tl::unexpected(all.error()); }
    for (std::size_t rank = 0; rank < comm_.size(); ++rank) { own = std::max(*own, (*all)(rank)); }
    return own;
  }

  [[nodiscard]] auto gather(call which, std::int64_t own)
  {
    auto const word = digest{}.add(static_cast<std::uint64_t>(which)).add(about_).value();
    return detail::gather_alike<std::int64_t>(
        comm_, "agreed_clock", {word, "what is timed, or one has no time"},
        "time the same calls in the same order, of the same points with the same settings", 1,
        [own](std::size_t) { return own; });
  }

  C& comm_;
  Clock clock_;
  std::uint64_t about_ = 0;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_AGREED_CLOCK_HPP
