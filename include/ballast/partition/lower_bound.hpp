// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_LOWER_BOUND_HPP
#define BALLAST_PARTITION_LOWER_BOUND_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/core/units.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace ballast::inline v0 {

/// Work per GPU that no placement of whole samples can get below: the yardstick of every plan.
///
/// The largest of
///   (a) the mean: for every size of bag, the work of the samples that only smaller bags can take,
///       spread over all of those bags; and all work over all GPUs;
///   (b) the heaviest q samples spread over the q largest bags, for every q <= m, since q samples
///       lie in at most q bags; with q = 1 taken for each size over the samples it is the largest
///       for;
///   (c) with bags of one size, the pigeonhole: of the k m + 1 heaviest samples some k + 1 share a
///       bag, hence the k + 1 lightest of them are a bound, for every k.
/// Bags of one size hold whole units, so there the bounds are rounded up.
///
/// Expects     a valid partition_problem; bags start empty.
/// Ensures     (1) no assignment of samples to bags they fit has a smaller makespan
/// Complexity  O((n + m) log m); 8 (n + m) bytes of scratch.
/// Source      (a) (b) folklore; (c) for every k what bound L2 of M. Dell'Amico, S. Martello,
///             "Optimal Scheduling of Tasks on Identical Parallel Processors", ORSA J. Computing
///             7(2):191-200, 1995, is for k = 1.
[[nodiscard]] inline ratio makespan_lower_bound(partition_problem const& problem, workspace& memory)
{
  std::size_t const samples = problem.costs.size();
  std::size_t const bags = problem.gpus.size();
  BALLAST_EXPECTS(bags >= 1);
  auto scratch = memory.open();

  std::span<std::uint32_t> const largest_first = scratch.take<std::uint32_t>(bags);
  std::ranges::copy(problem.gpus, largest_first.begin());
  std::ranges::sort(largest_first, std::greater{});
  bool const one_size = largest_first.front() == largest_first.back();
  auto const over = [&](cost_units work, std::size_t gpus) {
    auto const denominator = static_cast<std::int64_t>(gpus);
    if (!one_size) { return ratio{work, denominator}; }
    auto const size = static_cast<std::int64_t>(largest_first.front());
    std::int64_t const bags_used = denominator / size;
    return ratio{work / bags_used + (work % bags_used != 0 ? 1 : 0), size};
  };
  ratio bound;

  // (a) Bags from the k-th of largest_first on are those a sample may use, where k counts the bags
  // it is too short for: confined[k] is the work of such samples.
  std::span<cost_units> const confined = scratch.take<cost_units>(bags + 1);
  std::ranges::fill(confined, 0);
  for (std::size_t sample = 0; sample < samples; ++sample) {
    tokens const length = problem.lengths[sample];
    auto const usable = std::ranges::partition_point(largest_first, [length](std::uint32_t gpus) {
      return !partition_problem::fits(length, gpus);
    });
    confined[static_cast<std::size_t>(usable - largest_first.begin())] += problem.costs[sample];
    if (usable != largest_first.end()) {
      bound = std::max(bound, over(problem.costs[sample], *usable));
    }
  }
  cost_units work = 0;
  std::size_t gpus = 0;
  for (std::size_t bag = bags; bag-- > 0;) {
    gpus += largest_first[bag];
    work += confined[bag];
    bound = std::max(bound, over(work, gpus));
  }

  // (b)
  work = 0;
  gpus = 0;
  for (std::size_t taken = 0; taken < std::min(samples, bags); ++taken) {
    work += problem.heaviest_first[taken].cost;
    gpus += largest_first[taken];
    bound = std::max(bound, over(work, gpus));
  }
  if (!one_size) { return bound; }

  // (c)
  std::span<cost_units> const before = scratch.take<cost_units>(samples + 1);
  before[0] = 0;
  for (std::size_t place = 0; place < samples; ++place) {
    before[place + 1] = before[place] + problem.heaviest_first[place].cost;
  }
  for (std::size_t full = 1; full * bags < samples; ++full) {
    std::size_t const last = full * bags + 1;
    bound = std::max(bound, over(before[last] - before[last - full - 1], largest_first.front()));
  }
  return bound;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_LOWER_BOUND_HPP
