// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

#include <range/v3/range/concepts.hpp>
#include <range/v3/view/all.hpp>
#include <range/v3/view/transform.hpp>

namespace ballast::inline v0 {

/// The members of every group as the things that they number: for each bag, a view of its samples.
///
/// Host compilers only: range-v3 0.12 does not compile in a `.cu`.
///
/// Expects     things has an element for every member; groups and things outlive the view.
/// Ensures     (1) element k of the view is a view of things[m] for the members m of group k, in
///                 order
/// Complexity  O(1) to make, O(1) per element; nothing is copied or allocated.
template <identifier Key, identifier Member, ranges::viewable_range Things>
  requires ranges::random_access_range<Things>
[[nodiscard]] auto view_rows(jagged<Key, Member> const& all, Things&& things)
{
  auto pick =
      [view = ranges::views::all(std::forward<Things>(things))](Member member) -> decltype(auto) {
    return view[static_cast<std::ptrdiff_t>(to_index(member))];
  };
  return ranges::views::transform(
      all, [pick](auto members) { return ranges::views::transform(members, pick); });
}

}  // namespace ballast::inline v0
