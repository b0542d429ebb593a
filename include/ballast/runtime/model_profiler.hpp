// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_MODEL_PROFILER_HPP
#define BALLAST_RUNTIME_MODEL_PROFILER_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/cost/profile_file.hpp>
#include <ballast/runtime/detail/pass_times.hpp>
#include <ballast/runtime/profiler_clock.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace ballast::inline v0 {

/// Attention is timed apart from all else: it takes samples one by one, and reaches another speed.
enum class profiled_part : std::uint8_t { linear, attention };

/// What the profiler times: one part of the timed layers, for a microbatch or sample of a size.
struct profiler_point {
  profiled_part part = profiled_part::linear;
  std::uint32_t tp = 1;
  tokens size = 1;
  std::uint32_t sp = 1;
  std::uint32_t ep = 1;

  friend bool operator==(profiler_point const&, profiler_point const&) = default;
};

/// A module to profile, and where.
///
/// Units       flops: as in module_profile, of a whole training step of all layers.
struct profiler_grid {
  std::string name;
  std::string model{};  ///< fingerprint: what makes it another model, in words
  std::uint32_t layers = 1;
  std::uint32_t timed_layers = 1;  ///< that one call computes: layers are alike
  flop_polynomial flops{};
  std::vector<parallel_degree> degrees{{}};
  std::vector<tokens> sizes{};
};

/// How often a point is measured, and for how long altogether.
struct profiler_settings {
  std::uint32_t warm_up = 2;  ///< calls that are not counted
  std::uint32_t runs = 9;
  std::int64_t budget_ns = std::numeric_limits<std::int64_t>::max();  ///< none; 0 measures nothing
};

/// How far the profiler is.
struct profiler_progress {
  profiler_point point;      ///< that is measured next
  std::size_t done = 0;      ///< points that the file has, of this grid
  std::size_t left = 0;      ///< points that it lacks, the next one included
  std::int64_t used_ns = 0;  ///< since the profiler was called
  std::int64_t left_ns = 0;  ///< that the rest is likely to take; 0 before the first is measured
};

/// A point that did not fit the memory, and why.
struct profiler_limit {
  profiler_point point;
  std::string why;
  friend bool operator==(profiler_limit const&, profiler_limit const&) = default;
};

/// What one call of the profiler did.
struct profiler_summary {
  std::size_t measured = 0;
  std::size_t known = 0;      ///< points that the file had before
  std::size_t left = 0;       ///< points for which the budget left no time
  std::size_t too_large = 0;  ///< points that did not fit the memory, and those larger than these
  std::vector<profiler_limit> limits = {};  ///< those that did not fit

  friend bool operator==(profiler_summary const&, profiler_summary const&) = default;
};

/// Work that was prepared for a point: its forward pass, and then its backward pass, as often as
/// they are called. A pass may return result<void>.
template <class Work>
concept timed_work = requires(Work& work) {
  work.forward();
  work.backward();
};

/// What prepares a point: a callable that returns its work, or a result of it.
template <class Prepare>
concept prepares_points =
    std::invocable<Prepare&, profiler_point const&> &&
    (timed_work<std::remove_reference_t<std::invoke_result_t<Prepare&, profiler_point const&>>> ||
     requires(std::invoke_result_t<Prepare&, profiler_point const&> prepared) {
       requires timed_work<std::remove_reference_t<decltype(*prepared)>>;
       { prepared.error() } -> std::convertible_to<error>;
     });

