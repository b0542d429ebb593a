// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COST_INTERPOLATED_COST_HPP
#define BALLAST_COST_INTERPOLATED_COST_HPP

#include <ballast/core/config.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/uint128.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/cost/interpolated_throughput.hpp>
#include <ballast/cost/saturating_sum.hpp>

#include <cstdint>
#include <type_traits>

namespace ballast::inline v0 {

/// Latency from measured throughput: attention and the products with weights each have their own,
/// because their speeds grow differently with length.
///
/// Unlike a quadratic cost it need not grow with the length: where measured throughput rises faster
/// than the work, the longer sample costs less.
///
/// Units       picoseconds; `flops` counts the work whose throughput the tables hold.
/// Ensures     (1) linear l / T_linear(l) + quadratic l^2 / T_attention(l), each rounded to nearest
///             (2) no_cost where l < 0 or l > longest_sample, or where (1) is not below no_cost
///             (3) the same bits on every compiler, flag and device
/// Complexity  O(measurements), no allocation.
/// Source      H. An et al., arXiv:2603.25120, 2026.
struct interpolated_cost {
  interpolated_throughput linear;
  interpolated_throughput attention;
  flop_polynomial flops;

  [[nodiscard]] BALLAST_HOST_DEVICE constexpr cost_units operator()(tokens length) const
  {
    if (length < 0 || length > longest_sample) { return no_cost; }
    auto const l = static_cast<std::uint64_t>(length);
    std::uint64_t const squared = l * l;  // below 2^62
    return saturating_sum(
        linear.picoseconds(static_cast<uint128>(flops.linear) * l, length),
        attention.picoseconds(static_cast<uint128>(flops.quadratic) * squared, length));
  }

  friend bool operator==(interpolated_cost const&, interpolated_cost const&) = default;
};

static_assert(std::is_trivially_copyable_v<interpolated_cost>);  // kernels take it by value

}  // namespace ballast::inline v0

#endif  // BALLAST_COST_INTERPOLATED_COST_HPP
