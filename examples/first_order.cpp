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
  pipeline_times times(images.size(), 4);
  for (std::size_t each = 0; each < images.size(); ++each) {
    auto const row = times[to_id<microbatch_id>(each)];
    row[0] = {images[each], 2 * images[each]};                                 // one encoder stage
    for (std::size_t stage = 1; stage < 4; ++stage) { row[stage] = {5, 10}; }  // three of the LLM
  }
  auto const stages = chain_of_stages(4, 4);
  auto const schedule = one_forward_one_backward{}(stages, images.size()).value();
  auto const compiled = compiled_schedule::make(stages, schedule).value();
  auto const plan = order_microbatches(compiled, times, local_search{}).value();

  for (auto const microbatch : plan.order) { std::printf("%zu ", to_index(microbatch)); }
  std::printf("takes %ld ms instead of %ld, at most %.1f %% above the best order there is\n",
              plan.makespan, plan.makespan_given, 100 * plan.gap());
}
// [first_order]
