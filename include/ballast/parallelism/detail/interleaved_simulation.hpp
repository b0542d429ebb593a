// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_INTERLEAVED_SIMULATION_HPP
#define BALLAST_PARALLELISM_DETAIL_INTERLEAVED_SIMULATION_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/parallelism/detail/group_module.hpp>
#include <ballast/parallelism/detail/replica_graph.hpp>
#include <ballast/parallelism/detail/stage_shares.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/pipeline/simulate.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// The makespan of interleaved 1F1B on one group of replicas whose last module has virtual stages.
/// The schedules that were asked for last are kept.
///
/// Expects     all times of a group add up to less than 2^62.
/// Ensures     (1) layout_pipeline's end_of() for the timeline of its schedule(); no_cost where
///                 that has too many stages or tasks
///             (2) of one replica of each module, linked with each other, no more than of all
/// Complexity  O(tasks + links).
class interleaved_simulation {
 public:
  [[nodiscard]] time_units makespan(std::span<group_module const> modules,
                                    std::uint32_t microbatches, std::uint32_t virtual_stages)
  {
    std::vector<replicated_module> replicated;
    for (group_module const& each : modules) {
      bool const is_last = replicated.size() + 1 == modules.size();
      replicated.push_back(
          {each.pp, is_last ? virtual_stages : 1, each.replicas, each.feeds, each.sent != nullptr});
    }
    auto const& [graph, order, compiled] = schedule_of(std::move(replicated), microbatches);
    if (!compiled) { return no_cost; }
    pipeline_times times(microbatches, graph.stages());
    for (std::uint32_t microbatch = 0; microbatch < microbatches; ++microbatch) {
      for (std::size_t module = 0; module < modules.size(); ++module) {
        set_times(times[to_id<microbatch_id>(microbatch)], graph, modules, module, microbatch);
      }
    }
    simulate_into(timeline_, *compiled, times, span_of(order));
    time_units end = timeline_.makespan;
    for (std::size_t module = 0; module < modules.size(); ++module) {
      group_module const& own = modules[module];
      stage_shares const shares(own.layers, own.pp, own.parts);
      for (std::uint32_t replica = 0; replica < own.replicas; ++replica) {
        for (std::uint32_t stage = 0; stage < own.pp; ++stage) {
          auto const last = compiled->tasks_on(graph.rank_of(module, replica, stage)).back();
          end = std::max(end, timeline_.end[last] + own.reducing[shares.kind_of(stage)]);
        }
      }
    }
    return end;
  }

 private:
  struct known_schedule {
    replica_graph graph{{}};
    std::vector<microbatch_id> order{};
    std::optional<compiled_schedule> compiled{};
  };

  static void set_times(std::span<stage_time> row, replica_graph const& graph,
                        std::span<group_module const> modules, std::size_t module,
                        std::uint32_t microbatch)
  {
    group_module const& own = modules[module];
    std::uint32_t const parts = graph.modules()[module].parts();
    stage_shares const shares(own.layers, parts, own.parts);
    for (std::uint32_t replica = 0; replica < own.replicas; ++replica) {
      time_units const whole = own.whole[microbatch * own.stride + replica];
      for (std::uint32_t part = 0; part < parts; ++part) {
        time_units const share = shares.of(whole, shares.kind_of(part));
        row[graph.stage_of(module, replica, part)] = {share / 3, share - share / 3};
      }
    }
    if (own.sent == nullptr) { return; }
    std::uint32_t const brokers = graph.brokers(module);
    for (std::uint32_t broker = 0; broker < brokers; ++broker) {
      time_units const time =
          std::max(most_of(own.sent, own, microbatch, broker, brokers),
                   most_of(own.received, modules[own.feeds], microbatch, broker, brokers));
      std::size_t const there = graph.transfer_of(module, broker);
      row[there].forward = time;
      row[there + 1].backward = time;
    }
  }

  [[nodiscard]] static time_units most_of(time_units const* times, group_module const& of,
                                          std::uint32_t microbatch, std::uint32_t broker,
                                          std::uint32_t brokers)
  {
    std::size_t const met = of.replicas / brokers;
    times += microbatch * of.stride + broker * met;
    return *std::max_element(times, times + met);
  }

  [[nodiscard]] known_schedule const& schedule_of(std::vector<replicated_module> modules,
                                                  std::uint32_t microbatches)
  {
    for (known_schedule const& each : known_) {
      if (each.graph.modules() == modules && each.order.size() == microbatches) { return each; }
    }
    known_schedule& made = known_[next_];
    next_ = (next_ + 1) % known_.size();
    made = {replica_graph(std::move(modules))};
    for (std::uint32_t each = 0; each < microbatches; ++each) {
      made.order.push_back(to_id<microbatch_id>(each));
    }
    auto const stages = made.graph.graph();
    if (!stages) { return made; }
    auto compiled =
        compiled_schedule::make(*stages, interleaved_one_forward_one_backward{}, microbatches);
    if (compiled) { made.compiled.emplace(*std::move(compiled)); }
    return made;
  }

  std::array<known_schedule, 2> known_;  // a chain of replicas, and a group
  std::size_t next_ = 0;                 // of these to be replaced
  pipeline_timeline timeline_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_INTERLEAVED_SIMULATION_HPP
