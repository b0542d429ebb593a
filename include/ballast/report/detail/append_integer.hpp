// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_REPORT_DETAIL_APPEND_INTEGER_HPP
#define BALLAST_REPORT_DETAIL_APPEND_INTEGER_HPP

#include <ballast/core/config.hpp>

#include <array>
#include <charconv>
#include <concepts>
#include <string>

namespace ballast::inline v0::detail {

/// Appends an integer as JSON writes it.
template <std::integral Integer>
void append_integer(std::string& out, Integer value)
{
  std::array<char, 20> digits{};
  out.append(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr);
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_REPORT_DETAIL_APPEND_INTEGER_HPP
