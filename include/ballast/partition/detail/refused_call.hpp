// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_REFUSED_CALL_HPP
#define BALLAST_PARTITION_DETAIL_REFUSED_CALL_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/cost/cost_model.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/cost_vector.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <concepts>
#include <functional>
#include <ranges>
#include <type_traits>

/// What is wrong with a call of `partition` or `partition_into` that cannot compile.
///
/// These types are never defined. A function that returns one cannot be called, and the first line
/// that a compiler prints names it; for a `requires` expression there is no such call. (A
/// static_assert in a function that takes anything would have a `requires` expression find that
/// function.)
namespace ballast::inline v0::detail {

struct samples_must_be_a_range_that_can_be_read_twice;
struct bags_must_be_the_value_of_the_result_not_the_result;
struct bags_must_be_a_bag_layout_as_lay_out_makes_it;
struct the_policy_must_take_a_partition_problem_loads_owner_and_workspace;
struct the_policy_must_take_a_cost_vector_problem_loads_owner_and_workspace;
struct cost_of_must_take_a_sample;
struct the_cost_of_a_sample_must_be_an_integer_or_ranks_could_differ;
struct samples_that_are_no_integers_need_length_of;
struct length_of_must_take_a_sample;
struct the_length_of_a_sample_must_be_an_integer;

template <class CostOf, class Samples>
concept knows_attention =
    attention_cost_model<CostOf, std::remove_cvref_t<std::ranges::range_reference_t<Samples>>>;

template <class Samples, class Bags, class Policy, class CostOf, class LengthOf>
concept partition_arguments =
    std::ranges::forward_range<Samples> && std::same_as<Bags, bag_layout> &&
    cost_projection<CostOf, Samples> && policy_by<Policy, planned_cost<CostOf, Samples>> &&
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

template <class Samples, class Bags, class Policy, class CostOf, class LengthOf>
consteval auto what_is_refused()
{
  if constexpr (!std::ranges::forward_range<Samples>) {
    return std::type_identity<samples_must_be_a_range_that_can_be_read_twice>();
  } else if constexpr (std::same_as<Bags, result<bag_layout>>) {
    return std::type_identity<bags_must_be_the_value_of_the_result_not_the_result>();
  } else if constexpr (!std::same_as<Bags, bag_layout>) {
    return std::type_identity<bags_must_be_a_bag_layout_as_lay_out_makes_it>();
  } else if constexpr (cost_vector_projection<CostOf, Samples>) {
    if constexpr (!policy_by<Policy, planned_cost<CostOf, Samples>>) {
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

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_REFUSED_CALL_HPP
