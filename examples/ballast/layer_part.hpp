// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace cli {

/// Which parts of a layer a call computes.
enum class layer_part : std::uint8_t { weights, attention, both };

}  // namespace cli
