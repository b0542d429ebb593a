// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_LAYOUT_PIPELINE_HPP
#define BALLAST_PARALLELISM_LAYOUT_PIPELINE_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/cost/saturating_sum.hpp>
#include <ballast/parallelism/detail/joined_unit.hpp>
#include <ballast/parallelism/detail/layout_transfers.hpp>
#include <ballast/parallelism/detail/replica_graph.hpp>
#include <ballast/parallelism/detail/stage_shares.hpp>
#include <ballast/parallelism/detail/stage_times.hpp>
#include <ballast/parallelism/layout_problem.hpp>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/pipeline/simulate.hpp>
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
      : problem_(problem),
        layout_(layout),
        groups_(groups_of(layout)),
        graph_(replicated(problem, layout, groups_))
  {}

  [[nodiscard]] std::uint32_t groups() const noexcept { return groups_; }

  /// The stages of one group, each on a rank of its own, or as many as its virtual ones: module
  /// after module, replica after replica; behind a module the transfers of each broker, where they
  /// take time.
  [[nodiscard]] result<stage_graph> stages() const { return graph_.graph(); }

  /// 1F1B of one group, interleaved where stages have virtual ones.
  ///
  /// Errors      those of stage_graph::make and compiled_schedule::make.
  [[nodiscard]] result<compiled_schedule> schedule() const
  {
    auto const all = stages();
    if (!all) { return tl::unexpected(all.error()); }
    return compiled_schedule::make(*all, interleaved_one_forward_one_backward{},
                                   layout_.microbatches);
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
    pipeline_times times(layout_.microbatches, graph_.stages());
    for (std::uint32_t microbatch = 0; microbatch < layout_.microbatches; ++microbatch) {
      std::span<stage_time> const row = times[to_id<microbatch_id>(microbatch)];
      for (std::size_t module = 0; module < modules(); ++module) {
        for (std::uint32_t replica = 0; replica < replicas(module); ++replica) {
          packed_samples packed(*this, module);
          auto const& samples = samples_of(module, replica, microbatch);
          for (sample_id const sample : samples) {
            packed.add(batch[to_index(sample) * modules() + module]);
          }
          set_times(row, module, replica, packed.time());
          send(row, module, replica, module, packed.size());
          for (std::size_t feeder = 0; feeder < module; ++feeder) {
            if (problem_.fed_by(feeder) != module) { continue; }
            tokens received = 0;
            for (sample_id const sample : samples) {
              received += batch[to_index(sample) * modules() + feeder];
            }
            send(row, feeder, replica, module, received);
          }
        }
      }
    }
    return times;
  }

  /// When a step of one group is over, if no other group's is later: its pipeline has ended, and
  /// gradients are reduced, stage by stage.
  ///
  /// Expects     the timeline is of schedule(), or of one in which a rank's last task is the
  ///             backward of the last position.
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
          auto const last = schedule.tasks_on(graph_.rank_of(module, replica, stage)).back();
          end = std::max(end, saturating_sum(timeline.end[last], reducing));
        }
      }
    }
    return end;
  }

  /// The largest microbatch of a replica of the last module for which its GPUs have memory.
  [[nodiscard]] tokens largest_microbatch() const
  {
    module_layout const& own = layout_.modules.back();
    module_profile const& profile = problem_.modules.back();
    auto const& memory = find_degree(profile, degree_of(own))->memory;
    std::uint32_t const layers = detail::stage_shares(profile, own.pp).most_layers();
    std::uint64_t const free = problem_.memory_bytes - memory.state(layers);  // the layout fits
    detail::joined_unit const unit{own.pp, layout_.virtual_stages, layout_.microbatches};
    return memory.largest_size(layers, free / unit.kept(0) * layout_.virtual_stages);
  }

  /// The stages of a replica of a module share its time in proportion to these, its virtual stages
  /// too: their layers, or what these cost.
  [[nodiscard]] std::vector<std::uint32_t> stage_costs(std::size_t module) const
  {
    detail::stage_shares const shares = shares_of(module);
    std::uint32_t const parts = graph_.modules()[module].parts();
    std::vector<std::uint32_t> costs;
    costs.reserve(parts);
    for (std::uint32_t part = 0; part < parts; ++part) {
      costs.push_back(shares.cost_of(shares.kind_of(part)));
    }
    return costs;
  }

  /// What the replicas of a module take to reduce the gradients of a stage.
  [[nodiscard]] time_units reducing_time(std::size_t module, std::uint32_t stage) const
  {
    module_layout const own = layout_.modules[module];
    detail::stage_shares const shares(problem_.modules[module], own.pp);
    return detail::reducing_time(problem_, *find_degree(problem_.modules[module], degree_of(own)),
                                 shares.layers_of(shares.kind_of(stage)), own.dp);
  }

 private:
  [[nodiscard]] std::size_t modules() const noexcept { return layout_.modules.size(); }

  /// Of a module in each group.
  [[nodiscard]] std::uint32_t replicas(std::size_t module) const noexcept
  {
    return layout_.modules[module].dp / groups_;
  }

  [[nodiscard]] static std::uint32_t groups_of(model_layout const& layout)
  {
    std::uint32_t groups = 0;
    for (module_layout const& each : layout.modules) { groups = std::gcd(groups, each.dp); }
    return groups;
  }

  [[nodiscard]] static detail::replica_graph replicated(layout_problem const& problem,
                                                        model_layout const& layout,
                                                        std::uint32_t groups)
  {
    std::vector<detail::replicated_module> modules;
    for (std::size_t module = 0; module < layout.modules.size(); ++module) {
      module_layout const& each = layout.modules[module];
      bool const is_last = module + 1 == layout.modules.size();
      modules.push_back({each.pp, is_last ? layout.virtual_stages : 1, each.dp / groups,
                         problem.fed_by(module), detail::sends(problem, module)});
    }
    return detail::replica_graph(std::move(modules));
  }

  /// The time of all layers, for some samples packed together, on one GPU of a group.
  class packed_samples {
   public:
    packed_samples(layout_pipeline const& pipeline, std::size_t module)
        : profile_(pipeline.problem_.modules[module]),
          speeds_(*find_degree(profile_, degree_of(pipeline.layout_.modules[module])))
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

  /// Of virtual stages, where there are some: then layers are equal.
  [[nodiscard]] detail::stage_shares shares_of(std::size_t module) const
  {
    return {problem_.modules[module], graph_.modules()[module].parts()};
  }

  /// Gives every stage its share of a module's time.
  void set_times(std::span<stage_time> times, std::size_t module, std::uint32_t replica,
                 cost_units time) const
  {
    std::uint32_t const parts = graph_.modules()[module].parts();
    detail::stage_shares const shares = shares_of(module);
    for (std::uint32_t part = 0; part < parts; ++part) {
      time_units const share = shares.of(time, shares.kind_of(part));
      times[graph_.stage_of(module, replica, part)] = {share / 3, share - share / 3};
    }
  }

  /// Has a replica send or receive what a module gives for so many tokens or items.
  void send(std::span<stage_time> times, std::size_t module, std::uint32_t replica,
            std::size_t of_replica, tokens all) const
  {
    if (!detail::sends(problem_, module)) { return; }
    std::uint32_t const broker = replica / (replicas(of_replica) / graph_.brokers(module));
    std::size_t const there = graph_.transfer_of(module, broker);
    time_units const time =
        detail::sending_time(problem_, module, all, layout_.modules[of_replica].group());
    times[there].forward = std::max(times[there].forward, time);
    times[there + 1].backward = std::max(times[there + 1].backward, time);
  }

  layout_problem problem_;
  model_layout layout_;
  std::uint32_t groups_;
  detail::replica_graph graph_;  // of each group
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PARALLELISM_LAYOUT_PIPELINE_HPP
