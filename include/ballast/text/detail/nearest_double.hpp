// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TEXT_DETAIL_NEAREST_DOUBLE_HPP
#define BALLAST_TEXT_DETAIL_NEAREST_DOUBLE_HPP

#include <ballast/core/config.hpp>

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

#ifndef __cpp_lib_to_chars
#include <locale.h>
#include <stdlib.h>

#include <cerrno>
#include <string>
#endif

namespace ballast::inline v0::detail {

/// The double nearest to the number that all of the text is: `0.405`, `-4e-1`, `inf`, `nan`.
///
/// Ensures     (1) no locale matters, and every standard library reads the same
///             (2) nothing where the text is no number, or beyond what a double holds
[[nodiscard]] inline std::optional<double> nearest_double(std::string_view text)
{
  bool const is_word = text == "inf" || text == "-inf" || text == "nan" || text == "-nan";
  if (text.empty() || text.front() == '+' ||
      (!is_word && text.find_first_not_of("0123456789.eE+-") != text.npos)) {
    return std::nullopt;
  }
  double number = 0;
#ifdef __cpp_lib_to_chars
  auto const [stopped, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc{} || stopped != text.data() + text.size()) { return std::nullopt; }
#else  // libc++ 19 reads integers only
  static locale_t const plain = newlocale(LC_ALL_MASK, "C", nullptr);
  std::string const ended(text);
  char* stopped = nullptr;
  errno = 0;
  number = strtod_l(ended.c_str(), &stopped, plain);
  bool const is_lost = errno == ERANGE && !(number > -1 && number < 1 && number != 0);
  if (stopped != ended.c_str() + ended.size() || is_lost) { return std::nullopt; }
#endif
  return number;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_TEXT_DETAIL_NEAREST_DOUBLE_HPP
