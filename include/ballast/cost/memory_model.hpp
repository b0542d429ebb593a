// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COST_MEMORY_MODEL_HPP
#define BALLAST_COST_MEMORY_MODEL_HPP

#include <ballast/core/config.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/uint128.hpp>

#include <cstdint>
#include <limits>

namespace ballast::inline v0 {

/// Memory of one GPU: weights, gradients and optimiser state, and activations per token it holds.
///
/// It turns a memory budget into a cap on tokens. Linear, because fused attention keeps no l x l
/// matrix; allocator rounding and communication buffers belong to the fixed part.
///
/// Units       bytes; tokens are those of all samples on the GPU together.
/// Complexity  O(1).
struct memory_model {
  std::uint64_t fixed_bytes = 0;
  std::uint64_t bytes_per_token = 0;

  /// Expects  held >= 0.
  /// Ensures  (1) fixed_bytes + bytes_per_token * held, or 2^64 - 1 where that does not fit
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr std::uint64_t bytes(tokens held) const
  {
    BALLAST_EXPECTS(held >= 0, "the memory of ", held, " tokens was asked for");
    constexpr std::uint64_t most = ~std::uint64_t{0};
    uint128 const exact =
        static_cast<uint128>(bytes_per_token) * static_cast<std::uint64_t>(held) + fixed_bytes;
    return exact < most ? static_cast<std::uint64_t>(exact) : most;
  }

  /// The most tokens that fit into a budget.
  ///
  /// Ensures  (2) exactly the token counts from 0 to the result need at most `budget_bytes`; where
  ///              more than 2^63 - 1 tokens would fit, 2^63 - 1
  /// Errors   infeasible, position 0: the fixed part alone exceeds the budget.
  [[nodiscard]] result<tokens> largest_tokens(std::uint64_t budget_bytes) const
  {
    if (fixed_bytes > budget_bytes) {
      return fail(error_code::infeasible, 0, "the model alone takes ", fixed_bytes, " of ",
                  budget_bytes, " bytes of memory; shard it further or use larger GPUs");
    }
    constexpr tokens most = std::numeric_limits<tokens>::max();
    if (bytes_per_token == 0) { return most; }
    std::uint64_t const fitting = (budget_bytes - fixed_bytes) / bytes_per_token;
    return fitting < static_cast<std::uint64_t>(most) ? static_cast<tokens>(fitting) : most;
  }

  friend bool operator==(memory_model const&, memory_model const&) = default;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_COST_MEMORY_MODEL_HPP
