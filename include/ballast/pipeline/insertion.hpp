// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_INSERTION_HPP
#define BALLAST_PIPELINE_INSERTION_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/detail/precedes.hpp>
#include <ballast/core/detail/work_budget.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/concepts.hpp>
#include <ballast/pipeline/detail/orders/partial_order.hpp>
#include <ballast/pipeline/evaluate_orders.hpp>
#include <ballast/text/detail/counted.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0 {

/// Longest microbatch first, each inserted where it costs least among those before it: the NEH
/// heuristic of flow shops.
///
/// A round inserts one microbatch. It tries all positions, by simulating the whole schedule with
/// the microbatches to come at the end and taking no time. Where that would be more evaluations
/// than allowed, from 256 microbatches on, every round tries `evaluations` / l positions but at
/// least two: the first, the last and evenly spread ones. When the evaluations are used up, the
/// microbatches that are left go to the end, longest first.
///
/// Ensures     (1) microbatches enter by total time, longest first and of equal ones the lowest; of
///             equally good positions that are tried the first is taken
///             (2) the order depends on nothing but the times and the schedule
/// Complexity  at most `evaluations` evaluations of an order, O(tasks) each; at most 4 l^2 bytes of
///             scratch.
/// Source      M. Nawaz, E. E. Enscore, I. Ham, "A Heuristic Algorithm for the m-Machine, n-Job
///             Flow-Shop Sequencing Problem", Omega 11(1):91-95, 1983; there for flow shops, whose
///             machines do every job once.
struct insertion {
  std::uint64_t evaluations = 32'768;

  void operator()(order_problem const& problem, std::span<microbatch_id> order,
                  workspace& memory) const
  {
    std::size_t const count = order.size();
    BALLAST_EXPECTS(count == problem.schedule.microbatches(), "an order of ",
                    detail::counted(count, "microbatch"), " was given for a schedule of ",
                    problem.schedule.microbatches());
    auto scratch = memory.open();
    auto const total = detail::total_times(problem, scratch);
    auto const longest_first = scratch.take<microbatch_id>(count);
    std::copy(order.begin(), order.end(), longest_first.begin());
    std::sort(longest_first.begin(), longest_first.end(),
              [total](microbatch_id a, microbatch_id b) {
                return detail::precedes(total[to_index(b)], total[to_index(a)], a, b);
              });

    order_evaluator evaluator(problem.schedule, problem.times, scratch);
    std::size_t const most = positions_per_round(count);
    auto const candidates = scratch.take<microbatch_id>(most * count);
    auto const makespans = scratch.take<time_units>(most);
    std::fill(candidates.begin(), candidates.end(), to_id<microbatch_id>(count));  // no microbatch
    detail::work_budget budget(evaluations);
    for (std::size_t placed = 0; placed < count; ++placed) {
      auto const tried = makespans.first(std::min(placed + 1, most));
      if (budget.left() < tried.size()) {
        auto const unplaced = longest_first.subspan(placed);
        std::copy(unplaced.begin(), unplaced.end(), order.subspan(placed).begin());
        return;
      }
      budget.spend(tried.size());
      for (std::size_t number = 0; number < tried.size(); ++number) {
        std::size_t const position =
            tried.size() == placed + 1 ? number : number * placed / (tried.size() - 1);
        auto const candidate = candidates.subspan(number * count, placed + 1);
        auto const before = order.first(position);
        auto const behind = order.subspan(position, placed - position);
        auto const rest = std::copy(before.begin(), before.end(), candidate.begin());
        *rest = longest_first[placed];
        std::copy(behind.begin(), behind.end(), rest + 1);
      }
      evaluator.evaluate_into(tried, candidates.first(tried.size() * count));
      auto const best =
          static_cast<std::size_t>(std::min_element(tried.begin(), tried.end()) - tried.begin());
      auto const chosen = candidates.subspan(best * count, placed + 1);
      std::copy(chosen.begin(), chosen.end(), order.begin());
    }
  }

  friend bool operator==(insertion const&, insertion const&) = default;

 private:
  [[nodiscard]] constexpr std::size_t positions_per_round(std::size_t count) const
  {
    if (count * (count + 1) / 2 <= evaluations) { return count; }
    return std::clamp<std::size_t>(evaluations / count, std::min<std::size_t>(count, 2), count);
  }
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PIPELINE_INSERTION_HPP
