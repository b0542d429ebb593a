// SPDX-License-Identifier: Apache-2.0
#include <ballast/interop/simulate_by_graph.hpp>
#include <ballast/pipeline/one_forward_one_backward.hpp>

#include <vector>

// How long 1F1B takes for one microbatch on two stages.
int main()
{
  auto const stages = ballast::chain_of_stages(2, 2, 1);
  auto const graph =
      ballast::make_task_graph(stages, ballast::one_forward_one_backward{}(stages, 1).value());
  ballast::pipeline_times times(1, 2);
  for (auto& time : times.rows) { time = {2, 4}; }
  std::vector const order{ballast::microbatch_id{0}};
  return ballast::simulate_by_graph(graph.value(), times, order).value().makespan == 14 ? 0 : 1;
}
