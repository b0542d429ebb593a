// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace cli {

/// What is wrong with arguments that `app` did not take, the first of them that is, and what was
/// probably meant. `why` is what CLI11 says, for the rest.
[[nodiscard]] std::string wrong_arguments(CLI::App const& app,
                                          std::vector<std::string> const& arguments,
                                          std::string const& why);

}  // namespace cli