namespace detail {

/// The FLOP of a point on all of its GPUs together.
[[nodiscard]] inline double flop_of(profiler_grid const& grid, profiler_point const& point)
{
  flop_polynomial const part = point.part == profiled_part::linear
                                   ? flop_polynomial{grid.flops.linear, 0}
                                   : flop_polynomial{0, grid.flops.quadratic};
  return flops(part, point.size) * grid.timed_layers / grid.layers;
}

/// The points of a grid, so that whenever the time is up those that are there span it: sizes from
/// coarse to fine, each at all degrees. Expects a size at least.
[[nodiscard]] inline std::vector<profiler_point> points_of(profiler_grid const& grid)
{
  // Both ends first, then the middle of each gap that is left.
  std::vector<std::size_t> order = {0};
  if (grid.sizes.size() > 1) { order.push_back(grid.sizes.size() - 1); }
  std::vector<std::pair<std::size_t, std::size_t>> gaps = {{0, grid.sizes.size() - 1}};
  for (std::size_t at = 0; at < gaps.size(); ++at) {
    auto const [first, last] = gaps[at];
    if (last - first < 2) { continue; }
    std::size_t const middle = first + (last - first) / 2;
    order.push_back(middle);
    gaps.emplace_back(first, middle);
    gaps.emplace_back(middle, last);
  }
  std::vector<profiler_point> points;
  for (std::size_t const at : order) {
    for (auto const& [tp, sp, ep] : grid.degrees) {
      points.push_back({profiled_part::linear, tp, grid.sizes[at], sp, ep});
      if (grid.flops.quadratic == 0) { continue; }
      points.push_back({profiled_part::attention, tp, grid.sizes[at], sp, ep});
    }
  }
  return points;
}

/// Whether a point is as large as one of its part and degree that did not fit.
[[nodiscard]] inline bool is_beyond(std::vector<profiler_limit> const& limits,
                                    profiler_point const& point)
{
  return std::any_of(limits.begin(), limits.end(), [&point](profiler_limit const& each) {
    return each.point.part == point.part && degree_of(each.point) == degree_of(point) &&
           each.point.size <= point.size;
  });
}

[[nodiscard]] inline std::vector<speed_point>& speeds_of(measured_module& module,
                                                         profiler_point const& point)
{
  measured_degree& degree = find_or_add_degree(module, degree_of(point));
  return point.part == profiled_part::linear ? degree.linear : degree.attention;
}

[[nodiscard]] inline result<void> check_grid(profiler_grid const& grid)
{
  auto const refuse = [&grid](std::size_t position, std::string const& why) {
    return fail(error_code::out_of_range, position, "module " + grid.name + " " + why);
  };
  if (grid.name.empty()) { return refuse(0, "has no name; give it one"); }
  if (grid.layers == 0 || grid.timed_layers == 0 || grid.flops.linear == 0) {
    return refuse(0, "has no layers, no timed layers or no FLOP per token or item; give them");
  }
  if (grid.sizes.empty() || grid.degrees.empty()) {
    return refuse(0, "is to be measured at no size or no degree; give one at least");
  }
  for (std::size_t at = 0; at < grid.sizes.size(); ++at) {
    if (grid.sizes[at] < 1 || grid.sizes[at] > longest_sample) {
      return refuse(at, concat("is to be measured at size ", grid.sizes[at],
                               "; give sizes from 1 to ", longest_sample));
    }
  }
  auto const is_none = [](parallel_degree const& each) { return each.gpus() == 0; };
  if (std::any_of(grid.degrees.begin(), grid.degrees.end(), is_none)) {
    return refuse(0, "is to be measured at a parallel degree of 0; give degrees from 1 on");
  }
  return {};
}

/// The module of the grid in the file, described where it is new.
[[nodiscard]] inline result<measured_module*> describe(profile_file& file,
                                                       profiler_grid const& grid)
{
  measured_module const* const before = find_module(file, grid.name);
  // One of which memory alone was measured.
  bool const is_new = before == nullptr || (before->model.empty() && before->layers == 0 &&
                                            before->flops == flop_polynomial());
  if (!is_new && (before->model != grid.model || before->layers != grid.layers ||
                  before->flops != grid.flops)) {
    return fail(error_code::mismatch, 0,
                "the profile has module " + grid.name +
                    " of another model, number of layers or FLOP; measure it into a new file");
  }
  measured_module& described = find_or_add_module(file, grid.name);
  described.model = grid.model;
  described.layers = grid.layers;
  described.flops = grid.flops;
  return &described;
}

}  // namespace detail

