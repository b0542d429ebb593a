// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pipelines.hpp"

#include <ballast/core.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/simulate.hpp>

namespace ballast_test {

/// A step to order: few enough microbatches that all orders can be tried.
struct small_step {
  ballast::compiled_schedule schedule;
  ballast::pipeline_times times;
};

/// Any pipeline with times of any kind: none or one, small with many ties, long ones among short
/// ones, microbatches that are alike on all stages, or a first stage that varies alone.
[[nodiscard]] inline small_step random_small_step(ballast::random_source& random,
                                                  std::size_t most_microbatches)
{
  for (;;) {
    auto const [stages, tasks] = ballast_test::random_pipeline(random);
    if (tasks.microbatches > most_microbatches) { continue; }
    std::size_t const columns = stages.stages();
    small_step step{ballast::compiled_schedule::make(stages, tasks).value(),
                    ballast::pipeline_times(tasks.microbatches, columns)};
    std::uint64_t const kind = random.below(6);
    for (std::size_t at = 0; at < step.times.rows.size(); ++at) {
      auto& time = step.times.rows[at];
      switch (kind) {
        case 0: time = {random.between(0, 1), random.between(0, 1)}; break;
        case 1: time = {random.between(0, 9), random.between(0, 9)}; break;
        case 2: time = {random.between(0, 1'000'000), random.between(0, 1'000'000)}; break;
        case 3: {
          ballast::time_units const longer = random.below(8) == 0 ? 20 : 1;
          time = {random.between(0, 50) * longer, random.between(0, 50) * longer};
          break;
        }
        case 4:
          if (at % columns == 0) { time.forward = random.between(1, 50) * random.between(1, 50); }
          time.forward = step.times.rows[at - at % columns].forward;
          time.backward = 2 * time.forward;
          break;
        default:
          time = {20, 40};
          if (at % columns == 0) { time = {random.between(0, 40), random.between(0, 80)}; }
          break;
      }
    }
    return step;
  }
}

/// The least makespan of all orders.
[[nodiscard]] inline ballast::time_units least_makespan(small_step const& step)
{
  ballast::workspace memory;
  auto order = numbered_order(step.schedule.microbatches());
  ballast::time_units least = makespan_of(step.schedule, step.times, order, memory);
  while (std::ranges::next_permutation(order).found) {
    least = std::min(least, makespan_of(step.schedule, step.times, order, memory));
  }
  return least;
}

}  // namespace ballast_test
