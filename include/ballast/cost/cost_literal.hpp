// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COST_COST_LITERAL_HPP
#define BALLAST_COST_COST_LITERAL_HPP

#include <ballast/core/uint128.hpp>
#include <ballast/cost/detail/transformer_keys.hpp>
#include <ballast/cost/gamma_correction.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/cost/transformer_shape.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

namespace ballast::inline v0 {

namespace detail {

/// Reads `12` or `0.405`, of at most 19 digits, as the nearest double, as the standard library does
/// at run time. Nothing where the text is no such number.
[[nodiscard]] constexpr std::optional<double> read_double(std::string_view text)
{
  constexpr std::size_t most_digits = 19;  // of 64 bits
  std::uint64_t digits = 0;
  std::uint64_t scale = 1;  // the number is digits / scale
  std::size_t count = 0;
  bool after_point = false;
  for (char const each : text) {
    if (each == '.' && !after_point) {
      after_point = true;
      continue;
    }
    if (each < '0' || each > '9' || ++count > most_digits) { return std::nullopt; }
    digits = 10 * digits + static_cast<std::uint64_t>(each - '0');
    scale *= after_point ? 10 : 1;
  }
  if (count == 0) { return std::nullopt; }
  if (digits == 0) { return 0.0; }

  // 128 bits divided by 64 at most leave 64 or more, of which 53 are kept.
  int const shift = 64 + std::countl_zero(digits);
  uint128 const dividend = static_cast<uint128>(digits) << shift;
  uint128 const quotient = dividend / scale;
  auto const high = static_cast<std::uint64_t>(quotient >> 64);
  int const width = high != 0 ? 128 - std::countl_zero(high) : 64;
  int const dropped = width - std::numeric_limits<double>::digits;
  auto mantissa = static_cast<std::uint64_t>(quotient >> dropped);
  uint128 const rest = quotient - (static_cast<uint128>(mantissa) << dropped);
  uint128 const half = static_cast<uint128>(1) << (dropped - 1);
  bool const is_tie = dividend % scale == 0;  // where the rest is a half
  mantissa += rest > half || (rest == half && (!is_tie || mantissa % 2 == 1)) ? 1 : 0;

  auto value = static_cast<double>(mantissa);
  for (int power = dropped - shift; power < 0; ++power) { value /= 2; }
  for (int power = dropped - shift; power > 0; --power) { value *= 2; }
  return value;
}

/// A text as a template argument, so that compilers quote it. `Size` counts the zero at its end.
template <std::size_t Size>
struct literal_text {
  char text[Size] = {};

  consteval literal_text(char const (&written)[Size]) : literal_text(view_of(written)) {}
  consteval explicit literal_text(std::string_view written)
  {
    for (std::size_t at = 0; at < written.size(); ++at) { text[at] = written[at]; }
  }

  [[nodiscard]] constexpr std::string_view view() const { return view_of(text); }

 private:
  [[nodiscard]] static constexpr std::string_view view_of(char const (&written)[Size])
  {
    return {written, Size - 1};
  }
};

/// What a literal says, or what is wrong with it.
struct written_cost {
  enum class fault : std::uint8_t {
    none,
    syntax,
    unknown_key,
    repeated_key,
    missing_size,
    number,
    flag,
    heads,
    large_size
  };

