// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_EXAMPLES_CPU_DEVICE_HPP
#define BALLAST_EXAMPLES_CPU_DEVICE_HPP

#include "layer_device.hpp"

#include <memory>

namespace cli {

/// One core.
[[nodiscard]] std::unique_ptr<layer_device> make_cpu_device();

}  // namespace cli

#endif  // BALLAST_EXAMPLES_CPU_DEVICE_HPP
