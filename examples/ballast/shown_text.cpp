// SPDX-License-Identifier: Apache-2.0
#include "shown_text.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cli {
namespace {

/// The character at the front of a text, of 0 bytes where that is not well-formed UTF-8.
struct character {
  std::uint32_t code = 0;
  std::size_t bytes = 0;
};

character front_of(std::string_view text)
{
  auto const byte = [&](std::size_t at) {
    return std::uint32_t{static_cast<unsigned char>(text[at])};
  };
  std::uint32_t const first = byte(0);
  if (first < 0x80) { return {first, 1}; }
  std::size_t const bytes = first < 0xc2   ? 0
                            : first < 0xe0 ? 2
                            : first < 0xf0 ? 3
                            : first < 0xf5 ? 4
                                           : 0;
  if (bytes == 0 || text.size() < bytes) { return {}; }
  std::uint32_t code = first & (0xffU >> (bytes + 1));
  for (std::size_t at = 1; at < bytes; ++at) {
    if ((byte(at) & 0xc0U) != 0x80) { return {}; }
    code = code << 6U | (byte(at) & 0x3fU);
  }
  constexpr std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  bool const surrogate = code >= 0xd800 && code < 0xe000;
  if (code < least[bytes] || surrogate || code > 0x10ffff) { return {}; }
  return {code, bytes};
}

bool is_harmless(std::uint32_t code)
{
  auto const within = [code](std::uint32_t low, std::uint32_t high) {
    return low <= code && code <= high;
  };
  bool const control = code < 0x20 || within(0x7f, 0x9f);
  bool const turns =
      code == 0x61c || within(0x200e, 0x200f) || within(0x202a, 0x202e) || within(0x2066, 0x2069);
  return !control && !turns && !within(0x2028, 0x2029);
}

}  // namespace

std::string shown_text(std::string_view text)
{
  std::string shown;
  while (!text.empty()) {
    auto const [code, bytes] = front_of(text);
    if (bytes == 0) {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
    } else if (is_harmless(code)) {
      shown += text.substr(0, bytes);
    } else if (code == '\n' || code == '\t' || code == '\r') {
      shown += code == '\n' ? "\\n" : code == '\t' ? "\\t" : "\\r";
    } else {
      shown += code < 0x80 ? fmt::format("\\x{:02x}", code) : fmt::format("\\u{:04x}", code);
    }
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return shown;
}

}  // namespace cli
