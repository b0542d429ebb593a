// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/comm/communicator.hpp>
#include <ballast/core.hpp>
#include <ballast/core/detail/wait_clock.hpp>
#include <ballast/gpu/device_memory.hpp>

#include <cuda_runtime_api.h>  // cudaStream_t, cudaStreamQuery

#include <cmath>
#include <thread>

namespace ballast::inline v0 {

/// A communicator whose calls join a CUDA stream: work that is queued there before a call is done
/// before its bytes are sent, and work that is queued after it finds the received bytes. Its arrays
/// lie in memory that the GPU reaches.
template <class C>
concept stream_communicator = communicator<C> && requires(C const& comm) {
  { comm.stream() } -> std::same_as<cudaStream_t>;
};

namespace detail {

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

}  // namespace detail

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

namespace detail {

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

}  // namespace detail

}  // namespace ballast::inline v0

#ifdef BALLAST_NVTX_ENABLED
#include <nvtx3/nvToolsExt.h>
#endif

namespace ballast::inline v0 {

/// A named range of a thread's time in Nsight Systems, from construction to destruction. It does
/// nothing unless BALLAST_NVTX_ENABLED is defined before the first include, in all files of the
/// program.
class nvtx_range {
 public:
#ifdef BALLAST_NVTX_ENABLED
  explicit nvtx_range(char const* name) { nvtxRangePushA(name); }
  ~nvtx_range() { nvtxRangePop(); }
#else
  explicit nvtx_range(char const*) noexcept {}
  ~nvtx_range() noexcept {}  // so that one that is only declared is no unused variable
#endif
  nvtx_range& operator=(nvtx_range&&) = delete;
};

}  // namespace ballast::inline v0
