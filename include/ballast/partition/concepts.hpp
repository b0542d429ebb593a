// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_CONCEPTS_HPP
#define BALLAST_PARTITION_CONCEPTS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/batching.hpp>
#include <ballast/partition/priced_sample.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace ballast::inline v0 {

/// The input of every partition policy: n samples to put in m bags.
///
/// `partition()` builds it and checks what is expected here. A caller that runs a policy directly
/// has to keep to it: sort with `descending_order_into`, and leave lower_bound out or fill it by
/// `with_lower_bound`.
///
/// Shapes      costs[n], lengths[n], heaviest_first[n], gpus[m], speeds[m]; m >= 1. home[n],
///             weights[n], capacities[m] and joint_lengths[n] are empty where the caller asked for
///             nothing of the kind; attention[n] is there for policies that pad attention alone.
///             first_part[n + 1] and parts, of sample i from first_part[i] to first_part[i + 1] and
///             in the order of bags, are empty where each sample has one home.
/// Units       costs in the cost model's unit, divided by what divides them all; a bag of speed s
///             does s of them per unit of time, and where all GPUs are equally fast, s is their
///             number.
/// Expects     (a) costs are not negative and add up to less than 2^63, starting loads included
///             (b) heaviest_first is the `descending_order_into` of the costs
///             (c) every sample fits at least one bag, in the sense of `fits`
///             (d) speeds are at least 1; there are weights exactly if there are capacities;
///                 weights are not negative and add up to less than 2^63
///             (e) no plan has a makespan below lower_bound
///             (f) attention[i] is from 0 to costs[i]
struct partition_problem {
  /// Samples joined to one can lie in several bags: this many of their tokens in this one.
  struct part {
    bag_id bag;
    tokens length;
  };

  /// Which samples may share a bag, beside what bags hold.
  ///
  /// Shapes      sample_counts[n], of samples joined to one, or empty where each is one;
  ///             first_group[n + 1] and groups, of sample i from first_group[i] to
  ///             first_group[i + 1]; first_member[g + 1] and members, of each group.
  struct placement_rules {
    std::int64_t most_samples = 0;  ///< of a bag
    std::span<std::uint32_t const> sample_counts = {};
    std::span<std::uint32_t const> first_group = {};
    std::span<std::uint32_t const> groups = {};
    std::span<std::uint32_t const> first_member = {};
    std::span<std::uint32_t const> members = {};  ///< no two of one group share a bag
    /// Whether a sample that weighs more than every bag that it fits holds gets a bag for itself.
    bool cap_is_soft = false;
  };

  std::span<cost_units const> costs;
  std::span<tokens const> lengths;
  std::span<priced_sample const> heaviest_first;
  std::span<std::uint32_t const> gpus;
  std::span<std::uint32_t const> speeds;
  std::span<bag_id const> home = {};           ///< the bag whose GPUs hold most of each sample now
  std::span<std::int64_t const> weights = {};  ///< what each sample takes of the capacity
  std::span<std::int64_t const> capacities = {};  ///< the most weight that each bag can hold
  /// How many tokens go where the sample goes, if lengths do not say: of samples joined to one, all
  /// together; of a short sample, its own.
  std::span<tokens const> joint_lengths = {};
  std::span<std::uint32_t const> first_part = {};
  std::span<part const> parts = {};
  std::span<cost_units const> attention = {};  ///< what of each cost is attention
  placement_rules const* rules = nullptr;      ///< or none
  /// What `makespan_lower_bound` says of this problem, or 0 where it is not computed yet; then a
  /// policy that needs it computes it.
  ratio lower_bound = {};

  /// How many tokens go where the sample goes.
  [[nodiscard]] constexpr tokens tokens_of(std::size_t sample) const noexcept
  {
    return joint_lengths.empty() ? lengths[sample] : joint_lengths[sample];
  }

