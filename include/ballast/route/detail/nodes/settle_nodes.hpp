// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_DETAIL_NODES_SETTLE_NODES_HPP
#define BALLAST_ROUTE_DETAIL_NODES_SETTLE_NODES_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/route/detail/nodes/node_assignment.hpp>
#include <ballast/route/detail/nodes/node_volumes.hpp>
#include <ballast/route/detail/nodes/relieve_ranks.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// Looks for a placement whose rows are all at most `target`, from where exchanges of the largest
/// row stand still: exchanges drawn at random, half of them to relieve that row. A row costs the
/// square of what it has above 31/32 of the target, so that rows near it count too; an exchange may
/// raise the sum by a part of it that shrinks to nothing.
///
/// In, out     left: one step is an exchange that was drawn.
/// Returns     whether it found one; where it did not, `where` is anything.
/// Source      the acceptance is that of G. Dueck, T. Scheuer, "Threshold Accepting", Journal of
///             Computational Physics 90, 1990.
[[nodiscard]] inline bool settle_below(node_assignment& where, tokens target, random_source& random,
                                       work_budget& left)
{
  node_volumes const& volumes = where.volumes();
  // Squares of up to 2^24 units, so that a sum over ranks fits.
  auto const bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(where.largest())));
  int const shift = std::max(0, bits - 24);
  auto const price = [floor = target - target / 32, shift](tokens volume) {
    // Rows after an exchange may be far larger than any is now.
    auto const over =
        std::min<std::int64_t>(std::max<tokens>(0, volume - floor) >> shift, std::int64_t{1} << 25);
    return over * over;
  };
  std::int64_t sum = where.sum_of_rows(price);
  auto const colder = static_cast<std::int64_t>(8 * volumes.ranks());
  auto const given = static_cast<std::int64_t>(left.left());
  while (where.largest() > target) {
    if (left.spent()) { return false; }
    auto const warm = static_cast<std::int64_t>(left.left());
    left.spend(1);
    std::size_t const row = where.worst_row();
    std::size_t batch = random.below(volumes.batches());
    std::size_t node = volumes.home_of(random.below(volumes.batches()));
    if (random.below(2) == 0 && row < volumes.ranks()) {
      auto const list = volumes.of_rank(row);
      if (list.empty()) { return false; }
      batch = list[random.below(list.size())].peer;
      node = volumes.node_of_rank(row);
    }
    if (volumes.kind_of(batch) == node_volumes::none || where.node_of(batch) == node) { continue; }
    auto const others = where.batches_on(node, volumes.kind_of(batch));
    if (others.empty()) { continue; }
    std::size_t const other = others[random.below(others.size())];
    std::int64_t const growth = where.growth_after_swap(batch, other, price);
    // At first 32 times the mean of a row: steps differ by that, however many rows there are.
    auto const draw = static_cast<std::int64_t>(random.below(256)) * warm / given;
    if (growth <= sum / colder * draw) {
      where.swap(batch, other);
      sum += growth;
    }
  }
  return true;
}

/// Lowers the largest row by settle_below, in shares of it that halve where that fails, and leaves
/// the best placement found. In a large job so few draws reach no row twice, and nothing is done.
///
/// Shapes      best[m]: scratch.
inline void settle_lower(node_assignment& where, std::span<std::uint32_t> best, std::uint64_t work)
{
  node_volumes const& volumes = where.volumes();
  constexpr std::uint64_t draws_per_rank = 32;
  work = std::min(work, std::uint64_t{1} << 48);  // so that products fit
  work_budget left(std::min(work, work * draws_per_rank / volumes.ranks()));
  std::uint64_t const per_target = left.left() / 8;
  if (per_target < volumes.ranks()) { return; }
  auto const store = [&] {
    for (std::size_t batch = 0; batch < best.size(); ++batch) {
      best[batch] = where.node_of(batch);
    }
  };
  auto const restore = [&] {
    where.clear();
    for (std::size_t batch = 0; batch < best.size(); ++batch) {
      if (volumes.kind_of(batch) != node_volumes::none) { where.place(batch, best[batch]); }
    }
  };
  random_source random(20240607);
  store();
  tokens least = where.largest();
  for (tokens share = 16; share <= 1024 && least > 0 && !left.spent(); share *= 2) {
    while (!left.spent()) {
      tokens const target = least - std::max<tokens>(1, least / share);
      work_budget of_target(std::min(left.left(), per_target));
      std::uint64_t const given = of_target.left();
      bool const found = settle_below(where, target, random, of_target);
      left.spend(given - of_target.left());
      if (!found) {
        restore();
        break;
      }
      exchange_for_worst(where, left);
      least = where.largest();
      store();
    }
  }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_ROUTE_DETAIL_NODES_SETTLE_NODES_HPP
