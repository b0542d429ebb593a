// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

#include <tuple>

namespace ballast::inline v0 {

/// A sample and what it costs.
struct priced_sample {
  cost_units cost = 0;
  sample_id sample{};

  friend constexpr bool operator==(priced_sample, priced_sample) = default;
};

/// How a bag computes the samples that it owns, which decides its load.
enum class batching : std::uint8_t {
  packed,  ///< one after the other: the sum of their costs
  padded,  ///< all as long as the longest: their number times the largest cost
  /// Packed but for attention: the sum of what else they cost, and their number times the largest
  /// attention part of their costs.
  attention_padded,
};

/// The length of samples that no bag splits: every bag takes them.
///
///     partition(samples, one_gpu_bags(64), refine{}, encoder_and_llm_time, no_length{})
struct no_length {
  template <class Sample>
  [[nodiscard]] constexpr tokens operator()(Sample const&) const noexcept
  {
    return 0;
  }
};

/// The input of every partition policy: n samples to put in m bags.
///
/// `partition()` builds it and checks what is expected here. A caller that runs a policy directly
/// has to keep to it: sort with `descending_order_into`, and leave lower_bound out or fill it by
/// `with_lower_bound`.
///
/// Shapes      costs[n], lengths[n], heaviest_first[n], gpus[m], speeds[m]; m >= 1. home[n],
///             weights[n], most[m] and joint_lengths[n] are empty where the caller asked for
///             nothing of the kind; attention[n] is there for policies that pad attention alone.
///             first_part[n + 1] and parts, of sample i from first_part[i] to first_part[i + 1] and
///             in the order of bags, are empty where each sample has one home.
/// Units       costs in the cost model's unit, divided by what divides them all; a bag of speed s
///             does s of them per unit of time, and where all GPUs are equally fast, s is their
///             number.
/// Expects     (a) costs are not negative and add up to less than 2^63, starting loads included
///             (b) heaviest_first is the `descending_order_into` of the costs
///             (c) every sample fits at least one bag, in the sense of `fits`
///             (d) speeds are at least 1; there are weights exactly if there is most;
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
    std::span<std::uint32_t const> sample_counts = {};
    std::span<std::uint32_t const> first_group = {};
    std::span<std::uint32_t const> groups = {};
    std::span<std::uint32_t const> first_member = {};
    std::span<std::uint32_t const> members = {};  ///< no two of one group share a bag
  };

  std::span<cost_units const> costs;
  std::span<tokens const> lengths;
  std::span<priced_sample const> heaviest_first;
  std::span<std::uint32_t const> gpus;
  std::span<std::uint32_t const> speeds;
  std::span<bag_id const> home = {};           ///< the bag whose GPUs hold most of each sample now
  std::span<std::int64_t const> weights = {};  ///< what each sample takes of most
  std::span<std::int64_t const> most = {};     ///< what each bag can hold of weights
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
///             which the sample fits. Within most, a sample that found no room may keep bag m.
///             memory is scratch that the policy gives back.
/// Returns     nothing, or a makespan that no plan gets below, as the policy has proven.
///
/// A policy is a value, usually without state, with its parameters as public members. It may have
/// constant member functions: `batching batches()` where loads are not sums; and `std::uint64_t
/// work_within_limits()`, how much a search within limits may do, where equal counts are better met
/// from nothing than from its plan. Where batches() is static and constexpr, a nest without meaning,
/// such as `refine{padded_batches{}}`, does not compile.
template <class P>
concept partition_policy =
    requires(P const policy, partition_problem const& problem, std::span<cost_units> loads,
             std::span<bag_id> owner, workspace& memory) {
      requires std::same_as<decltype(policy(problem, loads, owner, memory)), void> ||
                   std::same_as<decltype(policy(problem, loads, owner, memory)), ratio>;
    };

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

namespace detail {

/// Whether the type of a policy says that it pads its batches; that of another may hold one that does.
template <class P>
[[nodiscard]] consteval bool pads_by_type()
{
  if constexpr (requires { typename std::integral_constant<batching, P::batches()>; }) {
    return P::batches() != batching::packed;
  } else {
    return false;
  }
}

/// How much a search within limits may do, as the policy says it; else 0, and equal counts begin with
/// its plan too.
template <class P>
[[nodiscard]] constexpr std::uint64_t work_of(P const& policy)
{
  if constexpr (requires { policy.work_within_limits(); }) {
    return policy.work_within_limits();
  } else {
    return 0;
  }
}

}  // namespace detail

/// What a sample, or a bag of samples, costs each of D parts of a model that run side by side, as
/// encoder and LLM: one quantity for each, a dimension.
template <std::size_t D>
using cost_vector = std::array<cost_units, D>;

/// The input of a policy that plans by several quantities: n samples to put in m bags.
///
/// `partition()` builds it and checks what is expected here. With costs alone all bins are equal, and
/// every sample fits each.
///
/// Shapes      costs[n]; lengths[n] and gpus[m], or both empty where every sample fits every bag;
///             speeds[m], or empty where all bags are equally fast.
/// Units       all dimensions share one unit of time, since the objective compares them: in each, a
///             bag of speed s does s of its units per unit of time.
/// Expects     (a) costs are not negative, and in every dimension they add up to less than 2^63,
///                 starting loads included
///             (b) speeds are at least 1, and every sample fits at least one bag
template <std::size_t D>
struct cost_vector_problem {
  static_assert(D >= 1);
  std::span<cost_vector<D> const> costs;
  std::span<tokens const> lengths = {};
  std::span<std::uint32_t const> gpus = {};  ///< of each bag
  std::span<std::uint32_t const> speeds = {};