  /// Calls visit(bag, tokens) for every bag that holds tokens of the sample; the problem has homes.
  template <class Visit>
  constexpr void for_each_home(std::size_t sample, Visit&& visit) const
  {
    if (first_part.empty()) { return visit(home[sample], tokens_of(sample)); }
    for (part const& each : parts_of(sample)) { visit(each.bag, each.length); }
  }

  /// How many tokens of the sample lie in a bag; the problem has homes.
  [[nodiscard]] constexpr tokens tokens_at(std::size_t sample, bag_id bag) const noexcept
  {
    if (first_part.empty()) { return home[sample] == bag ? tokens_of(sample) : 0; }
    std::span<part const> const all = parts_of(sample);
    auto const found = std::lower_bound(all.begin(), all.end(), bag,
                                        [](part const& a, bag_id b) { return a.bag < b; });
    return found != all.end() && found->bag == bag ? found->length : 0;
  }

  /// A bag splits its sequences over its GPUs and no GPU may get an empty chunk, so a sequence with
  /// fewer tokens than the bag has GPUs does not fit. A sequence of no tokens fits every bag.
  [[nodiscard]] static constexpr bool splits(tokens length, std::uint32_t gpus) noexcept
  {
    return length == 0 || length >= static_cast<tokens>(gpus);
  }

  /// Whether the sample may go to the bag, which `splits` it.
  ///
  /// Where the bags admit short samples, these come with as many tokens as the smallest bag has
  /// GPUs: the least that fits. So every policy puts them into smallest bags, also one that was
  /// written without a thought of them, and by the same rule.
  [[nodiscard]] constexpr bool fits(std::size_t sample, std::size_t bag) const noexcept
  {
    return gpus[bag] == 1 || splits(lengths[sample], gpus[bag]);
  }

 private:
  [[nodiscard]] constexpr std::span<part const> parts_of(std::size_t sample) const noexcept
  {
    return parts.subspan(first_part[sample], first_part[sample + 1] - first_part[sample]);
  }
};

/// Decides which bag owns each sample.
///
/// In, out     loads[m] enters as work that each bag already has and leaves as the total.
///             owner[n] enters as bag m, which does not exist, and leaves with one bag per sample,
///             which the sample fits. Where there are capacities, a sample for which the policy
///             found no room may keep bag m.
///             memory is scratch that the policy gives back.
/// Returns     nothing, or a makespan that no plan gets below, as the policy has proven.
///
/// A policy is a value, usually without state, with its parameters as public members. It may have
/// constant member functions: `batching batches()` where loads are not sums; `bool restricts()` where
/// it chooses among some plans only, as those of equal counts, so that what it proves holds for these
/// alone; and `bool keeps_homes()` where it gives up some makespan for samples that stay. Where they
/// are static and constexpr, a nesting without meaning, such as `refine{equal_count{}}`, does not
/// compile. A policy that keeps to the problem's rules, and then to capacities, has `keeps_rules()`.
template <class P>
concept partition_policy =
    requires(P const policy, partition_problem const& problem, std::span<cost_units> loads,
             std::span<bag_id> owner, workspace& memory) {
      requires std::same_as<decltype(policy(problem, loads, owner, memory)), void> ||
                   std::same_as<decltype(policy(problem, loads, owner, memory)), ratio>;
    };

namespace detail {

/// What the types of policies say of their plans. Where batches(), restricts() or keeps_homes() is no
/// static and constexpr member, as those of any_policy, only a value says it, and the type neither.
struct plan_kind {
  bool packed = false;
  bool pads = false;
  bool free = false;
  bool restricted = false;
  bool homed = false;
};

template <class P>
[[nodiscard]] consteval plan_kind make_plan_kind()
{
  plan_kind kind;
  if constexpr (!requires(P const policy) { policy.batches(); }) {
    kind.packed = true;
  } else if constexpr (requires { typename std::integral_constant<batching, P::batches()>; }) {
    kind.packed = P::batches() == batching::packed;
    kind.pads = !kind.packed;
  }
  if constexpr (!requires(P const policy) { policy.restricts(); }) {
    kind.free = true;
  } else if constexpr (requires { typename std::bool_constant<P::restricts()>; }) {
    kind.free = !P::restricts();
    kind.restricted = P::restricts();
  }
  if constexpr (requires { typename std::bool_constant<P::keeps_homes()>; }) {
    kind.homed = P::keeps_homes();
    kind.free = kind.free && !kind.homed;
  } else {
    kind.free = kind.free && !requires(P const policy) { policy.keeps_homes(); };
  }
  return kind;
}
template <class P>
inline constexpr plan_kind plan_kind_of = make_plan_kind<P>();

}  // namespace detail

