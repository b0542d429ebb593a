// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_AGREED_CLOCK_HPP
#define BALLAST_RUNTIME_AGREED_CLOCK_HPP

#include <ballast/comm/communicator.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/random.hpp>
#include <ballast/runtime/detail/gather_alike.hpp>
#include <ballast/runtime/detail/plan_together.hpp>
#include <ballast/runtime/detail/thrown_text.hpp>
#include <ballast/runtime/model_profiler.hpp>
#include <ballast/runtime/profiler_clock.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0 {

/// The clock of ranks that profile together, such as those of a tensor-parallel group: a call has
/// taken as long as on the slowest rank, and it is as late as on the latest. So all ranks have the
/// same profile, and stop at the same point when the budget is used up.
///
/// Expects     every rank uses it for the same calls in the same order; comm and clock outlive it.
/// Errors      mismatch, on every rank: one calls time() and another now(); profile_module has
///             other settings or points left; or some rank has no time, and then why. That rank
///             gets the error of its clock, or `failed` where what is timed or the clock threw.
///             Only std::bad_alloc is thrown again, after the others have been told. Those of the
///             communicator.
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
    auto const thrown = detail::thrown_by([&] { own = read(); });
    if (thrown) {
      own = fail(error_code::failed, 0, "what is timed threw on rank ", comm_.rank(), ": ",
                 detail::thrown_text(thrown));
    }
    auto const agreed = exchange(which, own);
    if (thrown) { detail::rethrow_if_out_of_memory(thrown); }
    return own ? agreed : own;
  }

  [[nodiscard]] result<std::int64_t> exchange(call which, result<std::int64_t> const& own)
  {
    auto const called = static_cast<std::uint64_t>(own ? which : call::none);
    auto const word = digest{}.add(called).add(about_).value();
    auto const all = detail::gather_with_word<std::int64_t>(comm_, word, 2, [&](std::size_t at) {
      return at == 0 ? own.value_or(0) : own ? 1 : 0;
    });
    if (!all) { return tl::unexpected(all.error()); }
    if (!all->all_have(word)) {
      auto told = comm_failure::mismatch(
          "agreed_clock", "what is timed, or one has no time", all->differing(),
          "time the same calls in the same order, of the same points with the same settings",
          "nothing was changed");
      detail::tell_why(
          comm_, told.value(), [&](std::size_t rank) { return (*all)(rank, 1) != 0; },
          own ? "" : own.error().message);
      return told;
    }
    std::int64_t time = (*all)(0);
    for (std::size_t rank = 1; rank < comm_.size(); ++rank) { time = std::max(time, (*all)(rank)); }
    return time;
  }

  C& comm_;
  Clock clock_;
  std::uint64_t about_ = 0;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_AGREED_CLOCK_HPP
