// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <cstdint>

/// The part of the CUDA runtime that <ballast/comm/> calls, for machines without a GPU:
/// cuda_shim.cpp defines the functions over host memory.
///
/// It keeps what makes streams hard to use right. A stream is a queue with a thread of its own, so
/// calls return before data moves, and nothing but events orders two streams: what a forgotten one
/// leaves open is a race that sanitizers see, and with delays wrong bytes. An event is the place in
/// a stream that it was last recorded at; to wait for it is to wait for the place that it has at
/// the call. A batch of copies keeps no order. cudaLaunchHostFunc serves as the kernel of a test.
/// cudaErrorNotReady becomes the thread's last error.
///
/// Processes that were forked while a shared_cuda is there reach each other's memory of cudaMalloc,
/// and events made for that, by handles: each sees an array at an address of its own, and no other.
///
/// It is stricter in one thing: in a batch an empty copy is cudaErrorInvalidValue.
namespace ballast_test {

/// What another shim queues in a stream.
class stream_work {
 public:
  /// On the stream's thread, in its turn; what is behind it waits.
  virtual void run() = 0;
  /// Once it has left the stream, or its graph is gone; neither touches it any more.
  virtual void end() = 0;
  /// The same once more, for a launch of the graph that has it.
  virtual stream_work& again() = 0;

 protected:
  ~stream_work() = default;
};

void push(cudaStream_t stream, stream_work& work);

/// Before each copy a stream pauses for a random time below this; zero is none, as at the start.
void delay_copies(std::chrono::microseconds at_most);

/// After `calls_before` more calls of the function, of those for that stream if one is given, the
/// next one gives `code` and does nothing. One failure is on order at a time.
void fail_cuda_call(char const* function, std::size_t calls_before, cudaError_t code,
                    cudaStream_t stream = nullptr);

/// cudaStreamQuery says this from now on.
void fail_stream(cudaStream_t stream, cudaError_t code);

/// Whether the stream is being captured: to ask it is an error, its queue goes on, and what is
/// pushed meanwhile becomes its graph. The graph lives until it is destroyed, or the stream is.
void capture(cudaStream_t stream, bool captured);
void launch_graph(cudaStream_t stream);
void destroy_graph(cudaStream_t stream);

/// cudaMallocHost refuses from now on, or no more.
void refuse_pinned_memory(bool refuse);

/// So many devices, which reach each other's memory or do not, each that of so many peers at most;
/// no access is enabled yet.
void pretend_devices(int devices, bool reach_each_other, std::size_t most_peers = SIZE_MAX);

/// Calls of cudaDeviceEnablePeerAccess that have enabled something since pretend_devices.
[[nodiscard]] std::size_t accesses_enabled();

/// How often pinned memory was asked for or given back while a stream held work, which CUDA might
/// have waited for.
[[nodiscard]] std::size_t pinned_calls_behind_work();

/// How often memory, pinned or of a device, was given back while a stream held work: where a peer's
/// kernel waits for this thread, CUDA would wait for ever.
[[nodiscard]] std::size_t frees_behind_work();

/// Pinned arrays, arrays of a device, and events that were not freed.
[[nodiscard]] std::size_t live_pinned_arrays();
[[nodiscard]] std::size_t live_device_arrays();
[[nodiscard]] std::size_t live_events();

/// While one is there, memory and events can be shared with processes that are forked meanwhile.
/// Nothing is there that was allocated before.
class shared_cuda {
 public:
  shared_cuda();
  shared_cuda(shared_cuda const&) = delete;
  shared_cuda& operator=(shared_cuda const&) = delete;
  ~shared_cuda();

  /// Arrays that no process freed.
  [[nodiscard]] std::size_t arrays_left() const;
  /// How often an array or an event was freed, or used, that CUDA leaves undefined: freed while
  /// another process had it open, or used after it was freed.
  [[nodiscard]] std::size_t rules_broken() const;
};

/// Copies that were queued since the start.
[[nodiscard]] std::size_t copies_queued();

}  // namespace ballast_test
