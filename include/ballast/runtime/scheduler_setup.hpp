// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_SCHEDULER_SETUP_HPP
#define BALLAST_RUNTIME_SCHEDULER_SETUP_HPP

#include <ballast/core/result.hpp>
#include <ballast/partition/partition_constraints.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/core/contract.hpp>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace ballast::inline v0 {

/// How a module of a scheduled model is spread out: its replicas, and the layers of each stage of
/// one.
struct scheduled_module {
  std::uint32_t replicas = 1;
  std::vector<std::uint32_t> layers = {1};

  [[nodiscard]] std::uint64_t all_layers() const
  {
    return std::accumulate(layers.begin(), layers.end(), std::uint64_t{0});
  }
};

/// The pipelines that a scheduler fills.
///
/// The schedule is that of one group of replicas, as many groups as the greatest common divisor of
/// all numbers of replicas. Its stages are module after module, replica after replica of the group.
struct scheduler_setup {
  compiled_schedule schedule;
  std::vector<scheduled_module> modules;  ///< in the order of the pipeline: encoders, then the LLM
  /// What a replica of the last module can hold of one microbatch, in that module's sizes.
  std::int64_t most_per_microbatch = partition_constraints::no_limit;
  /// How many tasks are simulated to find microbatches of unequal sizes with which the step is
  /// shorter; with 0 they are as even as they can be. Four million take about 30 ms.
  std::uint64_t simulated_tasks = 4'000'000;
};

/// The number of groups of replicas of a setup whose samples have so many sizes.
///
/// Errors      out_of_range: there are other modules than sizes, or module `position` has no
///             replica, no stage or no layers, or the schedule has other stages than the modules
///             (position 0).
[[nodiscard]] inline result<std::uint32_t> replica_groups(scheduler_setup const& setup,
                                                          std::size_t sizes)
{
  if (setup.modules.size() != sizes) {
    return fail(error_code::out_of_range, 0, "a scheduler of ", detail::counted(sizes, "module"),
                " was given ", setup.modules.size(), "; give one for each size of a sample");
  }
  std::uint32_t groups = 0;
  for (std::size_t module = 0; module < sizes; ++module) {
    scheduled_module const& each = setup.modules[module];
    if (each.replicas == 0 || each.all_layers() == 0) {
      return fail(error_code::out_of_range, module, "module ", module,
                  " has no replica or no layers; give at least 1 of each");
    }
    groups = std::gcd(groups, each.replicas);
  }
  std::size_t stages = 0;
  for (scheduled_module const& each : setup.modules) {
    stages += each.replicas / groups * each.layers.size();
  }
  if (stages != setup.schedule.stages().stages()) {
    return fail(error_code::out_of_range, 0, "the modules have ", detail::counted(stages, "stage"),
                " in each of ", detail::counted(groups, "group"),
                " of replicas, and the schedule has ", setup.schedule.stages().stages(),
                "; give the schedule of one group");
  }
  return groups;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_SCHEDULER_SETUP_HPP
