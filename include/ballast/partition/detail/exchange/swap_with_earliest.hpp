// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_EXCHANGE_SWAP_WITH_EARLIEST_HPP
#define BALLAST_PARTITION_DETAIL_EXCHANGE_SWAP_WITH_EARLIEST_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/detail/exchange/nearest_swap.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

namespace ballast::inline v0::detail {

/// Plain descent: the latest bag makes the best move or swap of one sample with one of the few
/// earliest bags, or else with the first bag after them that has one, until it has none.
///
/// Exchanges   as settle_latest has them.
/// Ensures     (1) the makespan never grows
///             (2) it ends when no bag finishes after `limit`, or when the work is spent
/// Complexity  O(m log m) and the swaps searched, per step.
template <class Exchanges>
void swap_with_earliest(Exchanges& plan, ratio limit, workspace::frame& scratch)
{
  constexpr std::size_t few_partners = 8;
  std::size_t const count = plan.loads().size();
  std::span<std::uint32_t> const earliest_first = scratch.take<std::uint32_t>(count);
  std::iota(earliest_first.begin(), earliest_first.end(), std::uint32_t{0});
  auto const finish = [&](std::size_t bag) { return ratio{plan.loads()[bag], plan.speed(bag)}; };
  while (!plan.work().spent()) {
    plan.work().spend(count);
    std::sort(earliest_first.begin(), earliest_first.end(), [&](std::uint32_t a, std::uint32_t b) {
      return finish(a) < finish(b) || (finish(a) == finish(b) && a < b);
    });
    std::size_t const late = earliest_first.back();
    ratio best_finish = finish(late);
    if (best_finish <= limit) { return; }
    typename Exchanges::exchange_type best{};
    for (std::size_t place = 0; place + 1 < count; ++place) {
      std::size_t const early = earliest_first[place];
      bool const is_enough = place >= few_partners && best.net > 0;
      if (is_enough || finish(early) >= finish(late) || plan.work().spent()) { break; }
      auto const found = plan.find_swap(late, early);
      if (found.net == 0) { continue; }
      ratio const later = later_finish(plan, late, early, found.net);
      if (later < best_finish) {
        best_finish = later;
        best = found;
      }
    }
    if (best.net == 0) { return; }
    plan.make(best);
  }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_EXCHANGE_SWAP_WITH_EARLIEST_HPP
