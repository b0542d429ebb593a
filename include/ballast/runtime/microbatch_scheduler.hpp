// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_MICROBATCH_SCHEDULER_HPP
#define BALLAST_RUNTIME_MICROBATCH_SCHEDULER_HPP

#include <ballast/core/detail/concat.hpp>
#include <ballast/core/detail/span_of.hpp>
#include <ballast/core/digest.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/uint128.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/cost/saturating_sum.hpp>
#include <ballast/partition/bin_id.hpp>
#include <ballast/partition/partition_constraints.hpp>
#include <ballast/partition/vectors/concepts.hpp>
#include <ballast/partition/vectors/partition_vectors.hpp>
#include <ballast/partition/vectors/vector_exact.hpp>
#include <ballast/partition/vectors/vector_plan.hpp>
#include <ballast/partition/vectors/vector_refine.hpp>
#include <ballast/pipeline/compiled_schedule.hpp>
#include <ballast/pipeline/concepts.hpp>
#include <ballast/pipeline/local_search.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/order_plan.hpp>
#include <ballast/pipeline/pipeline_times.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/runtime/scheduled_step.hpp>
#include <ballast/runtime/shape_bucket.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace ballast::inline v0 {

/// How a module of a scheduled model is spread out: its replicas, and the layers of each stage of one.
struct scheduled_module {
  std::uint32_t replicas = 1;
  std::vector<std::uint32_t> layers = {1};
};

/// The pipelines that a scheduler fills.
///
/// The schedule is that of one group of replicas, as many groups as the greatest common divisor of all
/// numbers of replicas. Its stages are module after module, replica after replica of the group.
struct scheduler_setup {
  compiled_schedule schedule;
  std::vector<scheduled_module> modules;  ///< in the order of the pipeline: encoders, then the LLM
  /// What a replica of the last module can hold of one microbatch, in that module's sizes.
  std::int64_t most_per_microbatch = partition_constraints::no_limit;
};

/// A callable that returns how long a sample of these sizes takes in each module: all layers, forward
/// and backward, on one replica.
template <class TimesOf, std::size_t D>
concept sample_times = requires(TimesOf const& times_of, std::span<tokens const, D> sizes) {
  { std::invoke(times_of, sizes) } -> std::convertible_to<std::array<stage_time, D>>;
};

/// Turns the samples of a global batch into the microbatches of every replica, in the order in which
/// they run.
///
/// Samples go to as many microbatches as all groups have, so that the largest time of any stage of
/// any module is small; microbatches to groups, equally many and about as much work to each; and each
/// group's into an order. Where a module has several replicas in a group, they share each microbatch.
///
/// Units       times_of's; sizes are tokens of the LLM, items of an encoder.
/// Ensures     (1) those of scheduled_step: every replica has as many microbatches, some perhaps empty
///             (2) no replica of the last module holds more than most_per_microbatch
///             (3) the plan depends on nothing but the arguments, so every rank finds the same one
///             (4) once a step as large was planned, nothing is allocated
/// Complexity  partition_vectors and the order policy, twice where costs are corrected.
/// Source      the online microbatch scheduler: H. An et al., "DFLOP: A Data-driven Framework for
///             Multimodal LLM Training Pipeline Optimization", arXiv:2603.25120, 2026.
template <std::size_t D, class TimesOf, order_policy Order = local_search<>,
          vector_partition_policy<D> Split = vector_exact<>>
  requires sample_times<TimesOf, D>
class microbatch_scheduler {
 public:
  using plan_type = scheduled_step<D>;

