// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>

namespace pages {

/// An integer for people, its digits in groups of three: 1234567 is "1 234 567". The narrow
/// no-break space between groups cannot be taken for a decimal point, and no line breaks there.
[[nodiscard]] std::string grouped_text(std::integral auto value)
{
  std::string text = fmt::format("{}", value);
  std::size_t const first = text.front() == '-' ? 1 : 0;
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
///             (4) per cent have no prefix: 0.2 with "%" is "0.2 %"
[[nodiscard]] inline std::string si_text(double value, std::string_view unit)
{
  if (value == 0) { return "0"; }
  // "-1.23e-05": rounding first and scaling afterwards turns 999.9 into 1k, not into 1000.
  std::string const rounded = fmt::format("{:.2e}", value);
  std::size_t const mark = rounded.find('e');
  int const exponent = std::atoi(rounded.c_str() + mark + 1);
  bool const in_seconds = unit == "s";
  if (in_seconds && exponent >= 3 && exponent < 6) {
    return grouped_text(std::llround(std::strtod(rounded.c_str(), nullptr))) + "\u00A0s";
  }
  if (unit == "%") {
    double const percent = std::strtod(rounded.c_str(), nullptr);
    return (exponent >= 3 && exponent < 15 ? grouped_text(std::llround(percent))
                                           : fmt::format("{:.3g}", percent)) +
           "\u00A0%";
  }
  constexpr std::array<std::string_view, 11> prefixes = {"p", "n", "\u00B5", "m", "", "k",
                                                         "M", "G", "T",      "P", "E"};
  bool const prefixed = exponent >= -12 && exponent < (in_seconds ? 3 : 21);
  int const thousands = (exponent + 12) / 3;
  auto const shift = static_cast<std::size_t>(prefixed ? exponent + 12 - 3 * thousands : 0);

  std::string const digits = {rounded[mark - 4], rounded[mark - 2], rounded[mark - 1]};
  std::string text = rounded.front() == '-' ? "-" : "";
  text += digits.substr(0, shift + 1);
  std::string decimals = digits.substr(shift + 1);
  while (!decimals.empty() && decimals.back() == '0') { decimals.pop_back(); }
  if (!decimals.empty()) { text += '.' + decimals; }
  if (!prefixed) { text += fmt::format("e{}", exponent); }
  if (!unit.empty()) { text += "\u00A0"; }
  if (prefixed) { text += prefixes[static_cast<std::size_t>(thousands)]; }
  return text += unit;
}

/// A ratio whose ideal is 1: "3.45", and close to 1 with one more decimal, "1.010".
[[nodiscard]] inline std::string ratio_text(double value)
{
  return value < 1000 ? fmt::format("{:.{}f}", value, value < 1.1 ? 3 : 2) : si_text(value, "");
}

/// A share in percent, with about two significant digits: 0.0123 is "1.2 %". `up` rounds upwards,
/// so that an upper bound stays an upper bound. Expects that share is finite and not negative.
[[nodiscard]] inline std::string percent_text(double share, bool up = false)
{
  double const percent = up || share >= 5e-6 ? 100 * share : 0;
  int const decimals = percent >= 10 || percent == 0 ? 0
                       : percent >= 1                ? 1
                       : percent >= 0.1              ? 2
                                                     : 3;
  double const scale = std::pow(10.0, decimals);
  return fmt::format("{:.{}f}\u00A0%", up ? std::ceil(percent * scale) / scale : percent, decimals);
}

}  // namespace pages
