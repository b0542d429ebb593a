// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CUDA_COPY_TUNING_HPP
#define BALLAST_CUDA_COPY_TUNING_HPP

#include <ballast/core/contract.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0 {

/// What copies fastest on devices from a compute capability on, when copies have from so many bytes
/// on in the mean: a row of a table that is measured.
struct copy_tuning {
  int capability = 0;  ///< 10 times its major number and its minor one: an H100 has 90
  std::size_t mean_bytes = 0;
  bool by_cub = false;  ///< where a list's copies are contiguous; the others are tiled
  std::uint32_t tile_bytes = 4096;
  std::uint32_t blocks_per_multiprocessor = 4;
};

/// What bench/gpu/copy_bench prints is what rows are made of. There is one until a device gives
/// reason for another.
inline constexpr copy_tuning measured_copies[] = {copy_tuning{}};

/// The last row that holds for a device and a mean.
///
/// Expects     rows ascend by capability, those of one by mean_bytes; the first of each capability
///             is for a mean of 0, and the first of all for capability 0.
[[nodiscard]] constexpr copy_tuning tuning_of(std::span<copy_tuning const> table, int capability,
                                              std::size_t mean_bytes)
{
  BALLAST_EXPECTS(!table.empty() && capability >= 0);
  copy_tuning found = table.front();
  for (copy_tuning const& row : table) {
    if (row.capability <= capability && row.mean_bytes <= mean_bytes) { found = row; }
  }
  return found;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_CUDA_COPY_TUNING_HPP
