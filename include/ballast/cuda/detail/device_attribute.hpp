// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CUDA_DETAIL_DEVICE_ATTRIBUTE_HPP
#define BALLAST_CUDA_DETAIL_DEVICE_ATTRIBUTE_HPP

#include <ballast/core/contract.hpp>

#include <cuda_runtime_api.h>

namespace ballast::inline v0::detail {

/// Reads an attribute of the current device. CUDA has it on the host, so this works in a capture
/// too.
[[nodiscard]] inline cudaError_t device_attribute(int& value, cudaDeviceAttr attribute)
{
  int device = 0;
  if (auto const error = cudaGetDevice(&device); error != cudaSuccess) { return error; }
  return cudaDeviceGetAttribute(&value, attribute, device);
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_CUDA_DETAIL_DEVICE_ATTRIBUTE_HPP
