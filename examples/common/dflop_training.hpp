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

inline constexpr std::size_t steps = 10;
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

  /// What each microbatch takes on the stage of a rank, in nanoseconds: where samples are slow, more
  /// than planned.
  [[nodiscard]] std::vector<stage_time> taken_by(scheduled_step<2> const& plan, std::size_t number,
                                                 grid_place const& place) const
  {
    auto const own = sizes_of(number);
    auto const shares = layout_pipeline(problem, layout).stage_costs(place.module);
    ratio const here{shares[place.pipeline], std::accumulate(shares.begin(), shares.end(), 0)};
    std::vector<stage_time> all(plan.microbatches);
    for (std::size_t position = 0; position < all.size(); ++position) {
      for (sample_id const each : plan.microbatch(place.module, place.data, position)) {
        auto const [forward, backward] = plan.predicted[to_index(each)][place.module];
        bool const is_slow = place.module == 1 && own[2 * to_index(each) + 1] > slow;
        auto const taken = [&](time_units time) {
          return (is_slow ? 2 : 1) * time * here.numerator / here.denominator / 1'000;
        };
        all[position].forward += taken(forward);
        all[position].backward += taken(backward);
      }
    }
    return all;
  }
};

}  // namespace dflop_training
