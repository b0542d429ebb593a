// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/placement_limits.hpp>
#include <ballast/pipeline/simulate.hpp>

#include <bit>

namespace ballast::inline v0 {

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
  /// A stage of a group's pipeline: which part of which replica it is.
  struct stage {
    std::uint32_t module = 0;
    std::uint32_t replica = 0;  ///< among those of the group
    std::uint32_t layers = 1;
    std::uint64_t of_layers = 1;  ///< all stages of the replica
  };

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

  std::vector<stage> stages;                ///< of each group
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

/// How many buckets the sizes of one module fall into.
inline constexpr std::uint32_t shape_buckets = 864;

/// What a corrected cost is multiplied with and then shifted by: a factor of 2^16 changes nothing.
inline constexpr std::uint32_t unchanged_factor = std::uint32_t{1} << 16;

/// The bucket of a sample's size in a module: sizes below 64 have one each, and each octave from
/// there on has 32, so that sizes of one bucket differ by a thirty-second part at most.
///
/// Expects     0 <= size <= longest_sample.
/// Ensures     (1) a larger size has no lower bucket
///             (2) the bucket is below shape_buckets
/// Complexity  O(1).
[[nodiscard]] constexpr std::uint32_t shape_bucket(tokens size)
{
  BALLAST_EXPECTS(size >= 0 && size <= longest_sample, "a sample of size ", size,
                  " has no shape; sizes are from 0 to ", longest_sample);
  auto const bits = static_cast<std::uint32_t>(size);
  if (bits < 64) { return bits; }
  auto const octave = static_cast<std::uint32_t>(std::bit_width(bits));  // from 7 to 31
  return (octave - 5) * 32 + ((bits >> (octave - 6)) & 31U);
}

/// The pipelines that a scheduler fills.
///
/// The schedule is that of one group of replicas, as many groups as the greatest common divisor of
/// all numbers of replicas. Its stages are module after module, replica after replica of the group.
struct scheduler_setup {
  /// How a module is spread out: its replicas, and the layers of each stage of one.
  struct module_spread {
    std::uint32_t replicas = 1;
    std::vector<std::uint32_t> layers = {1};
    /// What each replica takes of what times_of says, in 2^16ths, from 1 to all: those of larger bags
    /// take less. None: all take all of it; else the replicas of all modules are one group.
    std::vector<std::uint32_t> factors{};

    [[nodiscard]] std::uint64_t all_layers() const
    {
      return std::accumulate(layers.begin(), layers.end(), std::uint64_t{0});
    }

    /// What a replica takes where times_of says this.
    [[nodiscard]] time_units taken(std::size_t replica, time_units time) const
    {
      if (factors.empty()) { return time; }
      return static_cast<time_units>((static_cast<uint128>(time) * factors[replica]) >> 16);
    }
  };

  compiled_schedule schedule;
  std::vector<module_spread> modules;  ///< in the order of the pipeline: encoders, then the LLM
  /// What a replica of the last module can hold of one microbatch, in that module's sizes; it counts
  /// as one GPU.
  std::int64_t most_per_gpu = no_limit;
  /// How many tasks are simulated to find microbatches of unequal sizes with which the step is
  /// shorter; with 0 they are as even as they can be. Four million take about 30 ms.
  std::uint64_t simulated_tasks = 4'000'000;

  /// The number of groups of replicas, where samples have so many sizes.
  ///
  /// Errors      out_of_range: there are other modules than sizes, or module `position` has no
  ///             replica, no stage or no layers, or other factors than one from 1 to 2^16 for each
  ///             replica, or the schedule has other stages than the modules
  ///             (position 0).
  [[nodiscard]] result<std::uint32_t> groups(std::size_t sizes) const
  {
    if (modules.size() != sizes) {
      return fail(error_code::out_of_range, 0, "a scheduler of ", detail::counted(sizes, "module"),
                  " was given ", modules.size(), "; give one for each size of a sample");
    }
    std::uint32_t all = 0;
    for (std::size_t at = 0; at < sizes; ++at) {
      auto const& factors = modules[at].factors;
      auto const is_wrong = [](std::uint32_t each) { return each - 1 >= unchanged_factor; };
      if (!factors.empty() && (factors.size() != modules[at].replicas ||
                               std::any_of(factors.begin(), factors.end(), is_wrong))) {
        return fail(error_code::out_of_range, at, "module ", at, " of ",
                    detail::counted(modules[at].replicas, "replica"), " has ", factors.size(),
                    " factors; give each one from 1 to ", unchanged_factor);
      }
      all = factors.empty() ? all : 1;
      if (modules[at].replicas == 0 || modules[at].all_layers() == 0) {
        return fail(error_code::out_of_range, at, "module ", at,
                    " has no replica or no layers; give at least 1 of each");
      }
      all = std::gcd(all, modules[at].replicas);
    }
    std::size_t stages = 0;
    for (module_spread const& each : modules) {
      stages += each.replicas / all * each.layers.size();
    }
    if (stages != schedule.stages().stages()) {
      return fail(error_code::out_of_range, 0, "the modules have ",
                  detail::counted(stages, "stage"), " in each of ", detail::counted(all, "group"),
                  " of replicas, and the schedule has ", schedule.stages().stages(),
                  "; give the schedule of one group");
    }
    return all;
  }
};

namespace detail {

/// Splits what a replica takes for a microbatch over its stages, by their layers.
///
/// Shapes      stages[module.layers.size()]
/// Ensures     the times of all stages add up to `whole`
inline void stage_times_of(std::span<stage_time> stages,
                           scheduler_setup::module_spread const& module, stage_time const& whole)
{
  std::uint64_t const all = module.all_layers();
  std::uint64_t below = 0;
  stage_time taken;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    below += module.layers[stage];
    auto const part = [&](time_units time) {
      return static_cast<time_units>(static_cast<uint128>(time) * below / all);
    };
    stage_time const next{part(whole.forward), part(whole.backward)};
    stages[stage] = {next.forward - taken.forward, next.backward - taken.backward};
    taken = next;
  }
}

}  // namespace detail

}  // namespace ballast::inline v0
