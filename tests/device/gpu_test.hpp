// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <ballast/core.hpp>
#include <ballast/gpu/device_memory.hpp>

#include <memory>

namespace ballast_test {

/// Says why where it did not.
[[nodiscard]] inline testing::AssertionResult done(ballast::result<void> const& what)
{
  return what ? testing::AssertionSuccess() : testing::AssertionFailure() << what.error().message;
}

using device_bytes = ballast::device_array<std::byte>;

/// Why no test can run on a GPU here, or nullptr.
inline char const* no_device()
{
  int devices = 0;
  cudaError_t const found = cudaGetDeviceCount(&devices);
  if (found != cudaSuccess) { return cudaGetErrorString(found); }
  return devices == 0 ? "none is visible" : nullptr;
}

/// What a stream did while it was captured, to be done again as often as wished.
class replayable {
 public:
  replayable() = default;
  explicit replayable(cudaGraph_t graph)
  {
    cudaGraphExec_t instance = nullptr;
    EXPECT_EQ(cudaGraphInstantiate(&instance, graph, 0), cudaSuccess);
    instance_.reset(instance);
  }

  /// Queues all of it; the caller waits for the stream before it reads the result.
  [[nodiscard]] cudaError_t replay(cudaStream_t stream) const
  {
    return cudaGraphLaunch(instance_.get(), stream);
  }

 private:
  struct destroy {
    void operator()(cudaGraphExec_t instance) const
    {
      EXPECT_EQ(cudaGraphExecDestroy(instance), cudaSuccess);
    }
  };

  std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, destroy> instance_;
};

/// What `queue(stream)` queues, captured and not yet done. Whatever may not be captured, such as an
/// allocation or a wait, makes the capture fail, also where another function of the thread did it.
template <class F>
[[nodiscard]] replayable graph_of(cudaStream_t stream, F const& queue)
{
  EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(queue(stream), cudaSuccess);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  if (graph == nullptr) { return {}; }
  replayable captured(graph);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  return captured;
}

/// Storage for `call(temporary, temporary_bytes)`, as much as the call asks for.
template <class F>
[[nodiscard]] device_bytes temporary_for(F const& call)
{
  std::size_t bytes = 0;
  EXPECT_EQ(call(nullptr, bytes), cudaSuccess);
  EXPECT_GT(bytes, 0);
  return device_bytes(bytes);
}

/// A test with a stream of its own, skipped where there is no GPU. When it ends, the stream has
/// done everything and CUDA has no error to report.
class gpu_test : public testing::Test {
 protected:
  void SetUp() override
  {
    if (char const* const reason = no_device()) { GTEST_SKIP() << "no CUDA device: " << reason; }
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  }

  void TearDown() override
  {
    if (stream_ == nullptr) { return; }
    EXPECT_EQ(wait(), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  }

  [[nodiscard]] cudaStream_t stream() const { return stream_; }

  [[nodiscard]] cudaError_t wait() const { return cudaStreamSynchronize(stream_); }

  template <class T>
  [[nodiscard]] ballast::device_array<T> to_device(std::vector<T> const& values) const
  {
    ballast::device_array<T> array(values.size());
    write(array, values);
    return array;
  }

  /// Other values for an array that a graph has captured.
  template <class T>
  void write(ballast::device_array<T> const& to, std::vector<T> const& values) const
  {
    ASSERT_EQ(to.size(), values.size());
    ASSERT_EQ(cudaMemcpyAsync(to.data(), values.data(), values.size() * sizeof(T),
                              cudaMemcpyHostToDevice, stream_),
              cudaSuccess);
    ASSERT_EQ(wait(), cudaSuccess);
  }

  /// What is in the array when the stream has done everything.
  template <class T>
  [[nodiscard]] std::vector<T> to_host(ballast::device_array<T> const& array) const
  {
    std::vector<T> values(array.size());
    EXPECT_EQ(cudaMemcpyAsync(values.data(), array.data(), values.size() * sizeof(T),
                              cudaMemcpyDeviceToHost, stream_),
              cudaSuccess);
    EXPECT_EQ(wait(), cudaSuccess);
    return values;
  }

  /// Makes both calls of a function that takes temporary storage, and waits for the stream.
  template <class F>
  void run(F const& call) const
  {
    device_bytes const temporary = temporary_for(call);
    std::size_t bytes = temporary.size();
    EXPECT_EQ(call(temporary.data(), bytes), cudaSuccess);
    EXPECT_EQ(wait(), cudaSuccess);
  }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace ballast_test
