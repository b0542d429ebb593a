// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dflop_models.hpp"       // defines: dflop_models::profile_of
#include "pipeline_model.hpp"     // defines: pipeline_model::{step, rank_model, width}
#include "pipeline_training.hpp"  // defines: pipeline_model::{trained, finish_step}

#include <ballast/core.hpp>
#include <ballast/cost.hpp>
#include <ballast/parallelism.hpp>
#include <ballast/pipeline.hpp>
#include <ballast/runtime.hpp>
#include <ballast/topology.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

/// A job that is small enough for eight threads: a vision encoder on four replicas, an LLM of two
/// stages on two. Ranks compute a small model's gradients, and sleep for the times of a large one.
namespace dflop_training {

using namespace ballast;

inline constexpr std::size_t steps = 10;
inline constexpr std::uint32_t batch = 32;
inline constexpr std::uint32_t microbatches = 4;

struct small_problem {
  std::array<module_profile, 2> modules{
      dflop_models::profile_of("vision", known_shape("siglip-so400m"), 729),
      dflop_models::profile_of("llm", known_shape("llama3-8b"), 0)};
  std::vector<tokens> sizes;  // of all steps: images of a sample, and its tokens in the LLM
  layout_problem problem;
  model_layout layout;

  small_problem()
  {
    random_source random(13);
    for (std::size_t left = (steps + 1) * batch; left > 0; --left) {
      sizes.push_back(static_cast<tokens>(random.below(4)));
      sizes.push_back(32 + static_cast<tokens>(random.below(6)) * 32);
    }
    problem.modules = modules;
    problem.sizes = sizes;
    problem.global_batch = batch;
    problem.kinds[0].gpus = 8;
    problem.kinds[0].memory_bytes = 640'000'000'000;
    std::array<module_layout, 2> const units{{{1, 1, 4}, {1, 2, 2}}};  // tp, pp, dp
    layout = price_layout(problem, units, microbatches).value();
  }
  small_problem(small_problem const&) = delete;
  small_problem& operator=(small_problem const&) = delete;

  [[nodiscard]] std::span<tokens const> sizes_of(std::size_t number) const
  {
    return std::span(sizes).subspan(number * 2 * batch, 2 * batch);
  }

  /// A row of the small model for each image, and for each 32 tokens.
  [[nodiscard]] pipeline_model::step step_of(std::size_t number) const
  {
    pipeline_model::step step(0, 0, number);
    step.microbatches = microbatches;
    auto const own = sizes_of(number);
    for (std::size_t sample = 0; sample < batch; ++sample) {
      step.images.push_back(own[2 * sample]);
      step.lengths.push_back(own[2 * sample] + own[2 * sample + 1] / 32);
    }
    return step;
  }

  [[nodiscard]] process_grid grid() const
  {
    std::vector<unit_sizes> all;
    for (auto const& each : layout.modules) { all.push_back({each.dp, each.pp, each.tp}); }
    return process_grid::make(all).value();
  }
  [[nodiscard]] pipeline_setup setup() const
  {
    auto const stages = joined_stages({.encoders = {{1}}, .llm = {2}, .generators = {}}).value();
    return {grid(),
            compiled_schedule::make(stages, one_forward_one_backward{}, microbatches).value(),
            std::vector(2, pipeline_model::width * sizeof(double))};
  }
  [[nodiscard]] std::vector<microbatch_id> in_order() const
  {
    std::vector<microbatch_id> all;
    for (std::uint32_t at = 0; at < microbatches; ++at) { all.push_back(microbatch_id{at}); }
    return all;
  }

  /// As scheduled_step numbers ranks: two groups, each of two encoders and an LLM of two stages.
  [[nodiscard]] static std::vector<std::uint32_t> module_of_rank()
  {
    return {0, 0, 1, 1, 0, 0, 1, 1};
  }

  /// What each microbatch takes on the stages of a rank, in nanoseconds. Samples above 160 tokens
  /// take the LLM twice as long as the profile says.
  [[nodiscard]] pipeline_times taken(scheduled_step<2> const& plan, std::size_t number,
                                     grid_place const& place) const
  {
    auto const own = sizes_of(number);
    return {microbatches, pipeline_model::stages, [&](std::size_t microbatch, std::size_t) {
              stage_time sum;
              for (sample_id const each : plan.microbatch(place.module, place.data, microbatch)) {
                auto const [forward, backward] = plan.predicted[to_index(each)][place.module];
                bool const is_slow = place.module == 1 && own[2 * to_index(each) + 1] > 160;
                time_units const factor = is_slow ? 2 : 1;
                sum.forward += factor * forward / (1'000 * layout.modules[place.module].pp);
                sum.backward += factor * backward / (1'000 * layout.modules[place.module].pp);
              }
              return sum;
            }};
  }

  /// The same steps on one rank.
  template <class C>
  [[nodiscard]] pipeline_model::trained train_alone(C& comm) const
  {
    std::vector<pipeline_stage> const stages(3);
    auto const graph =
        stage_graph::make(stages, {{stage_id{0}, stage_id{1}}, {stage_id{1}, stage_id{2}}});
    pipeline_setup const one{process_grid::make({{1, 1, 1}}).value(),
                             compiled_schedule::make(graph.value(), gpipe{}, microbatches).value(),
                             std::vector(2, pipeline_model::width * sizeof(double))};
    auto runner = pipeline_runner<>::make(one, comm.rank()).value();
    pipeline_model::rank_model model(one.grid, comm.rank(), comm);
    pipeline_model::trained all;
    for (std::size_t number = 0; number < steps; ++number) {
      auto const step = step_of(number);
      auto const plan = step.plan(one);
      or_throw(runner.plan(plan));
      model.begin(step, plan);
      or_throw(runner.run(comm, in_order(), model));
      pipeline_model::finish_step(all, comm, comm, one.grid, runner.loss(), model);
    }
    return all;
  }
};

/// Planned beside measured times, of steps before and after costs are corrected.
class planned {
 public:
  void note(scheduled_step<2> const& plan, time_units measured)
  {
    ratios_[plan.corrected ? 1 : 0].push_back(static_cast<double>(measured) /
                                              static_cast<double>(plan.makespan));
  }
  void print()
  {
    for (auto& each : ratios_) { std::ranges::sort(each); }
    std::printf("measured over planned step, median: %.2f, with costs corrected %.2f\n",
                ratios_[0].at(ratios_[0].size() / 2), ratios_[1].at(ratios_[1].size() / 2));
  }

 private:
  std::array<std::vector<double>, 2> ratios_;
};

}  // namespace dflop_training
