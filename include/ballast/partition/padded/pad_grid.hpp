// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/padded/detail/plan_padded.hpp>
#include <ballast/partition/placement_limits.hpp>

namespace ballast::inline v0 {

/// What a step of padded batches is planned for.
struct padded_grid_options {
  std::size_t ranks = 1;
  std::size_t microbatches = 1;         ///< of each rank, one padded batch each
  std::int64_t most_weight = no_limit;  ///< of a batch
  std::uint64_t work_per_sample = 400;  ///< changes of the plan to look at, for each sample
};

/// Which rank computes which samples in which of its padded batches. The makespan is the largest sum
/// of a rank's batches.
///
/// Shapes      owner[n]; loads[cells], longest[cells], samples: a row for each cell, that of a rank
///             and slot being slot x ranks + rank.
/// Ensures     (1) sample i is computed in cell owner[i], and in samples[owner[i]] only
///             (2) longest has the longest source and target of each cell, and loads its number of
///                 samples times the cost of one with these lengths
///             (3) no plan that keeps to the options has a makespan below lower_bound
struct padded_grid_plan : certified<cost_units> {
  std::size_t ranks = 0;
  std::size_t microbatches = 0;
  id_vector<sample_id, cell_id> owner;
  std::vector<cost_units> loads;
  std::vector<padded_lengths> longest;
  jagged<cell_id, sample_id> samples;

  /// The samples that a rank computes in a slot.
  [[nodiscard]] std::span<sample_id const> microbatch(rank_id rank, std::size_t slot) const
  {
    BALLAST_EXPECTS(to_index(rank) < ranks && slot < microbatches, "rank ", to_index(rank),
                    " and slot ", slot, " of ", detail::counted(ranks, "rank"), " with ",
                    detail::counted(microbatches, "slot"));
    return samples[to_id<cell_id>(slot * ranks + to_index(rank))];
  }

  /// One word that differs where the shape, any cell or load does: ranks compare it before they
  /// send.
  [[nodiscard]] std::uint64_t digest() const noexcept
  {
    return ballast::digest{}
        .add(static_cast<std::uint64_t>(ranks))
        .add(static_cast<std::uint64_t>(microbatches))
        .add(detail::span_of(owner))
        .add(detail::span_of(loads))
        .value();
  }
};

/// Splits a step into padded batches, `microbatches` for each rank, so that the rank with the most
/// work has least: for encoders and decoders that pad two lengths, and for padded cells of one.
///
///     pad_grid(sentences, {.ranks = 8, .microbatches = 4}, cost)
///
/// The samples are put in orders, by cost and in strips by one length and then the other; batches
/// are runs of an order, as even as bisection makes them. Of the best of these plans samples are
/// then moved and swapped at random, with a fixed seed. Steps of up to 16 samples are searched
/// whole, as far as 200,000 cells go.
///
/// Expects     cost_of and weight_of (without it, the cost) are no less where a length is longer.
/// Ensures     (1) those of padded_grid_plan
///             (2) no batch weighs more than the cap: its number of samples times the weight of one
///                 with the longest source and target
///             (3) the bound is the mean of the least sum that so many batches have, or the least
///                 largest batch, of samples of one length, the cost of each alone; or the mean of
///                 a sum that sees both lengths, `detail::two_length_sum`; or the makespan, where
///                 all plans were searched
///             (4) with one length and one batch a rank the plan is an optimum, and proven, unless a
///                 cap is set that is not a cap of the cost
///             (5) the plan depends on nothing but the arguments, so every rank finds the same one
/// Errors      infeasible: sample `position` is above the cap by itself; or no plan within the cap
///             exists or was found, and the sentence says which. out_of_range: sample `position` has
///             a length below 0 or above longest_sample, there are 0 ranks or microbatches, or costs
///             or weights are negative or too large.
/// Complexity  O(n log n log C) for each of at most 21 orders and for the bound, where C is what all
///             samples cost in one batch; work_per_sample x n changes; and 2^24 looks at most for the
///             bound that sees both lengths.
/// Source      the search is late acceptance: E. K. Burke, Y. Bykov, European Journal of Operational
///             Research 258(1), 2017; orders and bound are ours.
template <padded_cost CostOf, padded_cost WeightOf>
[[nodiscard]] result<padded_grid_plan> pad_grid(std::span<padded_lengths const> lengths,
                                                padded_grid_options const& options,
                                                CostOf const& cost_of, WeightOf const& weight_of)
{
  detail::padded_problem<CostOf, WeightOf> const problem{
      lengths, options.ranks, options.microbatches, options.most_weight, cost_of, weight_of};
  if (auto checked = detail::check_padded(problem); !checked) {
    return tl::unexpected(checked.error());
  }
  detail::found_padded found = detail::plan_padded_within(problem, options.work_per_sample);
  if (found.makespan == no_cost) {
    bool const proven = found.lower_bound == no_cost;
    return fail(error_code::infeasible, 0, "no plan of ", detail::counted(lengths.size(), "sample"),
                " in ", options.ranks, " x ", detail::counted(options.microbatches, "padded batch"),
                " within a cap of ", options.most_weight, " each ",
                proven ? "exists" : "was found in a search that gave up",
                "; use more microbatches or raise the cap");
  }
  padded_grid_plan plan;
  plan.makespan = found.makespan;
  plan.lower_bound = found.lower_bound;
  plan.ranks = options.ranks;
  plan.microbatches = options.microbatches;
  plan.owner = std::move(found.owner);
  plan.samples.collect(detail::span_of(plan.owner), problem.cells());
  for (auto const batch : plan.samples) {
    padded_lengths longest;
    for (sample_id const sample : batch) { longest = longest.with(lengths[to_index(sample)]); }
    plan.longest.push_back(longest);
    plan.loads.push_back(problem.cost(batch.size(), longest));
  }
  return plan;
}

/// The same, with costs as weights.
template <padded_cost CostOf>
[[nodiscard]] result<padded_grid_plan> pad_grid(std::span<padded_lengths const> lengths,
                                                padded_grid_options const& options,
                                                CostOf const& cost_of)
{
  return ballast::pad_grid(lengths, options, cost_of, cost_of);
}

}  // namespace ballast::inline v0
