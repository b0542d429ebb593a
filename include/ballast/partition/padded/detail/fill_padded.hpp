// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PADDED_DETAIL_FILL_PADDED_HPP
#define BALLAST_PARTITION_PADDED_DETAIL_FILL_PADDED_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/partition/padded/padded_lengths.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// Calls try_order(samples) with orders whose runs pad little: by the cost alone, and by one length
/// in strips, in each of them by the other length, forth and back. Strips have equal shares of
/// the sum of their length; there are 2, 3, 4, 6, 8, ... up to the number of cells, at most 64.
///
/// Complexity  O(n log n) for each of at most 21 orders.
template <class Problem, class TryOrder>
void padded_orders_of(Problem const& problem, TryOrder const& try_order)
{
  auto const lengths = problem.lengths;
  std::vector<std::uint32_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0U);
  std::vector<std::pair<cost_units, std::size_t>> keys(lengths.size());
  auto const descending = [&keys](std::uint32_t a, std::uint32_t b) {
    return keys[a].first > keys[b].first || (keys[a].first == keys[b].first && a < b);
  };
  for (std::size_t sample = 0; sample < keys.size(); ++sample) {
    keys[sample].first = problem.alone(sample);
  }
  std::sort(order.begin(), order.end(), descending);
  try_order(order);
  std::vector<std::size_t> strip(lengths.size());
  for (bool const by_target : {true, false}) {
    auto const first_of = [&](std::size_t sample) {
      return by_target ? lengths[sample].target : lengths[sample].source;
    };
    auto const second_of = [&](std::size_t sample) {
      return by_target ? lengths[sample].source : lengths[sample].target;
    };
    std::int64_t sum = 0;
    for (std::size_t sample = 0; sample < lengths.size(); ++sample) { sum += first_of(sample); }
    if (sum == 0) { continue; }
    std::size_t const most = std::min<std::size_t>(problem.cells(), 64);
    for (std::size_t strips = 2; strips <= most;
         strips += strips % 3 == 0 ? strips / 3 : (strips + 1) / 2) {
      for (std::size_t sample = 0; sample < keys.size(); ++sample) {
        keys[sample].first = first_of(sample);
      }
      std::sort(order.begin(), order.end(), descending);
      std::int64_t before = 0;
      for (std::uint32_t const sample : order) {
        strip[sample] =
            static_cast<std::size_t>(before) / (static_cast<std::size_t>(sum) / strips + 1);
        before += first_of(sample);
      }
      std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
        if (strip[a] != strip[b]) { return strip[a] < strip[b]; }
        if (second_of(a) == second_of(b)) { return a < b; }
        return (second_of(a) > second_of(b)) == (strip[a] % 2 == 0);
      });
      try_order(order);
    }
  }
}

/// Fills one batch after the other with the samples of an order, each as long as it costs no more
/// than `limit` and is within the cap, and writes the batch of each. Returns the number of batches,
/// or one more than `most`.
template <class Problem>
[[nodiscard]] std::size_t fill_runs(Problem const& problem, std::span<std::uint32_t const> order,
                                    cost_units limit, std::size_t most,
                                    std::span<std::uint32_t> batch_of)
{
  std::size_t batches = 0;
  std::size_t samples = 0;
  padded_lengths longest;
  for (std::uint32_t const sample : order) {
    padded_lengths const together = longest.with(problem.lengths[sample]);
    bool const joins = samples > 0 && problem.cost(samples + 1, together) <= limit &&
                       problem.fits(samples + 1, together);
    longest = joins ? together : problem.lengths[sample];
    samples = joins ? samples + 1 : 1;
    batches += joins ? 0 : 1;
    if (batches > most || (!joins && problem.cost(1, longest) > limit)) { return most + 1; }
    batch_of[sample] = static_cast<std::uint32_t>(batches - 1);
  }
  return batches;
}

/// Writes the batches of an order with the least limit, of those that bisection looks at, from `low`
/// on, that needs no more batches than there are cells. Returns whether there is one.
template <class Problem>
[[nodiscard]] bool fill_evenly(Problem const& problem, std::span<std::uint32_t const> order,
                               cost_units low, std::span<std::uint32_t> batch_of)
{
  cost_units const most = problem.cost(problem.lengths.size(), problem.longest());
  auto const fills = [&](cost_units limit) {
    return fill_runs(problem, order, limit, problem.cells(), batch_of) <= problem.cells();
  };
  cost_units high = low;
  for (cost_units step = low / 64 + 1; !fills(high); step *= 2) {
    if (high == most) { return false; }
    low = high + 1;
    high = std::min(high + step, most);
  }
  while (low < high) {
    cost_units const middle = low + (high - low) / 2;
    if (fills(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return fills(high);
}

/// Gives batches to cells: the costliest to the rank with the least load that has a slot left.
template <class Problem>
void deal_batches(Problem const& problem, std::span<std::uint32_t const> batch_of,
                  std::span<cell_id> owner)
{
  struct one {
    std::size_t samples = 0;
    padded_lengths longest;
    cost_units cost = 0;
    cell_id cell{};
  };
  std::vector<one> batches(problem.cells());
  for (std::size_t sample = 0; sample < batch_of.size(); ++sample) {
    one& own = batches[batch_of[sample]];
    ++own.samples;
    own.longest = own.longest.with(problem.lengths[sample]);
  }
  std::vector<std::size_t> order(batches.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (one& each : batches) { each.cost = problem.cost(each.samples, each.longest); }
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return batches[a].cost > batches[b].cost || (batches[a].cost == batches[b].cost && a < b);
  });
  struct rank {
    cost_units load = 0;
    std::size_t number = 0;
    std::size_t filled = 0;
  };
  std::vector<rank> ranks(problem.ranks);
  for (std::size_t at = 0; at < ranks.size(); ++at) { ranks[at].number = at; }
  auto const has_more = [](rank const& a, rank const& b) {
    return a.load > b.load || (a.load == b.load && a.number > b.number);
  };
  for (std::size_t const batch : order) {
    std::pop_heap(ranks.begin(), ranks.end(), has_more);
    rank& own = ranks.back();
    batches[batch].cell = to_id<cell_id>(own.filled * problem.ranks + own.number);
    own.load += batches[batch].cost;
    if (++own.filled == problem.slots) {
      ranks.pop_back();
    } else {
      std::push_heap(ranks.begin(), ranks.end(), has_more);
    }
  }
  for (std::size_t sample = 0; sample < batch_of.size(); ++sample) {
    owner[sample] = batches[batch_of[sample]].cell;
  }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_PADDED_DETAIL_FILL_PADDED_HPP
