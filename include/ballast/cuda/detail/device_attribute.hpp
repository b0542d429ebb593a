// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CUDA_DETAIL_DEVICE_ATTRIBUTE_HPP
#define BALLAST_CUDA_DETAIL_DEVICE_ATTRIBUTE_HPP

#include <cuda_runtime_api.h>

namespace ballast::inline v0::detail {

/// What CUDA says of the current device. It knows without asking the device, also in a capture.
[[nodiscard]] inline cudaError_t device_attribute(int& value, cudaDeviceAttr attribute)
{
  int device = 0;
  if (auto const error = cudaGetDevice(&device); error != cudaSuccess) { return error; }
  return cudaDeviceGetAttribute(&value, attribute, device);
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_CUDA_DETAIL_DEVICE_ATTRIBUTE_HPP
