// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_MICROBATCH_SCHEDULER_HPP
#define BALLAST_RUNTIME_MICROBATCH_SCHEDULER_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/exact.hpp>
#include <ballast/pipeline/local_search.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/order_policies.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/runtime/detail/group_microbatches.hpp>
#include <ballast/runtime/detail/shorten_step.hpp>
#include <ballast/runtime/scheduled_step.hpp>
#include <ballast/runtime/scheduler_setup.hpp>
#include <ballast/runtime/shape_bucket.hpp>
#include <ballast/core/contract.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace ballast::inline v0 {

/// A callable that returns how long a sample of these sizes takes in each module: all layers,
/// forward and backward, on one replica.
template <class TimesOf, std::size_t D>
concept sample_times = requires(TimesOf const& times_of, std::span<tokens const, D> sizes) {
  { std::invoke(times_of, sizes) } -> std::convertible_to<std::array<stage_time, D>>;
};

/// Turns the samples of a global batch into the microbatches of every replica, in the order in
/// which they run.
///
/// Samples go to as many microbatches as all groups have, so that the largest time of any stage of
/// any module is small; microbatches to groups, equally many and about as much work to each; and
/// each group's into an order. Then samples move where the whole step is simulated to be shorter:
/// microbatches that run while a pipeline fills or drains become smaller than others. Where a module
/// has several replicas in a group, they share each microbatch. Where a rank computes its microbatches alone, without stages, partition_grid fills
/// them.
///
/// Units       times_of's; sizes are tokens of the LLM, items of an encoder.
/// Ensures     (1) those of scheduled_step: every replica has as many microbatches, some perhaps
///                 empty
///             (2) no replica of the last module holds more than most_per_microbatch; where the
///                 evenest microbatches have no room, samples go to replicas first
///             (3) the plan depends on nothing but the arguments, so every rank finds the same one
///             (4) once a step as large was planned, nothing is allocated
///             (5) the step is no longer than with even microbatches, even_makespan
/// Complexity  partition, the order policy and setup.simulated_tasks, all twice where costs are
///             corrected.
/// Source      the online microbatch scheduler: H. An et al., "DFLOP: A Data-driven Framework for
///             Multimodal LLM Training Pipeline Optimization", arXiv:2603.25120, 2026.
template <std::size_t D, class TimesOf, order_policy Order = local_search<>,
          cost_vector_policy<D> Split = exact<>>
  requires sample_times<TimesOf, D>
class microbatch_scheduler {
 public:
  using plan_type = scheduled_step<D>;

  /// Errors      those of replica_groups.
  [[nodiscard]] static result<microbatch_scheduler> make(scheduler_setup setup, TimesOf times_of,
                                                         Order order = {}, Split split = {})
  {
    auto const groups = replica_groups(setup, D);
    if (!groups) { return tl::unexpected(groups.error()); }
    return microbatch_scheduler(std::move(setup), *groups, std::move(times_of), std::move(order),
                                std::move(split));
  }