/// Times a module on a grid of sizes and parallel degrees, and adds what it measures to a profile,
/// also to one that an earlier call began: points that the file has are not measured again.
///
/// prepare(point) returns the work of a point, or a result of it, made outside of what is timed. A
/// run is one forward and one backward pass, timed one after the other; the throughput is the FLOP
/// of a run by the median time of both passes together.
///
/// In, out     file: keeps what it has, also where an error is returned.
/// Expects     ranks that profile together are out_of_memory together: by an all-gather in prepare
/// Calls       report(profiler_progress) before each point: to show it, or save all before it.
/// Ensures     (1) sizes are measured from coarse to fine, so that a partial profile spans the grid
///             (2) no point is begun once the budget is used up; one that was begun is finished
///             (3) clocks that return the same numbers give the same file
///             (4) where a point is out_of_memory, neither it nor a larger one of its part and
///                 degree is measured, all others are, and the summary says so
/// Errors      out_of_range: the grid is empty or has sizes or degrees that are none, or a run took
///             no time by the clock; mismatch: the file has another module of that name. Those of
///             the clock, and those of prepare and of the passes but for out_of_memory.
template <profiler_clock Clock, prepares_points Prepare,
          std::invocable<profiler_progress const&> Report>
[[nodiscard]] result<profiler_summary> profile_module(profile_file& file, profiler_grid const& grid,
                                                      Prepare&& prepare, Clock& clock,
                                                      profiler_settings const& settings,
                                                      Report&& report)
{
  BALLAST_EXPECTS(settings.runs >= 1);
  BALLAST_EXPECTS(settings.budget_ns >= 0, "the budget is ", settings.budget_ns,
                  " ns; give 0 or more");
  if (auto checked = detail::check_grid(grid); !checked) { return tl::unexpected(checked.error()); }
  auto const described = detail::describe(file, grid);
  if (!described) { return tl::unexpected(described.error()); }
  measured_module& module = **described;

  std::vector<profiler_point> missing;
  double flop_left = 0;
  profiler_summary summary;
  for (profiler_point const& point : detail::points_of(grid)) {
    auto const& known = detail::speeds_of(module, point);
    if (std::ranges::count(known, point.size, &speed_point::size) > 0) {
      ++summary.known;
    } else if (std::ranges::count(missing, point) == 0) {
      missing.push_back(point);
      flop_left += detail::flop_of(grid, point);
    }
  }

  if constexpr (requires { clock.about(settings, missing); }) { clock.about(settings, missing); }
  auto const start = clock.now();
  if (!start) { return tl::unexpected(start.error()); }
  double flop_done = 0;
  for (profiler_point const& point : missing) {
    double const flop = detail::flop_of(grid, point);
    if (detail::is_beyond(summary.limits, point)) {
      ++summary.too_large;
      flop_left -= flop;
      continue;
    }
    auto const now = clock.now();
    if (!now) { return tl::unexpected(now.error()); }
    std::int64_t const used = *now - *start;
    summary.left = missing.size() - summary.measured - summary.too_large;
    if (used >= settings.budget_ns) { return summary; }
    double const rest = flop_done > 0 ? static_cast<double>(used) * flop_left / flop_done : 0;
    report(profiler_progress{point, summary.known + summary.measured, summary.left, used,
                             static_cast<std::int64_t>(std::min(rest, 9e18))});

    auto const times = detail::time_passes(prepare, point, clock, settings.warm_up, settings.runs);
    if (!times && times.error().code == error_code::out_of_memory) {
      summary.limits.push_back({point, times.error().message});
      ++summary.too_large;
      flop_left -= flop;
      continue;
    }
    if (!times) { return tl::unexpected(times.error()); }
    auto const gpus = static_cast<double>(degree_of(point).gpus());
    auto const speed = detail::speed_of(point.size, *times, flop / gpus);
    if (!speed) {
      return fail(speed.error().code, speed.error().position, "module ", grid.name, " at ",
                  text_of(degree_of(point)), " and size ", point.size, " ", speed.error().message);
    }
    (void)add_point(detail::speeds_of(module, point), *speed);
    ++summary.measured;
    flop_done += flop;
    flop_left -= flop;
  }
  summary.left = 0;
  return summary;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_MODEL_PROFILER_HPP
