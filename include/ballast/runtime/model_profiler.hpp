// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cost/profile_file.hpp>

#include <chrono>
#include <cmath>

namespace ballast::inline v0 {

namespace detail {

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
[[nodiscard]] inline result<profile_file::speed_point> speed_of(tokens size,
                                                                pass_times const& times,
                                                                double flop)
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
  return profile_file::speed_point{
      .size = size,
      .flop_per_second = per_second(median),
      .lower_quartile = per_second(quartile(both, 3)),
      .upper_quartile = per_second(quartile(both, 1)),
      .forward_ns = static_cast<std::uint64_t>(quartile(times.forward, 2)),
      .backward_ns = static_cast<std::uint64_t>(quartile(times.backward, 2))};
}

}  // namespace detail

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

namespace detail {

/// Work that was prepared for a point: its forward pass, and then its backward pass, as often as
/// they are called. A pass may return result<void>.
template <class Work>
concept timed_work = requires(Work& work) {
  work.forward();
  work.backward();
};

/// A callable that returns the work of a point, or a result of it.
template <class Prepare, class Point>
concept prepares_points =
    std::invocable<Prepare&, Point const&> &&
    (timed_work<std::remove_reference_t<std::invoke_result_t<Prepare&, Point const&>>> ||
     requires(std::invoke_result_t<Prepare&, Point const&> prepared) {
       requires timed_work<std::remove_reference_t<decltype(*prepared)>>;
       { prepared.error() } -> std::convertible_to<error>;
     });

}  // namespace detail

/// Measures a module on a grid of sizes and parallel degrees, and adds what it measures to a
/// profile, also to one that an earlier call began: what the file has is not measured again.
///
///     model_profiler const llm{.name = "llm", .layers = 32, .flops = flops, .sizes = {1, 8192}};
///     auto const done = llm.profile(file, prepare, clock, [](auto const& progress) { ... });
///
/// Units       flops: as in module_profile, of a whole training step of all layers.
struct model_profiler {
  /// What is measured: the timed layers of a module, for a microbatch or sample of a size.
  struct point {
    std::uint32_t tp = 1;
    tokens size = 1;
    std::uint32_t sp = 1;
    std::uint32_t ep = 1;
    std::uint32_t layers = 1;
    /// Attention is timed apart from all else: it takes samples one by one, and reaches another
    /// speed.
    bool is_attention = false;

    friend bool operator==(point const&, point const&) = default;
  };

  /// How far profile() is.
  struct progress {
    model_profiler::point point;  ///< that is measured next
    std::size_t done = 0;         ///< points that the file has, of this grid
    std::size_t left = 0;         ///< points that it lacks, the next one included
    std::int64_t used_ns = 0;     ///< since it was called
    std::int64_t left_ns = 0;  ///< that the rest is likely to take; 0 before the first is measured
  };

  /// A point that did not fit the memory, and why.
  struct limit {
    model_profiler::point point;
    std::string why;
    friend bool operator==(limit const&, limit const&) = default;
  };

  /// What one call of profile() did.
  struct summary {
    std::size_t measured = 0;
    std::size_t known = 0;      ///< points that the file had before
    std::size_t left = 0;       ///< points for which the budget left no time
    std::size_t too_large = 0;  ///< points that did not fit the memory, and those larger than these
    std::vector<limit> limits = {};  ///< those that did not fit

    friend bool operator==(summary const&, summary const&) = default;
  };

  /// The bytes that one GPU held: weights, gradients and optimiser, and the activations of one
  /// microbatch between its forward and its backward pass.
  struct held_bytes {
    std::uint64_t state = 0;
    std::uint64_t activations = 0;
  };

  std::string name;
  std::string model{};  ///< fingerprint: what makes it another model, in words
  std::uint32_t layers = 1;
  std::uint32_t timed_layers = 1;  ///< that one call computes: layers are alike
  flop_polynomial flops{};
  std::vector<parallel_degree> degrees{{}};
  std::vector<tokens> sizes{};
  std::uint32_t warm_up = 2;  ///< calls that are not counted
  std::uint32_t runs = 9;
  std::int64_t budget_ns = std::numeric_limits<std::int64_t>::max();  ///< none; 0 measures nothing

