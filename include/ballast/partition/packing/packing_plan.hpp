// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

namespace ballast::inline v0 {

/// How many bins a packing has, and how they are looked for.
struct bins {
  std::size_t least = 0;        ///< bins that there are at least
  std::size_t multiple_of = 1;  ///< bins: a number for each rank
  bool is_padded = false;       ///< a bin takes count x longest of the cap, not the sum
  std::uint64_t work = std::uint64_t{1} << 21;  ///< of the search: steps of a few nanoseconds

  /// The least number from `number` on that is allowed.
  [[nodiscard]] constexpr std::size_t allowed(std::size_t number) const noexcept
  {
    std::size_t const more = std::max(number, least) + multiple_of - 1;
    return more - more % multiple_of;
  }
};

/// Which bin holds which samples, how near that is to the fewest bins, and the largest of them to
/// the least one of as many bins.
///
/// Shapes      owner[n], weights[n], loads[bins()], samples: bins() groups.
/// Units       weights: what samples take of the first cap, rounded as that says, and lengths where
///             there is none. loads: what bins take of it, their sum or, padded, count x longest.
/// Ensures     (1) sample i lies in bin owner[i], and in samples[owner[i]] only
///             (2) no packing within the limits has fewer than lower_bound bins
///             (3) none into as many bins has a largest load below largest_bound
struct packing_plan {
  id_vector<sample_id, bag_id> owner;
  std::vector<std::int64_t> weights;
  std::vector<std::int64_t> loads;
  jagged<bag_id, sample_id> samples;
  std::vector<bag_id> empty;      ///< bins without a sample, where so many were asked for
  std::vector<bag_id> above_cap;  ///< bins of one sample that takes more than a soft cap
  std::int64_t most_per_gpu = 0;  ///< the first cap, of a bin; no_limit where there is none
  std::size_t lower_bound = 0;
  std::int64_t largest_bound = 0;

  [[nodiscard]] std::size_t bins() const noexcept { return loads.size(); }
  [[nodiscard]] std::int64_t largest() const noexcept
  {
    return loads.empty() ? 0 : *std::max_element(loads.begin(), loads.end());
  }

  /// Whether no packing has fewer bins.
  [[nodiscard]] bool proven_optimal() const noexcept { return bins() == lower_bound; }

  /// One word that differs where the cap, any owner, weight or load does: ranks compare it
  /// before they send.
  [[nodiscard]] std::uint64_t digest() const noexcept
  {
    return ballast::digest{}
        .add(static_cast<std::uint64_t>(most_per_gpu))
        .add(detail::span_of(owner))
        .add(detail::span_of(weights))
        .add(detail::span_of(loads))
        .value();
  }
};

}  // namespace ballast::inline v0
