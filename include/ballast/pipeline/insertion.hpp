// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_INSERTION_HPP
#define BALLAST_PIPELINE_INSERTION_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/units.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/concepts.hpp>
#include <ballast/pipeline/evaluate_orders.hpp>
#include <ballast/pipeline/partial_order.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

namespace ballast::inline v0 {

/// Longest microbatch first, each put where it costs least among those placed before: the NEH
/// heuristic of flow shops.
///
/// All places of a round are tried, by simulating the whole schedule with what is not placed yet at
/// the end and taking no time.
///
/// Ensures     (1) microbatches enter by total time, longest first and of equal ones the lowest; of
///             equally good places the first is taken
///             (2) the order depends on nothing but the times and the schedule
/// Complexity  l (l + 1) / 2 evaluations of an order, O(l^2 x tasks); 4 l^2 bytes of scratch.
/// Source      M. Nawaz, E. E. Enscore, I. Ham, "A Heuristic Algorithm for the m-Machine, n-Job
///             Flow-Shop Sequencing Problem", Omega 11(1):91-95, 1983; there for flow shops, whose
///             machines do every job once.
struct insertion {
  void operator()(order_problem const& problem, std::span<microbatch_id> order,
                  workspace& memory) const
  {
    std::size_t const count = order.size();
    BALLAST_EXPECTS(count == problem.schedule.microbatches());
    auto scratch = memory.open();
    auto const total = scratch.take<time_units>(count);
    auto const longest_first = scratch.take<microbatch_id>(count);
    for (microbatch_id const microbatch : order) {
      total[to_index(microbatch)] = detail::total_time(problem, microbatch);
    }
    std::ranges::copy(order, longest_first.begin());
    std::ranges::sort(longest_first, [total](microbatch_id a, microbatch_id b) {
      return std::pair(total[to_index(b)], a) < std::pair(total[to_index(a)], b);
    });

    order_evaluator evaluator(problem.schedule, problem.times, scratch);
    auto const candidates = scratch.take<microbatch_id>(count * count);
    auto const makespans = scratch.take<time_units>(count);
    std::ranges::fill(candidates, to_id<microbatch_id>(count));  // none
    for (std::size_t placed = 0; placed < count; ++placed) {
      for (std::size_t place = 0; place <= placed; ++place) {
        auto const candidate = candidates.subspan(place * count, placed + 1);
        std::ranges::copy(order.first(place), candidate.begin());
        candidate[place] = longest_first[placed];
        std::ranges::copy(order.subspan(place, placed - place),
                          candidate.subspan(place + 1).begin());
      }
      auto const tried = makespans.first(placed + 1);
      evaluator.evaluate(candidates.first(tried.size() * count), tried);
      auto const best = static_cast<std::size_t>(std::ranges::min_element(tried) - tried.begin());
      std::ranges::copy(candidates.subspan(best * count, placed + 1), order.begin());
    }
  }

  friend bool operator==(insertion const&, insertion const&) = default;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PIPELINE_INSERTION_HPP
