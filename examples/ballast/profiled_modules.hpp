// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layer_device.hpp"
#include "outcome.hpp"
#include "profile_command.hpp"
#include "profiled_module.hpp"

#include <vector>

namespace cli {

/// The modules of the command line: the encoder, where there is one, and then the LLM.
[[nodiscard]] outcome<std::vector<profiled_module>> read_modules(profile_options const& options,
                                                                 layer_device const& device);

}  // namespace cli
