// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_LAYOUT_PIPELINE_HPP
#define BALLAST_PARALLELISM_LAYOUT_PIPELINE_HPP

#include <ballast/core/detail/span_of.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/cost/saturating_sum.hpp>
#include <ballast/parallelism/detail/layout_transfers.hpp>
#include <ballast/parallelism/detail/stage_shares.hpp>
#include <ballast/parallelism/detail/stage_times.hpp>
#include <ballast/parallelism/layout_problem.hpp>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/pipeline/compiled_schedule.hpp>
#include <ballast/pipeline/pipeline_timeline.hpp>
#include <ballast/pipeline/pipeline_times.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace ballast::inline v0 {

/// The pipelines of a layout: replicas fall into groups that exchange nothing with each other, as
/// many as the greatest common divisor of all dp, and each group is one pipeline of all its stages.
///
/// What a broker hands from one module to the next goes over a link of its own, microbatch after
/// microbatch, and gradients come back over another: two stages that are transfers. A microbatch
/// takes as long on it as the replica that sends or receives most.
///
/// Expects     the layout is one that price_layout accepts.
class layout_pipeline {
 public:
  layout_pipeline(layout_problem const& problem, model_layout const& layout)
      : problem_(problem), layout_(layout)
  {
    for (module_layout const& each : layout.modules) { groups_ = std::gcd(groups_, each.dp); }
    for (std::size_t module = 0; module < modules(); ++module) {
      first_stage_.push_back(stages_);
      stages_ += std::size_t{replicas(module)} * layout.modules[module].pp;
      first_transfer_.push_back(stages_);
      if (detail::sends(problem_, module)) { stages_ += std::size_t{2} * brokers(module); }
    }
  }

  [[nodiscard]] std::uint32_t groups() const noexcept { return groups_; }

  /// The stages of one group, each on a rank of its own: module after module, replica after
  /// replica; behind a module the transfers of each broker, where they take time.
  [[nodiscard]] result<stage_graph> stages() const
  {
    std::vector<pipeline_stage> stages(std::min(stages_, stage_graph::most_stages + 1));
    for (std::size_t stage = 0; stage < stages.size(); ++stage) {
      stages[stage].rank = to_id<pipeline_rank>(stage);
    }
    std::vector<stage_link> links;
    auto const link = [&](std::size_t from, std::size_t to) {
      links.push_back({to_id<stage_id>(from), to_id<stage_id>(to)});
    };
    for (std::size_t module = 0; module < modules() && stages_ == stages.size(); ++module) {
      std::uint32_t const pp = layout_.modules[module].pp;
      for (std::uint32_t replica = 0; replica < replicas(module); ++replica) {
        for (std::uint32_t stage = 0; stage + 1 < pp; ++stage) {
          link(stage_of(module, replica, stage), stage_of(module, replica, stage + 1));
        }
      }
      if (module + 1 == modules()) { continue; }
      std::uint32_t const of_broker = replicas(module) / brokers(module);
      std::uint32_t const others = replicas(module + 1) / brokers(module);
      for (std::uint32_t broker = 0; broker < brokers(module); ++broker) {
        auto const link_all_from = [&](std::size_t stage) {
          for (std::uint32_t other = 0; other < others; ++other) {
            link(stage, stage_of(module + 1, broker * others + other, 0));
          }
        };
        bool const has_transfers = detail::sends(problem_, module);
        std::size_t const there = first_transfer_[module] + std::size_t{2} * broker;
        for (std::uint32_t each = 0; each < of_broker; ++each) {
          std::size_t const last = stage_of(module, broker * of_broker + each, pp - 1);
          if (!has_transfers) {
            link_all_from(last);
            continue;
          }
          link(last, there);
          link(last, there + 1);
        }
        if (!has_transfers) { continue; }
        for (std::size_t const transfer : {there, there + 1}) {
          stages[transfer].part = model_part::transfer;
          stages[transfer].backward = transfer != there;
          link_all_from(transfer);
        }
      }
    }
    return stage_graph::make(std::move(stages), links);
  }

  /// How long the stages of one group take for its part of a batch. Shapes: batch[samples x
  /// modules].
  [[nodiscard]] pipeline_times times(std::span<tokens const> batch, std::uint32_t group) const
  {
    std::size_t const samples = batch.size() / modules();
    std::uint64_t const microbatches = layout_.microbatches;
    std::vector<sample_id> ids(samples);
    for (std::size_t sample = 0; sample < samples; ++sample) {
      ids[sample] = to_id<sample_id>(sample);
    }
    return times_of(batch,
                    [&](std::size_t module, std::uint64_t replica, std::uint64_t microbatch) {
                      // What the group computes at this turn, all its replicas together.
                      std::uint64_t const turn = microbatch * groups_ + group;
                      std::size_t const begin = samples * turn / (microbatches * groups_);
                      std::size_t const end = samples * (turn + 1) / (microbatches * groups_);
                      std::uint64_t const all = replicas(module);
                      std::size_t const first = begin + (end - begin) * replica / all;
                      std::size_t const last = begin + (end - begin) * (replica + 1) / all;
                      return detail::span_of(ids, first, last - first);
                    });
  }

