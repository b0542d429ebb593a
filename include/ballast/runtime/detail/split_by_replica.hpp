// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_SPLIT_BY_REPLICA_HPP
#define BALLAST_RUNTIME_DETAIL_SPLIT_BY_REPLICA_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/partition_constraints.hpp>
#include <ballast/partition/partition_plan.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace ballast::inline v0::detail {

/// Splits samples into what each replica holds of each microbatch, then puts as many of these parts
/// together to a microbatch as there are replicas. It finds room where microbatches made first
/// have enough for all replicas together, but not for each.
template <std::size_t D>
class split_by_replica {
 public:
  split_by_replica(bag_layout const& microbatches, std::size_t replicas)
      : microbatches_(microbatches),
        all_parts_(one_gpu_bags(microbatches.size() * replicas)),
        ones_(all_parts_.size(), 1)
  {}

  /// Shapes      plan.owner and replica_of are of the samples; `limit` is that of one replica.
  /// Ensures     the plan has the owners, loads, samples and makespan of the microbatches; its bound
  ///             is the larger of what it was and a new one
  /// Errors      those of partition.
  template <class Sample, class Cost>
  [[nodiscard]] result<void> operator()(cost_vector_plan<D>& plan,
                                        std::span<std::size_t> replica_of, workspace& memory,
                                        std::span<Sample const> samples, Cost const& cost_of,
                                        partition_constraints const& limit)
  {
    auto const replicas = static_cast<std::int64_t>(all_parts_.size() / microbatches_.size());
    auto done =
        partition_into(parts_, memory, samples, all_parts_, refine{}, cost_of, no_length{}, limit);
    if (!done) { return done; }
    done = partition_into(together_, memory, parts_.loads, microbatches_, refine{}, std::identity{},
                          no_length{}, {.most_per_gpu = replicas, .weights = span_of(ones_)});
    if (!done) { return done; }
    for (std::size_t microbatch = 0; microbatch < microbatches_.size(); ++microbatch) {
      auto const parts = together_.samples[to_id<bag_id>(microbatch)];
      for (std::size_t replica = 0; replica < parts.size(); ++replica) {
        for (sample_id const sample : parts_.samples[to_id<bag_id>(to_index(parts[replica]))]) {
          plan.owner[sample] = to_id<bag_id>(microbatch);
          replica_of[to_index(sample)] = replica;
        }
      }
    }
    plan.loads = together_.loads;
    plan.samples.collect(span_of(plan.owner), microbatches_.size());
    plan.makespan = together_.makespan;
    plan.lower_bound = std::max(plan.lower_bound, parts_.lower_bound);
    return {};
  }

 private:
  bag_layout microbatches_;
  bag_layout all_parts_;  // what a replica holds of a microbatch is a bag
  std::vector<std::int64_t> ones_;
  cost_vector_plan<D> parts_;     // samples to parts
  cost_vector_plan<D> together_;  // parts to microbatches
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_SPLIT_BY_REPLICA_HPP
