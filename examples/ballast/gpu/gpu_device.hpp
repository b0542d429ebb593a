// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../layer_device.hpp"

#include <ballast/core.hpp>

#include <memory>

namespace cli {

/// Why there is no GPU to compute on and what to do, or nothing where there is one. A program that
/// was built without CUDA has a function that says so.
[[nodiscard]] std::string why_no_gpu();

/// The first GPU, with cuBLAS. It becomes the current one. Expects that why_no_gpu() says nothing.
[[nodiscard]] ballast::result<std::unique_ptr<layer_device>> make_gpu_device();

}  // namespace cli
