// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_VECTORS_VECTOR_PROJECTION_HPP
#define BALLAST_PARTITION_VECTORS_VECTOR_PROJECTION_HPP

#include <ballast/partition/vectors/concepts.hpp>

#include <concepts>
#include <cstddef>
#include <ranges>
#include <tuple>
#include <type_traits>

namespace ballast::inline v0 {

namespace detail {

template <class Projection, class Samples>
using projected_costs = std::remove_cvref_t<
    std::invoke_result_t<Projection const&, std::ranges::range_reference_t<Samples>>>;

}  // namespace detail

/// A callable, or a pointer to a member, that returns the `cost_vector` of a sample.
template <class Projection, class Samples>
concept vector_projection =
    std::ranges::forward_range<Samples> &&
    std::invocable<Projection const&, std::ranges::range_reference_t<Samples>> &&
    requires { std::tuple_size<detail::projected_costs<Projection, Samples>>::value; } &&
    std::same_as<detail::projected_costs<Projection, Samples>,
                 cost_vector<std::tuple_size_v<detail::projected_costs<Projection, Samples>>>>;

/// How many costs such a projection returns for each sample.
template <class Projection, class Samples>
  requires vector_projection<Projection, Samples>
inline constexpr std::size_t dimensions_of =
    std::tuple_size_v<detail::projected_costs<Projection, Samples>>;

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_VECTORS_VECTOR_PROJECTION_HPP
