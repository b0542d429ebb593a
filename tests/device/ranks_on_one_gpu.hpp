// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <ballast/gpu/copy_engine_communicator.hpp>

#include <cuda_runtime.h>

#include <chrono>
#include <thread>

namespace ballast_test {

/// Calls body(communicator) for several ranks on the current GPU, each a thread with a stream.
template <class Body>
void run_ranks_on_one_gpu(std::size_t ranks, Body const& body)
{
  using communicator = ballast::copy_engine_communicator<>;
  std::vector<cudaStream_t> streams(ranks);
  for (cudaStream_t& each : streams) {
    ASSERT_EQ(cudaStreamCreateWithFlags(&each, cudaStreamNonBlocking), cudaSuccess);
  }
  auto comms = communicator::make(streams, {.deadline = std::chrono::minutes(1)});
  ASSERT_TRUE(comms) << comms.error().message;
  std::vector<std::thread> threads;
  for (communicator& comm : *comms) {
    threads.emplace_back([&] { body(comm); });
  }
  for (std::thread& thread : threads) { thread.join(); }
  comms->clear();
  for (cudaStream_t const each : streams) { EXPECT_EQ(cudaStreamDestroy(each), cudaSuccess); }
}

}  // namespace ballast_test
