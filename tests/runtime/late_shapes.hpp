// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../support/pipelines.hpp"
#include "../support/trials.hpp"
#include "scheduled_steps.hpp"

#include <ballast/core.hpp>
#include <ballast/pipeline/order_search.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/runtime/adaptive_correction.hpp>
#include <ballast/runtime/microbatch_scheduler.hpp>

#include <set>

namespace ballast_test {

/// A cluster whose GPUs are not as predicted: samples of some shapes of the LLM take longer on each
/// of its stages, and some ranks take longer for everything. Eight replicas of four stages, sixteen
/// microbatches of four samples each on average, of 96 shapes that are equally frequent.
class late_cluster {
 public:
  static constexpr std::uint32_t replicas = 8;
  static constexpr std::size_t microbatches = 16;
  static constexpr std::size_t samples = 4 * replicas * microbatches;
  static constexpr std::uint32_t shapes = 96;

  /// The first `late` of the shapes, in random order, are late by `percent` of what the longest
  /// stage takes for a microbatch.
  late_cluster(std::uint32_t late, std::int64_t percent)
  {
    std::vector<std::uint32_t> order(shapes);
    for (std::uint32_t shape = 0; shape < shapes; ++shape) { order[shape] = first_shape + shape; }
    ballast::random_source(17).shuffle(std::span(order));
    late_.insert(order.begin(), order.begin() + late);
    auto const longest = longest_stage();
    delay_ = 3 * longest * percent / 100;  // of three stages
  }

  /// Ranks that take so many per cent longer than planned.
  std::array<std::int64_t, std::size_t{replicas} * 4> slower{};
  std::int64_t tracking_percent = 4;
  std::int64_t noise_percent = 0;     ///< of every call: up to so much more or less
  std::size_t silent = replicas * 4;  ///< a rank that has measured nothing, if there is one

  [[nodiscard]] bool is_late(std::uint32_t bucket) const { return late_.contains(bucket); }

  [[nodiscard]] static std::vector<ballast::tokens> sizes_of(std::uint64_t step)
  {
    ballast::random_source random(400 + step);
    std::vector<ballast::tokens> sizes;
    for (std::size_t sample = 0; sample < samples; ++sample) {
      std::uint32_t const bucket = first_shape + static_cast<std::uint32_t>(random.below(shapes));
      // The least size of the bucket.
      sizes.push_back(random.between(1, 8));
      sizes.push_back(ballast::tokens{32 + bucket % 32} << (bucket / 32 - 1));
    }
    return sizes;
  }

  struct outcome {
    ballast::time_units step_time = 0;
    std::vector<ballast::time_units> measured;  // ranks x microbatches
  };

  /// What the step really takes, and what each rank measures.
  [[nodiscard]] outcome run(ballast::scheduled_step<2> const& step, bool tracked) const
  {
    outcome out;
    ballast::random_source random(step.number);
    ballast::pipeline_times times(microbatches, step.stages.size());
    out.measured.resize(step.ranks() * microbatches);
    for (std::size_t group = 0; group < replicas; ++group) {
      for (std::size_t position = 0; position < microbatches; ++position) {
        auto const row = times[ballast::to_id<ballast::microbatch_id>(position)];
        for (std::size_t stage = 0; stage < step.stages.size(); ++stage) {
          auto const& place = step.stages[stage];
          ballast::time_units whole = 0;
          for (auto const sample : step.microbatch(place.module, group, position)) {
            auto const& own = step.predicted[to_index(sample)][place.module];
            whole += own.forward + own.backward;
            if (place.module == 1 && is_late(step.shapes[to_index(sample)][1])) { whole += delay_; }
          }
          std::size_t const rank = group * step.stages.size() + stage;
          auto time = whole * place.layers / static_cast<std::int64_t>(place.of_layers);
          time = time * (100 + slower[rank]) / 100;
          time = time * (100 + random.between(-noise_percent, noise_percent)) / 100;
          row[stage] = {time / 3, time - time / 3};
          out.measured[rank * microbatches + position] = rank == silent ? 0 : time;
        }
      }
      auto const schedule = small_setup(replicas, microbatches).schedule;
      out.step_time = std::max(out.step_time, simulated_makespan(schedule, {&times, 1}));
    }
    if (tracked) { out.step_time += out.step_time * tracking_percent / 100; }
    return out;
  }

  using scheduler = ballast::microbatch_scheduler<2, square_times, ballast::insertion>;

  [[nodiscard]] static scheduler make_scheduler()
  {
    auto setup = small_setup(replicas, microbatches);
    if (ballast_test::is_sanitized) { setup.simulated_tasks = 5'000; }
    return scheduler::make(setup, {}).value();
  }

  /// The module of each rank.
  [[nodiscard]] static std::vector<std::uint32_t> modules()
  {
    std::vector<std::uint32_t> modules;
    for (std::size_t rank = 0; rank < std::size_t{replicas} * 4; ++rank) {
      modules.push_back(rank % 4 == 0 ? 0 : 1);
    }
    return modules;
  }

  /// Trains for so many steps from `first` on; each is planned, run and learnt from.
  template <class EachStep>
  void train(ballast::adaptive_correction& correction, std::uint64_t first, std::uint64_t steps,
             EachStep const& each_step) const
  {
    auto planner = make_scheduler();
    ballast::scheduled_step<2> step;
    std::vector<std::uint32_t> factors;
    for (std::uint64_t number = first; number < first + steps; ++number) {
      factors.assign(correction.factors().begin(), correction.factors().end());
      ballast::or_throw(planner(step, sizes_of(number), 1, number, factors));
      bool const tracked = correction.tracking();
      outcome const ran = run(step, tracked);
      ballast::or_throw(
          correction.finish_step(step, ran.step_time,
                                 tracked ? std::span<ballast::time_units const>(ran.measured)
                                         : std::span<ballast::time_units const>()));
      each_step(step, ran);
    }
  }

 private:
  static constexpr std::uint32_t first_shape = 160;  // 512 to 4,096 tokens

  /// The mean over microbatches of what the longest stage takes.
  [[nodiscard]] static ballast::time_units longest_stage()
  {
    auto planner = make_scheduler();
    ballast::scheduled_step<2> step;
    ballast::or_throw(planner(step, sizes_of(0), 1, 0, {}));
    return step.largest_load_bound;
  }

  std::set<std::uint32_t> late_;
  ballast::time_units delay_ = 0;
};

}  // namespace ballast_test