  /// Plans a step. A policy that has a seed gets one that is made of `seed` and `number`.
  ///
  /// Shapes      sizes[samples x D], those of a sample next to each other; factors[D x
  ///             shape_buckets], or empty where nothing is corrected.
  /// Errors      out_of_range: the sizes are no whole number of samples, or size `position` is not
  ///             from 0 to longest_sample, or times_of has no time for sample `position`, or there
  ///             are other factors; those of partition and of order_microbatches. The plan
  ///             is then unspecified.
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
      made_.take_times(group, plain_.owner, detail::span_of(corrected_));
      if (auto checked = check_times(made_.times(), setup_.schedule); !checked) { return checked; }
      step.uncorrected = std::max(
          step.uncorrected,
          makespan_of(setup_.schedule, made_.times(), detail::span_of(as_given_), memory_));
    }
    return {};
  }

 private:
  using sample_time = std::array<stage_time, D>;

  microbatch_scheduler(scheduler_setup setup, std::uint32_t groups, TimesOf times_of, Order order,
                       Split split)
      : setup_(std::move(setup)),
        groups_(groups),
        times_of_(std::move(times_of)),
        order_(std::move(order)),
        made_(setup_, groups, std::move(split))
  {
    for (std::size_t position = 0; position < setup_.schedule.microbatches(); ++position) {
      as_given_.push_back(to_id<microbatch_id>(position));
    }
    for (std::size_t module = 0; module < D; ++module) {
      scheduled_module const& each = setup_.modules[module];
      for (std::uint32_t replica = 0; replica < made_.replicas(module); ++replica) {
        for (std::uint32_t const of_stage : each.layers) {
          stages_.push_back(
              {static_cast<std::uint32_t>(module), replica, of_stage, each.all_layers()});
        }
      }
    }
  }

  /// Prices all samples, as predicted and as corrected.
  [[nodiscard]] result<void> read_samples(scheduled_step<D>& step, std::span<tokens const> sizes,
                                          std::span<std::uint32_t const> factors)
  {
    if (sizes.size() % D != 0) {
      return fail(error_code::out_of_range, sizes.size(), "sizes has ",
                  detail::counted(sizes.size(), "entry"), ", no whole number of samples of ",
                  detail::counted(D, "module"));
    }
    if (!factors.empty() && factors.size() != D * shape_buckets) {
      return fail(error_code::out_of_range, 0, "factors has ",
                  detail::counted(factors.size(), "entry"), " for ", D * shape_buckets,
                  " shapes; give all or none");
    }
    std::size_t const count = sizes.size() / D;
    step.predicted.resize(count);
    step.shapes.resize(count);
    corrected_.resize(count);
    for (std::size_t sample = 0; sample < count; ++sample) {
      auto const own = sizes.subspan(sample * D).template first<D>();
      for (std::size_t module = 0; module < D; ++module) {
        if (own[module] < 0 || own[module] > longest_sample) {
          return fail(error_code::out_of_range, sample * D + module, "sample ", sample,
                      " has size ", own[module], " in module ", module, "; sizes are from 0 to ",
                      longest_sample);
        }
        step.shapes[sample][module] = shape_bucket(own[module]);
      }
      sample_time const times = std::invoke(times_of_, own);
      for (std::size_t module = 0; module < D; ++module) {
        auto const [forward, backward] = times[module];
        if (forward < 0 || backward < 0 || forward > stage_graph::longest_time ||
            backward > stage_graph::longest_time) {
          return fail(error_code::out_of_range, sample, "sample ", sample,
                      " takes no time from 0 to 2^53 in module ", module,
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
    if (auto done = made_.split(memory_, sizes, times); !done) { return done; }
    std::size_t const count = times.size();
    step.microbatches = as_given_.size();
    // Microbatches are bags of one GPU, so denominators are 1.
    step.largest_load = made_.parts().makespan.numerator;
    step.largest_load_bound = made_.parts().lower_bound.numerator;
    step.makespan = 0;
    step.times.resize(groups_);
    step.stages = stages_;
    for (std::size_t module = 0; module < D; ++module) {
      step.replicas[module] = setup_.modules[module].replicas;
      step.owner[module].resize(count);
    }
    for (std::size_t group = 0; group < groups_; ++group) {
      if (auto done = made_.share(memory_, group, sizes, times); !done) { return done; }
      if (auto done = order(step.number, group, seed); !done) { return done; }
      step.makespan = std::max(step.makespan, ordered_.makespan);
      put_in_order(step, group);
    }
    step.even_makespan = step.makespan;
    detail::step_shortener<D>(step, memory_, setup_, sizes, times, detail::span_of(as_given_))(
        digest().add(seed).add(step.number).value());
    for (std::size_t module = 0; module < D; ++module) {
      step.samples[module].collect(detail::span_of(step.owner[module]),
                                   groups_ * as_given_.size() * made_.replicas(module));
    }
    return {};
  }

  [[nodiscard]] result<void> order(std::uint64_t number, std::size_t group, std::uint64_t seed)
  {
    auto policy = order_;
    if constexpr (requires { policy.seed = seed; }) {
      policy.seed = digest().add(seed).add(number).add(std::uint64_t{group}).value();
    }
    return order_microbatches_into(ordered_, memory_, setup_.schedule, made_.times(), policy);
  }

  /// Microbatches of a group to their positions.
  void put_in_order(scheduled_step<D>& step, std::size_t group)
  {
    std::size_t const count = as_given_.size();
    position_of_.resize(count);
    auto& times = step.times[group];
    times.stages = made_.times().stages;
    times.rows.resize(made_.times().rows.size());
    for (std::size_t position = 0; position < count; ++position) {
      position_of_[to_index(ordered_.order[position])] = position;
      std::span<stage_time const> const from = made_.times()[ordered_.order[position]];
      std::copy(from.begin(), from.end(), times[as_given_[position]].begin());
    }
    for (std::size_t module = 0; module < D; ++module) {
      std::size_t const replicas = made_.replicas(module);
      for (auto const& [sample, bin] : made_.shared(module)) {
        std::size_t const position = position_of_[bin / replicas];
        step.owner[module][to_index(sample)] =
            to_id<bag_id>((group * count + position) * replicas + bin % replicas);
      }
    }
  }

  scheduler_setup setup_;
  std::uint32_t groups_;
  TimesOf times_of_;
  Order order_;
  detail::group_microbatches<D, Split> made_;
  workspace memory_;
  std::vector<microbatch_id> as_given_;  // 0, 1, 2, ...
  std::vector<scheduled_stage> stages_;  // of a group
  std::vector<sample_time> corrected_;
  order_plan ordered_;
  std::vector<std::size_t> position_of_;
  scheduled_step<D> plain_;  // of uncorrected costs
};

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_MICROBATCH_SCHEDULER_HPP