/// A policy whose type does not say that it pads its batches: one that exchanges of samples between
/// bags can start from.
template <class P>
concept packed_policy = partition_policy<P> && !detail::plan_kind_of<P>.pads;

/// A policy whose type does not say that it chooses among some plans only.
template <class P>
concept unrestricted_policy = partition_policy<P> && !detail::plan_kind_of<P>.restricted;

/// Runs a policy. Returns the makespan that no plan gets below, as the policy has proven, or 0
/// where it proves nothing.
template <partition_policy Policy>
ratio run_policy(Policy const& policy, partition_problem const& problem,
                 std::span<cost_units> loads, std::span<bag_id> owner, workspace& memory)
{
  if constexpr (std::is_void_v<decltype(policy(problem, loads, owner, memory))>) {
    policy(problem, loads, owner, memory);
    return {};
  } else {
    return policy(problem, loads, owner, memory);
  }
}

/// How the bags of this policy's plans compute their samples.
template <partition_policy Policy>
[[nodiscard]] constexpr batching batching_of(Policy const& policy)
{
  if constexpr (requires { policy.batches(); }) {
    return policy.batches();
  } else {
    return batching::packed;
  }
}

/// Whether this policy chooses among some plans only.
template <partition_policy Policy>
[[nodiscard]] constexpr bool restricts_plans(Policy const& policy)
{
  if constexpr (requires { policy.restricts(); }) {
    return policy.restricts();
  } else {
    return false;
  }
}

/// Whether the plans that a policy chooses among are those of some numbers of samples per bag, so
/// that swaps of as many samples for as many lead from one of them to another. A policy says so by
/// a constant member function `bool keeps_counts()`.
template <partition_policy Policy>
[[nodiscard]] constexpr bool plans_keep_counts(Policy const& policy)
{
  if constexpr (requires { policy.keeps_counts(); }) {
    return policy.keeps_counts();
  } else {
    return false;
  }
}

namespace detail {

/// Whether this policy gives up some makespan for samples that stay where they are.
template <partition_policy Policy>
[[nodiscard]] constexpr bool plans_keep_homes(Policy const& policy)
{
  if constexpr (requires { policy.keeps_homes(); }) {
    return policy.keeps_homes();
  } else {
    return false;
  }
}

/// Whether only makespan is lost where samples of this policy's plans change bags.
template <partition_policy Policy>
[[nodiscard]] constexpr bool plans_are_free(Policy const& policy)
{
  return batching_of(policy) == batching::packed && !restricts_plans(policy) &&
         !plans_keep_homes(policy);
}

template <class P>  // as far as its type says it, and where it plans by several quantities too
inline constexpr bool is_free_policy = !plan_kind_of<P>.restricted && !plan_kind_of<P>.homed;

}  // namespace detail

/// Whether the plans of a policy keep constraints.most_samples, apart and cap_is_soft. A policy says
/// so by a constant member function `bool keeps_rules()`; the front door refuses the others.
template <partition_policy Policy>
[[nodiscard]] constexpr bool keeps_placement_rules(Policy const& policy)
{
  if constexpr (requires { policy.keeps_rules(); }) {
    return policy.keeps_rules();
  } else {
    return false;
  }
}

/// A policy whose type says that it keeps them, for programs that always have such constraints.
template <class P>
concept rule_keeping_policy = partition_policy<P> && requires {
  typename std::bool_constant<P::keeps_rules()>;
} && std::bool_constant<P::keeps_rules()>::value;

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_CONCEPTS_HPP
