// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_GPU_DETAIL_CUDA_EVENT_HPP
#define BALLAST_GPU_DETAIL_CUDA_EVENT_HPP

#include <ballast/core/result.hpp>
#include <ballast/gpu/cuda_failure.hpp>

#include <cuda_runtime_api.h>  // cudaEvent_t, cudaStream_t

#include <memory>
#include <type_traits>

namespace ballast::inline v0::detail {

/// A CUDA event. Those that order streams measure no time, so that recording them costs less.
///
/// hold_up() makes a stream wait for the latest record() before that call, so the event may be
/// recorded again at once. If it was never recorded, the stream does not wait.
///
/// Expects     streams that record it are on the device that was current when it was made; any
///             stream may wait for it.
class cuda_event {
 public:
  [[nodiscard]] static result<cuda_event> make() { return make(cudaEventDisableTiming); }

  /// One that remembers when it was reached.
  [[nodiscard]] static result<cuda_event> make_timed() { return make(cudaEventDefault); }

  /// One for which other processes' streams wait as well, once they have opened its handle().
  [[nodiscard]] static result<cuda_event> make_for_processes()
  {
    return make(cudaEventDisableTiming | cudaEventInterprocess);
  }

  [[nodiscard]] result<cudaIpcEventHandle_t> handle() const
  {
    cudaIpcEventHandle_t made{};
    auto const code = cudaIpcGetEventHandle(&made, event_.get());
    if (code != cudaSuccess) { return cuda_failure("cudaIpcGetEventHandle", code); }
    return made;
  }

  /// The event of another process, which records it. Nobody uses it once that process's is gone.
  [[nodiscard]] static result<cuda_event> open(cudaIpcEventHandle_t const& handle)
  {
    cudaEvent_t opened = nullptr;
    auto const code = cudaIpcOpenEventHandle(&opened, handle);
    if (code != cudaSuccess) { return cuda_failure("cudaIpcOpenEventHandle", code); }
    return cuda_event(opened);
  }

  /// The event is reached when all work that is in the stream now is done.
  [[nodiscard]] cudaError_t record(cudaStream_t stream) const
  {
    return cudaEventRecord(event_.get(), stream);
  }

  /// Work that is queued on the stream from now on waits until the event is reached.
  [[nodiscard]] cudaError_t hold_up(cudaStream_t stream) const
  {
    return cudaStreamWaitEvent(stream, event_.get(), 0);
  }

  /// Returns when the event is reached, or has failed.
  [[nodiscard]] cudaError_t wait() const { return cudaEventSynchronize(event_.get()); }

  /// cudaErrorNotReady, which does not stay CUDA's last error, until the event is reached.
  [[nodiscard]] cudaError_t state() const
  {
    cudaError_t const now = cudaEventQuery(event_.get());
    if (cudaPeekAtLastError() == cudaErrorNotReady) { (void)cudaGetLastError(); }
    return now;
  }

  /// From when `start` was reached. Expects both to be timed, and reached.
  [[nodiscard]] cudaError_t milliseconds_since(cuda_event const& start, float& milliseconds) const
  {
    return cudaEventElapsedTime(&milliseconds, start.event_.get(), event_.get());
  }

 private:
  [[nodiscard]] static result<cuda_event> make(unsigned flags)
  {
    cudaEvent_t made = nullptr;
    auto const code = cudaEventCreateWithFlags(&made, flags);
    if (code != cudaSuccess) { return cuda_failure("cudaEventCreateWithFlags", code); }
    return cuda_event(made);
  }

  explicit cuda_event(cudaEvent_t made) noexcept : event_(made) {}

  struct destroy {
    void operator()(cudaEvent_t event) const noexcept { (void)cudaEventDestroy(event); }
  };

  std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, destroy> event_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_GPU_DETAIL_CUDA_EVENT_HPP
