// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_CUT_LAYERS_HPP
#define BALLAST_PARALLELISM_CUT_LAYERS_HPP

#include <ballast/core/result.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/parallelism/cut_chain.hpp>
#include <ballast/core/contract.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ballast::inline v0 {

/// The profile of a module whose layers do not all cost the same: its stages are cut so that the
/// costliest costs least, for every number of stages.
///
///     profile = cut_layers(profile, costs).value();  // the embedding and the head are layers too
///
/// Searches, prices, simulations and schedulers of layouts then give every stage the share of the
/// module's time that its layers cost. Its memory is that of the stage with most layers.
///
/// Shapes      costs[layers], in any unit.
/// Ensures     (1) cuts[pp - 1] are the parts of cut_chain for pp ranks
/// Errors      out_of_range: there are not as many costs as layers; cost `position` is negative or
///             brings the sum above most_cost; or all are 0.
/// Complexity  cut_chain, for each number of stages.
[[nodiscard]] inline result<module_profile> cut_layers(module_profile profile,
                                                       std::span<std::int64_t const> costs)
{
  auto const refuse = [&profile](std::size_t position, auto const&... pieces) {
    return fail(error_code::out_of_range, position, "module ", profile.name, pieces...);
  };
  if (costs.size() != profile.layers) {
    return refuse(0, " has ", detail::counted(profile.layers, "layer"),
                  ", and costs were given for ", costs.size(),
                  "; give one for each, the embedding and the head among them");
  }
  std::uint64_t sum = 0;
  std::vector<chain_layer> chain;
  for (std::size_t layer = 0; layer < costs.size(); ++layer) {
    std::int64_t const cost = costs[layer];
    if (cost < 0 || static_cast<std::uint64_t>(cost) > module_profile::most_cost - sum) {
      return refuse(layer, " has layer ", layer, " of cost ", cost,
                    ", and costs are not negative and at most 2^31 together; use a coarser unit");
    }
    sum += static_cast<std::uint64_t>(cost);
    chain.push_back({.cost = cost});
  }
  if (sum == 0) { return refuse(0, " has layers that all cost 0; give what they cost"); }
  profile.cuts.assign(costs.size(), {});
  for (std::size_t stages = 1; stages <= costs.size(); ++stages) {
    auto const cut = cut_chain(chain, {.ranks = stages});
    if (!cut) { return tl::unexpected(cut.error()); }
    for (std::size_t stage = 0; stage < stages; ++stage) {
      profile.cuts[stages - 1].push_back(
          {static_cast<std::uint32_t>(cut->first[stage + 1] - cut->first[stage]),
           static_cast<std::uint32_t>(cut->loads[stage])});
    }
  }
  return profile;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_PARALLELISM_CUT_LAYERS_HPP
