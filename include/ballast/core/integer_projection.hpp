// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CORE_INTEGER_PROJECTION_HPP
#define BALLAST_CORE_INTEGER_PROJECTION_HPP

#include <concepts>
#include <ranges>
#include <type_traits>

namespace ballast::inline v0 {

/// A callable or a pointer to a member that gives the cost, the length or the weight of a sample as
/// an integer. With floating point, ranks could compute different plans.
template <class Projection, class Samples>
concept integer_projection =
    std::ranges::forward_range<Samples> &&
    std::invocable<Projection const&, std::ranges::range_reference_t<Samples>> &&
    std::integral<std::remove_cvref_t<
        std::invoke_result_t<Projection const&, std::ranges::range_reference_t<Samples>>>>;

}  // namespace ballast::inline v0

#endif  // BALLAST_CORE_INTEGER_PROJECTION_HPP
