// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cli {

/// The character at the front of a text, of 0 bytes where that is not well-formed UTF-8.
struct utf8_character {
  std::uint32_t code = 0;
  std::size_t bytes = 0;

  [[nodiscard]] static utf8_character front_of(std::string_view text)
  {
    auto const byte = [&](std::size_t at) {
      return std::uint32_t{static_cast<unsigned char>(text[at])};
    };
    std::uint32_t const first = byte(0);
    if (first < 0x80) { return {first, 1}; }
    if (first < 0xc2 || first > 0xf4) { return {}; }
    std::size_t const bytes = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (text.size() < bytes) { return {}; }
    std::uint32_t code = first & (0xffU >> (bytes + 1));
    for (std::size_t at = 1; at < bytes; ++at) {
      if ((byte(at) & 0xc0U) != 0x80) { return {}; }
      code = code << 6U | (byte(at) & 0x3fU);
    }
    constexpr std::array<std::uint32_t, 5> least = {0, 0, 0x80, 0x800, 0x10000};
    bool const surrogate = code >= 0xd800 && code < 0xe000;
    if (code < least[bytes] || surrogate || code > 0x10ffff) { return {}; }
    return {code, bytes};
  }

  /// Whether it stays in its line and leaves the terminal as it was.
  [[nodiscard]] bool is_harmless() const
  {
    auto const within = [this](std::uint32_t low, std::uint32_t high) {
      return low <= code && code <= high;
    };
    bool const controls = within(0, 0x1f) || within(0x7f, 0x9f);
    bool const ends_line = within(0x2028, 0x2029);
    bool const turns = within(0x61c, 0x61c) || within(0x200e, 0x200f) || within(0x202a, 0x202e) ||
                       within(0x2066, 0x2069);
    return !controls && !ends_line && !turns;
  }
};

/// Text from outside, such as the name of a file, made fit for one line of a terminal.
///
/// Ensures     (1) control characters, the separators of lines and what turns the direction of
///                 writing are shown as \n, \x1b or \u202e, and so are bytes that are not UTF-8
///             (2) every other character stands for itself
[[nodiscard]] inline std::string shown_text(std::string_view text)
{
  std::string shown;
  auto const add_digits = [&shown](std::uint32_t code, unsigned digits) {
    for (unsigned left = digits; left-- > 0;) {
      shown += "0123456789abcdef"[code >> (4 * left) & 0xfU];
    }
  };
  while (!text.empty()) {
    auto const front = utf8_character::front_of(text);
    if (front.bytes == 0) {
      shown += "\\x";
      add_digits(static_cast<unsigned char>(text.front()), 2);
    } else if (front.is_harmless()) {
      shown += text.substr(0, front.bytes);
    } else if (front.code == '\n' || front.code == '\t' || front.code == '\r') {
      shown += front.code == '\n' ? "\\n" : front.code == '\t' ? "\\t" : "\\r";
    } else {
      shown += front.code < 0x80 ? "\\x" : "\\u";
      add_digits(front.code, front.code < 0x80 ? 2 : 4);
    }
    text.remove_prefix(std::max<std::size_t>(front.bytes, 1));
  }
  return shown;
}

}  // namespace cli
