// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../support/cuda_shim.hpp"
#include "../support/queued_work.hpp"  // defines: ballast_test::launch
#include "../support/test.hpp"

#include <ballast/gpu/copy_engine_communicator.hpp>

namespace ballast_test {

/// Streams of the current device, as a job has them before ballast comes, and functions in them
/// that stand for its kernels.
class cuda_streams {
 public:
  explicit cuda_streams(std::size_t count) : streams_(count)
  {
    for (cudaStream_t& stream : streams_) { EXPECT_EQ(cudaStreamCreate(&stream), cudaSuccess); }
  }
  cuda_streams(cuda_streams const&) = delete;
  cuda_streams& operator=(cuda_streams const&) = delete;
  ~cuda_streams()
  {
    for (cudaStream_t const stream : streams_) {
      EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    }
  }

  [[nodiscard]] cudaStream_t operator[](std::size_t index) const { return streams_[index]; }
  [[nodiscard]] std::span<cudaStream_t const> all() const { return streams_; }

 private:
  std::vector<cudaStream_t> streams_;
};

/// Calls body(communicator) on a thread per rank, each of which leaves the group when it returns.
template <class Body>
void run_copy_engine_ranks(std::span<cudaStream_t const> streams,
                           ballast::copy_engine_options options, Body const& body)
{
  // [copy_engine]
  auto made = ballast::copy_engine_communicator<>::make(streams, options);
  ASSERT_TRUE(made) << made.error().message;
  std::vector<std::thread> threads;
  for (auto& comm : *made) {
    threads.emplace_back([&body, mine = std::move(comm)]() mutable { body(mine); });
  }
  for (std::thread& thread : threads) { thread.join(); }
  // [copy_engine]
}

}  // namespace ballast_test
