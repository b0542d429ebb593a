// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PADDED_DETAIL_PADDED_PROBLEM_HPP
#define BALLAST_PARTITION_PADDED_DETAIL_PADDED_PROBLEM_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/partition/padded/padded_lengths.hpp>
#include <ballast/core/contract.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// Samples of two lengths for the cells of a grid: cell c is slot c / ranks of rank c % ranks.
template <class CostOf, class WeightOf>
struct padded_problem {
  std::span<padded_lengths const> lengths;
  std::size_t ranks;
  std::size_t slots;
  std::int64_t most_weight;
  CostOf const& cost_of;
  WeightOf const& weight_of;

  [[nodiscard]] std::size_t cells() const { return ranks * slots; }
  [[nodiscard]] cost_units cost(std::size_t samples, padded_lengths longest) const
  {
    if (samples == 0) { return 0; }
    return static_cast<cost_units>(samples) * cost_of(longest.source, longest.target);
  }
  [[nodiscard]] bool fits(std::size_t samples, padded_lengths longest) const
  {
    return samples == 0 ||
           static_cast<std::int64_t>(samples) * weight_of(longest.source, longest.target) <=
               most_weight;
  }
  [[nodiscard]] cost_units alone(std::size_t sample) const { return cost(1, lengths[sample]); }
  [[nodiscard]] padded_lengths longest() const
  {
    padded_lengths all;
    for (padded_lengths const each : lengths) { all = all.with(each); }
    return all;
  }
};

/// Refuses lengths below 0, costs or weights that a batch of all samples would take above 61 bits,
/// and a sample that is above the cap by itself.
template <class CostOf, class WeightOf>
[[nodiscard]] result<void> check_padded(padded_problem<CostOf, WeightOf> const& problem)
{
  if (problem.ranks == 0 || problem.slots == 0) {
    return fail(error_code::out_of_range, 0, "a step was to be planned for ",
                counted(problem.ranks, "rank"), " with ", counted(problem.slots, "microbatch"),
                " each; give at least 1 of both");
  }
  constexpr std::size_t most_cells = std::size_t{1} << 31;
  if (problem.ranks > most_cells || problem.slots > most_cells / problem.ranks ||
      problem.lengths.size() > most_cells) {
    return fail(error_code::out_of_range, 0, "a step has ",
                counted(problem.lengths.size(), "sample"), " for ", problem.ranks, " x ",
                problem.slots, " cells; at most 2^31 of both");
  }
  for (std::size_t sample = 0; sample < problem.lengths.size(); ++sample) {
    auto const [source, target] = problem.lengths[sample];
    if (std::min(source, target) < 0 || std::max(source, target) > longest_sample) {
      return fail(error_code::out_of_range, sample, "sample ", sample, " has the lengths ", source,
                  " and ", target, "; give lengths from 0 to ", longest_sample);
    }
  }
  auto const [source, target] = problem.longest();
  constexpr uint128 most = uint128{1} << 61;
  for (std::int64_t const largest :
       {problem.cost_of(source, target), problem.weight_of(source, target)}) {
    if (largest < 0 || static_cast<uint128>(largest) * problem.lengths.size() > most) {
      return fail(error_code::out_of_range, 0, "a sample padded to ", source, " and ", target,
                  " costs or weighs ", largest, ", and ",
                  counted(problem.lengths.size(), "such sample"),
                  " have to stay within 0 to 2^61; use a coarser unit");
    }
  }
  for (std::size_t sample = 0; sample < problem.lengths.size(); ++sample) {
    padded_lengths const own = problem.lengths[sample];
    if (!problem.fits(1, own)) {
      return fail(error_code::infeasible, sample, "sample ", sample, " of weight ",
                  problem.weight_of(own.source, own.target), " is above the cap of a batch, ",
                  problem.most_weight, "; split it, leave it out or raise the cap");
    }
  }
  return {};
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_PADDED_DETAIL_PADDED_PROBLEM_HPP
