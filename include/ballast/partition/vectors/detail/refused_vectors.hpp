// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_VECTORS_DETAIL_REFUSED_VECTORS_HPP
#define BALLAST_PARTITION_VECTORS_DETAIL_REFUSED_VECTORS_HPP

#include <ballast/core/integer_projection.hpp>
#include <ballast/core/result.hpp>
#include <ballast/partition/detail/refused_call.hpp>
#include <ballast/partition/vectors/concepts.hpp>
#include <ballast/partition/vectors/vector_projection.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <concepts>
#include <cstddef>
#include <ranges>
#include <type_traits>

/// What is wrong with a call of `partition_vectors` or `partition_vectors_into` that cannot compile:
/// see refused_call.hpp.
namespace ballast::inline v0::detail {

struct bins_must_be_a_number_or_a_bag_layout;
struct costs_of_must_take_a_sample;
struct the_costs_of_a_sample_must_be_a_cost_vector;
struct the_policy_must_take_a_vector_problem_loads_owner_and_workspace;

template <class Samples, class Bins, class Policy, class CostsOf, class LengthOf>
concept vector_arguments =
    vector_projection<CostsOf, Samples> &&
    vector_partition_policy<Policy, dimensions_of<CostsOf, Samples>> &&
    (std::convertible_to<Bins, std::size_t> ||
     (std::same_as<Bins, bag_layout> && integer_projection<LengthOf, Samples>));

template <class Samples, class Bins, class Policy, class CostsOf, class LengthOf>
consteval auto what_vectors_are_refused()
{
  if constexpr (!std::ranges::forward_range<Samples>) {
    return std::type_identity<samples_must_be_a_range_that_can_be_read_twice>();
  } else if constexpr (std::same_as<Bins, result<bag_layout>>) {
    return std::type_identity<bags_must_be_the_value_of_the_result_not_the_result>();
  } else if constexpr (!std::convertible_to<Bins, std::size_t> && !std::same_as<Bins, bag_layout>) {
    return std::type_identity<bins_must_be_a_number_or_a_bag_layout>();
  } else if constexpr (!std::invocable<CostsOf const&, std::ranges::range_reference_t<Samples>>) {
    return std::type_identity<costs_of_must_take_a_sample>();
  } else if constexpr (!vector_projection<CostsOf, Samples>) {
    return std::type_identity<the_costs_of_a_sample_must_be_a_cost_vector>();
  } else if constexpr (!vector_partition_policy<Policy, dimensions_of<CostsOf, Samples>>) {
    return std::type_identity<the_policy_must_take_a_vector_problem_loads_owner_and_workspace>();
  } else {
    return what_length_is_refused<Samples, LengthOf>();
  }
}

template <class... Arguments>
using refused_vectors = typename decltype(what_vectors_are_refused<Arguments...>())::type;

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_VECTORS_DETAIL_REFUSED_VECTORS_HPP
