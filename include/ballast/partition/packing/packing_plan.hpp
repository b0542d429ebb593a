// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PACKING_PACKING_PLAN_HPP
#define BALLAST_PARTITION_PACKING_PACKING_PLAN_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/jagged.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ballast::inline v0 {

/// Which bin holds which samples, and how near that is to the fewest bins.
///
/// Shapes      owner[n], weights[n], loads[bins()], samples: bins() groups.
/// Ensures     (1) sample i lies in bin owner[i], and in samples[owner[i]] only
///             (2) loads[b] is the sum of the weights of samples[b], and not above capacity
///             (3) every bin holds a sample
///             (4) no packing has fewer than lower_bound bins
struct packing_plan {
  id_vector<sample_id, bag_id> owner;
  std::vector<std::int64_t> weights;
  std::vector<std::int64_t> loads;
  jagged<bag_id, sample_id> samples;
  std::int64_t capacity = 0;
  std::size_t lower_bound = 0;

  [[nodiscard]] std::size_t bins() const noexcept { return loads.size(); }

  /// Whether no packing has fewer bins.
  [[nodiscard]] bool proven_optimal() const noexcept { return bins() == lower_bound; }

  /// One word that differs where the capacity, any owner, weight or load does: ranks compare it
  /// before they send.
  [[nodiscard]] std::uint64_t digest() const noexcept
  {
    return ballast::digest{}
        .add(static_cast<std::uint64_t>(capacity))
        .add(detail::span_of(owner))
        .add(detail::span_of(weights))
        .add(detail::span_of(loads))
        .value();
  }
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_PACKING_PACKING_PLAN_HPP
