// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_VECTORS_VECTOR_PLAN_HPP
#define BALLAST_PARTITION_VECTORS_VECTOR_PLAN_HPP

#include <ballast/core/detail/span_of.hpp>
#include <ballast/core/digest.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/jagged.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/partition/bin_id.hpp>
#include <ballast/partition/vectors/concepts.hpp>
#include <ballast/partition/vectors/detail/vector_words.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ballast::inline v0 {

/// Which bin computes which samples, in D dimensions, and how good that is.
///
/// Shapes      owner[n], costs[n], loads[m], samples: m groups.
/// Ensures     (1) sample i belongs to bin owner[i], and to samples[owner[i]] only
///             (2) loads[b] is the sum of the costs of samples[b], dimension by dimension
///             (3) makespan is the largest load of any bin in any dimension
///             (4) no plan that keeps the constraints has a makespan below lower_bound
template <std::size_t D>
struct vector_plan {
  std::vector<bin_id> owner;
  std::vector<cost_vector<D>> costs;
  std::vector<cost_vector<D>> loads;
  jagged<bin_id, sample_id> samples;
  cost_units makespan = 0;
  cost_units lower_bound = 0;

  /// How far the plan can be from the best one: makespan / lower_bound - 1; 0 where there is no
  /// work.
  [[nodiscard]] double gap() const noexcept
  {
    return gap_above(ratio{makespan}, ratio{lower_bound});
  }

  /// Whether no plan is better.
  [[nodiscard]] bool proven_optimal() const noexcept { return makespan == lower_bound; }

  /// One word that differs where any owner, cost or load does: ranks compare it before they send.
  [[nodiscard]] std::uint64_t digest() const noexcept
  {
    ballast::digest words;
    words.add(detail::span_of(owner));
    detail::add_vectors<D>(words, detail::span_of(costs), detail::span_of(loads));
    return words.value();
  }
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_VECTORS_VECTOR_PLAN_HPP
