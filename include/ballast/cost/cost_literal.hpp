// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COST_COST_LITERAL_HPP
#define BALLAST_COST_COST_LITERAL_HPP

#include <ballast/core/uint128.hpp>
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

/// What a literal says, or what is wrong with it.
struct written_cost {
  enum class fault : std::uint8_t { none, syntax, unknown_key, repeated_key, value, shape };

  transformer_shape shape;
  double gamma = 1;
  bool is_tokens = false;
  fault wrong = fault::none;
};

/// Reads what `parse_cost_spec` reads, without its sentences. Numbers have no sign and no exponent.
[[nodiscard]] constexpr written_cost read_cost(std::string_view text)
{
  using fault = written_cost::fault;
  constexpr std::string_view name = "transformer:";
  constexpr std::array<std::string_view, 11> keys = {"d",        "layers",    "heads", "kv_heads",
                                                     "head_dim", "ffn",       "vocab", "gated",
                                                     "causal",   "recompute", "gamma"};
  constexpr std::size_t first_flag = 7;
  constexpr std::size_t gamma_key = 10;

  written_cost read;
  auto const refuse = [&read](fault wrong) {
    read.wrong = wrong;
    return read;
  };
  if (text == "tokens") {
    read.is_tokens = true;
    return read;
  }
  if (text.substr(0, name.size()) != name) { return refuse(fault::syntax); }

  std::array<std::optional<std::uint32_t>, gamma_key> numbers;
  bool has_gamma = false;
  for (std::size_t next = name.size(); next <= text.size();) {
    std::size_t const comma = text.find(',', next);
    std::size_t const end = comma == std::string_view::npos ? text.size() : comma;
    std::string_view const entry = text.substr(next, end - next);
    std::size_t const equals = entry.find('=');
    if (equals == std::string_view::npos) { return refuse(fault::syntax); }
    std::string_view const value = entry.substr(equals + 1);
    std::size_t key = 0;
    while (key < keys.size() && keys[key] != entry.substr(0, equals)) { ++key; }
    if (key == keys.size()) { return refuse(fault::unknown_key); }
    if (key == gamma_key ? has_gamma : numbers[key].has_value()) {
      return refuse(fault::repeated_key);
    }
    if (key == gamma_key) {
      auto const gamma = read_double(value);
      if (!gamma) { return refuse(fault::value); }
      read.gamma = *gamma;
      has_gamma = true;
    } else {
      std::uint64_t number = 0;
      for (char const digit : value) {
        if (digit < '0' || digit > '9') { return refuse(fault::value); }
        number = 10 * number + static_cast<std::uint64_t>(digit - '0');
        if (number > std::numeric_limits<std::uint32_t>::max()) { return refuse(fault::value); }
      }
      if (value.empty() || (key >= first_flag && number > 1)) { return refuse(fault::value); }
      numbers[key] = static_cast<std::uint32_t>(number);
    }
    next = end + 1;
  }

  auto const [hidden, layers, heads, kv_heads, head_dim, ffn, vocabulary, gated, causal,
              recompute] = numbers;
  static_cast<void>(recompute);  // changes the passes, not the cost of one
  if (!hidden) { return refuse(fault::syntax); }
  transformer_shape& shape = read.shape;
  shape.hidden = *hidden;
  shape.layers = layers.value_or(1);
  shape.heads = heads.value_or(1);
  shape.kv_heads = kv_heads.value_or(shape.heads);
  bool const divides = shape.heads > 0 && shape.hidden % shape.heads == 0;
  bool const fits = shape.hidden < std::uint32_t{1} << 30;
  if ((!head_dim && shape.heads > 0 && !divides) || (!ffn && !fits)) {
    return refuse(fault::shape);
  }
  shape.head_dim = head_dim.value_or(shape.heads > 0 ? shape.hidden / shape.heads : 0);
  shape.ffn_hidden = ffn.value_or(4 * shape.hidden);
  shape.gated_ffn = gated.value_or(0) == 1;
  shape.mask = causal.value_or(0) == 1 ? attention_mask::causal : attention_mask::full;
  shape.vocabulary = vocabulary.value_or(0);
  return read;
}

// Not constexpr, so that reaching one in a literal is a compile error which shows its name.
inline void a_cost_reads_like_transformer_d_3072_gamma_0_405_or_tokens() {}
inline void a_cost_has_no_such_key() {}
inline void a_key_of_a_cost_is_given_once() {}
inline void a_value_of_a_cost_is_a_number_without_sign_or_exponent() {}
inline void heads_divide_d_and_d_is_below_2_to_the_30_or_head_dim_and_ffn_are_given() {}

}  // namespace detail

inline namespace literals {

/// A cost model checked by the compiler: `constexpr auto cost = "transformer:d=3072,gamma=0.405"_cost;`
///
/// Reads what `parse_cost_spec` reads at run time; numbers have at most 19 digits, no sign and no
/// exponent.
///
/// Ensures     (1) the cost is `parse_cost_spec(text)->cost`
[[nodiscard]] consteval quadratic_cost operator""_cost(char const* text, std::size_t size)
{
  using fault = detail::written_cost::fault;
  detail::written_cost const written = detail::read_cost({text, size});
  switch (written.wrong) {
    case fault::none: break;
    case fault::syntax: detail::a_cost_reads_like_transformer_d_3072_gamma_0_405_or_tokens(); break;
    case fault::unknown_key: detail::a_cost_has_no_such_key(); break;
    case fault::repeated_key: detail::a_key_of_a_cost_is_given_once(); break;
    case fault::value: detail::a_value_of_a_cost_is_a_number_without_sign_or_exponent(); break;
    case fault::shape:
      detail::heads_divide_d_and_d_is_below_2_to_the_30_or_head_dim_and_ffn_are_given();
      break;
  }
  if (written.is_tokens) { return {.linear = 1}; }
  return gamma_corrected(written.shape, written.gamma);
}

}  // namespace literals

}  // namespace ballast::inline v0

#endif  // BALLAST_COST_COST_LITERAL_HPP
