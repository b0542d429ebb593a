// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PUBLISHED_BATCHING_STRATEGY_HPP
#define BALLAST_PARTITION_PUBLISHED_BATCHING_STRATEGY_HPP

#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/padded_batches.hpp>
#include <ballast/partition/published/conv_transformer_batches.hpp>
#include <ballast/partition/published/quadratic_with_tolerance.hpp>

#include <cstdint>

namespace ballast::inline v0 {

/// How a phase of a multimodal model (an encoder, the language model) makes a batch of its samples:
/// it decides what the time of the phase depends on.
enum class batching_strategy : std::uint8_t {
  no_padding,  ///< samples end to end: time grows with the sum of lengths
  padding,     ///< all as long as the longest: with count x longest
  quadratic,   ///< end to end, with costly attention: with the sums of lengths and of their squares
  /// End to end but for attention, which pads: with the sum of lengths + lambda count x longest^2.
  conv_transformer,
};

namespace detail {

template <batching_strategy Strategy>
struct published_policy;

template <>
struct published_policy<batching_strategy::no_padding> {
  using type = longest_processing_time;
};
template <>
struct published_policy<batching_strategy::padding> {
  using type = padded_batches;
};
template <>
struct published_policy<batching_strategy::quadratic> {
  using type = quadratic_with_tolerance;
};
template <>
struct published_policy<batching_strategy::conv_transformer> {
  using type = conv_transformer_batches;
};

}  // namespace detail

/// The policy that OrchMLLM selects for a phase with this batching strategy: its Algorithms 1, 2, 4
/// and 5. For example, `policy_for<batching_strategy::padding>{}`.
///
/// Source      B. Xiao, Y. Zheng et al., "OrchMLLM: Orchestrate Multimodal Data with Batch
///             Post-Balancing to Accelerate Multimodal Large Language Model Training", arXiv
///             2503.23830, 2025.
template <batching_strategy Strategy>
using policy_for = typename detail::published_policy<Strategy>::type;

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_PUBLISHED_BATCHING_STRATEGY_HPP
