// SPDX-License-Identifier: Apache-2.0
#include "planner.hpp"

#include <ballast/core.hpp>
#include <ballast/parallelism/cut_chain.hpp>

#include <cstddef>
#include <utility>
#include <vector>

namespace c_interface {
namespace {

result<ballast_chain> cut_step(ballast_planner& planner, ballast_chain_step const& step)
{
  auto const costs = array("costs", step.costs, step.layers);
  if (!costs) { return tl::unexpected(costs.error()); }
  std::vector<ballast::chain_layer> layers(step.layers);
  for (std::size_t layer = 0; layer < step.layers; ++layer) {
    layers[layer].cost = (*costs)[layer];
    if (step.state_bytes != nullptr) { layers[layer].state_bytes = step.state_bytes[layer]; }
    if (step.activation_bytes != nullptr) {
      layers[layer].activation_bytes = step.activation_bytes[layer];
    }
  }
  // Of more ranks and chunks than there are layers none is read: they are refused.
  ballast::chain_ranks on{.ranks = step.ranks, .chunks = step.chunks == 0 ? 1 : step.chunks};
  on.most = optional_array(step.most, step.ranks);
  on.held = optional_array(step.held, step.ranks * on.chunks);
  auto cut = ballast::cut_chain(layers, on);
  if (!cut) { return tl::unexpected(cut.error()); }
  planner.chain = *std::move(cut);
  ballast_chain found{};
  found.stages = planner.chain.first.size() - 1;
  found.ranks = planner.chain.loads.size();
  found.first = planner.chain.first.data();
  found.loads = planner.chain.loads.data();
  found.makespan = planner.chain.makespan;
  found.lower_bound = planner.chain.lower_bound;
  found.gap = planner.chain.gap();
  return found;
}

}  // namespace
}  // namespace c_interface

int ballast_cut_chain(ballast_planner* planner, ballast_chain_step const* step,
                      ballast_chain* chain)
{
  return c_interface::answer(planner, step, chain, c_interface::cut_step);
}
