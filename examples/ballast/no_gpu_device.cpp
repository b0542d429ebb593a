// SPDX-License-Identifier: Apache-2.0
// Of a program that is built without CUDA.
#include "gpu/gpu_device.hpp"

#include <ballast/core.hpp>

#include <memory>

namespace cli {

std::string why_no_gpu()
{
  return "this program was built without CUDA; build it with nvcc, cuBLAS and -D "
         "BALLAST_ENABLE_CUDA=ON";
}

ballast::result<std::unique_ptr<layer_device>> make_gpu_device()
{
  return ballast::fail(ballast::error_code::infeasible, 0, why_no_gpu());
}

}  // namespace cli
