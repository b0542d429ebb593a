// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace ballast_test {

/// To which place each item goes: the first items of all, while places are tried for the others.
using assignment = std::vector<std::size_t>;

/// Calls `judge(owner)` with every assignment of the first 0, 1, ..., `items` items to `places`,
/// depth first. What the judge refuses by false is not continued.
template <class Judge>
void each_assignment(std::size_t items, std::size_t places, Judge const& judge)
{
  assignment owner;
  auto const go_on = [&](auto const& self) -> void {
    if (!judge(owner) || owner.size() == items) { return; }
    for (std::size_t place = 0; place < places; ++place) {
      owner.push_back(place);
      self(self);
      owner.pop_back();
    }
  };
  go_on(go_on);
}

/// The oracle of all planners: the least that `judge(owner)` says of an assignment of all items, by
/// trying them; nothing where it says nothing of any. A judge says nothing of items that no
/// assignment may begin with, and never less of more items than of the first of them, so that what
/// begins no better than the best one known is left out.
template <class Judge>
auto least_of_all(std::size_t items, std::size_t places, Judge const& judge)
{
  std::invoke_result_t<Judge const&, assignment const&> best;  // an optional
  each_assignment(items, places, [&](assignment const& owner) {
    auto const value = judge(owner);
    if (!value || (best && !(*value < *best))) { return false; }
    if (owner.size() == items) { best = value; }
    return true;
  });
  return best;
}

/// As `least_of_all`, of assignments to any number of places that are alike until they are used: a
/// place is opened after those before it.
template <class Judge>
auto least_of_all_packings(std::size_t items, std::size_t most_places, Judge const& judge)
{
  return least_of_all(items, most_places, [&](assignment const& owner) {
    std::size_t open = 0;
    bool in_turn = true;
    for (std::size_t const place : owner) {
      in_turn = in_turn && place <= open;
      open += place == open ? 1 : 0;
    }
    return in_turn ? judge(owner, open) : decltype(judge(owner, open)){};
  });
}

/// Items, heaviest first, equal ones in their order.
inline std::vector<std::size_t> heaviest_first(std::span<std::int64_t const> weights)
{
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t item) { return std::pair(-weights[item], item); });
  return order;
}

/// The sums of values in each place, from what places have at first. `values` may be longer than
/// `owner`.
template <class T>
std::vector<T> sums_of(assignment const& owner, std::vector<T> const& values, std::vector<T> sums)
{
  for (std::size_t item = 0; item < owner.size(); ++item) { sums[owner[item]] += values[item]; }
  return sums;
}

/// The same of identifiers, as plans have them.
template <class Ids>
assignment assignment_of(Ids const& ids)
{
  assignment owner;
  for (auto const id : ids) { owner.push_back(static_cast<std::size_t>(id)); }
  return owner;
}

}  // namespace ballast_test
