// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_BOUNDS_EQUAL_COUNT_BOUND_HPP
#define BALLAST_PARTITION_DETAIL_BOUNDS_EQUAL_COUNT_BOUND_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/bounds/work_limits.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace ballast::inline v0::detail {

/// A makespan that no plan gets below whose bags hold these numbers of samples, in any order.
///
/// Take the t heaviest samples, t = i m + j with 1 <= j <= m. The j bags that hold most of them hold
/// at least j (i + 1) of them, by pigeonhole, and at least as many samples as the j smallest counts
/// together. So they do at least the work of the j (i + 1) lightest of those t samples and of the
/// lightest samples for their other places, and one of them finishes at the mean or later. The bound
/// is the largest over t. For t = 1 it is the heaviest sample together with the lightest ones, for
/// t = n the mean load.
///
/// Shapes      counts[m].
/// Expects     a valid partition_problem; counts add up to n; bags start empty.
/// Ensures     (1) no assignment with these counts has a smaller makespan
/// Complexity  O(n + m log m); 8 n + 16 m bytes of scratch.
[[nodiscard]] inline ratio equal_count_bound(partition_problem const& problem,
                                             std::span<std::uint32_t const> counts,
                                             workspace& memory)
{
  std::size_t const samples = problem.heaviest_first.size();
  std::size_t const bags = counts.size();
  BALLAST_EXPECTS(bags >= 1 && problem.speeds.size() == bags);
  auto scratch = memory.open();
  std::span<std::uint32_t> const fewest_first = scratch.take<std::uint32_t>(bags);
  std::span<std::uint32_t> const fastest_first = scratch.take<std::uint32_t>(bags);
  std::copy(counts.begin(), counts.end(), fewest_first.begin());
  std::copy(problem.speeds.begin(), problem.speeds.end(), fastest_first.begin());
  std::sort(fewest_first.begin(), fewest_first.end());
  std::sort(fastest_first.begin(), fastest_first.end(), std::greater{});
  std::span<cost_units> const before = scratch.take<cost_units>(samples + 1);
  before[0] = 0;
  for (std::size_t place = 0; place < samples; ++place) {
    before[place + 1] = before[place] + problem.heaviest_first[place].cost;
  }

  ratio bound{0, fastest_first.front()};
  for (std::size_t full = 0; full * bags < samples; ++full) {
    std::size_t places = 0;
    std::int64_t speed = 0;
    for (std::size_t used = 1; used <= std::min(bags, samples - full * bags); ++used) {
      std::size_t const heaviest = full * bags + used;
      std::size_t const crowded = used * (full + 1);
      places += fewest_first[used - 1];
      speed += fastest_first[used - 1];
      std::size_t const others = places - std::min(places, crowded);
      // Where the lightest samples reach into the t heaviest, more of these lie there anyway.
      bool const apart = others <= samples - heaviest;
      cost_units const crowd = before[heaviest] - before[heaviest - crowded];
      cost_units const work = apart ? crowd + (before[samples] - before[samples - others])
                                    : before[samples] - before[samples - places];
      bound = std::max(bound, ratio{work, speed});
    }
  }
  bool const one_speed = fastest_first.front() == fastest_first.back();
  return one_speed ? whole_units_per_bag(bound, fastest_first.front()) : bound;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_BOUNDS_EQUAL_COUNT_BOUND_HPP
