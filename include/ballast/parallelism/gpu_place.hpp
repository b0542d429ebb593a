// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_GPU_PLACE_HPP
#define BALLAST_PARALLELISM_GPU_PLACE_HPP

#include <ballast/core/config.hpp>

#include <cstdint>

namespace ballast::inline v0 {

/// What one GPU of a layout computes: a tp-th of a stage of one replica of a module.
struct gpu_place {
  std::uint32_t module = 0;
  std::uint32_t replica = 0;
  std::uint32_t stage = 0;
  std::uint32_t tensor_rank = 0;  ///< of the GPUs that share the stage

  friend bool operator==(gpu_place const&, gpu_place const&) = default;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PARALLELISM_GPU_PLACE_HPP
