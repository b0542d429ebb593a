// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "outcome.hpp"

#include <ballast/core.hpp>
#include <ballast/cost/module_profile.hpp>

namespace cli {

/// "80GB", "80GiB" or a number of bytes.
[[nodiscard]] outcome<std::uint64_t> read_bytes(std::string_view option, std::string const& text);

/// The same of the memory of a GPU, which has a million bytes at least: `80` lacks its unit.
[[nodiscard]] outcome<std::uint64_t> read_memory(std::string_view option, std::string const& text);

/// The profiles that a file holds; what is to be noted of it is among notes().
[[nodiscard]] outcome<std::vector<ballast::module_profile>> read_profiles(std::string const& path);

/// The sizes of all samples of a file in each module: of the column that is named as it, or of an
/// expression that a --size gives, MODULE=EXPR.
[[nodiscard]] outcome<std::vector<ballast::tokens>> read_module_sizes(
    std::string const& data, std::vector<std::string> const& given,
    std::span<ballast::module_profile const> modules);

}  // namespace cli