  /// Times the module.
  ///
  /// prepare(point) returns the work of a point, or a result of it, made outside of what is timed.
  /// A run is one forward and one backward pass, timed one after the other; the throughput is the
  /// FLOP of a run by the median time of both passes together.
  ///
  /// In, out     file: keeps what it has, also where an error is returned.
  /// Expects     ranks that profile together are out_of_memory together, by an all-gather in prepare
  /// Calls       report(progress) before each point: to show it, or save all before it.
  /// Ensures     (1) sizes are measured from coarse to fine, so that a partial profile spans the
  ///                 grid
  ///             (2) no point is begun once the budget is used up; one that was begun is finished
  ///             (3) clocks that return the same numbers give the same file
  ///             (4) where a point is out_of_memory, neither it nor a larger one of its part and
  ///                 degree is measured, all others are, and the summary says so
  /// Errors      out_of_range: the grid is empty or has sizes or degrees that are none, or a run
  ///             took no time by the clock; mismatch: the file has another module of that name.
  ///             Those of the clock, and those of prepare and of the passes but for out_of_memory.
  template <detail::prepares_points<point> Prepare, profiler_clock Clock,
            std::invocable<progress const&> Report>
  [[nodiscard]] result<summary> profile(profile_file& file, Prepare&& prepare, Clock& clock,
                                        Report&& report) const
  {
    BALLAST_EXPECTS(runs >= 1);
    BALLAST_EXPECTS(budget_ns >= 0, "the budget is ", budget_ns, " ns; give 0 or more");
    if (auto checked = check(); !checked) { return tl::unexpected(checked.error()); }
    auto const described = describe(file);
    if (!described) { return tl::unexpected(described.error()); }
    profile_file::measured_module& module = **described;

    std::vector<point> missing;
    double flop_left = 0;
    summary all;
    for (point const& each : points()) {
      if (std::ranges::count(speeds_of(module, each), each.size, &profile_file::speed_point::size) >
          0) {
        ++all.known;
      } else if (std::ranges::count(missing, each) == 0) {
        missing.push_back(each);
        flop_left += flop_of(each);
      }
    }

    if constexpr (requires { clock.about(*this, missing); }) { clock.about(*this, missing); }
    auto const start = clock.now();
    if (!start) { return tl::unexpected(start.error()); }
    double flop_done = 0;
    for (point const& each : missing) {
      double const flop = flop_of(each);
      if (is_beyond(all.limits, each)) {
        ++all.too_large;
        flop_left -= flop;
        continue;
      }
      auto const now = clock.now();
      if (!now) { return tl::unexpected(now.error()); }
      std::int64_t const used = *now - *start;
      all.left = missing.size() - all.measured - all.too_large;
      if (used >= budget_ns) { return all; }
      double const rest = flop_done > 0 ? static_cast<double>(used) * flop_left / flop_done : 0;
      report(progress{each, all.known + all.measured, all.left, used,
                      static_cast<std::int64_t>(std::min(rest, 9e18))});

      auto const times = detail::time_passes(prepare, each, clock, warm_up, runs);
      if (!times && times.error().code == error_code::out_of_memory) {
        all.limits.push_back({each, times.error().message});
        ++all.too_large;
        flop_left -= flop;
        continue;
      }
      if (!times) { return tl::unexpected(times.error()); }
      auto const gpus = static_cast<double>(degree_of(each).gpus());
      auto const speed = detail::speed_of(each.size, *times, flop / gpus);
      if (!speed) {
        return fail(speed.error().code, speed.error().position, "module ", name, " at ",
                    text_of(degree_of(each)), " and size ", each.size, " ", speed.error().message);
      }
      (void)profile_file::add(speeds_of(module, each), *speed);
      ++all.measured;
      flop_done += flop;
      flop_left -= flop;
    }
    all.left = 0;
    return all;
  }

