// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include "../support/test.hpp"

#include <deque>

namespace ballast_test {

/// Host functions that wait in a stream, alive until the test is over.
class host_work {
 public:
  void queue(cudaStream_t stream, std::function<void()> work)
  {
    works_.push_back(std::move(work));
    EXPECT_EQ(cudaLaunchHostFunc(
                  stream, [](void* each) { (*static_cast<std::function<void()>*>(each))(); },
                  &works_.back()),
              cudaSuccess);
  }

 private:
  std::deque<std::function<void()>> works_;
};

}  // namespace ballast_test
