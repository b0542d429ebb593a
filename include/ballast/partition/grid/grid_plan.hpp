// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/placement_limits.hpp>

namespace ballast::inline v0 {

/// How often ranks wait for each other, and so how long a step takes: once, after the largest sum
/// over the slots of a rank, where gradients are added up in the end; or in every slot, after the
/// largest cell of each, where parameters or experts are sharded.
enum class grid_meeting : std::uint8_t { step, microbatch };

/// How many samples a cell may hold.
struct cell_counts {
  enum class rule : std::uint8_t { any, at_most, equal, multiple_of };

  rule kind = rule::any;
  std::uint32_t number = 0;

  [[nodiscard]] static constexpr cell_counts at_most(std::uint32_t samples) noexcept
  {
    return {rule::at_most, samples};
  }
  /// All the same, or differing by one where the samples of a kind are no multiple of its cells.
  [[nodiscard]] static constexpr cell_counts equal() noexcept { return {rule::equal, 0}; }
  /// 0 is a multiple too.
  [[nodiscard]] static constexpr cell_counts multiple_of(std::uint32_t samples) noexcept
  {
    return {rule::multiple_of, samples};
  }

  friend constexpr bool operator==(cell_counts, cell_counts) = default;
};

/// What the microbatches of a step have to keep to: all of it optional.
///
///     partition_grid(lengths, 64, {.most_weight = 16'384, .weight_multiple = 2 * cp}, refine_grid{},
///                    cost)
///
/// Shapes      most_weights is empty or has one entry per rank; together, home and kinds are empty
///             or have one per sample.
struct grid_options {
  /// Of every rank; nothing: the least number that the policy finds, or 1 where nothing limits a
  /// cell.
  std::optional<std::size_t> microbatches = std::nullopt;
  /// A number that is found is a multiple of this, as a pipeline's stages.
  std::size_t multiple_of = 1;
  /// No cell weighs more: what memory holds.
  std::int64_t most_weight = no_limit;
  /// The same by rank, instead.
  std::span<std::int64_t const> most_weights = {};
  /// The weight of each sample is rounded up to a multiple of this, as trainers pad it.
  std::int64_t weight_multiple = 1;
  cell_counts counts = {};
  grid_meeting meet = grid_meeting::step;
  /// Whether each cell needs a sample; otherwise a trainer runs a dummy where there is none.
  bool fill_cells = false;
  /// Samples with the same key stay in one cell.
  sample_keys together = {};
  /// The rank that holds each sample now: of plans that are equally good, one that moves little.
  std::span<rank_id const> home = {};
  /// All samples of a slot have one key, so that no rank waits in a collective of an encoder that
  /// others do not run.
  sample_keys kinds = {};
};

/// Which rank computes which samples in which of its microbatches, and how good that is.
///
/// Shapes      owner[n], costs[n], weights[n]; loads[cells], filled[cells], samples: a row for each
///             cell; kinds[microbatches], or empty where the samples have none.
/// Units       costs, loads, makespan and bound in the cost model's; weights and filled in tokens
///             or what the caller counts.
/// Ensures     (1) sample i is computed in cell owner[i], and in samples[owner[i]] only
///             (2) loads and filled are the sums of costs and of weights, rounded up, of the
///                 samples of each cell
///             (3) makespan: the largest sum over the slots of a rank, or the sum over the slots
///                 of their largest cells, as `meet` says
///             (4) no plan that keeps to the options has a makespan below lower_bound, with any
///                 number of microbatches or, where each cell needs a sample, with as many
///             (5) no plan that keeps to the options has fewer than fewest_microbatches, and, with
///                 what decided left out of the options, none has fewer than decided.without
///             (6) moved is the share of all weight whose sample leaves its home; 0 without homes
struct grid_plan : certified<cost_units> {
  /// What the number of microbatches comes from.
  struct decision {
    enum class reason : std::uint8_t {
      nothing,   ///< asks for a second one
      given,     ///< the number itself
      cap,       ///< what cells hold
      kinds,     ///< a slot has samples of one
      counts,    ///< of samples in cells
      sample,    ///< counts, by one sample, beside which few others fit
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
  ratio moved;

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

/// What the cells of a slot hold: samples of one kind, from `least` to `most` of them and a
/// multiple of `step`.
struct grid_slot {
  std::uint32_t kind = 0;
  std::uint32_t least = 0;
  std::uint32_t most = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t step = 1;

  [[nodiscard]] constexpr bool takes(std::uint32_t samples) const noexcept
  {
    return samples >= least && samples <= most && samples % step == 0;
  }
  /// Whether a cell can be filled one sample at a time, and left whenever it is.
  [[nodiscard]] constexpr bool grows() const noexcept { return least == 0 && step == 1; }

  friend constexpr bool operator==(grid_slot, grid_slot) = default;
};

/// The input of every grid policy: n items (samples, or samples that stay together) for the cells
/// of a grid of ranks and slots.
///
/// `partition_grid()` builds it and checks what is expected here.
///
/// Shapes      costs[n], weights[n], counts[n], kinds[n], heaviest_first[n]; most_weights[ranks];
///             slots[microbatches].
/// Expects     (a) costs and weights are not negative and add up to less than 2^63
///             (b) heaviest_first is the `descending_order_into` of the costs
///             (c) ranks and microbatches are at least 1 and cells fewer than 2^32
///             (d) every kind has a slot, and slots of one kind are next to each other
struct grid_problem {
  std::span<cost_units const> costs;
  std::span<std::int64_t const> weights;
  std::span<std::uint32_t const> counts;  ///< samples of each item
  std::span<std::uint32_t const> kinds;
  std::span<priced_sample const> heaviest_first;
  std::span<std::int64_t const> most_weights;
  std::span<grid_slot const> slots;
  grid_meeting meet = grid_meeting::step;

  [[nodiscard]] constexpr std::size_t ranks() const noexcept { return most_weights.size(); }
  [[nodiscard]] constexpr std::size_t cells() const noexcept { return ranks() * slots.size(); }
};

/// Decides which cell each item is computed in.
///
/// In, out     owner[n] enters unspecified and leaves with one cell per item, each of a slot of the
///             item's kind, no cell above the weight of its rank, and counts that slots take.
///             memory is scratch that the policy gives back.
/// Returns     whether it found such a plan; otherwise owner is unspecified.
/// A policy is a value, usually without state, with its parameters as public members.
template <class P>
concept grid_policy = requires(P const policy, grid_problem const& problem,
                               std::span<cell_id> owner, workspace& memory) {
  { policy(problem, owner, memory) } -> std::same_as<bool>;
};

}  // namespace ballast::inline v0
