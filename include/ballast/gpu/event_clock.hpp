// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_GPU_EVENT_CLOCK_HPP
#define BALLAST_GPU_EVENT_CLOCK_HPP

#include <ballast/core/result.hpp>
#include <ballast/gpu/cuda_failure.hpp>
#include <ballast/gpu/detail/cuda_event.hpp>

#include <cuda_runtime_api.h>  // cudaStream_t

#include <chrono>
#include <cmath>
#include <cstdint>
#include <utility>

namespace ballast::inline v0 {

/// A clock of the profiler for work on a CUDA stream: the time from where the stream reaches the
/// work to where it has done it, by CUDA events. The work may return before it is done.
///
/// Events resolve about half a microsecond, and what they measure of a short kernel is its launch:
/// let a call be of a tenth of a millisecond or more.
///
/// Expects     a device is current that owns the stream; the stream outlives the clock.
/// Errors      transport: CUDA failed, also because of the work. There is no deadline.
class event_clock {
 public:
  [[nodiscard]] static result<event_clock> make(cudaStream_t stream)
  {
    auto start = detail::cuda_event::make_timed();
    if (!start) { return tl::unexpected(start.error()); }
    auto end = detail::cuda_event::make_timed();
    if (!end) { return tl::unexpected(end.error()); }
    return event_clock(stream, std::move(*start), std::move(*end));
  }

  /// In nanoseconds. Returns when the stream has done the work.
  template <class Work>
  [[nodiscard]] result<std::int64_t> time(Work&& work)
  {
    if (auto const code = start_.record(stream_); code != cudaSuccess) {
      return cuda_failure("cudaEventRecord", code);
    }
    work();
    if (auto const code = end_.record(stream_); code != cudaSuccess) {
      return cuda_failure("cudaEventRecord", code);
    }
    if (auto const code = end_.wait(); code != cudaSuccess) {
      return cuda_failure("cudaEventSynchronize", code);
    }
    float milliseconds = 0;
    if (auto const code = end_.milliseconds_since(start_, milliseconds); code != cudaSuccess) {
      return cuda_failure("cudaEventElapsedTime", code);
    }
    return std::llround(1e6 * static_cast<double>(milliseconds));
  }

  /// The steady clock of the host, in nanoseconds.
  [[nodiscard]] result<std::int64_t> now() const
  {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

 private:
  event_clock(cudaStream_t stream, detail::cuda_event start, detail::cuda_event end)
      : stream_(stream), start_(std::move(start)), end_(std::move(end))
  {}

  cudaStream_t stream_;
  detail::cuda_event start_;
  detail::cuda_event end_;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_GPU_EVENT_CLOCK_HPP
