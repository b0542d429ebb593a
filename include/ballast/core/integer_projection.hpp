// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CORE_INTEGER_PROJECTION_HPP
#define BALLAST_CORE_INTEGER_PROJECTION_HPP

#include <ballast/core/config.hpp>

#include <concepts>
#include <ranges>
#include <type_traits>

namespace ballast::inline v0 {

/// A callable or a pointer to a member that gives the cost, the length or the weight of a sample as
/// an integer. With floating point, ranks could compute different plans.
template <class Function, class Sample>
concept integer_function =
    std::invocable<Function const&, Sample> &&
    std::integral<std::remove_cvref_t<std::invoke_result_t<Function const&, Sample>>>;

/// An integer_function of each of these samples.
template <class Projection, class Samples>
concept integer_projection = std::ranges::forward_range<Samples> &&
                             integer_function<Projection, std::ranges::range_reference_t<Samples>>;

}  // namespace ballast::inline v0

#endif  // BALLAST_CORE_INTEGER_PROJECTION_HPP
