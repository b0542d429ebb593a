// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pipelines.hpp"

#include <ballast/core.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/parallelism/deal_samples.hpp>
#include <ballast/parallelism/layout_pipeline.hpp>
#include <ballast/parallelism/layout_problem.hpp>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/pipeline/simulate.hpp>

namespace ballast_test {

/// What the fullest GPU holds while the pipelines of a layout are simulated on a batch.
inline std::uint64_t held_in_simulation(ballast::layout_problem const& problem,
                                        ballast::model_layout const& layout,
                                        std::span<ballast::tokens const> batch)
{
  ballast::layout_pipeline const pipeline(problem, layout);
  auto const dealt = ballast::deal_samples(problem, layout, batch);
  auto const schedule = ballast::compiled_schedule::make(
                            pipeline.stages().value(),
                            ballast::interleaved_one_forward_one_backward{}, layout.microbatches)
                            .value();
  std::size_t const modules = problem.modules.size();
  auto const order = numbered_order(layout.microbatches);
  std::uint64_t most = 0;
  for (std::uint32_t group = 0; group < pipeline.groups(); ++group) {
    std::vector<std::uint64_t> bytes;  // of each microbatch in each stage
    std::vector<std::uint64_t> state;  // of each rank
    for (std::size_t microbatch = 0; microbatch < order.size(); ++microbatch) {
      for (std::size_t module = 0; module < modules; ++module) {
        auto const [tp, pp, dp, sp, ep] = layout.modules[module];
        auto const& profile = problem.modules[module];
        auto const& memory = ballast::find_degree(profile, {tp, sp, ep})->memory;
        std::size_t const replicas = dp / pipeline.groups();
        std::uint32_t const parts = module + 1 < modules ? 1 : layout.virtual_stages;
        for (std::size_t replica = 0; replica < replicas; ++replica) {
          ballast::tokens size = 0;
          for (auto const sample :
               dealt.modules[module]
                            [(microbatch * pipeline.groups() + group) * replicas + replica]) {
            size += batch[to_index(sample) * modules + module];
          }
          for (std::uint32_t part = 0; part < pp * parts; ++part) {
            std::uint32_t const own = part % pp;
            std::uint32_t const layers = profile.layers / pp + (own < profile.layers % pp ? 1 : 0);
            bytes.push_back((memory.activations(layers, size) + parts - 1) / parts);
            if (microbatch == 0 && part < pp) { state.push_back(memory.state(layers)); }
          }
        }
      }
    }
    ballast::pipeline_times const times(order.size(), schedule.stages().stages(),
                                        [](auto, auto) { return ballast::stage_time{1, 2}; });
    auto const ranks = ballast::activation_memory(
        schedule, ballast::simulate(schedule, times, order), order, bytes);
    for (std::size_t rank = 0; rank < state.size(); ++rank) {
      most = std::max(most, state[rank] + ranks[rank].peak_bytes);
    }
  }
  return most;
}

}  // namespace ballast_test