  /// Errors      out_of_range: there are not D modules, or module `position` has no replica, no stage
  ///             or no layers, or the schedule has other stages than the modules (position 0).
  [[nodiscard]] static result<microbatch_scheduler> make(scheduler_setup setup, TimesOf times_of,
                                                         Order order = {}, Split split = {})
  {
    if (setup.modules.size() != D) {
      return fail(error_code::out_of_range, 0, "a scheduler of ", D, " modules was given ",
                  setup.modules.size(), "; give one for each size of a sample");
    }
    std::uint32_t groups = 0;
    for (std::size_t module = 0; module < D; ++module) {
      auto const& [replicas, layers] = setup.modules[module];
      if (replicas == 0 || std::accumulate(layers.begin(), layers.end(), std::uint64_t{0}) == 0) {
        return fail(error_code::out_of_range, module, "module ", module,
                    " has no replica or no layers; give at least 1 of each");
      }
      groups = std::gcd(groups, replicas);
    }
    std::size_t stages = 0;
    for (auto const& [replicas, layers] : setup.modules) {
      stages += replicas / groups * layers.size();
    }
    if (stages != setup.schedule.stages().stages()) {
      return fail(error_code::out_of_range, 0, "the modules have ", stages, " stages in each of ",
                  groups, " groups of replicas, and the schedule has ",
                  setup.schedule.stages().stages(), "; give the schedule of one group");
    }
    return microbatch_scheduler(std::move(setup), groups, std::move(times_of), std::move(order),
                                std::move(split));
  }

  /// Plans a step. A policy that has a seed gets one that is made of `seed` and `number`.
  ///
  /// Shapes      sizes[samples x D], those of a sample next to each other; factors[D x shape_buckets],
  ///             or empty where nothing is corrected.
  /// Errors      out_of_range: the sizes are no whole number of samples, or size `position` is not from
  ///             0 to longest_sample, or times_of has no time for sample `position`, or there are other
  ///             factors; those of partition_vectors and of order_microbatches. The plan is then
  ///             unspecified.
  [[nodiscard]] result<void> operator()(scheduled_step<D>& step, std::span<tokens const> sizes,
                                        std::uint64_t seed, std::uint64_t number,
                                        std::span<std::uint32_t const> factors)
  {
    step.number = number;
    step.corrected = !factors.empty();
    if (auto read = read_samples(step, sizes, factors); !read) { return read; }
    if (auto planned = arrange(step, sizes, detail::span_of(corrected_), seed); !planned) {
      return planned;
    }
    step.uncorrected = step.makespan;
    if (!step.corrected) { return {}; }
    plain_.number = number;
    if (auto planned = arrange(plain_, sizes, detail::span_of(step.predicted), seed); !planned) {
      return planned;
    }
    step.uncorrected = 0;
    for (std::size_t group = 0; group < groups_; ++group) {
      clear_sums();
      for (std::size_t module = 0; module < D; ++module) {
        std::size_t const bins = as_given_.size() * of_group(module);
        for (std::size_t sample = 0; sample < corrected_.size(); ++sample) {
          std::size_t const bin = to_index(plain_.owner[module][sample]);
          if (bin / bins == group) { add(module, bin % bins, corrected_[sample][module]); }
        }
      }
      split_sums();
      if (auto checked = check_times(times_, setup_.schedule); !checked) { return checked; }
      step.uncorrected =
          std::max(step.uncorrected,
                   makespan_of(setup_.schedule, times_, detail::span_of(as_given_), memory_));
    }
    return {};
  }

 private:
  using sample_time = std::array<stage_time, D>;

  /// Which microbatch of a group a sample is in, times the replicas there, and on which of them.
  struct shared_sample {
    sample_id sample{};
    std::size_t bin = 0;
  };

  microbatch_scheduler(scheduler_setup setup, std::uint32_t groups, TimesOf times_of, Order order,
                       Split split)
      : setup_(std::move(setup)),
        groups_(groups),
        times_of_(std::move(times_of)),
        order_(std::move(order)),
        split_(std::move(split)),
        times_(setup_.schedule.microbatches(), setup_.schedule.stages().stages())
  {
    for (std::size_t position = 0; position < setup_.schedule.microbatches(); ++position) {
      as_given_.push_back(to_id<microbatch_id>(position));
    }
    ones_.assign(groups_ * as_given_.size(), 1);
    for (std::size_t module = 0; module < D; ++module) {
      auto const& layers = setup_.modules[module].layers;
      auto const all = std::accumulate(layers.begin(), layers.end(), std::uint64_t{0});
      for (std::uint32_t replica = 0; replica < of_group(module); ++replica) {
        for (std::uint32_t const of_stage : layers) {
          stages_.push_back({static_cast<std::uint32_t>(module), replica, of_stage, all});
        }
      }
    }
  }

