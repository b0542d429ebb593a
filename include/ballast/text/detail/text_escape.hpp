// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TEXT_DETAIL_TEXT_ESCAPE_HPP
#define BALLAST_TEXT_DETAIL_TEXT_ESCAPE_HPP

#include <ballast/core/config.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace ballast::inline v0::detail {

inline constexpr std::string_view replacement_character = "\xEF\xBF\xBD";  // U+FFFD

/// Bytes of the character at the front of `text`, or 0 where that is not well-formed UTF-8. The
/// bounds of the second byte exclude overlong forms, surrogates and code points past U+10FFFF.
[[nodiscard]] inline std::size_t utf8_bytes(std::string_view text)
{
  auto const byte = [text](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  unsigned const first = byte(0);
  if (first < 0x80) { return 1; }
  if (first < 0xC2 || first > 0xF4) { return 0; }
  std::size_t const bytes = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (text.size() < bytes) { return 0; }
  unsigned const low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  unsigned const high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) { return 0; }
  for (std::size_t at = 2; at < bytes; ++at) {
    if ((byte(at) & 0xC0) != 0x80) { return 0; }
  }
  return bytes;
}

/// Copies `text`, one character at a time, replacing every byte that is not part of valid UTF-8.
/// `escape(out, character)` appends what stands for an ASCII character and returns true, or returns
/// false where the character may stand for itself.
template <class Escape>
void append_escaped(std::string& out, std::string_view text, Escape escape)
{
  while (!text.empty()) {
    std::size_t const bytes = utf8_bytes(text);
    if (bytes == 0) {
      out += replacement_character;
    } else if (bytes > 1 || !escape(out, text.front())) {
      out += text.substr(0, bytes);
    }
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
}

/// Appends `text` so that XML and HTML read it as character data, in an element or an attribute.
///
/// Ensures     (1) what is appended holds none of < > " ' and & only where it starts a reference
///             (2) it is valid UTF-8 of characters that XML 1.0 allows: control characters and
///                 bytes that are not UTF-8 become U+FFFD
///             (3) a parser reads back the text, apart from (2)
/// Complexity  O(size of text).
inline void append_xml_text(std::string& out, std::string_view text)
{
  append_escaped(out, text, [](std::string& to, char character) {
    switch (character) {
      case '&': to += "&amp;"; return true;
      case '<': to += "&lt;"; return true;
      case '>': to += "&gt;"; return true;
      case '"': to += "&quot;"; return true;
      case '\'': to += "&#39;"; return true;
      case '\t':
      case '\n': return false;
      default: break;
    }
    bool const control = static_cast<unsigned char>(character) < 0x20;
    if (control) { to += replacement_character; }
    return control;
  });
}

/// Appends `text` as a JSON string, quotes included.
///
/// Ensures     (1) what is appended is one JSON string in valid UTF-8 (RFC 8259)
///             (2) a parser reads back the text, apart from bytes that are not UTF-8, which become
///                 U+FFFD
/// Complexity  O(size of text).
inline void append_json_string(std::string& out, std::string_view text)
{
  out += '"';
  append_escaped(out, text, [](std::string& to, char character) {
    constexpr std::string_view digits = "0123456789abcdef";
    auto const code = static_cast<unsigned char>(character);
    if (character == '"' || character == '\\') {
      (to += '\\') += character;
    } else if (code < 0x20) {
      ((to += "\\u00") += digits[code >> 4]) += digits[code & 0xF];
    } else {
      return false;
    }
    return true;
  });
  out += '"';
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_TEXT_DETAIL_TEXT_ESCAPE_HPP
