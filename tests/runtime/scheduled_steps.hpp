// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../support/pipelines.hpp"
#include "../support/trials.hpp"

#include <ballast/core.hpp>
#include <ballast/partition/placement_limits.hpp>
#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/runtime/microbatch_scheduler.hpp>

namespace ballast_test {

/// An encoder on one stage and an LLM on three, as often as there are replicas; few changes are
/// tried, so that tests are fast.
inline ballast::scheduler_setup small_setup(std::uint32_t replicas, std::size_t microbatches)
{
  auto const stages =
      ballast::joined_stages({.encoders = {{1}}, .llm = {3}, .generators = {}}).value();
  return {
      ballast::compiled_schedule::make(stages, ballast::one_forward_one_backward{}, microbatches)
          .value(),
      {{replicas, {8}}, {replicas, {10, 10, 9}}},
      ballast::no_limit,
      ballast_test::is_sanitized ? 8'000 : 40'000};
}

/// Items take equally long in the encoder; tokens of the LLM more, the longer the sample is.
struct square_times {
  std::array<ballast::stage_time, 2> operator()(std::span<ballast::tokens const, 2> sizes) const
  {
    auto const items = 900 * sizes[0];
    auto const linear = 40 * sizes[1] + sizes[1] * sizes[1] / 100;
    return {ballast::stage_time{items, 2 * items}, ballast::stage_time{linear, 2 * linear}};
  }
};

/// When the last of several pipelines ends that take their microbatches in the order of numbers.
inline ballast::time_units simulated_makespan(ballast::compiled_schedule const& schedule,
                                              std::span<ballast::pipeline_times const> pipelines)
{
  ballast::time_units longest = 0;
  for (auto const& times : pipelines) {
    auto const order = numbered_order(schedule.microbatches());
    longest = std::max(longest, ballast::simulate(schedule, times, order).makespan);
  }
  return longest;
}

/// Items and tokens of samples, some of them without an item.
inline std::vector<ballast::tokens> draw_sizes(std::size_t samples, std::uint64_t seed)
{
  ballast::random_source random(1000 + seed);
  std::vector<ballast::tokens> sizes;
  for (std::size_t sample = 0; sample < samples; ++sample) {
    ballast::tokens const items = random.below(3) == 0 ? 0 : random.between(1, 12);
    sizes.push_back(items);
    sizes.push_back(64 * items + random.between(16, 700));
  }
  return sizes;
}

}  // namespace ballast_test