  [[nodiscard]] std::size_t of_group(std::size_t module) const
  {
    return setup_.modules[module].replicas / groups_;
  }

  /// Prices all samples, as predicted and as corrected.
  [[nodiscard]] result<void> read_samples(scheduled_step<D>& step, std::span<tokens const> sizes,
                                          std::span<std::uint32_t const> factors)
  {
    if (sizes.size() % D != 0) {
      return fail(error_code::out_of_range, sizes.size(), sizes.size(),
                  " sizes are no whole number of samples of ", D, " modules");
    }
    if (!factors.empty() && factors.size() != D * shape_buckets) {
      return fail(error_code::out_of_range, 0, factors.size(), " factors were given for ",
                  D * shape_buckets, " shapes; give all or none");
    }
    std::size_t const count = sizes.size() / D;
    step.predicted.resize(count);
    step.shapes.resize(count);
    corrected_.resize(count);
    for (std::size_t sample = 0; sample < count; ++sample) {
      auto const own = sizes.subspan(sample * D).template first<D>();
      for (std::size_t module = 0; module < D; ++module) {
        if (own[module] < 0 || own[module] > longest_sample) {
          auto const in = detail::concat(" in module ", module);
          return fail(error_code::out_of_range, sample * D + module, "sample ", sample,
                      " has size ", own[module], in, "; sizes are from 0 to ", longest_sample);
        }
        step.shapes[sample][module] = shape_bucket(own[module]);
      }
      sample_time const times = std::invoke(times_of_, own);
      for (std::size_t module = 0; module < D; ++module) {
        auto const [forward, backward] = times[module];
        if (forward < 0 || backward < 0 || forward > stage_graph::longest_time ||
            backward > stage_graph::longest_time) {
          auto const in = detail::concat(" in module ", module);
          return fail(error_code::out_of_range, sample, "sample ", sample,
                      " takes no time from 0 to 2^53", in,
                      "; correct the sample or use a coarser unit");
        }
        std::uint32_t const factor =
            factors.empty() ? unchanged_factor
                            : factors[module * shape_buckets + step.shapes[sample][module]];
        corrected_[sample][module] = {corrected(forward, factor), corrected(backward, factor)};
      }
      step.predicted[sample] = times;
    }
    return {};
  }

  [[nodiscard]] static time_units corrected(time_units time, std::uint32_t factor)
  {
    // Up to 2^53 2^32 / 2^16; what is above 16 times the longest time is cut to that.
    uint128 const exact = static_cast<uint128>(time) * factor / unchanged_factor;
    return static_cast<time_units>(std::min(exact, static_cast<uint128>(std::uint64_t{1} << 57)));
  }

  /// Fills a step with microbatches by the times of its samples.
  [[nodiscard]] result<void> arrange(scheduled_step<D>& step, std::span<tokens const> sizes,
                                     std::span<sample_time const> times, std::uint64_t seed)
  {
    if (auto done = make_microbatches(sizes, times); !done) { return done; }
    std::size_t const count = times.size();
    step.microbatches = as_given_.size();
    step.largest = parts_.makespan;
    step.lower_bound = parts_.lower_bound;
    step.makespan = 0;
    step.times.resize(groups_);
    step.stages = stages_;
    for (std::size_t module = 0; module < D; ++module) {
      step.replicas[module] = setup_.modules[module].replicas;
      step.owner[module].resize(count);
    }
    for (std::size_t group = 0; group < groups_; ++group) {
      clear_sums();
      for (std::size_t module = 0; module < D; ++module) {
        if (auto done = share(group, module, sizes, times); !done) { return done; }
      }
      split_sums();
      if (auto done = order(step.number, group, seed); !done) { return done; }
      step.makespan = std::max(step.makespan, ordered_.makespan);
      put_in_order(step, group);
    }
    for (std::size_t module = 0; module < D; ++module) {
      step.samples[module].collect(detail::span_of(step.owner[module]),
                                   groups_ * as_given_.size() * of_group(module));
    }
    return {};
  }

