// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_GPU_SIDE_STREAM_HPP
#define BALLAST_GPU_SIDE_STREAM_HPP

#include <ballast/core/result.hpp>
#include <ballast/gpu/cuda_failure.hpp>
#include <ballast/gpu/detail/cuda_event.hpp>

#include <cuda_runtime_api.h>  // cudaStream_t

#include <concepts>
#include <exception>
#include <memory>
#include <type_traits>
#include <utility>

namespace ballast::inline v0 {

/// A stream of its own for work that runs beside another stream's: what stays on a GPU is copied
/// while messages travel.
///
///     auto const side = side_stream::make().value();  // once
///     pack(stream);
///     side.mark(stream);                              // what `beside` queues comes after pack ...
///     send_and_receive(stream);
///     side.beside(stream, keep);                      // ... and runs while messages travel
///     unpack(stream);                                 // after both
///
/// Both calls can be captured in a CUDA graph, if the capture begins on the other stream.
///
/// Expects     the streams are on the device that was current in make(). One thread at a time; each
///             `beside` follows a mark() of its stream.
/// Ensures     (1) the work of `beside` comes after what was in the stream at mark(), and waits for
///                 nothing that was queued there since
///             (2) what is queued on the stream after `beside` comes after its work, also where
///                 queueing it failed or threw, which comes out of `beside`
///             (3) nothing is allocated but by make(), and nothing waits
/// Errors      CUDA's own. `beside`: the first, of the work or of CUDA.
class side_stream {
 public:
  [[nodiscard]] static result<side_stream> make()
  {
    auto event = detail::cuda_event::make();
    if (!event) { return tl::unexpected(std::move(event).error()); }
    cudaStream_t made = nullptr;
    if (auto const code = cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking);
        code != cudaSuccess) {
      return cuda_failure("cudaStreamCreateWithFlags", code);
    }
    return side_stream(*std::move(event), made);
  }

  [[nodiscard]] cudaError_t mark(cudaStream_t stream) const { return event_.record(stream); }

  /// Queues work(own stream), which returns CUDA's code.
  template <class Work>
    requires std::same_as<std::invoke_result_t<Work&, cudaStream_t>, cudaError_t>
  [[nodiscard]] cudaError_t beside(cudaStream_t stream, Work work) const
  {
    if (auto const code = event_.hold_up(own_.get()); code != cudaSuccess) { return code; }
    cudaError_t queued = cudaSuccess;
    auto const thrown = detail::thrown_by([&] { queued = work(own_.get()); });
    auto joined = event_.record(own_.get());  // a capture with an unjoined stream would fail
    if (joined == cudaSuccess) { joined = event_.hold_up(stream); }
    if (thrown) { std::rethrow_exception(thrown); }
    return queued != cudaSuccess ? queued : joined;
  }

 private:
  side_stream(detail::cuda_event event, cudaStream_t own) : event_(std::move(event)), own_(own) {}

  struct destroy {
    void operator()(cudaStream_t stream) const noexcept { (void)cudaStreamDestroy(stream); }
  };

  // One event is enough: a wait is for the record before it and not for the next one.
  detail::cuda_event event_;
  std::unique_ptr<std::remove_pointer_t<cudaStream_t>, destroy> own_;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_GPU_SIDE_STREAM_HPP
