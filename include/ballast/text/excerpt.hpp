// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

#include <charconv>

namespace ballast::inline v0 {

namespace detail {

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

/// How many bytes at the front of `text`, at most `most`, can be shown without the rest: a UTF-8
/// character is among them whole or not at all.
[[nodiscard]] inline std::size_t whole_characters(std::string_view text, std::size_t most)
{
  if (text.size() <= most) { return text.size(); }
  std::size_t shown = most;
  while (shown > 0 && most - shown < 3 && (text[shown] & 0xC0) == 0x80) { --shown; }
  return shown;
}

/// Text of a user's as it can stand in a sentence: control characters are shown as \n, \x1b and so
/// on, bytes that are not UTF-8 as \xff.
[[nodiscard]] inline std::string in_one_line(std::string_view text)
{
  constexpr std::string_view digits = "0123456789abcdef";
  std::string line;
  while (!text.empty()) {
    std::size_t const bytes = utf8_bytes(text);
    // U+0080 to U+009F are control characters too.
    bool const high_control = bytes == 2 && text[0] == '\xC2' && (text[1] & 0x20) == 0;
    auto const code = static_cast<unsigned char>(text[high_control ? 1 : 0]);
    if (code == '\n' || code == '\t' || code == '\r') {
      line += code == '\n' ? "\\n" : code == '\t' ? "\\t" : "\\r";
    } else if (bytes == 0 || high_control || code < 0x20 || code == 0x7F) {
      line += high_control ? "\\u00" : "\\x";
      (line += digits[code >> 4]) += digits[code & 0xF];
    } else {
      line += text.substr(0, bytes);
    }
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return line;
}

/// Appends `text` as a JSON string, quotes included.
///
/// Ensures     (1) what is appended is one JSON string in valid UTF-8 (RFC 8259)
///             (2) a parser reads back the text, apart from bytes that are not UTF-8, which become
///                 U+FFFD
/// Complexity  O(size of text).
inline void append_json_string(std::string& out, std::string_view text)
{
  constexpr std::string_view digits = "0123456789abcdef";
  out += '"';
  while (!text.empty()) {
    std::size_t const bytes = utf8_bytes(text);
    char const front = text.front();
    auto const code = static_cast<unsigned char>(front);
    if (bytes == 0) {
      out += replacement_character;
    } else if (front == '"' || front == '\\') {
      (out += '\\') += front;
    } else if (code < 0x20) {
      ((out += "\\u00") += digits[code >> 4]) += digits[code & 0xF];
    } else {
      out += text.substr(0, bytes);
    }
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  out += '"';
}

/// Appends an integer as JSON writes it.
template <std::integral Integer>
void append_integer(std::string& out, Integer value)
{
  std::array<char, 20> digits{};
  out.append(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr);
}

}  // namespace detail

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

namespace detail {

/// What is wrong with a text of one line, and where: "at offset 4 of 'a + ': expected a column".
///
/// Units       offset counts bytes from 0.
[[nodiscard]] inline error text_error(error_code code, std::string_view text, std::size_t offset,
                                      std::string const& reason)
{
  return {code, offset, concat("at offset ", offset, " of ", excerpt(text), ": ", reason)};
}

}  // namespace detail

}  // namespace ballast::inline v0
