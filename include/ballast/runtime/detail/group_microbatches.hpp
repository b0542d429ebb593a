// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/runtime/scheduled_step.hpp>

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
/// Expects     setup.groups(D) == groups.
/// Ensures     no replica of the last module holds more than most_per_gpu
/// Errors      those of partition, positions of the global batch.
template <std::size_t D, class Split>
class group_microbatches {
 public:
  using sample_time = std::array<stage_time, D>;

  group_microbatches(scheduler_setup const& setup, std::uint32_t groups, Split split)
      : modules_(setup.modules),
        most_per_gpu_(setup.most_per_gpu),
        groups_(groups),
        split_(std::move(split)),
        ones_(groups * setup.schedule.microbatches(), 1),
        microbatches_(one_gpu_bags(ones_.size())),
        all_groups_(one_gpu_bags(groups))
  {
    for (std::size_t module = 0; module < D; ++module) {
      modules_[module].replicas /= groups;
      all_replicas_[module] = one_gpu_bags(replicas(module));
      std::vector<std::uint32_t> speeds;
      for (std::uint32_t const factor : modules_[module].factors) {
        speeds.push_back((std::uint32_t{1} << 24) / factor);
      }
      if (!speeds.empty()) {
        all_replicas_[module] = all_replicas_[module].with_speeds(span_of(speeds));
      }
      speed_[module] = speeds.empty()
                           ? std::uint64_t{replicas(module)} << 8
                           : std::accumulate(speeds.begin(), speeds.end(), std::uint64_t{0});
    }
  }

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
        auto const all = static_cast<uint128>(modules_[module].all_layers()) * speed_[module];
        auto const work = static_cast<uint128>(each[module].forward + each[module].backward) * most;
        costs[module] = static_cast<cost_units>(((work << 8) + all - 1) / all);
      }
      return costs;
    };
    placement_limits limits;
    auto const sharing = static_cast<std::int64_t>(replicas(D - 1));
    auto const hold = [&](std::span<sample_id const> together) { return replicas_hold(together); };
    if (most_per_gpu_ != no_limit) {
      weights_.resize(times.size());
      for (std::size_t sample = 0; sample < times.size(); ++sample) {
        weights_[sample] = sizes[sample * D + D - 1];
      }
      bool const endless = most_per_gpu_ > no_limit / sharing;
      limits = within(
          {.of = span_of(weights_), .most_per_gpu = endless ? no_limit : most_per_gpu_ * sharing});
      if (sharing > 1 && !endless) { limits.mixes = hold; }
    }
    auto done = partition_into(parts_, memory, times, microbatches_, stage_costs, no_length{},
                               limits, split_);
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
                                   std::span<sample_time const> times)
  {
    auto const own = of_groups_.samples[to_id<bag_id>(group)];
    for (std::size_t module = 0; module < D; ++module) {
      for (std::size_t position = 0; position < own.size(); ++position) {
        auto const samples = parts_.samples[to_id<bag_id>(to_index(own[position]))];
        if (replicas(module) > 1) {
          if (auto done = to_replicas(memory, module, samples, times); !done) { return done; }
        }
        for (std::size_t index = 0; index < samples.size(); ++index) {
          std::size_t const replica =
              replicas(module) > 1 ? to_index(of_replicas_.owner[index]) : 0;
          owner[module][samples[index]] =
              to_id<bag_id>((group * own.size() + position) * replicas(module) + replica);
        }
      }
    }
    return {};
  }

 private:
  void list_weights(std::span<sample_id const> samples)
  {
    own_weights_.clear();
    for (sample_id const sample : samples) { own_weights_.push_back(weights_[to_index(sample)]); }
  }

  /// Whether replicas of the last module are found to hold these samples as one microbatch. A
  /// search that takes long says that they do not.
  [[nodiscard]] bool replicas_hold(std::span<sample_id const> samples)
  {
    list_weights(samples);
    auto const all = std::accumulate(own_weights_.begin(), own_weights_.end(), std::int64_t{0});
    held_.assign(replicas(D - 1), 0);
    std::int64_t const spare = static_cast<std::int64_t>(held_.size()) * most_per_gpu_ - all;
    auto const heaviest = std::max_element(own_weights_.begin(), own_weights_.end());
    if (heaviest == own_weights_.end() || is_enough(spare, *heaviest)) { return true; }
    std::sort(own_weights_.begin(), own_weights_.end(), std::greater<>());
    nodes_ = 1000;
    return finds_room(0, spare);
  }

  /// Whether weights up to this one find room in any order: where one finds none, each replica has
  /// less than it left.
  [[nodiscard]] bool is_enough(std::int64_t spare, std::int64_t heaviest) const
  {
    return spare / static_cast<std::int64_t>(held_.size() - 1) >= heaviest;
  }

  /// Whether the weights from here on find room, heaviest first, where replicas have room for
  /// `spare` more than all of them.
  [[nodiscard]] bool finds_room(std::size_t at, std::int64_t spare)
  {
    if (at == own_weights_.size() || is_enough(spare, own_weights_[at])) { return true; }
    if (spare < 0 || nodes_ == 0) { return false; }
    --nodes_;
    for (std::size_t replica = 0; replica < held_.size(); ++replica) {
      std::int64_t const before = held_[replica];
      auto const same = held_.begin() + static_cast<std::ptrdiff_t>(replica);
      if (before > most_per_gpu_ - own_weights_[at] ||
          std::find(held_.begin(), same, before) != same) {
        continue;
      }
      held_[replica] += own_weights_[at];
      if (finds_room(at + 1, spare)) { return true; }
      held_[replica] = before;
    }
    return false;
  }

  [[nodiscard]] result<void> to_replicas(workspace& memory, std::size_t module,
                                         std::span<sample_id const> samples,
                                         std::span<sample_time const> times)
  {
    auto const cost = [&](sample_id sample) {
      auto const [forward, backward] = times[to_index(sample)][module];
      return cost_vector<1>{forward + backward};
    };
    cap limit;
    if (module + 1 == D && most_per_gpu_ != no_limit) {
      list_weights(samples);
      limit.of = span_of(own_weights_);
      limit.most_per_gpu = most_per_gpu_;
    }
    auto done = partition_into(of_replicas_, memory, samples, all_replicas_[module], cost,
                               no_length{}, within(limit));
    if (!done && done.error().position < samples.size()) {  // of the microbatch, not of the batch
      done.error().position = to_index(samples[done.error().position]);
    }
    return done;
  }

  std::vector<scheduler_setup::module_spread> modules_;  // of one group
  std::int64_t most_per_gpu_;
  std::uint32_t groups_;
  Split split_;
  std::vector<std::int64_t> ones_;  // one for each microbatch of all groups
  bag_layout microbatches_;         // of all groups, as bags
  bag_layout all_groups_;
  std::array<bag_layout, D> all_replicas_;  // of one group
  std::array<std::uint64_t, D> speed_{};    // of these together, 2^8 where they take all
  std::vector<std::int64_t> weights_;
  std::vector<std::int64_t> own_weights_;
  std::vector<std::int64_t> held_;  // by the replicas of a microbatch
  std::size_t nodes_ = 0;           // left to search
  cost_vector_plan<D> parts_;       // samples to the microbatches of all groups
  cost_vector_plan<D> of_groups_;   // microbatches to groups
  cost_vector_plan<1> of_replicas_;
};

}  // namespace ballast::inline v0::detail
