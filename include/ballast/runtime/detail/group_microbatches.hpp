// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/runtime/scheduled_step.hpp>

#include <functional>

namespace ballast::inline v0::detail {

/// The limits that this cap alone makes, if it limits anything.
[[nodiscard]] inline placement_limits within(cap const& limit)
{
  placement_limits limits;
  if (limit.most_per_gpu != no_limit) { limits.also = {limit}; }
  return limits;
}

/// The samples of a global batch in microbatches, these in groups of replicas, and which replica of
/// its group computes which sample.
///
/// Expects     replica_groups(setup, D) == groups.
/// Ensures     no replica of the last module holds more than most_per_microbatch
/// Errors      those of partition, positions of the global batch.
template <std::size_t D, class Split>
class group_microbatches {
 public:
  using sample_time = std::array<stage_time, D>;

  group_microbatches(scheduler_setup const& setup, std::uint32_t groups, Split split)
      : modules_(setup.modules),
        most_per_microbatch_(setup.most_per_microbatch),
        groups_(groups),
        split_(std::move(split)),
        ones_(groups * setup.schedule.microbatches(), 1),
        microbatches_(one_gpu_bags(ones_.size())),
        all_groups_(one_gpu_bags(groups)),
        all_parts_(one_gpu_bags(ones_.size() * (setup.modules[D - 1].replicas / groups))),
        ones_of_parts_(all_parts_.size(), 1)
  {
    for (std::size_t module = 0; module < D; ++module) {
      modules_[module].replicas /= groups;
      all_replicas_[module] = one_gpu_bags(replicas(module));
    }
  }

  /// Replicas of a module in a group.
  [[nodiscard]] std::size_t replicas(std::size_t module) const { return modules_[module].replicas; }

  /// Samples to the microbatches of all groups, and these to groups.
  [[nodiscard]] result<void> split(workspace& memory, std::span<tokens const> sizes,
                                   std::span<sample_time const> times)
  {
    auto const stage_costs = [this](sample_time const& each) {
      cost_vector<D> costs;
      for (std::size_t module = 0; module < D; ++module) {
        auto const& layers = modules_[module].layers;
        std::uint32_t const most = *std::max_element(layers.begin(), layers.end());
        auto const all = modules_[module].all_layers() * replicas(module);
        auto const work = static_cast<uint128>(each[module].forward + each[module].backward) * most;
        costs[module] = static_cast<cost_units>((work + all - 1) / all);
      }
      return costs;
    };
    cap limit;
    bool const limited = most_per_microbatch_ != no_limit;
    auto const sharing = static_cast<std::int64_t>(replicas(D - 1));
    if (limited) {
      weights_.resize(times.size());
      for (std::size_t sample = 0; sample < times.size(); ++sample) {
        weights_[sample] = sizes[sample * D + D - 1];
      }
      bool const endless = most_per_microbatch_ > no_limit / sharing;
      limit.of = span_of(weights_);
      limit.most_per_gpu = endless ? no_limit : most_per_microbatch_ * sharing;
    }
    auto done = partition_into(parts_, memory, times, microbatches_, stage_costs, no_length{},
                               within(limit), split_);
    bool const no_room = !done && done.error().code == error_code::infeasible;
    if (limited && sharing > 1 && (no_room || (done && !replicas_hold(memory, sizes, times)))) {
      limit.most_per_gpu = most_per_microbatch_;
      if (no_room) { parts_.lower_bound = {}; }
      done = split_by_replica(memory, times, stage_costs, within(limit));
    }
    if (!done) { return done; }
    return partition_into(
        of_groups_, memory, parts_.loads, all_groups_, std::identity{}, no_length{},
        {.also = {{.of = span_of(ones_),
                   .most_per_gpu = static_cast<std::int64_t>(ones_.size() / groups_)}}});
  }

  /// The microbatches of all groups, as split() made them.
  [[nodiscard]] cost_vector_plan<D> const& parts() const { return parts_; }

  /// The samples of a group's microbatches to the replicas of every module, as a scheduled_step has
  /// them, in the order in which split() has made the microbatches.
  [[nodiscard]] result<void> share(std::array<id_vector<sample_id, bag_id>, D>& owner,
                                   workspace& memory, std::size_t group,
                                   std::span<tokens const> sizes,
                                   std::span<sample_time const> times)
  {
    auto const own = of_groups_.samples[to_id<bag_id>(group)];
    for (std::size_t module = 0; module < D; ++module) {
      bool const is_known = module + 1 == D && limits_replicas();
      for (std::size_t position = 0; position < own.size(); ++position) {
        auto const samples = parts_.samples[to_id<bag_id>(to_index(own[position]))];
        if (replicas(module) > 1 && !is_known) {
          if (auto done = to_replicas(memory, module, samples, sizes, times); !done) {
            return done;
          }
        }
        for (std::size_t index = 0; index < samples.size(); ++index) {
          std::size_t const replica = is_known               ? replica_of_[to_index(samples[index])]
                                      : replicas(module) > 1 ? to_index(of_replicas_.owner[index])
                                                             : 0;
          owner[module][samples[index]] =
              to_id<bag_id>((group * own.size() + position) * replicas(module) + replica);
        }
      }
    }
    return {};
  }

