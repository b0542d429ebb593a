// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/gpu/streams.hpp>

#include <cuda_runtime_api.h>  // cudaStream_t

namespace ballast::inline v0 {

namespace detail {

/// Queues the work on one chunk on a stream; returns the result of CUDA or of a communicator.
template <class F>
concept chunk_work =
    std::same_as<std::invoke_result_t<F&, std::uint32_t, cudaStream_t>, cudaError_t> ||
    std::same_as<std::invoke_result_t<F&, std::uint32_t, cudaStream_t>, result<void>>;

[[nodiscard]] inline result<void> judged(char const*, result<void> done)
{
  return done;
}
[[nodiscard]] inline result<void> judged(char const* call, cudaError_t code)
{
  return cuda_result(call, code);
}

/// The copies or the computations of overlapped chunks.
template <chunk_work F>
struct chunk_stage {
  F& work;
  cudaStream_t stream;
  char const* name;

  [[nodiscard]] result<void> operator()(std::uint32_t chunk) const
  {
    return judged(name, work(chunk, stream));
  }
};

}  // namespace detail

/// Copies and computations of n chunks on two streams: one chunk is copied while another is
/// computed.
///
///   copy_then_compute   an all-gather before a matrix product: chunk i + 1 is copied while chunk i
///                       is multiplied
///   compute_then_copy   a matrix product before a reduce-scatter's exchange: chunk i is copied
///                       while chunk i + 1 is multiplied
///   beside              a copy and a computation that need nothing of each other: the remap of
///                       chunks under the gradients of the weights
///
/// There are `depth` buffers between the two: the work that fills the buffer of chunk i waits for
/// the work that empties the buffer of chunk i - depth. If every chunk has a buffer of its own, use
/// a depth of at least n. The calls can be captured in a CUDA graph if the work that they queue can
/// be; the capture begins on the computation's stream.
///
/// Expects     both streams are on the device that was current in make(); depth >= 1. A callable
///             queues on the stream that it is given; `beside` calls both for chunk 0.
/// Ensures     (1) copies come after the work that was queued on the computation's stream before
///                 the call, and work that is queued there afterwards comes after all chunks
///             (2) copy(i) and compute(i) run in order, and so do the buffers' next uses
///             (3) nothing is allocated and no event is created
/// Errors      the first error of a callable or of CUDA: then no later chunk is queued, and the
///             computation's stream still waits for the earlier ones, as where a callable throws.
///             transport if a callable returned a cudaError_t.
/// Complexity  four calls of CUDA a chunk, depth + 1 events.
/// Source      the schedule of StepCCL: Zhang et al., "DistTrain", 2024, arXiv:2408.04275.
class overlapped_chunks {
 public:
  [[nodiscard]] static result<overlapped_chunks> make(std::uint32_t depth = 2)
  {
    BALLAST_EXPECTS(depth >= 1, "chunks were asked for at a depth of ", depth,
                    ", and the least is 1");
    std::vector<detail::cuda_event> events;
    events.reserve(std::size_t{depth} + 1);
    for (std::size_t count = 0; count <= depth; ++count) {
      auto event = detail::cuda_event::make();
      if (!event) { return tl::unexpected(std::move(event).error()); }
      events.push_back(*std::move(event));
    }
    return overlapped_chunks(std::move(events));
  }

  [[nodiscard]] std::uint32_t depth() const noexcept
  {
    return static_cast<std::uint32_t>(events_.size() - 1);
  }

  template <detail::chunk_work Copy, detail::chunk_work Compute>
  [[nodiscard]] result<void> copy_then_compute(std::uint32_t chunks, Copy copy,
                                               cudaStream_t copy_stream, Compute compute,
                                               cudaStream_t compute_stream) const
  {
    nvtx_range const range("ballast::copy_then_compute");
    return between(compute_stream, copy_stream, [&] {
      return overlap(
          chunks, detail::chunk_stage<Copy>{copy, copy_stream, "copy of a chunk"},
          detail::chunk_stage<Compute>{compute, compute_stream, "computation on a chunk"});
    });
  }

  template <detail::chunk_work Compute, detail::chunk_work Copy>
  [[nodiscard]] result<void> compute_then_copy(std::uint32_t chunks, Compute compute,
                                               cudaStream_t compute_stream, Copy copy,
                                               cudaStream_t copy_stream) const
  {
    nvtx_range const range("ballast::compute_then_copy");
    return between(compute_stream, copy_stream, [&] {
      return overlap(
          chunks, detail::chunk_stage<Compute>{compute, compute_stream, "computation on a chunk"},
          detail::chunk_stage<Copy>{copy, copy_stream, "copy of a chunk"});
    });
  }

  template <detail::chunk_work Copy, detail::chunk_work Compute>
  [[nodiscard]] result<void> beside(Copy copy, cudaStream_t copy_stream, Compute compute,
                                    cudaStream_t compute_stream) const
  {
    nvtx_range const range("ballast::beside");
    return between(compute_stream, copy_stream, [&] {
      auto done = detail::judged("copy beside a computation", copy(0, copy_stream));
      return done ? detail::judged("computation beside a copy", compute(0, compute_stream)) : done;
    });
  }

 private:
  explicit overlapped_chunks(std::vector<detail::cuda_event> events) : events_(std::move(events)) {}

  [[nodiscard]] static result<void> record(detail::cuda_event const& event, cudaStream_t stream)
  {
    return detail::judged("cudaEventRecord", event.record(stream));
  }
  [[nodiscard]] static result<void> hold_up(cudaStream_t stream, detail::cuda_event const& event)
  {
    return detail::judged("cudaStreamWaitEvent", event.hold_up(stream));
  }

  /// `later` waits for the work that is in `earlier` now. One event is enough for all calls, since
  /// a wait is for the record before it and not for the next one.
  [[nodiscard]] result<void> order(cudaStream_t earlier, cudaStream_t later) const
  {
    auto done = record(events_.back(), earlier);
    return done ? hold_up(later, events_.back()) : done;
  }

  /// Both streams begin after the work in the caller's, and end before its next work.
  template <class Work>
  [[nodiscard]] result<void> between(cudaStream_t callers, cudaStream_t other, Work work) const
  {
    auto done = order(callers, other);
    if (!done) { return done; }
    auto const thrown = detail::thrown_by([&] { done = work(); });
    auto joined = order(other, callers);  // a capture with an unjoined stream would fail
    if (thrown) { std::rethrow_exception(thrown); }
    return done ? std::move(joined) : std::move(done);
  }

  template <class First, class Second>
  [[nodiscard]] result<void> overlap(std::uint32_t chunks, First first, Second second) const
  {
    result<void> done;
    for (std::uint32_t chunk = 0; chunk < chunks && done; ++chunk) {
      detail::cuda_event const& emptied = events_[chunk % depth()];
      if (chunk >= depth()) { done = hold_up(first.stream, emptied); }
      if (done) { done = first(chunk); }
      if (done) { done = order(first.stream, second.stream); }
      if (done) { done = second(chunk); }
      if (done) { done = record(emptied, second.stream); }
    }
    return done;
  }

  std::vector<detail::cuda_event> events_;  // [depth]: a buffer was emptied; then one for order()
};

}  // namespace ballast::inline v0
