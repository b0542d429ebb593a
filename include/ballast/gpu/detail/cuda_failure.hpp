// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_GPU_DETAIL_CUDA_FAILURE_HPP
#define BALLAST_GPU_DETAIL_CUDA_FAILURE_HPP

#include <ballast/comm/comm_failure.hpp>
#include <ballast/core/result.hpp>

#include <cuda_runtime_api.h>  // cudaError_t, cudaGetErrorString, cudaGetLastError

#include <string_view>

namespace ballast::inline v0::detail {

/// `call` gave `code`, in the words of CUDA.
///
/// It is told by what this returns, so CUDA's last error is taken away: whoever asks for that next
/// is not to find it a second time.
[[nodiscard]] inline tl::unexpected<error> cuda_failure(std::string_view call, cudaError_t code)
{
  (void)cudaGetLastError();
  return comm_failure::transport(call, code, cudaGetErrorString(code));
}

/// The result of `call`, which gave `code`.
[[nodiscard]] inline result<void> cuda_result(std::string_view call, cudaError_t code)
{
  return code == cudaSuccess ? result<void>() : cuda_failure(call, code);
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_GPU_DETAIL_CUDA_FAILURE_HPP
