// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_DETAIL_ORDERS_MOSTLY_RANKED_HPP
#define BALLAST_PIPELINE_DETAIL_ORDERS_MOSTLY_RANKED_HPP

#include <ballast/core/ids.hpp>
#include <ballast/pipeline/concepts.hpp>
#include <ballast/pipeline/pipeline_times.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <cstddef>
#include <span>

namespace ballast::inline v0::detail {

/// Whether of at least three quarters of all pairs of microbatches one is nowhere longer than the
/// other, as where one length says how long a microbatch takes on every stage. Where lengths of
/// several modalities vary independently, half of the pairs or fewer are such.
///
/// Ensures     (1) what a stage without backward has as backward does not count
///             (2) microbatches that are all equal, or fewer than two, are ranked
/// Complexity  O(l^2 x stages) for l microbatches.
[[nodiscard]] inline bool mostly_ranked(order_problem const& problem)
{
  stage_graph const& stages = problem.schedule.stages();
  auto const nowhere_longer = [&](std::span<stage_time const> a, std::span<stage_time const> b) {
    for (std::size_t stage = 0; stage < a.size(); ++stage) {
      if (a[stage].forward > b[stage].forward) { return false; }
      bool const trained = stages[to_id<stage_id>(stage)].backward;
      if (trained && a[stage].backward > b[stage].backward) { return false; }
    }
    return true;
  };
  std::size_t const count = problem.schedule.microbatches();
  std::size_t unranked = 0;
  for (std::size_t second = 1; second < count; ++second) {
    auto const b = problem.times[to_id<microbatch_id>(second)];
    for (std::size_t first = 0; first < second; ++first) {
      auto const a = problem.times[to_id<microbatch_id>(first)];
      unranked += nowhere_longer(a, b) || nowhere_longer(b, a) ? 0 : 1;
    }
  }
  return count < 2 || unranked * 4 <= count * (count - 1) / 2;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PIPELINE_DETAIL_ORDERS_MOSTLY_RANKED_HPP
