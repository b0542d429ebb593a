// SPDX-License-Identifier: Apache-2.0
// The kernels of a layer. nvcc makes them blocks of threads; a host compiler, for tests without a
// GPU, computes one row after the other.
#include "gpu_kernels.hpp"

#include "gpu_rows.hpp"

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <limits>

namespace cli {
namespace {

#ifdef __CUDACC__

constexpr unsigned threads = 256;

/// The threads of a block. All of them make the same calls of sum() and largest().
struct block_team {
  [[nodiscard]] __device__ std::size_t lane() const { return threadIdx.x; }
  [[nodiscard]] __device__ std::size_t lanes() const { return threads; }

  [[nodiscard]] __device__ float sum(float value) const
  {
    return of_all(value, [](float a, float b) { return a + b; });
  }
  [[nodiscard]] __device__ float largest(float value) const
  {
    return of_all(value, [](float a, float b) { return fmaxf(a, b); });
  }
  __device__ void add(float* to, float value) const { atomicAdd(to, value); }

 private:
  template <class Join>
  [[nodiscard]] __device__ float of_all(float value, Join const& join) const
  {
    __shared__ float of_warps[threads / 32];
    for (int distance = 16; distance > 0; distance /= 2) {
      value = join(value, __shfl_xor_sync(0xffff'ffffU, value, distance));
    }
    __syncthreads();  // until all have read what the call before has left
    if (threadIdx.x % 32 == 0) { of_warps[threadIdx.x / 32] = value; }
    __syncthreads();
    value = of_warps[0];
    for (unsigned warp = 1; warp < threads / 32; ++warp) { value = join(value, of_warps[warp]); }
    return value;
  }
};

/// A block for each row.
template <class Row>
__global__ void __launch_bounds__(threads) compute_rows(Row const row)
{
  row(block_team(), blockIdx.x);
}

template <class Row>
cudaError_t queue_rows(cudaStream_t stream, std::size_t rows, Row const& row)
{
  if (rows == 0) { return cudaSuccess; }
  if (rows > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    return cudaErrorInvalidConfiguration;  // more than a grid has blocks
  }
  compute_rows<<<static_cast<unsigned>(rows), threads, 0, stream>>>(row);
  return cudaGetLastError();
}

[[nodiscard]] __device__ unsigned long long gpu_nanoseconds()
{
  unsigned long long time = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}

__global__ void wait_for(unsigned long long nanoseconds)
{
  unsigned long long const start = gpu_nanoseconds();
  while (gpu_nanoseconds() - start < nanoseconds) {}
}

#else

/// The one lane that there is.
struct lone_team {
  [[nodiscard]] std::size_t lane() const { return 0; }
  [[nodiscard]] std::size_t lanes() const { return 1; }
  [[nodiscard]] float sum(float value) const { return value; }
  [[nodiscard]] float largest(float value) const { return value; }
  void add(float* to, float value) const { *to += value; }
};

template <class Row>
cudaError_t queue_rows(cudaStream_t stream, std::size_t rows, Row const& row)
{
  cudaError_t const before = cudaStreamSynchronize(stream);
  for (std::size_t each = 0; before == cudaSuccess && each < rows; ++each) {
    row(lone_team(), each);
  }
  return before;
}

#endif

}  // namespace

template <class Row>
cudaError_t for_rows(cudaStream_t stream, std::size_t rows, Row const& row)
{
  return queue_rows(stream, rows, row);
}

template cudaError_t for_rows(cudaStream_t, std::size_t, gpu_rows::fill const&);
template cudaError_t for_rows(cudaStream_t, std::size_t, gpu_rows::rms_norm const&);
template cudaError_t for_rows(cudaStream_t, std::size_t, gpu_rows::rms_norm_gradient const&);
template cudaError_t for_rows(cudaStream_t, std::size_t, gpu_rows::gain_gradient const&);
template cudaError_t for_rows(cudaStream_t, std::size_t, gpu_rows::silu const&);
template cudaError_t for_rows(cudaStream_t, std::size_t, gpu_rows::silu_gradient const&);
template cudaError_t for_rows(cudaStream_t, std::size_t, gpu_rows::causal_softmax const&);
template cudaError_t for_rows(cudaStream_t, std::size_t, gpu_rows::causal_softmax_gradient const&);
template cudaError_t for_rows(cudaStream_t, std::size_t, gpu_rows::copy_heads const&);

cudaError_t keep_busy(cudaStream_t stream, std::chrono::nanoseconds time)
{
#ifdef __CUDACC__
  wait_for<<<1, 1, 0, stream>>>(static_cast<unsigned long long>(time.count()));
  return cudaGetLastError();
#else
  (void)time;
  return cudaStreamSynchronize(stream);
#endif
}

}  // namespace cli
