// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_SUPPORT_UNIT_CHAIN_HPP
#define BALLAST_TESTS_SUPPORT_UNIT_CHAIN_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/random.hpp>
#include <ballast/pipeline/activation_memory.hpp>
#include <ballast/pipeline/compiled_schedule.hpp>
#include <ballast/pipeline/interleaved_one_forward_one_backward.hpp>
#include <ballast/pipeline/pipeline_times.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace ballast_test {

/// A module of a chain: stages, each on a rank of its own, and the virtual ones that each has.
struct chained_unit {
  std::size_t stages = 1;
  std::size_t virtual_stages = 1;
  bool backward = true;
};

/// The virtual stages of one unit after the other, dealt to the unit's ranks in turn.
inline ballast::stage_graph chain_of_units(std::vector<chained_unit> const& units)
{
  std::vector<ballast::pipeline_stage> stages;
  std::vector<ballast::stage_link> links;
  std::size_t first_rank = 0;
  for (chained_unit const& unit : units) {
    for (std::size_t each = 0; each < unit.stages * unit.virtual_stages; ++each) {
      auto const stage = ballast::to_id<ballast::stage_id>(stages.size());
      if (!stages.empty()) {
        links.push_back({ballast::to_id<ballast::stage_id>(stages.size() - 1), stage});
      }
      stages.push_back(
          {ballast::to_id<ballast::pipeline_rank>(first_rank + each % unit.stages), unit.backward});
    }
    first_rank += unit.stages;
  }
  return ballast::stage_graph::make(std::move(stages), links).value();
}

inline std::vector<chained_unit> random_units(ballast::random_source& random)
{
  std::vector<chained_unit> units(1 + random.below(4));
  for (chained_unit& unit : units) {
    unit.stages = 1 + random.below(6);
    if (unit.stages > 1 && random.below(2) == 0) { unit.virtual_stages = 2 + random.below(3); }
  }
  return units;
}

/// The most bytes of activations that the simulated pipeline keeps, rank by rank, where each
/// microbatch takes `bytes` on each virtual stage.
inline std::vector<std::uint64_t> simulated_peaks(std::vector<chained_unit> const& units,
                                                  std::size_t microbatches,
                                                  std::vector<std::uint64_t> const& bytes)
{
  auto const stages = chain_of_units(units);
  auto const schedule = ballast::compiled_schedule::make(
                            stages, ballast::interleaved_one_forward_one_backward{}, microbatches)
                            .value();
  ballast::pipeline_times const times(microbatches, stages.stages());
  std::vector<ballast::microbatch_id> order;
  std::vector<std::uint64_t> all;
  for (std::size_t each = 0; each < microbatches; ++each) {
    order.push_back(ballast::to_id<ballast::microbatch_id>(each));
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  std::vector<std::uint64_t> peaks;
  for (auto const& rank :
       activation_memory(schedule, simulate(schedule, times, order), order, all)) {
    peaks.push_back(rank.peak_bytes);
  }
  return peaks;
}

}  // namespace ballast_test

#endif  // BALLAST_TESTS_SUPPORT_UNIT_CHAIN_HPP
