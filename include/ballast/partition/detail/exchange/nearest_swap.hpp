// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_EXCHANGE_NEAREST_SWAP_HPP
#define BALLAST_PARTITION_DETAIL_EXCHANGE_NEAREST_SWAP_HPP

#include <ballast/core/quantities.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// When the later of two bags finishes after so much load went from one to the other. The plan has
/// `loads()` and `speed(bag)`.
template <class Plan>
[[nodiscard]] ratio later_finish(Plan const& plan, std::size_t from, std::size_t to,
                                 cost_units net) noexcept
{
  return std::max(ratio{plan.loads()[from] - net, plan.speed(from)},
                  ratio{plan.loads()[to] + net, plan.speed(to)});
}

/// The load that has to go from a late bag to an early one for both to finish at the same time,
/// rounded down: (L s' - L' s) / (s + s').
template <class Plan>
[[nodiscard]] cost_units even_net(Plan const& plan, std::size_t late, std::size_t early) noexcept
{
  auto const product = [](cost_units load, std::uint32_t speed) {
    return uint128{static_cast<std::uint64_t>(load)} * speed;
  };
  return static_cast<cost_units>((product(plan.loads()[late], plan.speed(early)) -
                                  product(plan.loads()[early], plan.speed(late))) /
                                 (std::uint64_t{plan.speed(late)} + plan.speed(early)));
}

/// Positions in the lists of two bags whose samples change bags, and how much load goes with them;
/// 0 means no swap.
struct swapped_places {
  std::size_t given = 0;
  std::size_t taken = 0;
  cost_units net = 0;
};

/// The swap of one sample for one after which the later of two bags finishes earliest, if that is
/// earlier than before.
///
/// The further the load that changes bags is from the even one, the later the later bag finishes,
/// so the best swap is the nearest below or the nearest above. Both lists are sorted, so two
/// pointers find them.
///
/// Shapes      giving[k], taking[l]: samples of bags `late` and `early` with a `cost`, heaviest
///             first.
/// Expects     bag `late` finishes after bag `early`; may_swap(given, taken) says whether the
///             samples at these two positions may change bags.
/// Complexity  O(k + l) where all of them may.
template <class Plan, class Item, class MaySwap>
[[nodiscard]] swapped_places nearest_swap(Plan const& plan, std::size_t late, std::size_t early,
                                          std::span<Item const> giving,
                                          std::span<Item const> taking, MaySwap const& may_swap)
{
  cost_units const even = even_net(plan, late, early);
  swapped_places below;
  swapped_places above;
  std::size_t first_above = 0;
  for (std::size_t given = 0; given < giving.size(); ++given) {
    cost_units const cost = giving[given].cost;
    while (first_above < taking.size() && cost - taking[first_above].cost <= even) {
      ++first_above;
    }
    for (std::size_t taken = first_above; taken-- > 0;) {
      cost_units const net = cost - taking[taken].cost;
      if (net <= below.net) { break; }
      if (may_swap(given, taken)) { below = {given, taken, net}; }
    }
    for (std::size_t taken = first_above; taken < taking.size(); ++taken) {
      cost_units const net = cost - taking[taken].cost;
      if (above.net != 0 && net >= above.net) { break; }
      if (may_swap(given, taken)) { above = {given, taken, net}; }
    }
  }
  auto const finish_after = [&](swapped_places swap) {
    return later_finish(plan, late, early, swap.net);
  };
  bool const over = above.net != 0 && (below.net == 0 || finish_after(above) < finish_after(below));
  swapped_places const best = over ? above : below;
  return finish_after(best) < ratio{plan.loads()[late], plan.speed(late)} ? best : swapped_places{};
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_EXCHANGE_NEAREST_SWAP_HPP
