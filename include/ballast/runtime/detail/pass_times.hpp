// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_PASS_TIMES_HPP
#define BALLAST_RUNTIME_DETAIL_PASS_TIMES_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/cost/profile_file.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace ballast::inline v0::detail {

/// How long the passes of each run took, in nanoseconds.
struct pass_times {
  std::vector<std::int64_t> forward;
  std::vector<std::int64_t> backward;
};

/// Times a pass that may return result<void>.
template <class Clock, class Pass>
[[nodiscard]] result<std::int64_t> time_pass(Clock& clock, Pass&& pass)
{
  if constexpr (std::is_void_v<decltype(pass())>) {
    return clock.time(pass);
  } else {
    result<void> done;
    auto const time = clock.time([&] { done = pass(); });
    if (!done) { return tl::unexpected(done.error()); }
    return time;
  }
}

/// Runs what prepare returns for a point, which may be a result, warm_up + runs times and returns
/// the times of the last runs.
template <class Prepare, class Point, class Clock>
[[nodiscard]] result<pass_times> time_passes(Prepare& prepare, Point const& point, Clock& clock,
                                             std::size_t warm_up, std::size_t runs)
{
  auto const run_all = [&](auto&& work) -> result<pass_times> {
    pass_times times;
    for (std::size_t run = 0; run < warm_up + runs; ++run) {
      auto const forward = time_pass(clock, [&] { return work.forward(); });
      if (!forward) { return tl::unexpected(forward.error()); }
      auto const backward = time_pass(clock, [&] { return work.backward(); });
      if (!backward) { return tl::unexpected(backward.error()); }
      if (run < warm_up) { continue; }
      times.forward.push_back(*forward);
      times.backward.push_back(*backward);
    }
    return times;
  };
  auto&& work = prepare(point);
  if constexpr (requires { work.forward(); }) {
    return run_all(work);
  } else {
    if (!work) { return tl::unexpected(work.error()); }
    return run_all(*work);
  }
}

/// The value with a share `quarters` / 4 of the others below it; of two in the middle their mean.
/// Expects at least one value.
[[nodiscard]] inline std::int64_t quartile(std::vector<std::int64_t> values, std::size_t quarters)
{
  BALLAST_EXPECTS(!values.empty());
  std::sort(values.begin(), values.end());
  std::size_t const last = values.size() - 1;
  std::size_t const below = last * quarters / 4;
  std::size_t const above = (last * quarters + 3) / 4;
  return values[below] + (values[above] - values[below]) / 2;
}

/// The measured point of a size: FLOP of one GPU per second of a run of both passes.
///
/// Errors      out_of_range: a run took no time by the clock, or its throughput is no number that a
///             profile can hold. The message begins after the name of what was measured.
[[nodiscard]] inline result<speed_point> speed_of(tokens size, pass_times const& times, double flop)
{
  std::vector<std::int64_t> both(times.forward.size());
  for (std::size_t run = 0; run < both.size(); ++run) {
    both[run] = times.forward[run] + times.backward[run];
  }
  auto const per_second = [flop](std::int64_t nanoseconds) {
    return static_cast<std::uint64_t>(std::clamp(
        std::round(flop / static_cast<double>(std::max<std::int64_t>(nanoseconds, 1)) * 1e9), 1.0,
        1e18));
  };
  std::int64_t const median = quartile(both, 2);
  if (median < 1) {
    return fail(error_code::out_of_range, 0,
                "took no time by the clock; time more layers or larger sizes");
  }
  return speed_point{.size = size,
                     .flop_per_second = per_second(median),
                     .lower_quartile = per_second(quartile(both, 3)),
                     .upper_quartile = per_second(quartile(both, 1)),
                     .forward_ns = static_cast<std::uint64_t>(quartile(times.forward, 2)),
                     .backward_ns = static_cast<std::uint64_t>(quartile(times.backward, 2))};
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_PASS_TIMES_HPP
