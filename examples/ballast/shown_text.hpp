// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_EXAMPLES_SHOWN_TEXT_HPP
#define BALLAST_EXAMPLES_SHOWN_TEXT_HPP

#include <string>
#include <string_view>

namespace cli {

/// Text from outside, such as the name of a file, made fit for one line of a terminal.
///
/// Ensures     (1) control characters, the separators of lines and what turns the direction of
///                 writing are shown as \n, \x1b or \u202e, and so are bytes that are not UTF-8;
///                 every other character stands for itself
[[nodiscard]] std::string shown_text(std::string_view text);

}  // namespace cli

#endif  // BALLAST_EXAMPLES_SHOWN_TEXT_HPP
