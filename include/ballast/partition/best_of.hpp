// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_BEST_OF_HPP
#define BALLAST_PARTITION_BEST_OF_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/batching.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/policy_arrays.hpp>
#include <ballast/partition/makespan.hpp>
#include <ballast/partition/makespan_lower_bound.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <utility>

namespace ballast::inline v0 {

/// The best of several policies' plans: the one with the least makespan, of equal ones the first.
///
///     best_of{longest_processing_time{}, karmarkar_karp{}, multifit{}}
///
/// A plan that overruns a capacity or leaves a sample out is kept only if all do. Once a plan meets
/// the bound, the policies that are left do not run.
///
/// Expects     all policies batch samples alike, and either all restrict plans or none does.
/// Ensures     (1) the plan is one policy's, and no policy's is better
///             (2) it returns the largest of the lower bound and what the policies prove; where
///                 they restrict plans, only the least of what they prove holds for all
/// Complexity  the policies, one after the other, and the bound; 4 n + 24 m bytes of scratch.
template <partition_policy First, partition_policy... Others>
struct best_of {
  static constexpr detail::plan_kind kinds =
      (detail::plan_kind_of<First> | ... | detail::plan_kind_of<Others>);
  static_assert(!(kinds.pads() && kinds.packed),
                "best_of compares plans of one kind, and some of its policies pad their batches "
                "while others pack them: take the best of those that pad or of those that do not");
  static_assert(!(kinds.padded && kinds.attention_padded),
                "best_of compares plans of one kind, and some of its policies pad whole samples "
                "while others pad their attention alone");
  static_assert(!(kinds.restricted && kinds.free),
                "best_of compares plans of one kind, and some of its policies restrict their "
                "plans, as equal_count does, while others do not");

  std::tuple<First, Others...> policies;

  constexpr best_of() = default;
  constexpr explicit best_of(First const& first, Others const&... others)
      : policies(first, others...)
  {}

  ratio operator()(partition_problem const& problem, std::span<cost_units> loads,
                   std::span<bag_id> owner, workspace& memory) const
  {
    detail::expect_policy_arrays(problem, loads, owner);
    bool const restricted = restricts();
    std::apply(
        [&](auto const&... each) {
          BALLAST_EXPECTS(((batching_of(each) == batches()) && ...),
                          "best_of compares plans of one kind, and some of its policies pad their "
                          "batches while others pack them or pad less of them");
          BALLAST_EXPECTS(
              ((restricts_plans(each) == restricted) && ...),
              "best_of compares plans of one kind, and some of its policies restrict their "
              "plans while others do not");
        },
        policies);
    auto scratch = memory.open();
    std::span<cost_units> const starts = scratch.take<cost_units>(loads.size());
    std::span<cost_units> const tried_loads = scratch.take<cost_units>(loads.size());
    std::span<bag_id> const tried_owner = scratch.take<bag_id>(owner.size());
    std::copy(loads.begin(), loads.end(), starts.begin());
    partition_problem const bounded = with_lower_bound(problem, starts, memory);
    ratio const bound = bounded.lower_bound;

    ratio proven = run_policy(std::get<0>(policies), bounded, loads, owner, memory);
    auto best = overrun_and_makespan(problem, loads, owner, memory);
    auto const optimal = [&] {
      return best <= std::pair(false, restricted ? bound : std::max(bound, proven));
    };
    auto const improve = [&](auto const& policy) {
      std::copy(starts.begin(), starts.end(), tried_loads.begin());
      std::fill(tried_owner.begin(), tried_owner.end(), to_id<bag_id>(loads.size()));
      ratio const more = run_policy(policy, bounded, tried_loads, tried_owner, memory);
      proven = restricted ? std::min(proven, more) : std::max(proven, more);
      auto const tried = overrun_and_makespan(problem, tried_loads, tried_owner, memory);
      if (tried < best) {
        best = tried;
        std::copy(tried_loads.begin(), tried_loads.end(), loads.begin());
        std::copy(tried_owner.begin(), tried_owner.end(), owner.begin());
      }
      return optimal();
    };
    std::apply(
        [&](auto const&, auto const&... others) {
          static_cast<void>((optimal() || ... || improve(others)));
        },
        policies);
    return std::max(bound, proven);
  }

  [[nodiscard]] static constexpr batching batches()
    requires(detail::plan_kind_of<First>.pads())
  {
    return First::batches();
  }
  [[nodiscard]] constexpr batching batches() const { return batching_of(std::get<0>(policies)); }
  [[nodiscard]] static constexpr bool restricts()
    requires(detail::plan_kind_of<First>.restricted)
  {
    return true;
  }
  [[nodiscard]] constexpr bool restricts() const { return restricts_plans(std::get<0>(policies)); }

  friend bool operator==(best_of const&, best_of const&) = default;

 private:
  /// Whether a plan overruns a capacity or leaves a sample out, and its makespan: less is better.
  [[nodiscard]] static std::pair<bool, ratio> overrun_and_makespan(
      partition_problem const& problem, std::span<cost_units const> loads,
      std::span<bag_id const> owner, workspace& memory)
  {
    ratio const makespan = makespan_of(loads, problem.speeds);
    auto scratch = memory.open();
    std::span<std::int64_t> const room = scratch.take<std::int64_t>(problem.capacities.size());
    std::copy(problem.capacities.begin(), problem.capacities.end(), room.begin());
    for (std::size_t sample = 0; sample < problem.weights.size(); ++sample) {
      std::size_t const bag = to_index(owner[sample]);
      if (bag == room.size() || room[bag] < problem.weights[sample]) { return {true, makespan}; }
      room[bag] -= problem.weights[sample];
    }
    return {false, makespan};
  }
};

template <class... Policies>
best_of(Policies...) -> best_of<Policies...>;

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_BEST_OF_HPP
