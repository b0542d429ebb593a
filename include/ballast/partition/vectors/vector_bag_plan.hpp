// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_VECTORS_VECTOR_BAG_PLAN_HPP
#define BALLAST_PARTITION_VECTORS_VECTOR_BAG_PLAN_HPP

#include <ballast/core/detail/span_of.hpp>
#include <ballast/core/digest.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/jagged.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/partition/vectors/concepts.hpp>
#include <ballast/partition/vectors/detail/vector_words.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ballast::inline v0 {

/// Which bag of GPUs computes which samples, in D dimensions, and how good that is.
///
/// Shapes      owner[n], costs[n], loads[m], samples: m groups.
/// Units       costs and loads in the cost model's unit; makespan and bound in that unit per unit of
///             speed, where all GPUs are equally fast per GPU.
/// Ensures     (1) sample i belongs to bag owner[i], and to samples[owner[i]] only
///             (2) loads[b] is the sum of the costs of samples[b], dimension by dimension
///             (3) makespan is the largest load per speed of any bag in any dimension, exactly
///             (4) no plan that keeps the constraints has a makespan below lower_bound
///             (5) short_samples counts samples that leave GPUs of their bag without a token; 0 where
///                 the bags do not admit such
///             (6) moved is the share of all tokens whose sample leaves the bag that holds it; 0
///                 where the constraints give no home
template <std::size_t D>
struct vector_bag_plan {
  std::vector<bag_id> owner;
  std::vector<cost_vector<D>> costs;
  std::vector<cost_vector<D>> loads;
  jagged<bag_id, sample_id> samples;
  ratio makespan;
  ratio lower_bound;
  ratio moved;
  std::size_t short_samples = 0;
  std::uint64_t bags_digest = 0;  ///< of the bag_layout that the plan is for

  /// How far the plan can be from the best one: makespan / lower_bound - 1; 0 where there is no
  /// work.
  [[nodiscard]] double gap() const noexcept { return gap_above(makespan, lower_bound); }

  /// Whether no plan is better.
  [[nodiscard]] bool proven_optimal() const noexcept { return makespan == lower_bound; }

  /// One word that differs where any bag, owner, cost or load does: ranks compare it before they
  /// send.
  [[nodiscard]] std::uint64_t digest() const noexcept
  {
    ballast::digest words;
    words.add(bags_digest).add(detail::span_of(owner));
    detail::add_vectors<D>(words, detail::span_of(costs), detail::span_of(loads));
    return words.value();
  }
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_VECTORS_VECTOR_BAG_PLAN_HPP
