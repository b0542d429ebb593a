// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_COST_VECTOR_HPP
#define BALLAST_PARTITION_COST_VECTOR_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <tuple>
#include <type_traits>

namespace ballast::inline v0 {

/// What a sample, or a bag of samples, costs each of D parts of a model that run side by side, as
/// encoder and LLM: one quantity for each, a dimension.
template <std::size_t D>
using cost_vector = std::array<cost_units, D>;

/// The input of a policy that plans by several quantities: n samples to put in m bags.
///
/// `partition()` builds it and checks what is expected here. A caller that runs a policy
/// directly has to keep to it. With costs alone all bins are equal, and every sample fits each.
///
/// Shapes      costs[n]; lengths[n] and gpus[m], or both empty where every sample fits every bag;
///             speeds[m], or empty where all bags are equally fast; weights[n] and capacities[m],
///             or both empty where bags hold everything.
/// Units       all dimensions share one unit of time, since the objective compares them: in each, a
///             bag of speed s does s of its units per unit of time.
/// Expects     (a) costs are not negative, and in every dimension they add up to less than 2^63,
///                 starting loads included
///             (b) speeds are at least 1, and every sample fits at least one bag
///             (c) weights are not negative and add up to less than 2^63
template <std::size_t D>
struct cost_vector_problem {
  static_assert(D >= 1);
  std::span<cost_vector<D> const> costs;
  std::span<tokens const> lengths = {};
  std::span<std::uint32_t const> gpus = {};  ///< of each bag
  std::span<std::uint32_t const> speeds = {};
  std::span<std::int64_t const> weights = {};     ///< what each sample takes of the capacity
  std::span<std::int64_t const> capacities = {};  ///< the most weight that each bag can hold

  [[nodiscard]] constexpr std::uint32_t speed(std::size_t bag) const noexcept
  {
    return speeds.empty() ? 1 : speeds[bag];
  }

  /// Whether the bag splits the sample, or has one GPU for it: see `partition_problem::fits`.
  [[nodiscard]] constexpr bool fits(std::size_t sample, std::size_t bag) const noexcept
  {
    return gpus.empty() || partition_problem::splits(lengths[sample], gpus[bag]);
  }

  [[nodiscard]] constexpr bool one_speed() const noexcept
  {
    return std::all_of(speeds.begin(), speeds.end(),
                       [this](std::uint32_t speed) { return speed == speeds.front(); });
  }

  /// Whether every sample can go to every bag, whatever lies there.
  [[nodiscard]] constexpr bool any_bag_is_open() const noexcept
  {
    if (!capacities.empty()) { return false; }
    if (gpus.empty()) { return true; }
    std::uint32_t const largest = *std::max_element(gpus.begin(), gpus.end());
    return std::all_of(lengths.begin(), lengths.end(), [largest](tokens length) {
      return partition_problem::splits(length, largest);
    });
  }
};

/// Decides which bag owns each sample, so that the largest load per speed of any bag in any
/// dimension is small.
///
/// In, out     loads[m] enters as work that each bag already has and leaves as the total; m >= 1.
///             owner[n] enters as bag m, which does not exist, and leaves with one bag per sample,
///             which the sample fits. Where there are capacities, a sample for which the policy
///             found no room may keep bag m.
///             memory is scratch that the policy gives back.
/// Returns     nothing, or a makespan that no plan gets below, as the policy has proven.
///
/// A policy is a value, usually without state, with its parameters as public members. One type may
/// be this and a partition_policy, as `refine` is. One that looks at costs alone serves equal bags.
template <class P, std::size_t D>
concept cost_vector_policy =
    requires(P const policy, cost_vector_problem<D> const& problem, std::span<cost_vector<D>> loads,
             std::span<bag_id> owner, workspace& memory) {
      requires std::same_as<decltype(policy(problem, loads, owner, memory)), void> ||
                   std::same_as<decltype(policy(problem, loads, owner, memory)), ratio>;
    };

/// Runs a policy. Returns the makespan that no plan gets below, as the policy has proven, or 0
/// where it proves nothing.
template <std::size_t D, cost_vector_policy<D> Policy>
ratio run_policy(Policy const& policy, cost_vector_problem<D> const& problem,
                 std::span<cost_vector<D>> loads, std::span<bag_id> owner, workspace& memory)
{
  if constexpr (std::is_void_v<decltype(policy(problem, loads, owner, memory))>) {
    policy(problem, loads, owner, memory);
    return {};
  } else {
    return policy(problem, loads, owner, memory);
  }
}

namespace detail {

template <class Projection, class Samples>
using projected_costs = std::remove_cvref_t<
    std::invoke_result_t<Projection const&, std::ranges::range_reference_t<Samples>>>;

}  // namespace detail

/// A callable, or a pointer to a member, that returns the `cost_vector` of a sample.
template <class Projection, class Samples>
concept cost_vector_projection =
    std::ranges::forward_range<Samples> &&
    std::invocable<Projection const&, std::ranges::range_reference_t<Samples>> &&
    requires { std::tuple_size<detail::projected_costs<Projection, Samples>>::value; } &&
    std::same_as<detail::projected_costs<Projection, Samples>,
                 cost_vector<std::tuple_size_v<detail::projected_costs<Projection, Samples>>>>;

/// A callable, or a pointer to a member, that returns what a sample costs: an integer, or a
/// `cost_vector`.
template <class Projection, class Samples>
concept cost_projection =
    integer_projection<Projection, Samples> || cost_vector_projection<Projection, Samples>;

namespace detail {

template <class Projection, class Samples>
struct cost_of_samples {
  using type = cost_units;
};
template <class Projection, class Samples>
  requires cost_vector_projection<Projection, Samples>
struct cost_of_samples<Projection, Samples> {
  using type = projected_costs<Projection, Samples>;
};

template <class Policy, class Cost>
inline constexpr bool plans_by = partition_policy<Policy>;
template <class Policy, std::size_t D>
inline constexpr bool plans_by<Policy, cost_vector<D>> = cost_vector_policy<Policy, D>;

}  // namespace detail

/// As what a plan keeps such costs: cost_units, or a `cost_vector`.
template <class Projection, class Samples>
  requires cost_projection<Projection, Samples>
using planned_cost = typename detail::cost_of_samples<Projection, Samples>::type;

/// A policy that plans by costs of this type.
template <class Policy, class Cost>
concept policy_by = detail::plans_by<Policy, Cost>;

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_COST_VECTOR_HPP
