// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DATA_DATA_BATCH_HPP
#define BALLAST_RUNTIME_DATA_DATA_BATCH_HPP

#include <ballast/runtime/data/data_step.hpp>

#include <cstddef>
#include <memory>
#include <vector>

namespace ballast::inline v0 {

/// A sample that a rank computes: which entry of the step it is, and its payload.
struct own_sample {
  std::size_t entry = 0;
  std::vector<std::byte> bytes = {};
};

/// What a rank has of a step: all of its metadata, and the payloads that the plan gives this rank,
/// in the order of the step's entries.
struct data_batch {
  std::shared_ptr<data_step const> step;
  std::vector<own_sample> own;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_DATA_DATA_BATCH_HPP
