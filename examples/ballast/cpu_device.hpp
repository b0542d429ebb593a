// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layer_device.hpp"

#include <memory>

namespace cli {

/// One core.
[[nodiscard]] std::unique_ptr<layer_device> make_cpu_device();

}  // namespace cli
