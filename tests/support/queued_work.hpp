// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <utility>

namespace ballast_test {

/// Queues a function that stands for a kernel behind what is in the stream.
inline cudaError_t launch(cudaStream_t stream, std::function<void()> kernel)
{
  auto held = std::make_unique<std::function<void()>>(std::move(kernel));
  return cudaLaunchHostFunc(
      stream,
      [](void* argument) {
        std::unique_ptr<std::function<void()>> const taken(
            static_cast<std::function<void()>*>(argument));
        (*taken)();
      },
      held.release());
}

}  // namespace ballast_test
