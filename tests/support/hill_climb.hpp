// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/pipeline/evaluate_orders.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/simulate.hpp>

namespace ballast_test {

/// The local search that anyone writes first: swap two microbatches or move one, go on where that
/// is not longer, and start again from a random order after `patience` x l^2 moves without a
/// shorter one. Eight of them, each of so many evaluations, with a patience of 1 to 8 and seeds of
/// their own; the first begins with the given order.
///
/// Returns     the shortest makespan of each.
[[nodiscard]] inline std::array<ballast::time_units, 8> hill_climbs(
    ballast::compiled_schedule const& schedule, ballast::pipeline_times const& times,
    std::uint64_t evaluations)
{
  constexpr std::size_t climbs = 8;
  std::size_t const count = times.microbatches();
  ballast::workspace memory;
  auto scratch = memory.open();
  ballast::order_evaluator evaluator(schedule, times, scratch);
  std::vector<ballast::microbatch_id> present(climbs * count);
  for (std::size_t at = 0; at < present.size(); ++at) {
    present[at] = ballast::to_id<ballast::microbatch_id>(at % count);
  }
  auto tried = present;
  std::array<ballast::time_units, climbs> now{};
  evaluator.evaluate_into(now, present);
  auto best = now;
  std::array<ballast::time_units, climbs> makespans{};
  std::array<std::uint64_t, climbs> idle{};
  std::vector<ballast::random_source> randoms;
  for (std::size_t climb = 0; climb < climbs; ++climb) { randoms.emplace_back(7919 * climb + 13); }
  for (std::uint64_t done = 1; done < evaluations; ++done) {
    std::array<bool, climbs> fresh{};
    for (std::size_t climb = 0; climb < climbs; ++climb) {
      auto& random = randoms[climb];
      auto const row = std::span(tried).subspan(climb * count, count);
      std::copy_n(present.begin() + static_cast<std::ptrdiff_t>(climb * count), count, row.begin());
      fresh[climb] = idle[climb] >= (std::uint64_t{1} << climb / 2) * count * count;
      if (fresh[climb]) {
        random.shuffle(row);
        continue;
      }
      auto const from = row.begin() + static_cast<std::ptrdiff_t>(random.below(count));
      auto const to = row.begin() + static_cast<std::ptrdiff_t>(random.below(count));
      if (random.below(2) == 0) {
        std::iter_swap(from, to);
      } else if (from < to) {
        std::rotate(from, from + 1, to + 1);
      } else {
        std::rotate(to, from, from + 1);
      }
    }
    evaluator.evaluate_into(makespans, tried);
    for (std::size_t climb = 0; climb < climbs; ++climb) {
      idle[climb] = fresh[climb] || makespans[climb] < now[climb] ? 0 : idle[climb] + 1;
      if (!fresh[climb] && makespans[climb] > now[climb]) { continue; }
      now[climb] = makespans[climb];
      best[climb] = std::min(best[climb], now[climb]);
      auto const row = std::span(tried).subspan(climb * count, count);
      std::copy(row.begin(), row.end(),
                present.begin() + static_cast<std::ptrdiff_t>(climb * count));
    }
  }
  return best;
}

}  // namespace ballast_test