  /// Measures the memory of the module at two numbers of layers and at two sizes, as module_memory
  /// wants it; degrees of which the file has it are not measured again.
  ///
  /// measure(point) returns held_bytes or a result of them, of so many layers; it is called four
  /// times for a degree.
  ///
  /// In, out     file: keeps what it has; a degree is added whole or not at all.
  /// Errors      those of module_memory::check, and of measure.
  template <std::invocable<point const&> Measure>
  [[nodiscard]] result<void> profile_memory(profile_file& file,
                                            std::array<std::uint32_t, 2> at_layers,
                                            std::array<tokens, 2> at_sizes, Measure&& measure) const
  {
    module_memory wanted;
    wanted.layers = at_layers;
    wanted.sizes = at_sizes;
    if (auto checked = wanted.check(); !checked) { return checked; }
    for (parallel_degree const& own : degrees) {
      profile_file::measured_degree& degree = file.find_or_add(name).find_or_add(own);
      if (!degree.state.empty() || !degree.activations.empty()) { continue; }
      std::vector<profile_file::memory_point> state;
      std::vector<profile_file::memory_point> activations;
      for (std::uint32_t const of_layers : at_layers) {
        for (tokens const size : at_sizes) {
          result<held_bytes> const held = measure(point{own.tp, size, own.sp, own.ep, of_layers});
          if (!held) { return tl::unexpected(held.error()); }
          // The state does not depend on the size; the larger of two is the safe one.
          if (!profile_file::add(state, {of_layers, 0, held->state})) {
            state.back().bytes = std::max(state.back().bytes, held->state);
          }
          (void)profile_file::add(activations, {of_layers, size, held->activations});
        }
      }
      degree.state = state;
      degree.activations = activations;
    }
    return {};
  }

 private:
  [[nodiscard]] double flop_of(point const& of) const
  {
    flop_polynomial const part =
        of.is_attention ? flop_polynomial{0, flops.quadratic} : flop_polynomial{flops.linear, 0};
    return part.of(of.size) * timed_layers / layers;
  }

  /// All points, so that whenever the time is up those that are there span the grid: sizes from
  /// coarse to fine, each at all degrees. Expects a size at least.
  [[nodiscard]] std::vector<point> points() const
  {
    // Both ends first, then the middle of each gap that is left.
    std::vector<std::size_t> order = {0};
    if (sizes.size() > 1) { order.push_back(sizes.size() - 1); }
    std::vector<std::pair<std::size_t, std::size_t>> gaps = {{0, sizes.size() - 1}};
    for (std::size_t at = 0; at < gaps.size(); ++at) {
      auto const [first, last] = gaps[at];
      if (last - first < 2) { continue; }
      std::size_t const middle = first + (last - first) / 2;
      order.push_back(middle);
      gaps.emplace_back(first, middle);
      gaps.emplace_back(middle, last);
    }
    std::vector<point> all;
    for (std::size_t const at : order) {
      for (auto const& [tp, sp, ep] : degrees) {
        all.push_back({tp, sizes[at], sp, ep, timed_layers, false});
        if (flops.quadratic > 0) { all.push_back({tp, sizes[at], sp, ep, timed_layers, true}); }
      }
    }
    return all;
  }

  [[nodiscard]] static bool is_beyond(std::vector<limit> const& limits, point const& of)
  {
    return std::any_of(limits.begin(), limits.end(), [&of](limit const& each) {
      return each.point.is_attention == of.is_attention && degree_of(each.point) == degree_of(of) &&
             each.point.size <= of.size;
    });
  }

  [[nodiscard]] static std::vector<profile_file::speed_point>& speeds_of(
      profile_file::measured_module& module, point const& of)
  {
    profile_file::measured_degree& degree = module.find_or_add(degree_of(of));
    return of.is_attention ? degree.attention : degree.linear;
  }