  /// Samples to microbatches, and these to groups.
  [[nodiscard]] result<void> make_microbatches(std::span<tokens const> sizes,
                                               std::span<sample_time const> times)
  {
    std::size_t const microbatches = groups_ * as_given_.size();
    auto const stage_costs = [this](sample_time const& each) {
      cost_vector<D> costs;
      for (std::size_t module = 0; module < D; ++module) {
        auto const& layers = setup_.modules[module].layers;
        std::uint32_t const most = *std::max_element(layers.begin(), layers.end());
        auto const all =
            std::accumulate(layers.begin(), layers.end(), std::uint64_t{0}) * of_group(module);
        auto const work = static_cast<uint128>(each[module].forward + each[module].backward) * most;
        costs[module] = static_cast<cost_units>((work + all - 1) / all);
      }
      return costs;
    };
    partition_constraints limit;
    if (setup_.most_per_microbatch != limit.no_limit) {
      weights_.resize(times.size());
      for (std::size_t sample = 0; sample < times.size(); ++sample) {
        weights_[sample] = sizes[sample * D + D - 1];
      }
      auto const replicas = static_cast<std::int64_t>(of_group(D - 1));
      bool const endless = setup_.most_per_microbatch > limit.no_limit / replicas;
      limit.weights = detail::span_of(weights_);
      limit.most_per_gpu = endless ? limit.no_limit : setup_.most_per_microbatch * replicas;
    }
    auto done =
        partition_vectors_into(parts_, memory_, times, microbatches, split_, stage_costs, limit);
    if (!done) { return done; }
    return partition_vectors_into(of_groups_, memory_, parts_.loads, groups_, vector_refine{},
                                  std::identity{},
                                  {.most_per_gpu = static_cast<std::int64_t>(as_given_.size()),
                                   .weights = detail::span_of(ones_)});
  }

  /// The samples of a group's microbatches to the replicas of a module.
  [[nodiscard]] result<void> share(std::size_t group, std::size_t module,
                                   std::span<tokens const> sizes,
                                   std::span<sample_time const> times)
  {
    auto const own = of_groups_.samples[to_id<bin_id>(group)];
    std::size_t const replicas = of_group(module);
    shared_[module].clear();
    for (std::size_t position = 0; position < own.size(); ++position) {
      auto const samples = parts_.samples[to_id<bin_id>(to_index(own[position]))];
      if (replicas > 1) {
        auto const cost = [&](sample_id sample) {
          auto const [forward, backward] = times[to_index(sample)][module];
          return cost_vector<1>{forward + backward};
        };
        partition_constraints limit;
        if (module + 1 == D && setup_.most_per_microbatch != limit.no_limit) {
          own_weights_.clear();
          for (sample_id const sample : samples) {
            own_weights_.push_back(sizes[to_index(sample) * D + module]);
          }
          limit.weights = detail::span_of(own_weights_);
          limit.most_per_gpu = setup_.most_per_microbatch;
        }
        auto done = partition_vectors_into(of_replicas_, memory_, samples, replicas,
                                           vector_refine{}, cost, limit);
        if (!done) {
          error refused = done.error();
          if (refused.position < samples.size()) {  // of the microbatch; the caller knows the batch
            refused.position = to_index(samples[refused.position]);
          }
          return tl::unexpected(std::move(refused));
        }
      }
      for (std::size_t index = 0; index < samples.size(); ++index) {
        std::size_t const replica = replicas > 1 ? to_index(of_replicas_.owner[index]) : 0;
        std::size_t const bin = position * replicas + replica;
        shared_[module].push_back({samples[index], bin});
        add(module, bin, times[to_index(samples[index])][module]);
      }
    }
    return {};
  }

