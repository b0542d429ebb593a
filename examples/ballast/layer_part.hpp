// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_EXAMPLES_LAYER_PART_HPP
#define BALLAST_EXAMPLES_LAYER_PART_HPP

#include <cstdint>

namespace cli {

/// Which parts of a layer a call computes.
enum class layer_part : std::uint8_t { weights, attention, both };

}  // namespace cli

#endif  // BALLAST_EXAMPLES_LAYER_PART_HPP
