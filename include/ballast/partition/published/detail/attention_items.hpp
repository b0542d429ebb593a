// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PUBLISHED_DETAIL_ATTENTION_ITEMS_HPP
#define BALLAST_PARTITION_PUBLISHED_DETAIL_ATTENTION_ITEMS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/padding/padded_sum.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// A sample whose attention is padded to the largest of its batch while the rest of its work is
/// not.
struct attention_item {
  cost_units padded;
  cost_units packed;
  std::uint32_t sample;

  [[nodiscard]] friend constexpr bool operator<(attention_item const& a, attention_item const& b)
  {
    return precedes(b.padded, a.padded, b.packed, a.packed, a.sample, b.sample);
  }
};

/// The samples of a problem in descending order of attention, then of the rest of their work.
///
/// Complexity  O(n) where costs are in the order of their attention parts, as those of
///             `quadratic_cost` are; otherwise O(n log n). 24 n bytes that the caller's frame
///             keeps.
[[nodiscard]] inline std::span<attention_item const> sorted_attention_items(
    partition_problem const& problem, workspace::frame& scratch)
{
  std::span<attention_item> const items = scratch.take<attention_item>(problem.costs.size());
  for (std::size_t place = 0; place < items.size(); ++place) {
    auto const [cost, sample] = problem.heaviest_first[place];
    cost_units const padded = problem.attention[to_index(sample)];
    items[place] = {padded, cost - padded, static_cast<std::uint32_t>(to_index(sample))};
  }
  if (!std::is_sorted(items.begin(), items.end())) { std::sort(items.begin(), items.end()); }
  return items;
}

/// What all samples cost as one batch, the most that any bag can have to do.
[[nodiscard]] inline cost_units cost_of_one_batch(std::span<attention_item const> items) noexcept
{
  padded_sum all;
  for (attention_item const& item : items) { all.add(item.packed, item.padded); }
  return all.load();
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_PUBLISHED_DETAIL_ATTENTION_ITEMS_HPP
