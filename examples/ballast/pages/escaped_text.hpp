// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../shown_text.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace pages {

/// Text that XML and HTML read as character data, in an element or an attribute.
///
/// Ensures     (1) it holds none of < > " ' and & only where it starts a reference
///             (2) it is valid UTF-8 of characters that XML 1.0 allows: control characters and
///                 bytes that are not UTF-8 become U+FFFD
///             (3) a parser reads back the text, apart from (2)
[[nodiscard]] inline std::string escaped_text(std::string_view text)
{
  std::string escaped;
  while (!text.empty()) {
    auto const front = cli::utf8_character::front_of(text);
    bool const is_control = front.code < 0x20 && front.code != '\t' && front.code != '\n';
    switch (front.code) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '"': escaped += "&quot;"; break;
      case '\'': escaped += "&#39;"; break;
      default: escaped += front.bytes == 0 || is_control ? "\uFFFD" : text.substr(0, front.bytes);
    }
    text.remove_prefix(std::max<std::size_t>(front.bytes, 1));
  }
  return escaped;
}

}  // namespace pages
