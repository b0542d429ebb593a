// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/comm/communicator.hpp>
#include <ballast/core.hpp>

#include <cuda_runtime_api.h>

#include <cstdio>
#include <memory>

namespace cli {

/// The result of a call of the CUDA runtime: its own code and text.
[[nodiscard]] inline ballast::result<void> cuda_done(std::string_view call, cudaError_t code)
{
  if (code == cudaSuccess) { return {}; }
  (void)cudaGetLastError();  // so that the next check does not report it again
  return ballast::comm_failure::transport(call, code, cudaGetErrorString(code));
}

struct free_cuda_memory {
  void operator()(std::byte* memory) const noexcept { (void)cudaFree(memory); }
};

/// Memory of the current GPU.
using cuda_memory = std::unique_ptr<std::byte, free_cuda_memory>;

/// "12.34 GB"
[[nodiscard]] inline std::string gigabytes(std::size_t bytes)
{
  char text[32];
  (void)std::snprintf(text, sizeof text, "%.2f GB", static_cast<double>(bytes) * 1e-9);
  return text;
}

/// Errors: out_of_memory, where less is free; transport, where CUDA failed otherwise.
[[nodiscard]] inline ballast::result<cuda_memory> allocate_on_gpu(std::string const& what,
                                                                  std::size_t bytes)
{
  void* memory = nullptr;
  cudaError_t const code = cudaMalloc(&memory, bytes);
  if (code == cudaSuccess) { return cuda_memory(static_cast<std::byte*>(memory)); }
  if (code != cudaErrorMemoryAllocation) {
    return tl::unexpected(cuda_done("cudaMalloc", code).error());
  }
  (void)cudaGetLastError();
  std::size_t free = 0;
  std::size_t total = 0;
  if (auto done = cuda_done("cudaMemGetInfo", cudaMemGetInfo(&free, &total)); !done) {
    return tl::unexpected(done.error());
  }
  return ballast::fail(ballast::error_code::out_of_memory, 0,
                       what + " takes " + gigabytes(bytes) + " of the GPU's memory, of which " +
                           gigabytes(free) + " are free (" + cudaGetErrorString(code) + ")");
}

}  // namespace cli
