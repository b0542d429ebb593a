// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_EXPERT_PLACEMENT_HPP
#define BALLAST_PARALLELISM_EXPERT_PLACEMENT_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/jagged.hpp>

#include <cstddef>
#include <cstdint>

namespace ballast::inline v0 {

/// Position of an expert in a layer of a mixture of experts.
enum class expert_id : std::uint32_t {};

/// On which GPUs the replicas of experts lie; makespan is the largest load of a GPU.
///
/// Shapes      experts: a row for each GPU, gpus: a row for each expert; both in ascending order.
/// Units       makespan and lower_bound: that of the loads, as fractions.
/// Ensures     (1) every expert has a replica, and no GPU two of one expert
///             (2) makespan is the largest sum over a GPU of load / replicas, exact where numerator
///                 and denominator are below 2^63, and else rounded up
struct expert_placement : certified<ratio> {
  jagged<rank_id, expert_id> experts;
  jagged<expert_id, rank_id> gpus;
  std::size_t kept = 0;  ///< replicas that were on their GPU before

  /// One word that differs where any place does.
  [[nodiscard]] std::uint64_t digest() const noexcept
  {
    return ballast::digest{}.add(experts.offsets()).add(experts.values()).value();
  }
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PARALLELISM_EXPERT_PLACEMENT_HPP
