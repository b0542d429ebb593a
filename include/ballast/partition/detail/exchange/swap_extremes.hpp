// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_EXCHANGE_SWAP_EXTREMES_HPP
#define BALLAST_PARTITION_DETAIL_EXCHANGE_SWAP_EXTREMES_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

namespace ballast::inline v0::detail {

/// Evens out bags by single swaps: the latest bag with the earliest, the second latest with the
/// second earliest, and so on, pass after pass.
///
/// Exchanges   as for `settle_latest`.
/// Ensures     (1) the makespan does not grow
///             (2) it ends when no bag finishes after `limit`, when a pass finds nothing to swap,
///                 or when the work is spent
/// Complexity  O(n + m log m) per pass.
template <class Exchanges>
void swap_extremes(Exchanges& plan, ratio limit, workspace& memory)
{
  auto scratch = memory.open();
  std::span<std::uint32_t> const latest_first = scratch.take<std::uint32_t>(plan.loads().size());
  std::iota(latest_first.begin(), latest_first.end(), std::uint32_t{0});
  auto const finish = [&plan](std::size_t bag) {
    return ratio{plan.loads()[bag], plan.speed(bag)};
  };
  for (bool swapped = true; swapped;) {
    std::sort(latest_first.begin(), latest_first.end(), [&](std::uint32_t a, std::uint32_t b) {
      return finish(a) > finish(b) || (finish(a) == finish(b) && a < b);
    });
    swapped = false;
    if (finish(latest_first.front()) <= limit) { return; }
    for (std::size_t place = 0; place < latest_first.size() / 2; ++place) {
      std::size_t const late = latest_first[place];
      std::size_t const early = latest_first[latest_first.size() - 1 - place];
      if (!(finish(late) > finish(early))) { break; }
      if (plan.work().spent()) { return; }
      auto const best = plan.find_swap(late, early);
      if (best.net == 0) { continue; }
      plan.make(best);
      swapped = true;
    }
  }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_EXCHANGE_SWAP_EXTREMES_HPP
