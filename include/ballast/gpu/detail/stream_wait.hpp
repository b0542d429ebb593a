// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_GPU_DETAIL_STREAM_WAIT_HPP
#define BALLAST_GPU_DETAIL_STREAM_WAIT_HPP

#include <cuda_runtime_api.h>  // cudaStream_t, cudaStreamQuery

#include <algorithm>
#include <chrono>
#include <thread>

namespace ballast::inline v0::detail {

/// cudaSuccess when the stream is empty, cudaErrorNotReady when it is not, else its failure.
///
/// Ensures     cudaErrorNotReady, which is no error, does not stay behind as CUDA's last one.
[[nodiscard]] inline cudaError_t state_of(cudaStream_t stream)
{
  cudaError_t const state = cudaStreamQuery(stream);
  if (cudaPeekAtLastError() == cudaErrorNotReady) { (void)cudaGetLastError(); }
  return state;
}

/// Asks until `done()`, or the deadline; says which.
///
/// CUDA's own waits know no deadline. At first it asks without a pause, since most exchanges are
/// short, later after a sixteenth of the time that has passed: the cores are needed elsewhere.
template <class Done>
[[nodiscard]] bool poll(std::chrono::milliseconds deadline, Done done)
{
  using namespace std::chrono;
  auto const begin = steady_clock::now();
  auto const patience = std::min<milliseconds>(deadline, years(1));  // more overflows the clock
  for (;;) {
    if (done()) { return true; }
    auto const waited = steady_clock::now() - begin;
    if (waited >= patience) { return false; }
    if (waited < microseconds(200)) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::min<nanoseconds>(waited / 16, milliseconds(1)));
    }
  }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_GPU_DETAIL_STREAM_WAIT_HPP
