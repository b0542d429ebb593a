// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_GPU_COPY_ENGINE_OPTIONS_HPP
#define BALLAST_GPU_COPY_ENGINE_OPTIONS_HPP

#include <ballast/comm/communicator.hpp>

#include <chrono>

namespace ballast::inline v0 {

/// How a copy_engine_communicator behaves.
struct copy_engine_options {
  /// How long a rank waits for the others to make the same call, and how long each wait for a
  /// stream may take; above zero.
  std::chrono::milliseconds deadline = default_deadline;
  /// Ask CUDA to copy by the copy engines, which leaves the multiprocessors to kernels. Within one
  /// GPU a copy engine is several times slower than they are: set it to false where no kernel runs
  /// at the same time.
  bool beside_kernels = true;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_GPU_COPY_ENGINE_OPTIONS_HPP
