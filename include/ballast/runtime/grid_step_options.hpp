// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_GRID_STEP_OPTIONS_HPP
#define BALLAST_RUNTIME_GRID_STEP_OPTIONS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/partition/grid/grid_plan.hpp>
#include <ballast/partition/padded/padded_lengths.hpp>
#include <ballast/runtime/step_options.hpp>

#include <cstddef>
#include <cstdint>

namespace ballast::inline v0 {

/// What a job that accumulates gradients says of its steps, once: the same on every rank.
///
///     grid_step_options<document>{.grid = {.most_weight = 16'384, .weight_multiple = 2 * cp},
///                                 .length_of = [](document const& d) { return d.length(); },
///                                 .loss_tokens_of = [](document const& d) { return d.answer; }}
///
/// The functions are pure, and null where there is nothing to say.
template <class Sample = tokens>
struct grid_step_options {
  /// Caps, counts and the rest, for cells of bags: where bags have several GPUs, a cap is that of a
  /// whole bag. The arrays by sample are filled from the functions below.
  grid_options grid = {};
  /// How many tokens a bag splits; a sample that is a number is its own length.
  tokens (*length_of)(Sample const&) = detail::own_length<Sample>();
  /// What counts against the cap; null: the length.
  std::int64_t (*weight_of)(Sample const&) = nullptr;
  /// Where cells are padded batches, the lengths that they pad; null: the length, of the source.
  padded_lengths (*padded_lengths_of)(Sample const&) = nullptr;
  /// How many of its tokens have a loss, as those of an answer; null: all.
  tokens (*loss_tokens_of)(Sample const&) = nullptr;
  /// Samples with the same key stay in one cell, as the answers to one prompt.
  std::int64_t (*together)(Sample const&) = nullptr;
  /// All samples of a slot have one key.
  std::int64_t (*kind_of)(Sample const&) = nullptr;
  /// Whether, of plans that are equally good, one that moves little is taken.
  bool homes = false;
  /// Query heads of the model, for to_heads and to_tokens; 0: they are not called.
  std::uint32_t query_heads = 0;
  /// Key-value heads of the model, if groups of its attention stay whole (head_split); 0: not.
  std::uint32_t kv_heads = 0;
  /// GPUs of each rank, where ranks are processes that have several: bags are laid out over the
  /// GPUs, rank 0's first. More than 1 takes no homes, since a rank is home to all bags on its
  /// GPUs.
  std::uint32_t gpus_per_rank = 1;
  /// The most samples that a rank reads in a step.
  std::size_t most_samples = 256;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_GRID_STEP_OPTIONS_HPP
