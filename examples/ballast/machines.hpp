// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "outcome.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cli {

/// The GPUs of every node, from a text such as 8,8,8,8,5.
[[nodiscard]] outcome<std::vector<std::uint32_t>> read_nodes(std::string const& text);

/// The speed of every GPU in rank order, from a file with one whole number on each line. Speeds are
/// divided by what divides them all, so that their unit does not matter; none where all are equal.
[[nodiscard]] outcome<std::vector<std::uint32_t>> read_speeds(std::string const& path,
                                                              std::size_t gpus);

}  // namespace cli
