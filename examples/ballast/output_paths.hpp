// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "outcome.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cli {

/// An option that names a file, and the path that it was given, or empty.
using file_option = std::pair<std::string_view, std::string const*>;

/// What - stands for where a file is read.
inline constexpr std::string_view standard_input = "/dev/stdin";

/// No file that is written, standard output included, may be one that is read, or written as well,
/// whatever it is called: links of both kinds lead to the same file.
///
/// Ensures     (1) what is no plain file, as a terminal or a pipe, may be written several times; a
///                 pipe with a name may not be read and written
///             (2) standard input is read by one option at most
[[nodiscard]] outcome<void> check_paths(std::vector<file_option> const& read,
                                        std::vector<file_option> const& written);

}  // namespace cli