  void clear_sums()
  {
    for (std::size_t module = 0; module < D; ++module) {
      sums_[module].assign(as_given_.size() * of_group(module), {});
    }
  }

  void add(std::size_t module, std::size_t bin, stage_time const& time)
  {
    stage_time& sum = sums_[module][bin];
    sum = {saturating_sum(sum.forward, time.forward), saturating_sum(sum.backward, time.backward)};
  }

  /// The times of a group's microbatches on its stages: of each module's, by their layers.
  void split_sums()
  {
    std::size_t first = 0;
    for (std::size_t module = 0; module < D; ++module) {
      auto const& layers = setup_.modules[module].layers;
      auto const all = std::accumulate(layers.begin(), layers.end(), std::uint64_t{0});
      std::size_t const replicas = of_group(module);
      for (std::size_t bin = 0; bin < sums_[module].size(); ++bin) {
        auto stage = times_[as_given_[bin / replicas]].begin() +
                     static_cast<std::ptrdiff_t>(first + bin % replicas * layers.size());
        std::uint64_t below = 0;
        stage_time taken;
        for (std::uint32_t const of_stage : layers) {
          below += of_stage;
          auto const part = [&](time_units time) {
            return static_cast<time_units>(static_cast<uint128>(time) * below / all);
          };
          stage_time const next{part(sums_[module][bin].forward),
                                part(sums_[module][bin].backward)};
          *stage++ = {next.forward - taken.forward, next.backward - taken.backward};
          taken = next;
        }
      }
      first += replicas * layers.size();
    }
  }

  [[nodiscard]] result<void> order(std::uint64_t number, std::size_t group, std::uint64_t seed)
  {
    auto policy = order_;
    if constexpr (requires { policy.seed = seed; }) {
      policy.seed = digest().add(seed).add(number).add(std::uint64_t{group}).value();
    }
    return order_microbatches_into(ordered_, memory_, setup_.schedule, times_, policy);
  }

  /// Microbatches of a group to their positions.
  void put_in_order(scheduled_step<D>& step, std::size_t group)
  {
    std::size_t const count = as_given_.size();
    position_of_.resize(count);
    auto& times = step.times[group];
    times.stages = times_.stages;
    times.rows.resize(times_.rows.size());
    for (std::size_t position = 0; position < count; ++position) {
      position_of_[to_index(ordered_.order[position])] = position;
      std::span<stage_time const> const from = std::as_const(times_)[ordered_.order[position]];
      std::copy(from.begin(), from.end(), times[as_given_[position]].begin());
    }
    for (std::size_t module = 0; module < D; ++module) {
      std::size_t const replicas = of_group(module);
      for (auto const& [sample, bin] : shared_[module]) {
        std::size_t const position = position_of_[bin / replicas];
        step.owner[module][to_index(sample)] =
            to_id<bin_id>((group * count + position) * replicas + bin % replicas);
      }
    }
  }

  scheduler_setup setup_;
  std::uint32_t groups_;
  TimesOf times_of_;
  Order order_;
  Split split_;
  workspace memory_;
  std::vector<microbatch_id> as_given_;  // 0, 1, 2, ...
  std::vector<scheduled_stage> stages_;  // of a group
  std::vector<std::int64_t> ones_;
  std::vector<std::int64_t> weights_;
  std::vector<std::int64_t> own_weights_;
  std::vector<sample_time> corrected_;
  vector_plan<D> parts_;      // samples to the microbatches of all groups
  vector_plan<D> of_groups_;  // microbatches to groups
  vector_plan<1> of_replicas_;
  std::array<std::vector<shared_sample>, D> shared_;  // of one group
  std::array<std::vector<stage_time>, D> sums_;       // of its microbatches and replicas
  pipeline_times times_;                              // of its microbatches and stages
  order_plan ordered_;
  std::vector<std::size_t> position_of_;
  scheduled_step<D> plain_;  // of uncorrected costs
};

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_MICROBATCH_SCHEDULER_HPP
