// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/detail/read_samples.hpp>
#include <ballast/partition/partition_plan.hpp>
#include <ballast/partition/placement_limits.hpp>
#include <ballast/partition/refine.hpp>

/// What is wrong with a call of `partition` or `partition_into` that cannot compile.
///
/// These types are never defined. A function that returns one cannot be called, and the first line
/// that a compiler prints names it; for a `requires` expression there is no such call. (A
/// static_assert in a function that takes anything would have a `requires` expression find that
/// function.)
namespace ballast::inline v0 {

namespace detail {

struct samples_must_be_a_range_that_can_be_read_twice;
struct bags_must_be_the_value_of_the_result_not_the_result;
struct bags_must_be_a_bag_layout_as_lay_out_makes_it;
struct the_policy_must_take_a_partition_problem_loads_owner_and_workspace;
struct the_policy_must_take_a_cost_vector_problem_loads_owner_and_workspace;
struct the_cost_comes_before_limits_and_policy;
struct cost_of_must_take_a_sample;
struct the_cost_of_a_sample_must_be_an_integer_or_ranks_could_differ;
struct samples_that_are_no_integers_need_length_of;
struct length_of_must_take_a_sample;
struct the_length_of_a_sample_must_be_an_integer;

template <class CostOf, class Samples>
concept knows_attention =
    attention_cost_model<CostOf, std::remove_cvref_t<std::ranges::range_reference_t<Samples>>>;

template <class Samples, class Bags, class CostOf, class LengthOf, class Policy>
concept partition_arguments =
    std::ranges::forward_range<Samples> && std::same_as<Bags, bag_layout> &&
    cost_projection<CostOf, Samples> && detail::policy_by<Policy, planned_cost<CostOf, Samples>> &&
    integer_projection<LengthOf, Samples>;

template <class Samples, class LengthOf>
consteval auto what_length_is_refused()
{
  if constexpr (std::same_as<LengthOf, std::identity>) {
    return std::type_identity<samples_that_are_no_integers_need_length_of>();
  } else if constexpr (!std::invocable<LengthOf const&, std::ranges::range_reference_t<Samples>>) {
    return std::type_identity<length_of_must_take_a_sample>();
  } else {
    return std::type_identity<the_length_of_a_sample_must_be_an_integer>();
  }
}

template <class Samples, class Bags, class CostOf, class LengthOf, class Policy>
consteval auto what_is_refused()
{
  if constexpr (!std::ranges::forward_range<Samples>) {
    return std::type_identity<samples_must_be_a_range_that_can_be_read_twice>();
  } else if constexpr (std::same_as<Bags, result<bag_layout>>) {
    return std::type_identity<bags_must_be_the_value_of_the_result_not_the_result>();
  } else if constexpr (!std::same_as<Bags, bag_layout>) {
    return std::type_identity<bags_must_be_a_bag_layout_as_lay_out_makes_it>();
  } else if constexpr (partition_policy<CostOf>) {
    return std::type_identity<the_cost_comes_before_limits_and_policy>();
  } else if constexpr (cost_vector_projection<CostOf, Samples>) {
    if constexpr (!detail::policy_by<Policy, planned_cost<CostOf, Samples>>) {
      return std::type_identity<
          the_policy_must_take_a_cost_vector_problem_loads_owner_and_workspace>();
    } else {
      return what_length_is_refused<Samples, LengthOf>();
    }
  } else if constexpr (!partition_policy<Policy>) {
    return std::type_identity<the_policy_must_take_a_partition_problem_loads_owner_and_workspace>();
  } else if constexpr (!std::invocable<CostOf const&, std::ranges::range_reference_t<Samples>>) {
    return std::type_identity<cost_of_must_take_a_sample>();
  } else if constexpr (!integer_projection<CostOf, Samples>) {
    return std::type_identity<the_cost_of_a_sample_must_be_an_integer_or_ranks_could_differ>();
  } else {
    return what_length_is_refused<Samples, LengthOf>();
  }
}

template <class... Arguments>
using refused_call = typename decltype(what_is_refused<Arguments...>())::type;

/// Plans samples whose costs are in the plan: what of partition_into() knows nothing of the types of
/// samples and cost model, so that a program compiles it once, or not at all with ballast::compiled.
///
/// Without limits the policy's plan is the plan. Within limits it is a start; equal counts begin with
/// nothing, where the policy says how much a search may then do. A policy that pads keeps one cap
/// itself.
///
/// In, out     the plan has costs, attention and batches; the rest is written.
/// Errors      as partition_into.
template <class Cost>
[[nodiscard]] result<void> plan_limited(basic_partition_plan<Cost>& plan, workspace& memory,
                                        sample_lengths const& lengths, bag_layout const& bags,
                                        policy_ref<Cost> const& policy,
                                        placement_limits const& limits);

}  // namespace detail

/// Decides with a policy which bag computes which samples, and says how good the plan is: the front
/// door of this folder, in the form for a training loop.
///
/// Shapes      samples[n] of any type, n < 2^32; bags: m >= 1; limits: arrays of n or empty.
/// In, out     plan is overwritten, and keeps its memory for the next step.
/// Expects     cost_of(sample) returns what the sample costs, an integer or, to plan by several
///             quantities in one unit of time, a cost_vector; length_of(sample) how many of its
///             tokens a bag splits, an integer: where it splits several modalities, the fewest that
///             are not zero. A sample that is a number is its own length; samples without one, in
///             equal bags of `one_gpu_bags`, have no_length. The policy does what partition_policy
///             or cost_vector_policy says.
/// Ensures     (1) those of partition_plan
///             (2) every sample is in a bag that takes it (bag_layout::takes): one with no more
///                 GPUs than the sample has tokens or, for a short sample where the bags admit it,
///                 a smallest one. Its cost, its weight and the tokens that move are its own; what
///                 a policy reads as its length is the number of GPUs of that bag
///             (3) the plan depends on nothing but the arguments, so every rank finds the same one
///             (4) with a plan and a workspace that have seen a step as large, nothing is allocated
///             (5) the plan keeps all limits together; what is above a soft cap is in plan.above_cap
///             (6) costs that are k times as large give the same plan, its loads and bound k times
/// Errors      out_of_range: sample `position` has a length outside [0, longest_sample], a negative
///             cost or no cost, an attention part that is not from 0 to its cost, a home outside
///             the job, or the costs, what caps count or starting loads overflow; or a limit says
///             nothing, or is an array of another size;
///             infeasible: sample `position` has fewer tokens than every bag has GPUs, and the bags
///             refuse short samples; or no plan keeps the limits, or none was found, which the
///             message tells apart; or there is no bag, or the policy pads and more than one cap is
///             given, or it pads attention and cost_of is no attention_cost_model. The plan is then
///             unspecified.
/// Complexity  O(n) calls of cost_of, a radix sort, the policy, O((n + m) log m) for the bound;
///             with samples to keep together O(n log n). By D quantities D + 1 radix sorts and
///             O((D n + m) log m) for the bound, with limits O(D n log n).
/// Source      several quantities, for encoder and LLM: DFLOP, a data-driven framework for
///             multimodal LLM training pipelines, its online microbatch scheduler.
template <class Cost, std::ranges::forward_range Samples, cost_projection<Samples> CostOf,
          integer_projection<Samples> LengthOf, detail::policy_by<Cost> Policy = refine<>>
  requires std::same_as<planned_cost<CostOf, Samples>, Cost>
[[nodiscard]] result<void> partition_into(basic_partition_plan<Cost>& plan, workspace& memory,
                                          Samples&& samples, bag_layout const& bags,
                                          CostOf const& cost_of, LengthOf const& length_of,
                                          placement_limits const& limits = {},
                                          Policy const& policy = {})
{
  auto const count = static_cast<std::size_t>(std::ranges::distance(samples));
  std::size_t quantities = 1;
  if constexpr (!std::same_as<Cost, cost_units>) { quantities = std::tuple_size_v<Cost>; }
#ifdef BALLAST_COMPILED
  static_assert(std::same_as<Cost, cost_units> || sizeof(Cost) <= 4 * sizeof(cost_units),
                "ballast::compiled plans by at most four quantities; link ballast::core instead "
                "where a file plans by more");
#endif
  if (auto checked = detail::check_limits(limits, count, bags.size(), bags.gpus(), quantities);
      !checked) {
    return checked;
  }
  if (std::same_as<LengthOf, no_length> && count > 0 && detail::counts_lengths(limits)) {
    return fail(
        error_code::out_of_range, 0,
        "a cap counts the lengths of samples, and these have none; give it what each sample "
        "takes, as limits.also = {{.of = bytes, .most_per_gpu = n}}");
  }

  auto scratch = memory.open();
  plan.costs.resize(count);
  detail::sample_prices<Cost, CostOf> prices{cost_of, detail::mutable_span_of(plan.costs)};
  if constexpr (std::same_as<Cost, cost_units>) {
    plan.batches = batching_of(policy);
    bool const pads_attention = plan.batches == batching::attention_padded;
    if (pads_attention && !detail::knows_attention<CostOf, Samples>) {
      return fail(error_code::infeasible, 0,
                  "the policy pads attention alone, and the cost model does not say what part of a "
                  "cost that is; use one with attention_part, as quadratic_cost");
    }
    plan.attention.resize(pads_attention ? count : 0);
    prices.attention = detail::mutable_span_of(plan.attention);
  }
  auto const lengths = detail::read_samples(samples, count, bags, length_of, scratch, prices);
  if (!lengths) { return tl::unexpected(lengths.error()); }
  auto planned =
      detail::plan_limited(plan, memory, *lengths, bags, detail::policy_ref<Cost>(policy), limits);
  if (detail::cancel_scope::is_cancelled()) { return detail::cancelled(); }
  return planned;
}

/// The same for samples that are numbers: their own lengths.
template <class Cost, std::ranges::forward_range Samples, cost_projection<Samples> CostOf,
          detail::policy_by<Cost> Policy = refine<>>
  requires std::same_as<planned_cost<CostOf, Samples>, Cost> &&
           integer_projection<std::identity, Samples>
[[nodiscard]] result<void> partition_into(basic_partition_plan<Cost>& plan, workspace& memory,
                                          Samples&& samples, bag_layout const& bags,
                                          CostOf const& cost_of,
                                          placement_limits const& limits = {},
                                          Policy const& policy = {})
{
  return ballast::partition_into(plan, memory, std::forward<Samples>(samples), bags, cost_of,
                                 std::identity{}, limits, policy);
}

/// The same, once: returns a new plan.
///
///     auto const plan = partition(lengths, one_gpu_bags(8), cost, {.most_per_gpu = 8192});
template <std::ranges::forward_range Samples, cost_projection<Samples> CostOf,
          integer_projection<Samples> LengthOf, class Policy = refine<>>
  requires detail::policy_by<Policy, planned_cost<CostOf, Samples>>
[[nodiscard]] auto partition(Samples&& samples, bag_layout const& bags, CostOf const& cost_of,
                             LengthOf const& length_of, placement_limits const& limits = {},
                             Policy const& policy = {})
    -> result<basic_partition_plan<planned_cost<CostOf, Samples>>>
{
  basic_partition_plan<planned_cost<CostOf, Samples>> plan;
  workspace memory;
  result<void> const done = ballast::partition_into(plan, memory, std::forward<Samples>(samples),
                                                    bags, cost_of, length_of, limits, policy);
  if (!done) { return tl::unexpected(done.error()); }
  return plan;
}

template <std::ranges::forward_range Samples, cost_projection<Samples> CostOf,
          class Policy = refine<>>
  requires integer_projection<std::identity, Samples> &&
           detail::policy_by<Policy, planned_cost<CostOf, Samples>>
[[nodiscard]] auto partition(Samples&& samples, bag_layout const& bags, CostOf const& cost_of,
                             placement_limits const& limits = {}, Policy const& policy = {})
    -> result<basic_partition_plan<planned_cost<CostOf, Samples>>>
{
  return ballast::partition(std::forward<Samples>(samples), bags, cost_of, std::identity{}, limits,
                            policy);
}

// Calls that cannot compile come here, so that the first error says what is wrong with them.
/// @cond
template <class Samples, class Bags, class CostOf, class LengthOf = std::identity,
          class Refused = detail::refused_call<Samples, Bags, CostOf, LengthOf, refine<>>>
  requires(!std::convertible_to<LengthOf, placement_limits> &&
           !detail::partition_arguments<Samples, Bags, CostOf, LengthOf, refine<>>)
Refused partition(Samples&& samples, Bags const& bags, CostOf const& cost_of,
                  LengthOf const& length_of = {});

template <class Samples, class Bags, class CostOf, class Policy = refine<>,
          class Refused = detail::refused_call<Samples, Bags, CostOf, std::identity, Policy>>
  requires(!detail::partition_arguments<Samples, Bags, CostOf, std::identity, Policy>)
Refused partition(Samples&& samples, Bags const& bags, CostOf const& cost_of,
                  placement_limits const& limits, Policy const& policy = {});

template <class Samples, class Bags, class CostOf, class LengthOf, class Policy = refine<>,
          class Refused = detail::refused_call<Samples, Bags, CostOf, LengthOf, Policy>>
  requires(!detail::partition_arguments<Samples, Bags, CostOf, LengthOf, Policy>)
Refused partition(Samples&& samples, Bags const& bags, CostOf const& cost_of,
                  LengthOf const& length_of, placement_limits const& limits,
                  Policy const& policy = {});

template <class Cost, class Samples, class Bags, class CostOf, class LengthOf,
          class Policy = refine<>,
          class Refused = detail::refused_call<Samples, Bags, CostOf, LengthOf, Policy>>
  requires(!std::convertible_to<LengthOf, placement_limits> &&
           !detail::partition_arguments<Samples, Bags, CostOf, LengthOf, Policy>)
Refused partition_into(basic_partition_plan<Cost>& plan, workspace& memory, Samples&& samples,
                       Bags const& bags, CostOf const& cost_of, LengthOf const& length_of,
                       placement_limits const& limits = {}, Policy const& policy = {});
/// @endcond

}  // namespace ballast::inline v0

#ifndef BALLAST_COMPILED
#include <ballast/partition/detail/placement/plan_limited.hpp>
#endif
