// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

namespace ballast::inline v0 {

/// The two lengths of a sample that an encoder and a decoder pad, each to the longest of its batch;
/// a model that pads one length leaves `target` 0.
struct padded_lengths {
  tokens source = 0;
  tokens target = 0;

  /// What both are padded to in one batch.
  [[nodiscard]] constexpr padded_lengths with(padded_lengths other) const noexcept
  {
    return {std::max(source, other.source), std::max(target, other.target)};
  }

  friend constexpr bool operator==(padded_lengths, padded_lengths) = default;
};

/// What one sample costs that is padded to these two lengths: not negative, and no less where a
/// length is longer. A batch costs that times its number of samples.
///
///     [](tokens source, tokens target) { return 3 * source + 2 * target + source * target / 512; }
template <class F>
concept padded_cost = requires(F const& cost_of, tokens length) {
  { cost_of(length, length) } -> std::same_as<cost_units>;
};

}  // namespace ballast::inline v0
