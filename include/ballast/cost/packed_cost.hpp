// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COST_PACKED_COST_HPP
#define BALLAST_COST_PACKED_COST_HPP

#include <ballast/core/config.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/uint128.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/cost/interpolated_throughput.hpp>
#include <ballast/cost/saturating_sum.hpp>

#include <cstdint>
#include <span>
#include <type_traits>

namespace ballast::inline v0 {

/// Latency of samples that are packed into one call: they pass the weights together and attention
/// one by one, so that many short samples use the weights as well as a long one does, but attention
/// no better than each alone.
///
/// A pack therefore has no sum of costs of its samples: a sample costs more alone than beside
/// others. For an encoder whose items attend to themselves alone, the lengths are numbers of items
/// and the quadratic coefficient is 0.
///
/// Units       picoseconds; `flops` counts the work whose throughput the tables hold: `linear` over
///             the total length of a pack, `attention` over the length of a sample.
/// Ensures     (1) weights(S): linear S / T_linear(S), rounded to nearest, halves up
///             (2) attention_of(l): quadratic l^2 / T_attention(l), rounded likewise
///             (3) of a pack: weights(sum of l) + the sum of attention_of(l); of one sample the
///                 same as `interpolated_cost`, of none 0
///             (4) no_cost where a length is negative, where the total is above longest_sample, or
///                 where a sum is not below no_cost
///             (5) the same bits on every compiler, flag and device
/// Complexity  O(samples * measurements), no allocation.
/// Source      H. An et al., arXiv:2603.25120, 2026.
struct packed_cost {
  interpolated_throughput linear;
  interpolated_throughput attention;
  flop_polynomial flops;

  /// The products with weights of a pack of `total` tokens.
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr cost_units weights(tokens total) const
  {
    if (total < 0 || total > longest_sample) { return no_cost; }
    return linear.picoseconds(
        static_cast<uint128>(flops.linear) * static_cast<std::uint64_t>(total), total);
  }

  /// The attention of one sample of a pack.
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr cost_units attention_of(tokens length) const
  {
    if (length < 0 || length > longest_sample) { return no_cost; }
    auto const l = static_cast<std::uint64_t>(length);
    std::uint64_t const squared = l * l;  // below 2^62
    return attention.picoseconds(static_cast<uint128>(flops.quadratic) * squared, length);
  }

  /// A whole pack. Kernels, which have no std::span, add up the parts above.
  [[nodiscard]] constexpr cost_units operator()(std::span<tokens const> pack) const
  {
    tokens total = 0;
    cost_units one_by_one = 0;
    for (tokens const length : pack) {
      one_by_one = saturating_sum(one_by_one, attention_of(length));
      // Also for a negative length or one that is too long, before they are added to the total.
      if (one_by_one == no_cost || length > longest_sample - total) { return no_cost; }
      total += length;
    }
    return saturating_sum(weights(total), one_by_one);
  }

  friend bool operator==(packed_cost const&, packed_cost const&) = default;
};

static_assert(std::is_trivially_copyable_v<packed_cost>);  // kernels take it by value

}  // namespace ballast::inline v0

#endif  // BALLAST_COST_PACKED_COST_HPP