  transformer_shape shape;
  double gamma = 1;
  bool is_tokens = false;
  fault wrong = fault::none;
  std::string_view where = {};  ///< the key, or the part that is not of the form
};

/// Reads what `parse_cost_spec` reads, without its sentences. Numbers have no sign and no exponent.
[[nodiscard]] constexpr written_cost read_cost(std::string_view text)
{
  using fault = written_cost::fault;
  constexpr std::string_view name = "transformer:";
  constexpr std::size_t gamma_key = transformer_keys.size() - 1;
  constexpr auto is_flag = [](std::string_view key) {
    return key == "gated" || key == "causal" || key == "recompute";
  };

  written_cost read;
  auto const refuse = [&read](fault wrong, std::string_view where) {
    read.wrong = wrong;
    read.where = where;
    return read;
  };
  if (text == "tokens") {
    read.is_tokens = true;
    return read;
  }
  if (text.substr(0, name.size()) != name) { return refuse(fault::syntax, text); }

  std::array<std::optional<std::uint32_t>, gamma_key> numbers;
  bool has_gamma = false;
  for (std::size_t next = name.size(); next <= text.size();) {
    std::size_t const comma = text.find(',', next);
    std::size_t const end = comma == std::string_view::npos ? text.size() : comma;
    std::string_view const entry = text.substr(next, end - next);
    std::size_t const equals = entry.find('=');
    if (equals == std::string_view::npos) { return refuse(fault::syntax, entry); }
    std::string_view const key = entry.substr(0, equals);
    std::string_view const value = entry.substr(equals + 1);
    std::size_t index = 0;
    while (index < transformer_keys.size() && transformer_keys[index] != key) { ++index; }
    if (index == transformer_keys.size()) { return refuse(fault::unknown_key, key); }
    if (index == gamma_key ? has_gamma : numbers[index].has_value()) {
      return refuse(fault::repeated_key, key);
    }
    if (index == gamma_key) {
      auto const gamma = read_double(value);
      if (!gamma) { return refuse(fault::number, key); }
      read.gamma = *gamma;
      has_gamma = true;
    } else {
      fault const wrong = is_flag(key) ? fault::flag : fault::number;
      std::uint64_t const most = is_flag(key) ? 1 : std::numeric_limits<std::uint32_t>::max();
      std::uint64_t number = 0;
      for (char const digit : value) {
        if (digit < '0' || digit > '9') { return refuse(wrong, key); }
        number = 10 * number + static_cast<std::uint64_t>(digit - '0');
        if (number > most) { return refuse(wrong, key); }
      }
      if (value.empty()) { return refuse(wrong, key); }
      numbers[index] = static_cast<std::uint32_t>(number);
    }
    next = end + 1;
  }

  auto const [hidden, layers, heads, kv_heads, head_dim, ffn, gated, causal, vocabulary,
              recompute] = numbers;
  static_cast<void>(recompute);  // changes the passes, not the cost of one
  if (!hidden) { return refuse(fault::missing_size, "d"); }
  transformer_shape& shape = read.shape;
  shape.hidden = *hidden;
  shape.layers = layers.value_or(1);
  shape.heads = heads.value_or(1);
  shape.kv_heads = kv_heads.value_or(shape.heads);
  bool const divides = shape.heads > 0 && shape.hidden % shape.heads == 0;
  bool const fits = shape.hidden < std::uint32_t{1} << 30;
  if (!head_dim && shape.heads > 0 && !divides) { return refuse(fault::heads, "heads"); }
  if (!ffn && !fits) { return refuse(fault::large_size, "d"); }
  shape.head_dim = head_dim.value_or(shape.heads > 0 ? shape.hidden / shape.heads : 0);
  shape.ffn_hidden = ffn.value_or(4 * shape.hidden);
  shape.gated_ffn = gated.value_or(0) == 1;
  shape.mask = causal.value_or(0) == 1 ? attention_mask::causal : attention_mask::full;
  shape.vocabulary = vocabulary.value_or(0);
  return read;
}

// Not constexpr, so that reaching one in a literal is a compile error which shows its name and what
// it is about.
template <literal_text Part>
void a_cost_reads_like_transformer_d_3072_gamma_0_405_or_tokens()
{}
template <literal_text Key>
void a_cost_has_no_such_key()
{}
template <literal_text Key>
void a_key_of_a_cost_is_given_once()
{}
template <literal_text Key>
void a_transformer_needs_its_hidden_size()
{}
template <literal_text Key>
void a_value_of_a_cost_is_a_number_without_sign_or_exponent()
{}
template <literal_text Key>
void a_flag_of_a_cost_is_0_or_1()
{}
template <literal_text Key>
void heads_divide_d_or_head_dim_is_given()
{}
template <literal_text Key>
void the_hidden_size_is_below_2_to_the_30_or_ffn_is_given()
{}

}  // namespace detail

inline namespace literals {

/// A cost model checked by the compiler:
///
///     constexpr auto cost = "transformer:d=3072,gamma=0.405"_cost;
///
/// Reads what `parse_cost_spec` reads at run time; numbers have at most 19 digits, no sign and no
/// exponent.
///
/// Ensures     (1) the cost is `parse_cost_spec(text)->cost`
/// Errors      the compiler names what is wrong and the key: `a_cost_has_no_such_key`, "gama".
template <detail::literal_text Text>
[[nodiscard]] consteval quadratic_cost operator""_cost()
{
  using fault = detail::written_cost::fault;
  constexpr std::string_view part = detail::read_cost(Text.view()).where;
  constexpr detail::literal_text<part.size() + 1> where(part);
  // Not a constexpr variable: g++ would say first that the operator is no constant, and then why.
  detail::written_cost const written = detail::read_cost(Text.view());
  switch (written.wrong) {
    case fault::none: break;
    case fault::syntax:
      detail::a_cost_reads_like_transformer_d_3072_gamma_0_405_or_tokens<where>();
      break;
    case fault::unknown_key: detail::a_cost_has_no_such_key<where>(); break;
    case fault::repeated_key: detail::a_key_of_a_cost_is_given_once<where>(); break;
    case fault::missing_size: detail::a_transformer_needs_its_hidden_size<where>(); break;
    case fault::number:
      detail::a_value_of_a_cost_is_a_number_without_sign_or_exponent<where>();
      break;
    case fault::flag: detail::a_flag_of_a_cost_is_0_or_1<where>(); break;
    case fault::heads: detail::heads_divide_d_or_head_dim_is_given<where>(); break;
    case fault::large_size:
      detail::the_hidden_size_is_below_2_to_the_30_or_ffn_is_given<where>();
      break;
  }
  if (written.is_tokens) { return {.linear = 1}; }
  return gamma_corrected(written.shape, written.gamma);
}

}  // namespace literals

}  // namespace ballast::inline v0

#endif  // BALLAST_COST_COST_LITERAL_HPP
