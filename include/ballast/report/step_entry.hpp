// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_REPORT_STEP_ENTRY_HPP
#define BALLAST_REPORT_STEP_ENTRY_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/core/result.hpp>
#include <ballast/text/detail/counted.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

namespace ballast::inline v0::report {

/// A step, as a step_log writes it: what was planned, and how long it took.
///
/// Shapes      lengths[n], costs[n], owner[n] of a plan of n samples, or of none; loads[m],
///             speeds[m] of its m bags; measured_ns[ranks], or empty where nothing was measured.
/// Units       costs and loads in the cost model's unit; makespan and bound in that unit per speed,
///             as those of a plan; a bag's speed is as bag_layout::speeds() has it; nanoseconds
///             that a rank computed.
struct step_entry {
  std::uint64_t step = 0;
  std::span<tokens const> lengths{};
  std::span<cost_units const> costs{};
  std::span<bag_id const> owner{};
  std::span<cost_units const> loads{};
  std::span<std::uint32_t const> speeds{};
  ratio makespan{};
  ratio lower_bound{};
  std::span<std::int64_t const> measured_ns{};
};

/// A task of a step of a pipeline: when it ran, and when it should have.
///
/// Units       nanoseconds from the start of the step; simulated ones are 0 where nothing was
///             simulated.
struct task_entry {
  std::uint32_t rank = 0;  ///< of the pipeline
  std::uint32_t stage = 0;
  std::uint32_t microbatch = 0;
  bool is_backward = false;
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::int64_t simulated_start = 0;
  std::int64_t simulated_end = 0;

  friend bool operator==(task_entry const&, task_entry const&) = default;
};

/// What a line of a log may say: who writes one and who reads one ask here.
///
/// Ensures     (1) right is a step with bags, as many of each as the shapes say, whose owners are
///                 among its bags, whose speeds and denominators are at least 1, whose other
///                 numbers are at least 0, whose lengths add up to less than 2^63, and whose
///                 makespan is not below its bound
///             (2) where it is right, nothing is allocated
/// Errors      out_of_range, at the index of what is wrong.
/// Complexity  O(samples + bags + ranks).
[[nodiscard]] inline result<void> check_line(step_entry const& entry)
{
  auto const wrong = [&entry](std::size_t at, auto const&... pieces) {
    return fail(error_code::out_of_range, at, "step ", entry.step, pieces...);
  };
  if (entry.lengths.size() != entry.owner.size() || entry.costs.size() != entry.owner.size()) {
    return wrong(0, " has ", detail::counted(entry.lengths.size(), "length"), ", ",
                 detail::counted(entry.costs.size(), "cost"), " and ",
                 detail::counted(entry.owner.size(), "owner"), "; give each sample one of each");
  }
  if (entry.loads.size() != entry.speeds.size()) {
    return wrong(0, " has loads of ", detail::counted(entry.loads.size(), "bag"), " and speeds of ",
                 entry.speeds.size(), "; give each bag one of each");
  }
  if (entry.loads.empty()) {
    return wrong(0, " has no bags; give the loads and speeds of its plan");
  }
  result<void> found;
  auto const least_of = [&](std::string_view name, auto numbers, std::int64_t least) {
    for (std::size_t at = 0; at < numbers.size() && found; ++at) {
      if (numbers[at] < least) {
        found =
            wrong(at, " has ", numbers[at], " in ", name, "[", at, "]; give ", least, " or more");
      }
    }
  };
  least_of("lengths", entry.lengths, 0);
  least_of("costs", entry.costs, 0);
  least_of("loads", entry.loads, 0);
  least_of("speeds", entry.speeds, 1);
  least_of("measured_ns", entry.measured_ns, 0);
  if (!found) { return found; }
  tokens rest = std::numeric_limits<tokens>::max();
  for (std::size_t sample = 0; sample < entry.owner.size(); ++sample) {
    if (to_index(entry.owner[sample]) >= entry.loads.size()) {
      return wrong(sample, " gives sample ", sample, " to bag ", entry.owner[sample], " of ",
                   entry.loads.size(), "; give an owner below the number of bags");
    }
    if (entry.lengths[sample] > rest) {
      return wrong(sample, " has lengths that add up to 2^63 or more; give numbers of tokens");
    }
    rest -= entry.lengths[sample];
  }
  for (auto const& [name, fraction] :
       {std::pair<std::string_view, ratio>("makespan", entry.makespan),
        {"bound", entry.lower_bound}}) {
    if (fraction.numerator < 0 || fraction.denominator < 1) {
      return wrong(0, " has a ", name, " of ", fraction.numerator, "/", fraction.denominator,
                   "; give a numerator from 0 and a denominator from 1");
    }
  }
  if (entry.makespan < entry.lower_bound) {
    return wrong(0, " has a makespan of ", entry.makespan.numerator, "/",
                 entry.makespan.denominator, ", which is below its bound of ",
                 entry.lower_bound.numerator, "/", entry.lower_bound.denominator,
                 "; give both of one plan");
  }
  return {};
}

/// The same of a step of a pipeline: right is one with tasks, each with a rank, a stage and a
/// microbatch below 2^20, and with times that begin at 0 or later and end when they begin or later.
[[nodiscard]] inline result<void> check_line(std::uint64_t step, std::span<task_entry const> tasks)
{
  constexpr std::uint32_t most = std::uint32_t{1} << 20;
  if (tasks.empty()) {
    return fail(error_code::out_of_range, 0, "step ", step,
                " has no tasks; leave out a step that ran none");
  }
  for (std::size_t at = 0; at < tasks.size(); ++at) {
    task_entry const& task = tasks[at];
    if (std::max({task.rank, task.stage, task.microbatch}) >= most) {
      return fail(error_code::out_of_range, at, "step ", step, " has task ", at, " of rank ",
                  task.rank, ", stage ", task.stage, " and microbatch ", task.microbatch,
                  "; give numbers below ", most);
    }
    for (auto const& [start, end] :
         {std::pair(task.start, task.end), std::pair(task.simulated_start, task.simulated_end)}) {
      if (start < 0 || end < start) {
        return fail(error_code::out_of_range, at, "step ", step, " has task ", at, " from ", start,
                    " to ", end, " ns; give times from the start of the step, the end last");
      }
    }
  }
  return {};
}

}  // namespace ballast::inline v0::report

#endif  // BALLAST_REPORT_STEP_ENTRY_HPP
