// SPDX-License-Identifier: Apache-2.0
#include "../../examples/ballast/shown_text.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

// What is shown is harmless UTF-8, however often it is shown; and harmless text is shown as it is.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size)
{
  std::string_view const text(reinterpret_cast<char const*>(data), size);
  auto const is_harmless = [](std::string_view left) {
    while (!left.empty()) {
      auto const front = cli::utf8_character::front_of(left);
      if (front.bytes == 0 || !front.is_harmless()) { return false; }
      left.remove_prefix(front.bytes);
    }
    return true;
  };
  std::string const shown = cli::shown_text(text);
  if (!is_harmless(shown) || cli::shown_text(shown) != shown) { std::abort(); }
  if (is_harmless(text) != (shown == text)) { std::abort(); }
  return 0;
}
