// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_CAPPED_HPP
#define BALLAST_PARTITION_CAPPED_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/batching.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/bounds/capacity_bound.hpp>
#include <ballast/partition/detail/bounds/cheapest_cover.hpp>
#include <ballast/partition/detail/capacity/bags_with_room.hpp>
#include <ballast/partition/detail/capacity/capacity_search.hpp>
#include <ballast/partition/detail/exchange/exchange.hpp>
#include <ballast/partition/detail/rules/plan_by_rules.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/makespan.hpp>
#include <ballast/partition/makespan_lower_bound.hpp>

#include <algorithm>
#include <cstdint>
#include <span>

namespace ballast::inline v0 {

/// A plan in which no bag gets more than its memory holds.
///
/// The inner policy plans without capacities. Where that overruns bags, a new plan gives every bag
/// work and weight evenly, another weight alone, and a third relieves the overrun bags of the inner
/// policy's plan by exchanges that move weight and hardly any work. Where none works out, plans are
/// made by work, by weight, and at last by a search of all fillings. Then exchanges within the
/// capacities even out the work, also where the inner policy's plan kept to them; small steps are
/// searched whole. Where samples have homes, only a plan that overruns is changed.
///
/// Around a policy of fixed counts, such as equal_count, every bag keeps its number of samples:
/// only swaps of as many samples for as many bring it within its capacity, and a plan that keeps to
/// the capacities is not changed. The plan of another inner policy that restricts plans, or pads,
/// is never changed, since moves would break what that policy promises: the front door refuses it
/// where it overruns. Without capacities this is the inner policy. Where there are placement rules
/// and the inner policy restricts no plans and keeps no homes, `detail::rule_search` plans instead.
///
/// Ensures     (1) every sample that found room has one bag, which it fits
///             (2) loads have grown by exactly the costs of the samples each bag now owns
///             (3) no bag weighs more than its capacity, if the inner policy restricts no plans
///             (4) if a plan that keeps to the capacities exists, the inner policy restricts none,
///                 and the search of all fillings ends within `work`, all samples have a bag;
///                 otherwise some may have none, and the front door says why. Of steps in which a
///                 plan from nothing looks at bags 2^30 times, a second or two, it gives up
///             (5) no plan has a makespan below the one returned
///             (6) where the inner policy's plan keeps to the capacities, the makespan is not above
///                 that plan's
/// Complexity  the inner policy; where it overruns, O(n (m + log n) + work); n m as far as (4)
/// Source      `detail::fill_by_density`, `detail::relieve_overruns`, `detail::capacity_search`.
template <partition_policy Inner = longest_processing_time>
struct capped {
  static_assert(
      packed_policy<Inner>,
      "capped moves samples between packed bags, and its inner policy pads them: use that "
      "policy by itself");

  [[no_unique_address]] Inner inner{};
  std::uint64_t work = 300'000;  ///< how many samples and sums each search looks at

  ratio operator()(partition_problem const& problem, std::span<cost_units> loads,
                   std::span<bag_id> owner, workspace& memory) const
  {
    if (problem.rules != nullptr && keeps_rules()) {
      return detail::plan_by_rules(problem, loads, owner, work, memory);
    }
    auto scratch = memory.open();
    std::span<cost_units> const starts = scratch.take<cost_units>(loads.size());
    std::copy(loads.begin(), loads.end(), starts.begin());
    partition_problem without_limits = problem;
    without_limits.weights = {};
    without_limits.capacities = {};
    ratio const proven = run_policy(inner, without_limits, loads, owner, memory);
    bool const free = !restricts() && batches() == batching::packed;
    if (problem.capacities.empty() || (!free && !keeps_counts())) { return proven; }
    detail::bags_with_room const bags(problem, loads, owner, scratch);
    bool const overrun = bags.any_overrun();
    if (!overrun && (!free || !problem.home.empty())) { return proven; }
    detail::cheapest_cover const cover(problem, scratch);
    ratio const bound = std::max({proven, with_lower_bound(problem, starts, memory).lower_bound,
                                  detail::capacity_bound(problem, cover, memory)});
    if (!overrun && makespan_of(loads, problem.speeds) <= bound) { return bound; }
    auto const counts = free ? detail::exchange_counts::free : detail::exchange_counts::equal;
    detail::capacity_search find(problem, bags, bound, counts, work, memory, scratch);
    static_cast<void>(free ? find.search(starts, cover, work) : find.search_counts(starts));
    // Plans with these counts in another order of bags were not tried.
    return free && find.is_optimal() ? makespan_of(loads, problem.speeds) : bound;
  }

  [[nodiscard]] static constexpr bool restricts()
    requires(detail::plan_kind_of<Inner>.restricted)
  {
    return true;
  }
  [[nodiscard]] constexpr bool restricts() const { return restricts_plans(inner); }
  [[nodiscard]] constexpr bool keeps_counts() const { return plans_keep_counts(inner); }
  [[nodiscard]] static constexpr bool keeps_homes()
    requires(detail::plan_kind_of<Inner>.homed)
  {
    return true;
  }
  [[nodiscard]] constexpr bool keeps_homes() const { return detail::plans_keep_homes(inner); }
  [[nodiscard]] constexpr batching batches() const { return batching_of(inner); }
  [[nodiscard]] static constexpr bool keeps_rules()
    requires(detail::plan_kind_of<Inner>.free && detail::plan_kind_of<Inner>.packed)
  {
    return true;
  }
  [[nodiscard]] constexpr bool keeps_rules() const { return detail::plans_are_free(inner); }

  friend bool operator==(capped const&, capped const&) = default;
};

template <class Inner>
capped(capped<Inner>) -> capped<capped<Inner>>;  // without it, a copy of the inner one
template <class Inner>
capped(Inner) -> capped<Inner>;
template <class Inner>
capped(Inner, std::uint64_t) -> capped<Inner>;
capped() -> capped<>;

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_CAPPED_HPP
