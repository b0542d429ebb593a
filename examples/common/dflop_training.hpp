// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "unit_training.hpp"  // defines: unit_training::{unit_job, measured_steps, first_layers}

#include <ballast/core.hpp>
#include <ballast/cost.hpp>
#include <ballast/parallelism.hpp>
#include <ballast/pipeline.hpp>
#include <ballast/runtime.hpp>
#include <ballast/topology.hpp>

/// A vision encoder and four layers of Llama-3 8B on eight GPUs, on the layout that is found for
/// them, with samples that take longer than their profile says.
namespace dflop_training {

using namespace ballast;
using namespace unit_training;

inline constexpr std::size_t steps = 8;
inline constexpr tokens slow = 9 * tokens_of_row;  // samples above take the LLM twice as long

struct small_job : unit_job {
  small_job(transformer_shape const& encoder, tokens patches, std::uint64_t memory,
            std::uint32_t most_tp = 4)
      : unit_job({first_layers("vision", encoder, 4, patches, most_tp),
                  first_layers("llm", known_shape("llama3-8b"), 4, 0, most_tp)},
                 32, dflop_training::steps, memory)
  {
    layout = search_layouts(problem, problem.sizes).value().layouts.at(0).layout;
  }

  /// As scheduled_step numbers ranks: group after group, in each module after module.
  [[nodiscard]] std::vector<std::uint32_t> module_of_rank() const
  {
    layout_pipeline const pipeline(problem, layout);
    std::vector<std::uint32_t> all;
    for (std::uint32_t group = 0; group < pipeline.groups(); ++group) {
      for (std::uint32_t module = 0; module < layout.modules.size(); ++module) {
        auto const& unit = layout.modules[module];
        all.insert(all.end(), std::size_t{unit.dp / pipeline.groups()} * unit.pp, module);
      }
    }
    return all;
  }

  /// What the microbatches of each group take, by their positions, in picoseconds: where samples are
  /// slow, more than planned.
  [[nodiscard]] std::vector<pipeline_times> times_of(scheduled_step<2> const& plan,
                                                     std::size_t number) const
  {
    auto const own = sizes_of(number);
    std::vector<pipeline_times> all;
    for (std::size_t group = 0; group < plan.pipelines(); ++group) {
      all.emplace_back(
          plan.microbatches, plan.stages.size(), [&](std::size_t position, std::size_t stage) {
            auto const [module, in_group, layers, of_layers] = plan.stages[stage];
            std::size_t const replica = group * plan.replicas[module] / plan.pipelines() + in_group;
            stage_time sum;
            for (sample_id const each : plan.microbatch(module, replica, position)) {
              auto const [forward, backward] = plan.predicted[to_index(each)][module];
              bool const is_slow = module == 1 && own[2 * to_index(each) + 1] > slow;
              sum.forward +=
                  (is_slow ? 2 : 1) * forward * layers / static_cast<time_units>(of_layers);
              sum.backward +=
                  (is_slow ? 2 : 1) * backward * layers / static_cast<time_units>(of_layers);
            }
            return sum;
          });
    }
    return all;
  }

  /// What the GPUs of each module were planned to take for a step, and what they take.
  [[nodiscard]] std::array<std::array<time_units, 2>, 2> module_times(
      scheduled_step<2> const& plan, std::span<pipeline_times const> times) const
  {
    std::array<std::array<time_units, 2>, 2> all{};
    for (auto const& sample : plan.predicted) {
      for (std::size_t module = 0; module < 2; ++module) {
        all[0][module] += sample[module].forward + sample[module].backward;
      }
    }
    for (pipeline_times const& of_group : times) {
      for (std::size_t at = 0; at < of_group.rows.size(); ++at) {
        auto const& [forward, backward] = of_group.rows[at];
        all[1][plan.stages[at % of_group.stages].module] += forward + backward;
      }
    }
    return all;
  }
};

}  // namespace dflop_training