  /// The same, where samples_of(module, replica of the group, microbatch) is a range of the
  /// sample_ids that are computed there.
  template <class SamplesOf>
  [[nodiscard]] pipeline_times times_of(std::span<tokens const> batch,
                                        SamplesOf const& samples_of) const
  {
    pipeline_times times(layout_.microbatches, stages_);
    for (std::uint32_t microbatch = 0; microbatch < layout_.microbatches; ++microbatch) {
      std::span<stage_time> const row = times[to_id<microbatch_id>(microbatch)];
      for (std::size_t module = 0; module < modules(); ++module) {
        for (std::uint32_t replica = 0; replica < replicas(module); ++replica) {
          packed_samples packed(*this, module);
          tokens received = 0;
          for (sample_id const sample : samples_of(module, replica, microbatch)) {
            tokens const* const size = batch.data() + to_index(sample) * modules() + module;
            packed.add(*size);
            if (module > 0) { received += *(size - 1); }
          }
          set_times(row, module, replica, packed.time());
          send(row, module, replica, module, packed.size());
          if (module > 0) { send(row, module - 1, replica, module, received); }
        }
      }
    }
    return times;
  }

  /// When a step of one group is over, if no other group's is later: its pipeline has ended, and
  /// gradients are reduced, stage by stage.
  ///
  /// Expects     the timeline is of a schedule of stages(), in which each stage's backward of the
  ///             last position is its last task.
  [[nodiscard]] time_units end_of(compiled_schedule const& schedule,
                                  pipeline_timeline const& timeline) const
  {
    time_units end = timeline.makespan;
    if (problem_.bytes_per_second == 0) { return end; }
    for (std::size_t module = 0; module < modules(); ++module) {
      module_layout const own = layout_.modules[module];
      for (std::uint32_t stage = 0; stage < own.pp; ++stage) {
        time_units const reducing = reducing_time(module, stage);
        for (std::uint32_t replica = 0; replica < replicas(module); ++replica) {
          auto const rank = to_id<pipeline_rank>(stage_of(module, replica, stage));
          end =
              std::max(end, saturating_sum(timeline.end[schedule.tasks_on(rank).back()], reducing));
        }
      }
    }
    return end;
  }

  /// What the replicas of a module take to reduce the gradients of a stage.
  [[nodiscard]] time_units reducing_time(std::size_t module, std::uint32_t stage) const
  {
    module_layout const own = layout_.modules[module];
    std::uint32_t const layers = problem_.modules[module].layers;
    return detail::reducing_time(problem_, *find_degree(problem_.modules[module], own.tp),
                                 layers / own.pp + (stage < layers % own.pp ? 1 : 0), own.dp);
  }

 private:
  [[nodiscard]] std::size_t modules() const noexcept { return layout_.modules.size(); }

  /// Of a module in each group.
  [[nodiscard]] std::uint32_t replicas(std::size_t module) const noexcept
  {
    return layout_.modules[module].dp / groups_;
  }

  /// Between a module and the next one, in each group.
  [[nodiscard]] std::uint32_t brokers(std::size_t module) const noexcept
  {
    return module + 1 < modules() ? std::gcd(replicas(module), replicas(module + 1)) : 0;
  }

  [[nodiscard]] std::size_t stage_of(std::size_t module, std::uint32_t replica,
                                     std::uint32_t stage) const
  {
    return first_stage_[module] + std::size_t{replica} * layout_.modules[module].pp + stage;
  }

  /// The time of all layers, for some samples packed together, on one of the tp GPUs.
  class packed_samples {
   public:
    packed_samples(layout_pipeline const& pipeline, std::size_t module)
        : profile_(pipeline.problem_.modules[module]),
          speeds_(*find_degree(profile_, pipeline.layout_.modules[module].tp))
    {}

    void add(tokens size)
    {
      all_ += size;
      time_ = saturating_sum(time_, detail::attention_time(profile_, speeds_, size));
    }

    [[nodiscard]] tokens size() const noexcept { return all_; }

    [[nodiscard]] cost_units time() const
    {
      return saturating_sum(time_, detail::linear_time(profile_, speeds_, all_));
    }

   private:
    module_profile const& profile_;
    profiled_degree const& speeds_;
    tokens all_ = 0;
    cost_units time_ = 0;
  };

  /// Gives every stage its share of a module's time, by layers: the first stages have one more.
  void set_times(std::span<stage_time> times, std::size_t module, std::uint32_t replica,
                 cost_units time) const
  {
    std::uint32_t const pp = layout_.modules[module].pp;
    detail::stage_shares const shares(problem_.modules[module].layers, pp);
    for (std::uint32_t stage = 0; stage < pp; ++stage) {
      time_units const share = shares.of(time, stage < shares.larger_stages());
      times[stage_of(module, replica, stage)] = {share / 3, share - share / 3};
    }
  }

  /// Has a replica send or receive what a module gives for so many tokens or items.
  void send(std::span<stage_time> times, std::size_t module, std::uint32_t replica,
            std::size_t of_replica, tokens all) const
  {
    if (!detail::sends(problem_, module)) { return; }
    std::uint32_t const broker = replica / (replicas(of_replica) / brokers(module));
    std::size_t const there = first_transfer_[module] + std::size_t{2} * broker;
    time_units const time =
        detail::sending_time(problem_, module, all, layout_.modules[of_replica].tp);
    times[there].forward = std::max(times[there].forward, time);
    times[there + 1].backward = std::max(times[there + 1].backward, time);
  }

  layout_problem problem_;
  model_layout layout_;
  std::uint32_t groups_ = 0;
  std::size_t stages_ = 0;                   // of a group
  std::vector<std::size_t> first_stage_;     // of each module
  std::vector<std::size_t> first_transfer_;  // behind each module
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PARALLELISM_LAYOUT_PIPELINE_HPP
