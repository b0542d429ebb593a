// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TEXT_CSV_FIELD_HPP
#define BALLAST_TEXT_CSV_FIELD_HPP

#include <ballast/core/config.hpp>

#include <string>
#include <string_view>

namespace ballast::inline v0 {

/// Text as a field of a CSV file, in quotes where it needs them: `csv_reader` reads the same back.
///
/// Complexity  O(bytes).
[[nodiscard]] inline std::string csv_field(std::string_view text)
{
  if (text.find_first_of("\",\n\r") == std::string_view::npos) { return std::string(text); }
  std::string field = "\"";
  for (char const byte : text) { field.append(byte == '"' ? 2 : 1, byte); }
  return field += '"';
}

}  // namespace ballast::inline v0

#endif  // BALLAST_TEXT_CSV_FIELD_HPP
