// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_REPORT_NUMBER_TEXT_HPP
#define BALLAST_REPORT_NUMBER_TEXT_HPP

#include <ballast/core/contract.hpp>
#include <ballast/report/detail/numbers.hpp>

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ballast::inline v0::report {

/// A number with a fixed count of decimals: 2.314 with two is "2.31".
///
/// Expects     value is finite; 0 <= decimals <= 20.
/// Ensures     (1) it is the nearest decimal, and a zero has no sign: "0.00", not "-0.00"
inline std::string decimal_text(double value, int decimals)
{
  BALLAST_EXPECTS(detail::is_finite(value), "the number to write is ", value,
                  ", and only finite ones have digits");
  BALLAST_EXPECTS(decimals >= 0 && decimals <= 20, "a number was asked for with ", decimals,
                  " decimals, which is not from 0 to 20");
  detail::digits_buffer digits;
  char const* const end = std::to_chars(digits.data(), digits.data() + digits.size(), value,
                                        std::chars_format::fixed, decimals)
                              .ptr;
  std::string text(digits.data(), static_cast<std::size_t>(end - digits.data()));
  if (text.find_first_not_of("-0.") == std::string::npos && text.front() == '-') {
    text.erase(0, 1);
  }
  return text;
}

/// An integer for people, its digits in groups of three: 1234567 is "1 234 567". The narrow no-break
/// space between groups cannot be taken for a decimal point, and no line breaks there.
inline std::string grouped_text(std::int64_t value)
{
  std::string text;
  detail::append_integer(text, value);
  auto const first = static_cast<std::size_t>(value < 0);
  for (std::size_t at = text.size(); at > first + 3;) {
    at -= 3;
    text.insert(at, "\u202F");
  }
  return text;
}

/// A quantity for people: three significant digits, an SI prefix, and the unit's symbol.
///
/// 0.0123 with "s" is "12.3 ms"; 16776 without a unit is "16.8k"; zero is written without its unit.
///
/// Expects     value is finite.
/// Ensures     (1) read back with its prefix, it is within half a unit of the third digit
///             (2) the number before the prefix is from 1 to 999, without trailing zeros after its
///                 point; where no prefix fits (below 1e-12, from 1e21) a power of ten is written
///             (3) seconds have no prefix above 1: from 1000 s they are written in groups of three
///                 digits, and from 1e6 s with a power of ten
inline std::string si_text(double value, std::string_view unit)
{
  BALLAST_EXPECTS(detail::is_finite(value), "the number to write is ", value,
                  ", and only finite ones have digits");
  if (value == 0) { return "0"; }
  // "-1.23e-05": rounding first and scaling afterwards turns 999.9 into 1k, not into 1000.
  detail::digits_buffer buffer;
  char const* const end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                        std::chars_format::scientific, 2)
                              .ptr;
  std::string_view const rounded(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
  std::size_t const mark = rounded.find('e');
  int exponent = 0;
  std::size_t const sign_of_exponent = rounded[mark + 1] == '+' ? mark + 2 : mark + 1;
  std::from_chars(buffer.data() + sign_of_exponent, end, exponent);

  bool const in_seconds = unit == "s";
  if (in_seconds && exponent >= 3 && exponent < 6) {
    double whole = 0;
    std::from_chars(buffer.data(), end, whole);
    return grouped_text(std::llround(whole)) + "\u00A0s";
  }

  constexpr std::array<std::string_view, 11> prefixes = {"p", "n", "\u00B5", "m", "", "k",
                                                         "M", "G", "T",      "P", "E"};
  bool const prefixed = exponent >= -12 && exponent < (in_seconds ? 3 : 21);
  int const thousands = (exponent + 12) / 3;
  int const shift = prefixed ? exponent + 12 - 3 * thousands : 0;

  std::string text = rounded.front() == '-' ? "-" : "";
  text += rounded[mark - 4];
  std::string decimals = {rounded[mark - 2], rounded[mark - 1]};
  text += decimals.substr(0, static_cast<std::size_t>(shift));
  decimals.erase(0, static_cast<std::size_t>(shift));
  while (!decimals.empty() && decimals.back() == '0') { decimals.pop_back(); }
  if (!decimals.empty()) { (text += '.') += decimals; }

  if (!prefixed) { detail::append_integer(text += 'e', exponent); }
  if (!unit.empty()) { text += "\u00A0"; }
  if (prefixed) { text += prefixes[static_cast<std::size_t>(thousands)]; }
  return text += unit;
}

/// A ratio whose ideal is 1: "3.45", and close to 1 with one more decimal, "1.010". Expects that
/// value is finite.
inline std::string ratio_text(double value)
{
  return value < 1000 ? decimal_text(value, value < 1.1 ? 3 : 2) : si_text(value, "");
}

/// A share in percent, with about two significant digits: 0.0123 is "1.2 %". `up` rounds upwards,
/// so that an upper bound stays an upper bound. Expects that share is finite and not negative.
inline std::string percent_text(double share, bool up = false)
{
  double const percent = 100 * share;
  int const decimals = percent >= 10 || percent == 0 ? 0
                       : percent >= 1                ? 1
                       : percent >= 0.1              ? 2
                                                     : 3;
  double const scale = std::pow(10.0, decimals);
  return decimal_text(up ? std::ceil(percent * scale) / scale : percent, decimals) + "\u00A0%";
}

}  // namespace ballast::inline v0::report

#endif  // BALLAST_REPORT_NUMBER_TEXT_HPP
