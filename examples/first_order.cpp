// SPDX-License-Identifier: Apache-2.0
// In which order a pipeline of an encoder and an LLM computes eight microbatches.

// [first_order]
#include <ballast/pipeline.hpp>

#include <cstdio>
#include <vector>

int main()
{
  using namespace ballast;
  std::vector<time_units> const images{9, 1, 7, 2, 8, 1, 6, 2};  // ms in the encoder
  auto const stage_takes = [&](std::size_t microbatch, std::size_t stage) {
    time_units const forward = stage == 0 ? images[microbatch] : 5;  // then three stages of the LLM
    return stage_time{forward, 2 * forward};
  };
  pipeline_times const times(images.size(), 4, stage_takes);
  auto const stages = chain_of_stages(4, 4);
  compiled_schedule const schedule(stages, one_forward_one_backward{}, images.size());
  auto const plan = order_microbatches(schedule, times, local_search{}).value();

  for (auto const microbatch : plan.order) { std::printf("%zu ", std::size_t{microbatch}); }
  std::printf("takes %ld ms instead of %ld, at most %.1f %% above the best order there is\n",
              plan.makespan, plan.makespan_given, 100 * plan.gap());
}
// [first_order]
