// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_SCHEDULED_STEP_HPP
#define BALLAST_RUNTIME_SCHEDULED_STEP_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/jagged.hpp>
#include <ballast/pipeline/simulate.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ballast::inline v0 {

/// A stage of a group's pipeline: which part of which replica it is.
struct scheduled_stage {
  std::uint32_t module = 0;
  std::uint32_t replica = 0;  ///< among those of the group
  std::uint32_t layers = 1;
  std::uint64_t of_layers = 1;  ///< all stages of the replica

  friend bool operator==(scheduled_stage const&, scheduled_stage const&) = default;
};

/// What every replica of every module computes in a step, microbatch by microbatch: the plan of a
/// scheduler of D modules.
///
/// The replicas of all modules fall into groups that exchange nothing with each other; each group
/// is one pipeline, and every replica of it has as many microbatches. Ranks are numbered group
/// after group, in each by the stages of its pipeline: module after module, replica after replica.
///
/// Units       times are those of the scheduler's times_of.
/// Ensures     (1) every sample is in one microbatch of each module, and all modules have it in the
///                 same group and position
///             (2) times of a group have a row per position, in the order in which they run
template <std::size_t D>
struct scheduled_step {
  std::uint64_t number = 0;
  std::size_t microbatches = 0;  ///< of every replica
  /// The largest load of a microbatch on a stage while microbatches were as even as they can be, and
  /// what no assignment of samples to microbatches gets below.
  cost_units largest_load = 0;
  cost_units largest_load_bound = 0;
  time_units makespan = 0;       ///< of the pipeline that takes longest
  time_units even_makespan = 0;  ///< what it was with even microbatches
  bool corrected = false;        ///< whether costs were corrected by measured times
  /// The makespan, at corrected costs, of the plan of uncorrected ones.
  time_units uncorrected = 0;
  std::vector<pipeline_times> times;  ///< of each group, at corrected costs

  std::vector<scheduled_stage> stages;      ///< of each group
  std::array<std::uint32_t, D> replicas{};  ///< of each module, in all groups
  std::array<id_vector<sample_id, bag_id>, D> owner;
  std::array<jagged<bag_id, sample_id>, D> samples;
  std::vector<std::array<stage_time, D>> predicted;  ///< of each sample, not corrected
  std::vector<std::array<std::uint32_t, D>> shapes;  ///< of each sample: its shape_bucket

  [[nodiscard]] std::size_t pipelines() const noexcept { return times.size(); }
  [[nodiscard]] std::size_t ranks() const noexcept { return times.size() * stages.size(); }

  /// How far the largest load is from the least that is possible: largest_load / its bound - 1.
  [[nodiscard]] double largest_load_gap() const noexcept
  {
    return gap_above(ratio{largest_load}, ratio{largest_load_bound});
  }

  /// The samples that a replica of a module computes at a position of its pipeline's order.
  [[nodiscard]] std::span<sample_id const> microbatch(std::size_t module, std::size_t replica,
                                                      std::size_t position) const
  {
    BALLAST_EXPECTS(module < D && replica < replicas[module] && position < microbatches,
                    "microbatch ", position, " of replica ", replica, " of module ", module,
                    " was asked for of ", detail::counted(D, "module"), " and ",
                    detail::counted(microbatches, "microbatch"));
    std::size_t const of_group = replicas[module] / pipelines();
    std::size_t const group = replica / of_group;
    return samples[module][to_id<bag_id>((group * microbatches + position) * of_group +
                                         replica % of_group)];
  }

  /// One word that differs where any microbatch, position or time does: ranks compare it before the
  /// step begins.
  [[nodiscard]] std::uint64_t digest() const
  {
    ballast::digest words;
    words.add(number).add(std::uint64_t{microbatches}).add(static_cast<std::uint64_t>(makespan));
    for (auto const& of_module : owner) { words.add(detail::span_of(of_module)); }
    return words.value();
  }
};

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_SCHEDULED_STEP_HPP
