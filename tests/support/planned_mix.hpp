// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/parallelism/bag_mix.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/cluster.hpp>

namespace ballast_test {

/// The layout of a mix inside the nodes, as lay_out finds it; nothing where there is none.
inline std::optional<ballast::bag_layout> layout_inside_nodes(ballast::bag_mix const& mix,
                                                              ballast::cluster const& machines)
{
  auto layout = ballast::lay_out(mix.spec(), machines, ballast::misplaced_bags::largest_first);
  if (!layout) { return std::nullopt; }
  for (std::size_t index = 0; index < layout->size(); ++index) {
    auto const [first, gpus] = (*layout)[ballast::to_id<ballast::bag_id>(index)];
    auto const last = ballast::to_id<ballast::rank_id>(to_index(first) + gpus - 1);
    if (machines.node_of(first) != machines.node_of(last)) { return std::nullopt; }
  }
  return std::move(*layout);
}

/// A step, in eighths of a cost unit, as the documentation defines it: from the plan of
/// partition(), bag by bag. Nothing where partition() refuses the step.
template <class CostOf, class Policy = ballast::longest_processing_time>
std::optional<std::uint64_t> planned_step(ballast::bag_layout const& layout,
                                          std::vector<ballast::tokens> const& lengths,
                                          ballast::bag_exchange_work const& exchanges,
                                          CostOf const& cost_of, Policy const& policy = {})
{
  auto const plan = ballast::partition(lengths, layout, cost_of, {}, policy);
  if (!plan) { return std::nullopt; }
  std::uint64_t step = 0;
  for (std::size_t bag = 0; bag < layout.size(); ++bag) {
    std::size_t size = 0;
    while (ballast::bag_mix::gpus_of(size) < layout.sizes()[bag]) { ++size; }
    ballast::tokens count = 0;
    std::size_t samples = 0;
    for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
      if (to_index(plan->owner[sample]) != bag) { continue; }
      count += lengths[sample];
      ++samples;
    }
    auto const work =
        static_cast<std::uint64_t>(plan->loads[bag] + exchanges.work(size, count, samples));
    auto const once = static_cast<std::uint64_t>(exchanges.once[size]);
    step = std::max(step, 8 * once + 8 / layout.sizes()[bag] * work);
  }
  return step;
}

/// All mixes of so many GPUs, whether or not they fit the nodes.
inline std::vector<ballast::bag_mix> all_mixes(std::uint32_t gpus)
{
  std::vector<ballast::bag_mix> mixes;
  for (std::uint32_t eights = 0; 8 * eights <= gpus; ++eights) {
    for (std::uint32_t fours = 0; 8 * eights + 4 * fours <= gpus; ++fours) {
      for (std::uint32_t twos = 0; 8 * eights + 4 * fours + 2 * twos <= gpus; ++twos) {
        mixes.push_back({{gpus - 8 * eights - 4 * fours - 2 * twos, twos, fours, eights}});
      }
    }
  }
  return mixes;
}

}  // namespace ballast_test
