// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_PIPELINE_PAIRS_HPP
#define BALLAST_RUNTIME_PIPELINE_PAIRS_HPP

#include <ballast/comm/rank_pair.hpp>
#include <ballast/core/detail/span_of.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/route/unit_plan.hpp>
#include <ballast/runtime/pipeline_gradients.hpp>
#include <ballast/runtime/pipeline_setup.hpp>
#include <ballast/topology/process_grid.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ballast::inline v0 {

/// The ranks between which a pipeline_runner of this setup may send, whatever its plans: what has to
/// connect before the first task where a first message waits for its receiver (`nccl_pairs`).
///
/// Expects     pipeline_runner::make accepts the setup.
/// Ensures     in increasing order, each once. What add_shared_gradients sends is not among them
/// Complexity  O(links x replicas of both sides + ranks).
[[nodiscard]] inline std::vector<rank_pair> pipeline_pairs(pipeline_setup const& setup)
{
  std::vector<rank_pair> pairs;
  auto const add = [&pairs](rank_id from, rank_id to, bool also_back) {
    if (from == to) { return; }
    pairs.push_back({from, to});
    if (also_back) { pairs.push_back({to, from}); }
  };
  stage_graph const& stages = setup.schedule.stages();
  process_grid const& grid = setup.grid;
  auto const unit_of = [&](stage_id stage) {
    std::uint32_t const module = grid.place(rank_of_stage(grid, stages, stage, 0)).module;
    std::vector<rank_id> ranks;
    for (std::uint32_t data = 0; data < grid[module].data; ++data) {
      ranks.push_back(rank_of_stage(grid, stages, stage, data));
    }
    return ranks;
  };
  for (stage_link const& link : stages.links()) {
    if (stages[link.from].rank == stages[link.to].rank) { continue; }
    bool const back = stages[link.from].backward;
    auto const senders = unit_of(link.from);
    auto const receivers = unit_of(link.to);
    bool const direct = setup.strategy == unit_strategy::direct;
    std::size_t const brokers =
        brokers_of({detail::span_of(senders), detail::span_of(receivers)}, setup.strategy);
    std::size_t const per_group = direct ? 1 : receivers.size() / brokers;
    for (std::size_t at = 0; at < receivers.size(); ++at) {
      rank_id const broker = receivers[at / per_group * per_group];
      add(broker, receivers[at], back);
      if (broker != receivers[at]) { continue; }
      for (rank_id const sender : senders) { add(sender, broker, back); }
    }
  }
  bool const parts = setup.tensor != tensor_gradients::copies;
  for (std::size_t rank = 0; rank < grid.ranks(); ++rank) {
    grid_place root = grid.place(to_id<rank_id>(rank));
    root.tensor = 0;
    add(grid.rank(root), to_id<rank_id>(rank), parts);
  }
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  return pairs;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_PIPELINE_PAIRS_HPP
