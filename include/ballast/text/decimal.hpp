// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/text/excerpt.hpp>

#include <system_error>

#ifndef __cpp_lib_to_chars
#include <cerrno>
#include <clocale>
#include <cstdlib>
#endif

namespace ballast::inline v0 {

/// A number as files and people write it: not negative, in decimal, exact to nine decimals.
/// Measured times become whole units through it, without floating point.
class decimal {
 public:
  static constexpr unsigned most_decimals = 9;

  decimal() = default;

  /// units / 10^decimals. Expects units >= 0 and decimals <= most_decimals.
  [[nodiscard]] static decimal make(std::int64_t units, unsigned decimals)
  {
    BALLAST_EXPECTS(units >= 0, "a decimal was asked for of ", units, " units, and the least is 0");
    BALLAST_EXPECTS(decimals <= most_decimals, "a decimal was asked for with ", decimals,
                    " decimals, and the most is ", most_decimals);
    return decimal(static_cast<uint128>(units) * power_of_ten(most_decimals - decimals));
  }

  /// How many decimals it needs: 12.50 needs one.
  [[nodiscard]] unsigned decimals() const
  {
    unsigned needed = most_decimals;
    for (uint128 rest = billionths_; needed > 0 && rest % 10 == 0; rest /= 10) { --needed; }
    return needed;
  }

  /// The number times 10^decimals. Expects this->decimals() <= decimals <= most_decimals.
  [[nodiscard]] uint128 in_units(unsigned decimals) const
  {
    BALLAST_EXPECTS(decimals <= most_decimals, "a decimal was asked for with ", decimals,
                    " decimals, and the most is ", most_decimals);
    std::uint64_t const unit = power_of_ten(most_decimals - decimals);
    BALLAST_EXPECTS(billionths_ % unit == 0, "a decimal that needs ", this->decimals(),
                    " decimals was asked for with ", decimals);
    return billionths_ / unit;
  }

  /// With as many decimals as it needs but at least `least`, so that columns of numbers line up.
  /// parse_decimal reads the same number back. Expects least <= most_decimals.
  [[nodiscard]] std::string text(unsigned least = 0) const
  {
    BALLAST_EXPECTS(least <= most_decimals, "a decimal was asked for with ", least,
                    " decimals, and the most is ", most_decimals);
    std::string digits;  // last first
    for (uint128 rest = billionths_; rest > 0 || digits.size() <= most_decimals; rest /= 10) {
      digits += static_cast<char>('0' + static_cast<int>(rest % 10));
    }
    digits.insert(most_decimals, 1, '.');
    std::reverse(digits.begin(), digits.end());
    digits.erase(digits.size() - (most_decimals - std::max(least, decimals())));
    if (digits.back() == '.') { digits.pop_back(); }
    return digits;
  }

  friend bool operator==(decimal const&, decimal const&) = default;

 private:
  friend result<decimal> parse_decimal(std::string_view);

  explicit decimal(uint128 billionths) : billionths_(billionths) {}

  [[nodiscard]] static std::uint64_t power_of_ten(unsigned exponent)
  {
    std::uint64_t power = 1;
    for (; exponent > 0; --exponent) { power *= 10; }
    return power;
  }

  uint128 billionths_ = 0;
};

/// Reads `12`, `0.125`, `.5` or `1.5e-3`: digits, perhaps with a point, perhaps an exponent.
///
/// Ensures     (1) the number is what is written, rounded at the ninth decimal, halves up
///             (2) no locale matters, and no floating point is involved
/// Errors      syntax: the text is no such number, or the number is negative; out_of_range: it is
///             2^63 or more, or not 0 and rounds to 0, or its exponent is beyond 999. position is
///             0.
/// Complexity  O(bytes).
[[nodiscard]] inline result<decimal> parse_decimal(std::string_view text)
{
  constexpr int most_exponent = 999;
  auto const refuse = [text] {
    return fail(error_code::syntax, 0,
                excerpt(text) + " is no number of 0 or more; write it as 12, 0.125 or 1.5e-3");
  };
  auto const too_large = [text] {
    return fail(
        error_code::out_of_range, 0,
        excerpt(text) + " is 2^63 or more, or its exponent is beyond 999; use another unit");
  };
  std::size_t const mark = std::min(text.find_first_of("eE"), text.size());
  std::string_view const digits = text.substr(0, mark);
  int exponent = 0;
  if (mark < text.size()) {
    bool const plus = text.substr(mark + 1).starts_with('+');
    char const* const first = text.data() + mark + (plus ? 2 : 1);
    char const* const last = text.data() + text.size();
    auto const [end, problem] = std::from_chars(first, last, exponent);
    if (problem == std::errc::invalid_argument || end != last || (plus && *first == '-')) {
      return refuse();
    }
    if (problem != std::errc{} || exponent < -most_exponent || exponent > most_exponent) {
      return too_large();
    }
  }
  std::size_t const point = std::min(digits.find('.'), digits.size());
  if (digits.size() - (point < digits.size() ? 1 : 0) == 0) { return refuse(); }

  uint128 const limit =
      static_cast<uint128>(std::uint64_t{1} << 63) * decimal::power_of_ten(decimal::most_decimals);
  uint128 billionths = 0;
  bool rounds_up = false;
  // How many digits of the number in billionths are left to read; below 0, they are cut off.
  auto left = static_cast<std::int64_t>(point) + exponent + decimal::most_decimals;
  for (std::size_t at = 0; at < digits.size(); ++at) {
    if (at == point) { continue; }
    if (digits[at] < '0' || digits[at] > '9') { return refuse(); }
    auto const digit = static_cast<unsigned>(digits[at] - '0');
    if (left > 0 && billionths < limit) { billionths = 10 * billionths + digit; }
    if (left == 0) { rounds_up = digit >= 5; }
    --left;
  }
  for (; left > 0 && billionths > 0 && billionths < limit; --left) { billionths *= 10; }
  billionths += rounds_up ? 1 : 0;
  if (billionths >= limit) { return too_large(); }
  if (billionths == 0 && digits.find_first_of("123456789") != digits.npos) {
    return fail(error_code::out_of_range, 0,
                excerpt(text) + " is not 0, and less than half of 1e-9; use another unit");
  }
  return decimal(billionths);
}

namespace detail {

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

}  // namespace detail

}  // namespace ballast::inline v0
