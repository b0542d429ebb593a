// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/placement_limits.hpp>

namespace ballast::inline v0 {

/// How often bags wait for each other, and so how long a step takes: once, after the largest sum
/// over the slots of a bag, where gradients are added up in the end; or in every slot, after the
/// largest cell of each, where parameters or experts are sharded.
enum class grid_meeting : std::uint8_t { step, microbatch };

/// The microbatches that every bag computes in a step, one after the other.
///
///     partition_grid(lengths, one_gpu_bags(64), {.multiple_of = 4}, cost, {.most_per_gpu = 16'384})
///
/// Shapes      kinds is empty or has one entry per sample.
struct microbatches {
  /// Of every bag; nothing: the least number that is found, or 1 where nothing limits a cell.
  std::optional<std::size_t> number = std::nullopt;
  /// A number that is found is a multiple of this, as a pipeline's stages.
  std::size_t multiple_of = 1;
  grid_meeting meet = grid_meeting::step;
  /// All samples of a slot have one key, so that no rank waits in a collective of an encoder that
  /// others do not run.
  sample_keys kinds = {};
  /// How much a search may do, of small grids and of limits that the greedy grid does not know.
  std::uint64_t work = 2'000'000;
};

/// Which bag computes which samples in which of its microbatches, and how good that is. A rank of
/// the grid is a bag.
///
/// Shapes      owner[n], costs[n], weights[n]; loads[cells], filled[cells], samples: a row for each
///             cell; kinds[microbatches], or empty where the samples have none.
/// Units       costs and loads in the cost model's; makespan and bound in that per unit of speed;
///             weights and filled in what the first cap counts, or in tokens.
/// Ensures     (1) sample i is computed in cell owner[i], and in samples[owner[i]] only
///             (2) loads and filled are the sums of costs and of what the first cap counts, or of
///                 lengths, of the samples of each cell
///             (3) makespan: the largest sum per speed over the slots of a rank, or the sum over the
///                 slots of their largest cells per speed, as `meet` says; starting loads belong to
///                 the first slot
///             (4) no plan within the limits has a makespan below lower_bound, with as many
///                 microbatches
///             (5) no plan within the limits has fewer than fewest_microbatches, and, with what
///                 decided left out, none has fewer than decided.without
///             (6) moved is the share of all tokens whose sample leaves its home; 0 without homes
///             (7) above_cap lists the cells that hold more than a soft cap
///             (8) then_is_proven: no plan that is as short, with as many microbatches, is better by
///                 limits.then
struct grid_plan : certified<ratio> {
  /// What the number of microbatches comes from.
  struct decision {
    enum class reason : std::uint8_t {
      nothing,   ///< asks for a second one
      given,     ///< the number itself
      cap,       ///< what cells hold
      kinds,     ///< a slot has samples of one
      counts,    ///< of samples in cells
      sample,    ///< counts, by one sample, beside which few others fit
      apart,     ///< of samples that share no cell
      multiple,  ///< the number has to be one
      search     ///< no plan with fewer was found
    };
    reason by = reason::nothing;
    sample_id sample{};  ///< for that reason
    std::size_t without = 0;
  };

  std::size_t ranks = 0;
  std::size_t microbatches = 0;  ///< of every rank
  std::size_t fewest_microbatches = 0;
  decision decided;
  grid_meeting meet = grid_meeting::step;
  id_vector<sample_id, cell_id> owner;
  std::vector<cost_units> costs;
  std::vector<std::int64_t> weights;
  std::vector<cost_units> loads;
  std::vector<std::int64_t> filled;
  jagged<cell_id, sample_id> samples;
  std::vector<std::int64_t> kinds;  ///< of each slot, as the samples' keys
  std::vector<cell_id> above_cap;
  std::vector<padded_lengths> longest;  ///< of each cell, where cells are padded batches
  ratio moved;
  bool then_is_proven = false;

  [[nodiscard]] cell_id cell(rank_id rank, std::size_t slot) const
  {
    BALLAST_EXPECTS(to_index(rank) < ranks && slot < microbatches, "rank ", to_index(rank),
                    " and slot ", slot, " of ", detail::counted(ranks, "rank"), " with ",
                    detail::counted(microbatches, "slot"));
    return to_id<cell_id>(slot * ranks + to_index(rank));
  }
  /// The samples that a rank computes in a slot; none where it runs a dummy.
  [[nodiscard]] std::span<sample_id const> microbatch(rank_id rank, std::size_t slot) const
  {
    return samples[cell(rank, slot)];
  }
  [[nodiscard]] cost_units load(rank_id rank, std::size_t slot) const
  {
    return loads[to_index(cell(rank, slot))];
  }
  [[nodiscard]] std::int64_t weight(rank_id rank, std::size_t slot) const
  {
    return filled[to_index(cell(rank, slot))];
  }
  [[nodiscard]] bool is_empty(rank_id rank, std::size_t slot) const
  {
    return microbatch(rank, slot).empty();
  }
  /// The slots up to the last that any rank has a sample in: a loop leaves out those after it.
  [[nodiscard]] std::size_t used_microbatches() const
  {
    std::size_t cells = samples.size();
    while (cells > 0 && samples[to_id<cell_id>(cells - 1)].empty()) { --cells; }
    return (cells + ranks - 1) / std::max<std::size_t>(ranks, 1);
  }
  [[nodiscard]] std::size_t empty_cells() const
  {
    std::size_t empty = 0;
    for (auto const row : samples) { empty += row.empty() ? 1U : 0U; }
    return empty;
  }

  /// Why there are so many microbatches, in a sentence.
  [[nodiscard]] std::string why() const
  {
    auto const needed =
        detail::concat("at least ", detail::counted(fewest_microbatches, "microbatch"),
                       fewest_microbatches == 1 ? " is" : " are", " needed");
    auto const decide = [&](std::string_view what, std::string_view by = "") {
      return detail::concat(what, " decide", by, ": ", needed, ", and without ", what, " at least ",
                            decided.without);
    };
    switch (decided.by) {
      case decision::reason::nothing: return "nothing asks for a second microbatch";
      case decision::reason::given: return detail::concat("the number was given; ", needed);
      case decision::reason::cap: return detail::concat("the cap decides: ", needed);
      case decision::reason::kinds: return decide("kinds");
      case decision::reason::counts: return decide("counts");
      case decision::reason::sample:
        return decide("counts", detail::concat(", by sample ", to_index(decided.sample),
                                               " of weight ", weights[to_index(decided.sample)],
                                               ", beside which few others fit"));
      case decision::reason::apart: return decide("samples that are apart");
      case decision::reason::multiple:
        return detail::concat("the multiple decides: ", needed, ", and ", microbatches,
                              " is the next multiple");
      case decision::reason::search: break;
    }
    return detail::concat("the search decides: it found no plan with fewer, and ", needed);
  }

  /// One word that differs where the shape, any cell, cost or weight does: ranks compare it before
  /// they send.
  [[nodiscard]] std::uint64_t digest() const noexcept
  {
    return ballast::digest{}
        .add(static_cast<std::uint64_t>(ranks))
        .add(static_cast<std::uint64_t>(microbatches))
        .add(detail::span_of(owner))
        .add(detail::span_of(costs))
        .add(detail::span_of(weights))
        .add(detail::span_of(kinds))
        .value();
  }
};

}  // namespace ballast::inline v0
