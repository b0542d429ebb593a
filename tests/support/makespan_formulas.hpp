// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

namespace ballast_test {

/// A module of a model as formulas see it: stages that are all alike, one after the other.
struct module_pace {
  std::size_t stages = 1;
  ballast::time_units stage_time = 0;  ///< forward and backward of one microbatch on one stage
  std::size_t data_parallel = 1;       ///< how many replicas of the module share the microbatches
  friend bool operator==(module_pace const&, module_pace const&) = default;
};

namespace detail {

/// What both formulas are made of.
struct pipeline_pace {
  ballast::uint128 through = 0;  ///< one microbatch through all stages
  ballast::uint128 slowest = 0;  ///< one microbatch through the slowest stage
  std::size_t stages = 0;
};

[[nodiscard]] inline ballast::result<pipeline_pace> pace_of(std::span<module_pace const> modules,
                                                            std::size_t microbatches,
                                                            std::size_t data_parallel)
{
  constexpr std::size_t most = std::size_t{1} << 32;
  auto const fits = [](std::size_t count) { return count >= 1 && count <= most; };
  if (modules.empty() || modules.size() > most || microbatches > most || !fits(data_parallel)) {
    return ballast::fail(
        ballast::error_code::out_of_range, 0,
        "a pipeline of " + std::to_string(modules.size()) + " modules, " +
            std::to_string(microbatches) + " microbatches and " + std::to_string(data_parallel) +
            " replicas has no makespan; there is at least one module and one replica, and "
            "at most 2^32 of anything");
  }
  pipeline_pace pace;
  for (std::size_t module = 0; module < modules.size(); ++module) {
    auto const& [stages, stage_time, replicas] = modules[module];
    if (!fits(stages) || !fits(replicas) || stage_time < 0) {
      return ballast::fail(
          ballast::error_code::out_of_range, module,
          "module " + std::to_string(module) + " has " + std::to_string(stages) + " stages of " +
              std::to_string(stage_time) + " on " + std::to_string(replicas) +
              " replicas; stages and replicas are from 1 to 2^32, and no time is negative");
    }
    // Fewer replicas than the pipeline has take the microbatches of several, one after the other.
    ballast::uint128 const time =
        (static_cast<ballast::uint128>(stage_time) * data_parallel + (replicas - 1)) / replicas;
    pace.stages += stages;
    pace.slowest = std::max(pace.slowest, time);
    // Past 64 bits nothing is exact any more, only too long, and so it stays.
    constexpr ballast::uint128 too_long = ballast::uint128{1} << 64;
    pace.through = std::min(too_long, pace.through + std::min(too_long, time) * stages);
    pace.slowest = std::min(pace.slowest, too_long);
  }
  return pace;
}

[[nodiscard]] inline ballast::result<ballast::time_units> time_that_fits(ballast::uint128 time)
{
  if (time > static_cast<ballast::uint128>(std::numeric_limits<ballast::time_units>::max())) {
    return ballast::fail(ballast::error_code::out_of_range, 0,
                         "the makespan is above 63 bits; use a coarser unit of time");
  }
  return static_cast<ballast::time_units>(time);
}

}  // namespace detail

/// DFLOP's makespan of a pipeline: T = (N_mb + E_pp + L_pp - 1) x max(E, L), for any number of
/// modules.
///
/// The steady pace of the slowest stage from the first microbatch to the last, also while the
/// pipeline fills and drains through stages that are faster. All microbatches are taken to be
/// alike, and transfers to take no time. No microbatch takes no time. A module on several
/// data-parallel replicas is that many times as fast, since the others have one.
///
/// Ensures     (1) what 1F1B takes, where all stages are alike and so are all microbatches, and no
///                 module has replicas
///             (2) never below disttrain_makespan with data_parallel 1 throughout
/// Errors      out_of_range: module `position` has no stage or replica, or a negative time; there
///             is no module; or the makespan does not fit.
/// Complexity  O(modules).
/// Source      DFLOP, the objective of its parallelism search.
[[nodiscard]] inline ballast::result<ballast::time_units> dflop_makespan(
    std::span<module_pace const> modules, std::size_t microbatches)
{
  auto const pace = detail::pace_of(modules, microbatches, 1);
  if (!pace) { return tl::unexpected(pace.error()); }
  if (microbatches == 0) { return 0; }
  return detail::time_that_fits(pace->slowest *
                                static_cast<ballast::uint128>(microbatches + pace->stages - 1));
}

/// DistTrain's makespan of a pipeline: a warm-up, in which the first microbatch goes through all
/// stages, and a steady phase, in which the slowest stage does the others.
///
///     T = sum over modules of stages x t + (l - 1) x max t
///     t = stage_time x data_parallel / replicas of the module
///
/// A module with fewer replicas than the pipeline has does the microbatches of several of them one
/// after the other, and one with more takes a part of each. t is rounded up to whole units.
///
/// The paper writes stages x t as the time of a module for one microbatch, and l as the global
/// batch over what one microbatch of all replicas holds. It has forward times first and adds the
/// backward to them, as stage_time has it here.
///
/// Shapes      data_parallel: that of the LLM, whose microbatches are counted.
/// Ensures     (1) what 1F1B takes, where all stages are alike and so are all microbatches
/// Errors      those of dflop_makespan; or data_parallel is 0.
/// Complexity  O(modules).
/// Source      Z. Zhang et al., "DistTrain: Addressing Model and Data Heterogeneity with
///             Disaggregated Training for Multimodal Large Language Models", SIGCOMM 2025,
///             section 4.
[[nodiscard]] inline ballast::result<ballast::time_units> disttrain_makespan(
    std::span<module_pace const> modules, std::size_t microbatches, std::size_t data_parallel = 1)
{
  auto const pace = detail::pace_of(modules, microbatches, data_parallel);
  if (!pace) { return tl::unexpected(pace.error()); }
  if (microbatches == 0) { return 0; }
  return detail::time_that_fits(pace->through +
                                pace->slowest * static_cast<ballast::uint128>(microbatches - 1));
}

}  // namespace ballast_test
