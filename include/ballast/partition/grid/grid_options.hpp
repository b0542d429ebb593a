// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_GRID_GRID_OPTIONS_HPP
#define BALLAST_PARTITION_GRID_GRID_OPTIONS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/partition/partition_constraints.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

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
  std::int64_t most_weight = partition_constraints::no_limit;
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

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_GRID_GRID_OPTIONS_HPP