  [[nodiscard]] constexpr std::uint32_t speed(std::size_t bag) const noexcept
  {
    return speeds.empty() ? 1 : speeds[bag];
  }

  /// As `partition_problem::fits`.
  [[nodiscard]] constexpr bool fits(std::size_t sample, std::size_t bag) const noexcept
  {
    return gpus.empty() || partition_problem::splits(lengths[sample], gpus[bag]);
  }

  [[nodiscard]] constexpr bool one_speed() const noexcept
  {
    return std::all_of(speeds.begin(), speeds.end(),
                       [this](std::uint32_t speed) { return speed == speeds.front(); });
  }

  /// Whether every sample can go to every bag.
  [[nodiscard]] constexpr bool any_bag_is_open() const noexcept
  {
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
/// It takes and returns what a partition_policy does; one type may be both, as `refine` is. One that
/// looks at costs alone serves equal bags.
template <class P, std::size_t D>
concept cost_vector_policy =
    requires(P const policy, cost_vector_problem<D> const& problem, std::span<cost_vector<D>> loads,
             std::span<bag_id> owner, workspace& memory) {
      requires std::same_as<decltype(policy(problem, loads, owner, memory)), void> ||
                   std::same_as<decltype(policy(problem, loads, owner, memory)), ratio>;
    };

/// The same by several quantities.
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

template <class Cost>
struct problem_by {
  using type = partition_problem;
};
template <std::size_t D>
struct problem_by<cost_vector<D>> {
  using type = cost_vector_problem<D>;
};

/// Any policy by reference, so that what plans around one is compiled once.
template <class Cost>
class policy_ref {
 public:
  using problem_type = typename problem_by<Cost>::type;

  template <class Policy>
    requires plans_by<Policy, Cost>
  explicit policy_ref(Policy const& policy)
      : policy_(&policy),
        run_([](void const* self, problem_type const& problem, std::span<Cost> loads,
                std::span<bag_id> owner, workspace& memory) {
          return run_policy(*static_cast<Policy const*>(self), problem, loads, owner, memory);
        }),
        work_within_limits_(work_of(policy))
  {
    if constexpr (std::same_as<Cost, cost_units>) { batches_ = batching_of(policy); }
  }

  ratio operator()(problem_type const& problem, std::span<Cost> loads, std::span<bag_id> owner,
                   workspace& memory) const
  {
    return run_(policy_, problem, loads, owner, memory);
  }
  [[nodiscard]] batching batches() const noexcept { return batches_; }
  [[nodiscard]] std::uint64_t work_within_limits() const noexcept { return work_within_limits_; }

 private:
  void const* policy_;
  ratio (*run_)(void const*, problem_type const&, std::span<Cost>, std::span<bag_id>, workspace&);
  batching batches_ = batching::packed;
  std::uint64_t work_within_limits_;
};

}  // namespace detail

/// As what a plan keeps such costs: cost_units, or a `cost_vector`.
template <class Projection, class Samples>
  requires cost_projection<Projection, Samples>
using planned_cost = typename detail::cost_of_samples<Projection, Samples>::type;

namespace detail {

/// A policy that plans by costs of this type.
template <class Policy, class Cost>
concept policy_by = plans_by<Policy, Cost>;

/// What every policy expects of the arrays that it is run with.
inline void expect_policy_arrays(partition_problem const& problem,
                                 std::span<cost_units const> loads, std::span<bag_id const> owner)
{
  BALLAST_EXPECTS(!loads.empty(), "a policy was run without bags: `loads` is empty");
  BALLAST_EXPECTS(loads.size() == problem.gpus.size(), "a policy was run with `loads` of ",
                  counted(loads.size(), "bag"), " for a problem of ", problem.gpus.size());
  BALLAST_EXPECTS(owner.size() == problem.costs.size(), "a policy was run with `owner` of ",
                  counted(owner.size(), "sample"), " for a problem of ", problem.costs.size());
}

/// The same by several quantities, where bags may all be equal.
template <std::size_t D>
void expect_policy_arrays(cost_vector_problem<D> const& problem,
                          std::span<cost_vector<D> const> loads, std::span<bag_id const> owner)
{
  BALLAST_EXPECTS(!loads.empty(), "a policy was run without bags: `loads` is empty");
  BALLAST_EXPECTS(owner.size() == problem.costs.size(), "a policy was run with `owner` of ",
                  counted(owner.size(), "sample"), " for a problem of ", problem.costs.size());
}

/// What policies that pad attention alone expect besides.
inline void expect_attention(partition_problem const& problem)
{
  BALLAST_EXPECTS(problem.attention.size() == problem.costs.size(),
                  "a policy that pads attention was run with attention parts of ",
                  counted(problem.attention.size(), "sample"), " for a problem of ",
                  problem.costs.size());
}

}  // namespace detail

/// The two lengths of a sample that an encoder and a decoder pad, each to the longest of its batch;
/// a model that pads one length leaves `target` 0.
struct padded_lengths {
  tokens source = 0;
  tokens target = 0;

  /// What both are padded to in one batch.
  [[nodiscard]] constexpr padded_lengths with(padded_lengths other) const noexcept
  {
    return {std::max(source, other.source), std::max(target, other.target)};
  }

  friend constexpr bool operator==(padded_lengths, padded_lengths) = default;
};

/// What one sample costs that is padded to these two lengths: not negative, and no less where a
/// length is longer. A batch costs that times its number of samples.
///
///     [](tokens source, tokens target) { return 3 * source + 2 * target + source * target / 512; }
template <class F>
concept padded_cost = requires(F const& cost_of, tokens length) {
  { cost_of(length, length) } -> std::same_as<cost_units>;
};

}  // namespace ballast::inline v0
