// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_BOUNDS_COUNTING_BOUND_HPP
#define BALLAST_PARTITION_DETAIL_BOUNDS_COUNTING_BOUND_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// The least time from `bound` on by which bags of these speeds can hold enough samples.
///
/// Of the t heaviest samples a bag of speed s computes, by the time T, no more than the k whose
/// lightest cost T s together. The k of all bags add up to t, for every t, or no plan ends by T.
/// Samples that are nearly equal make a bag wait for whole samples: there this is what the mean
/// misses. Where there are many samples it looks at t = n and at evenly spaced ones below, and it
/// ends where it has gone from moment to moment for as long.
///
/// Shapes      before[n + 1]: the cost of the heaviest i samples together.
/// Expects     fastest_first has at least one bag.
/// Ensures     (1) no plan has a makespan below the one returned
/// Complexity  O(m + 2^12 log n).
[[nodiscard]] inline ratio counting_bound(std::span<cost_units const> before,
                                          std::span<std::uint32_t const> fastest_first, ratio bound,
                                          workspace& memory)
{
  constexpr std::size_t most_looks = std::size_t{1} << 12;
  struct speed_class {
    std::uint32_t speed;
    std::size_t bags;
    std::size_t first;  // of those t samples, the heaviest that fits with all that follow it
  };
  auto scratch = memory.open();
  std::span<speed_class> all = scratch.take<speed_class>(fastest_first.size());
  std::size_t classes = 0;
  for (std::uint32_t const speed : fastest_first) {
    if (classes == 0 || all[classes - 1].speed != speed) { all[classes++] = {speed, 0, 0}; }
    ++all[classes - 1].bags;
  }
  all = all.first(classes);
  std::size_t const samples = before.size() - 1;
  std::size_t const step = 1 + samples * classes / most_looks;
  // A bag with room for more costs than there are has room for all.
  auto const room_of = [&](std::uint32_t speed) {
    uint128 const room = static_cast<uint128>(static_cast<std::uint64_t>(bound.numerator)) * speed /
                         static_cast<std::uint64_t>(bound.denominator);
    return static_cast<cost_units>(std::min<uint128>(room, static_cast<uint128>(before.back())));
  };

  std::size_t moments = 0;
  for (std::size_t taken = samples; taken > 0; taken -= std::min(taken, step)) {
    cost_units const sum = before[taken];
    std::size_t held = 0;
    for (speed_class& each : all) {
      auto const first =
          std::lower_bound(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(taken),
                           sum - room_of(each.speed));
      each.first = static_cast<std::size_t>(first - before.begin());
      held += each.bags * (taken - each.first);
      if (held >= taken) { break; }
    }
    // The next moment at which a bag has room for one sample more, until all are held.
    while (held < taken) {
      speed_class* next = nullptr;
      ratio soonest;
      for (speed_class& each : all) {
        if (each.first == 0) { continue; }
        ratio const time{sum - before[each.first - 1], each.speed};
        if (next == nullptr || time < soonest) {
          next = &each;
          soonest = time;
        }
      }
      --next->first;
      held += next->bags;
      bound = soonest;
      if (++moments * classes > most_looks) { return bound; }
    }
  }
  return bound;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_BOUNDS_COUNTING_BOUND_HPP
