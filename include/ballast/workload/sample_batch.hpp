// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_WORKLOAD_SAMPLE_BATCH_HPP
#define BALLAST_WORKLOAD_SAMPLE_BATCH_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>

#include <cstdint>
#include <vector>

namespace ballast::inline v0 {

/// The global batch of one training step, as the data loaders leave it: before balancing.
///
/// Sample i is the i-th in gathered order, all of rank 0's and then all of rank 1's, which is the
/// order that an all-gather of the ranks' lengths gives and that `sample_id` counts.
///
/// Shapes      lengths[n], source[n]; rows[n] or empty; n >= 0. A rank may have no sample.
/// Units       tokens; 0 is a valid length.
/// Ensures     (1) there are as many sources as lengths
///             (2) sources are in rank order
///             (3) lengths are in [0, longest_sample]; every function that fills a batch ensures it
struct sample_batch {
  std::vector<tokens> lengths = {};
  std::vector<rank_id> source = {};      ///< the GPU whose data loader read the sample
  std::vector<std::uint32_t> rows = {};  ///< which row of the trace it is; empty without a trace

  friend bool operator==(sample_batch const&, sample_batch const&) = default;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_WORKLOAD_SAMPLE_BATCH_HPP