  [[nodiscard]] result<void> check() const
  {
    auto const refuse = [this](std::size_t position, std::string const& why) {
      return fail(error_code::out_of_range, position, "module " + name + " " + why);
    };
    if (name.empty()) { return refuse(0, "has no name; give it one"); }
    if (layers == 0 || timed_layers == 0 || flops.linear == 0) {
      return refuse(0, "has no layers, no timed layers or no FLOP per token or item; give them");
    }
    if (sizes.empty() || degrees.empty()) {
      return refuse(0, "is to be measured at no size or no degree; give one at least");
    }
    for (std::size_t at = 0; at < sizes.size(); ++at) {
      if (sizes[at] < 1 || sizes[at] > longest_sample) {
        return refuse(at, detail::concat("is to be measured at size ", sizes[at],
                                         "; give sizes from 1 to ", longest_sample));
      }
    }
    auto const is_none = [](parallel_degree const& each) { return each.gpus() == 0; };
    if (std::any_of(degrees.begin(), degrees.end(), is_none)) {
      return refuse(0, "is to be measured at a parallel degree of 0; give degrees from 1 on");
    }
    return {};
  }

  /// The module in the file, described where it is new.
  [[nodiscard]] result<profile_file::measured_module*> describe(profile_file& file) const
  {
    profile_file::measured_module const* const before = file.find(name);
    // One of which memory alone was measured.
    bool const is_new = before == nullptr || (before->model.empty() && before->layers == 0 &&
                                              before->flops == flop_polynomial());
    if (!is_new && (before->model != model || before->layers != layers || before->flops != flops)) {
      return fail(error_code::mismatch, 0,
                  "the profile has module " + name +
                      " of another model, number of layers or FLOP; measure it into a new file");
    }
    profile_file::measured_module& described = file.find_or_add(name);
    described.model = model;
    described.layers = layers;
    described.flops = flops;
    return &described;
  }
};

/// What of a profile holds no longer, and why.
struct reprofile_plan {
  bool model_profiler = false;         ///< speeds and memory, of `modules`
  bool data_profiler = false;          ///< shapes of the data, by the model's rules
  std::vector<std::string> modules{};  ///< to measure again, in the order of `now`
  std::vector<std::string> reasons{};  ///< one sentence each

  friend bool operator==(reprofile_plan const&, reprofile_plan const&) = default;
};

/// Compares the fingerprints of a profile with those of what is to be trained now.
///
/// Another model needs both profilers, since its rules make other shapes of the same data; other
/// data need the data profiler alone, and other hardware the model profiler alone, of all modules.
/// A module that is new is another model; one that is gone needs nothing.
///
/// In          of `now` only fingerprints are read: hardware, data, and of each module name, model,
///             layers and FLOP. What was not written down before (empty) counts as changed.
/// Complexity  O(modules^2).
[[nodiscard]] inline reprofile_plan reprofile(profile_file const& old, profile_file const& now)
{
  reprofile_plan plan;
  auto const quoted = [](std::string const& fingerprint) { return "'" + fingerprint + "'"; };
  bool const other_hardware = old.hardware != now.hardware;
  if (other_hardware) {
    plan.model_profiler = !now.modules.empty();
    plan.reasons.push_back("the hardware was " + quoted(old.hardware) + " and is " +
                           quoted(now.hardware));
  }
  for (profile_file::measured_module const& module : now.modules) {
    profile_file::measured_module const* const before = old.find(module.name);
    bool const other_model = before == nullptr || before->model != module.model ||
                             before->layers != module.layers || before->flops != module.flops;
    if (other_model) {
      plan.model_profiler = true;
      plan.data_profiler = true;
      std::string reason = "module " + module.name + " ";
      if (before == nullptr) {
        reason += "is new";
      } else if (before->model != module.model) {
        reason += "was " + quoted(before->model) + " and is " + quoted(module.model);
      } else {
        reason += "has another number of layers or FLOP";
      }
      plan.reasons.push_back(reason);
    }
    if (other_model || other_hardware) { plan.modules.push_back(module.name); }
  }
  if (old.data != now.data) {
    plan.data_profiler = true;
    plan.reasons.push_back("the data were " + quoted(old.data) + " and are " + quoted(now.data));
  }
  return plan;
}

}  // namespace ballast::inline v0
