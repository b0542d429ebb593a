// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TEXT_EXCERPT_HPP
#define BALLAST_TEXT_EXCERPT_HPP

#include <ballast/core/config.hpp>
#include <ballast/text/detail/text_escape.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace ballast::inline v0 {

/// Text from a file, in quotes, made fit for one line of an error message.
///
/// Ensures     (1) at most 60 bytes of the text are shown; where some are missing, `...` follows
///             (2) a UTF-8 character is shown whole or not at all
///             (3) a control character is shown as a space
[[nodiscard]] inline std::string excerpt(std::string_view text)
{
  std::size_t const shown = detail::whole_characters(text, 60);
  std::string line = "'";
  for (char const byte : text.substr(0, shown)) {
    auto const code = static_cast<unsigned char>(byte);
    line += code < 0x20 || code == 0x7f ? ' ' : byte;
  }
  return line += shown < text.size() ? "...'" : "'";
}

}  // namespace ballast::inline v0

#endif  // BALLAST_TEXT_EXCERPT_HPP
