// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_GPU_DETAIL_STREAM_WAIT_HPP
#define BALLAST_GPU_DETAIL_STREAM_WAIT_HPP

#include <ballast/comm/communicator.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/core/detail/wait_clock.hpp>

#include <cuda_runtime_api.h>  // cudaStream_t, cudaStreamQuery

#include <algorithm>
#include <chrono>
#include <thread>

namespace ballast::inline v0::detail {

/// Returns cudaSuccess if the stream is empty, cudaErrorNotReady if it is not, else its failure.
///
/// Ensures     cudaErrorNotReady, which is not an error, does not stay CUDA's last error.
[[nodiscard]] inline cudaError_t state_of(cudaStream_t stream)
{
  cudaError_t const state = cudaStreamQuery(stream);
  if (cudaPeekAtLastError() == cudaErrorNotReady) { (void)cudaGetLastError(); }
  return state;
}

/// Calls done() until it returns true, or until the deadline; returns whether it did.
///
/// CUDA's own waits have no deadline. At first it calls without a pause, since most exchanges are
/// short, later after a sixteenth of the time that has passed, so that other threads can use the
/// core. `alone` says that no thread of this process acts for it.
template <class Done>
[[nodiscard]] bool poll(std::chrono::milliseconds deadline, Done done, bool alone = true)
{
  using namespace std::chrono;
  wait_clock::watched_wait own;
  auto const begin = wait_clock::now();
  auto const patience = std::min(deadline, longest_deadline);  // more overflows the clock
  for (;;) {
    if (done()) { return true; }
    auto const waited = wait_clock::now() - begin;
    if (waited >= patience) { return false; }
    if (alone) { own.look_in_vain(); }
    if (wait_clock::is_moved()) {
      std::this_thread::sleep_for(microseconds(100));
    } else if (waited < microseconds(200)) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::min<nanoseconds>(waited / 16, milliseconds(1)));
    }
  }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_GPU_DETAIL_STREAM_WAIT_HPP
