// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_GPU_CUDA_FAILURE_HPP
#define BALLAST_GPU_CUDA_FAILURE_HPP

#include <ballast/comm/communicator.hpp>
#include <ballast/core/result.hpp>

#include <cuda_runtime_api.h>  // cudaError_t, cudaGetErrorString, cudaGetLastError

#include <string_view>

namespace ballast::inline v0 {

/// Returns the error of `call`, with CUDA's code and text.
///
/// Resets CUDA's last error, so that the caller's next check does not report the failure a second
/// time.
[[nodiscard]] inline tl::unexpected<error> cuda_failure(std::string_view call, cudaError_t code)
{
  (void)cudaGetLastError();
  return comm_failure::transport(call, code, cudaGetErrorString(code));
}

/// Returns the result of `call`, which returned `code`.
[[nodiscard]] inline result<void> cuda_result(std::string_view call, cudaError_t code)
{
  return code == cudaSuccess ? result<void>() : cuda_failure(call, code);
}

}  // namespace ballast::inline v0

#endif  // BALLAST_GPU_CUDA_FAILURE_HPP