 private:
  /// Whether split() chooses the replicas of the last module, so that none holds too much.
  [[nodiscard]] bool limits_replicas() const
  {
    return replicas(D - 1) > 1 && most_per_microbatch_ != no_limit;
  }

  /// Splits samples into what each replica holds of each microbatch, then puts as many of these
  /// parts together to a microbatch as there are replicas: it finds room where microbatches made
  /// first have enough for all replicas together, but not for each. The bound is the larger of what
  /// it was and a new one.
  template <class Cost>
  [[nodiscard]] result<void> split_by_replica(workspace& memory, std::span<sample_time const> times,
                                              Cost const& cost_of, placement_limits const& limits)
  {
    auto done = partition_into(of_parts_, memory, times, all_parts_, cost_of, no_length{}, limits);
    if (!done) { return done; }
    done = partition_into(together_, memory, of_parts_.loads, microbatches_, std::identity{},
                          no_length{},
                          {.also = {{.of = span_of(ones_of_parts_),
                                     .most_per_gpu = static_cast<std::int64_t>(replicas(D - 1))}}});
    if (!done) { return done; }
    replica_of_.resize(times.size());
    for (std::size_t microbatch = 0; microbatch < microbatches_.size(); ++microbatch) {
      auto const own = together_.samples[to_id<bag_id>(microbatch)];
      for (std::size_t replica = 0; replica < own.size(); ++replica) {
        for (sample_id const sample : of_parts_.samples[to_id<bag_id>(to_index(own[replica]))]) {
          parts_.owner[sample] = to_id<bag_id>(microbatch);
          replica_of_[to_index(sample)] = replica;
        }
      }
    }
    parts_.loads = together_.loads;
    parts_.samples.collect(span_of(parts_.owner), microbatches_.size());
    parts_.makespan = together_.makespan;
    parts_.lower_bound = std::max(parts_.lower_bound, of_parts_.lower_bound);
    return {};
  }

  /// Whether the replicas of the last module can hold each microbatch; notes which sample goes
  /// where.
  [[nodiscard]] bool replicas_hold(workspace& memory, std::span<tokens const> sizes,
                                   std::span<sample_time const> times)
  {
    replica_of_.resize(times.size());
    for (std::size_t microbatch = 0; microbatch < microbatches_.size(); ++microbatch) {
      auto const samples = parts_.samples[to_id<bag_id>(microbatch)];
      if (!to_replicas(memory, D - 1, samples, sizes, times)) { return false; }
      for (std::size_t index = 0; index < samples.size(); ++index) {
        replica_of_[to_index(samples[index])] = to_index(of_replicas_.owner[index]);
      }
    }
    return true;
  }

  /// The samples of a microbatch to the replicas of a module.
  [[nodiscard]] result<void> to_replicas(workspace& memory, std::size_t module,
                                         std::span<sample_id const> samples,
                                         std::span<tokens const> sizes,
                                         std::span<sample_time const> times)
  {
    auto const cost = [&](sample_id sample) {
      auto const [forward, backward] = times[to_index(sample)][module];
      return cost_vector<1>{forward + backward};
    };
    cap limit;
    if (module + 1 == D && most_per_microbatch_ != no_limit) {
      own_weights_.clear();
      for (sample_id const sample : samples) {
        own_weights_.push_back(sizes[to_index(sample) * D + module]);
      }
      limit.of = span_of(own_weights_);
      limit.most_per_gpu = most_per_microbatch_;
    }
    auto done = partition_into(of_replicas_, memory, samples, all_replicas_[module], cost,
                               no_length{}, within(limit));
    if (!done && done.error().position < samples.size()) {  // of the microbatch, not of the batch
      done.error().position = to_index(samples[done.error().position]);
    }
    return done;
  }

  std::vector<scheduled_module> modules_;  // of one group
  std::int64_t most_per_microbatch_;
  std::uint32_t groups_;
  Split split_;
  std::vector<std::int64_t> ones_;  // one for each microbatch of all groups
  bag_layout microbatches_;         // of all groups, as bags
  bag_layout all_groups_;
  std::array<bag_layout, D> all_replicas_;  // of one group
  std::vector<std::int64_t> weights_;
  std::vector<std::int64_t> own_weights_;
  cost_vector_plan<D> parts_;      // samples to the microbatches of all groups
  cost_vector_plan<D> of_groups_;  // microbatches to groups
  cost_vector_plan<1> of_replicas_;
  bag_layout all_parts_;  // what a replica of the last module holds of a microbatch is a bag
  std::vector<std::int64_t> ones_of_parts_;
  cost_vector_plan<D> of_parts_;         // samples to parts
  cost_vector_plan<D> together_;         // parts to microbatches
  std::vector<std::size_t> replica_of_;  // of samples, in the last module where it is limited
};

}  // namespace ballast::inline v0::detail
