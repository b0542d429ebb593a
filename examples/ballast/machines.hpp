// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "outcome.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cli {

/// Whole numbers that an option gives.
struct number_list {
  std::string_view option;
  std::string_view thing;  ///< that each of them is
  std::int64_t least = 0;
  std::int64_t most = std::int64_t{1} << 62;
};

/// The numbers of a list such as 8,12,8, or of a file with one on each line.
[[nodiscard]] outcome<std::vector<std::int64_t>> read_numbers(number_list const& list,
                                                              std::string const& given);

/// A number for each of `count` things, or the one that is given for all; none where nothing is
/// given.
[[nodiscard]] outcome<std::vector<std::int64_t>> read_of_each(number_list const& list,
                                                              std::string const& given,
                                                              std::size_t count,
                                                              std::string_view thing);

/// The GPUs of every node.
[[nodiscard]] outcome<std::vector<std::uint32_t>> read_nodes(std::string const& given);

/// The speed of every GPU in rank order. Speeds are divided by what divides them all, so that their
/// unit does not matter; none where all are equal.
[[nodiscard]] outcome<std::vector<std::uint32_t>> read_speeds(std::string const& given,
                                                              std::size_t gpus);

}  // namespace cli
