// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <string_view>

namespace cli {

/// The script by which a shell, bash or zsh, completes the words of the program: subcommands, their
/// options, and files or choices behind those that take them. It is made of the parser, so that it
/// knows what the parser knows.
[[nodiscard]] std::string completion_script(CLI::App const& app, std::string_view shell);

}  // namespace cli
