// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cost/quadratic_cost.hpp>

namespace ballast::inline v0 {

namespace detail {

/// What a written transformer can say. Down to vocab in the order of transformer_shape's members,
/// as the positions of the errors of `forward_flops` are.
inline constexpr std::array<std::string_view, 11> transformer_keys = {
    "d",     "layers", "heads", "kv_heads",  "head_dim", "ffn",
    "gated", "causal", "vocab", "recompute", "gamma"};

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

/// What a text says that a cost is, or what is wrong with it.
struct written_cost {
  /// Named as a compiler quotes them.
  enum class fault : std::uint8_t {
    none,
    a_cost_reads_like_transformer_d_3072_gamma_0_405_or_tokens,
    a_setting_of_a_cost_reads_like_gamma_0_405,
    a_cost_has_no_such_key,
    a_key_of_a_cost_is_given_once,
    a_transformer_needs_its_hidden_size,
    a_value_of_a_cost_is_a_whole_number,
    a_flag_of_a_cost_is_0_or_1,
    a_value_of_a_cost_is_a_number_without_sign_or_exponent,
    heads_divide_d_or_head_dim_is_given,
    the_hidden_size_is_below_2_to_the_30_or_ffn_is_given
  };

  bool is_tokens = false;
  transformer_shape shape;
  double gamma = 1;
  std::uint32_t recompute = 0;
  std::array<std::string_view, transformer_keys.size()> values = {};  ///< by key, as written
  fault wrong = fault::none;
  std::string_view where = {};  ///< the key, or the part that is not of the form

  /// The value of a key as it is written, and without data where it is not.
  [[nodiscard]] constexpr std::string_view value_of(std::string_view key) const
  {
    auto const found = std::find(transformer_keys.begin(), transformer_keys.end(), key);
    return values[static_cast<std::size_t>(found - transformer_keys.begin())];
  }
  [[nodiscard]] constexpr bool has(std::string_view key) const
  {
    return value_of(key).data() != nullptr;
  }
};

/// Reads `tokens` or `transformer:key=value,key=value`, for literals and for text at run time, which
/// differ in how they read the decimal number gamma.
///
/// Ensures     (1) of several faults, the first key that is unknown or given twice, or entry without
///                 value, is reported; then that there is no d; then the first value in the order of
///                 transformer_keys
[[nodiscard]] constexpr written_cost read_cost(
    std::string_view text, std::optional<double> (*read_decimal)(std::string_view) = read_double)
{
  using fault = written_cost::fault;
  constexpr std::string_view name = "transformer:";
  written_cost read;
  auto const refuse = [&read](fault wrong, std::string_view where) {
    if (read.wrong == fault::none) {
      read.wrong = wrong;
      read.where = where;
    }
    return read;
  };
  if (text == "tokens") {
    read.is_tokens = true;
    return read;
  }
  if (!text.starts_with(name)) {
    return refuse(fault::a_cost_reads_like_transformer_d_3072_gamma_0_405_or_tokens, text);
  }
  for (std::size_t next = name.size(); next <= text.size();) {
    std::size_t const end = std::min(text.find(',', next), text.size());
    std::string_view const entry = text.substr(next, end - next);
    std::size_t const equals = entry.find('=');
    if (equals == std::string_view::npos) {
      return refuse(fault::a_setting_of_a_cost_reads_like_gamma_0_405, entry);
    }
    std::string_view const key = entry.substr(0, equals);
    auto const found = std::find(transformer_keys.begin(), transformer_keys.end(), key);
    if (found == transformer_keys.end()) { return refuse(fault::a_cost_has_no_such_key, key); }
    if (read.has(key)) { return refuse(fault::a_key_of_a_cost_is_given_once, key); }
    read.values[static_cast<std::size_t>(found - transformer_keys.begin())] =
        entry.substr(equals + 1);
    next = end + 1;
  }
  if (!read.has("d")) { return refuse(fault::a_transformer_needs_its_hidden_size, "d"); }

  auto const whole = [&](std::string_view key, std::uint64_t most, fault wrong,
                         std::uint32_t otherwise) {
    if (!read.has(key)) { return otherwise; }
    std::string_view const written = read.value_of(key);
    bool readable = !written.empty();
    std::uint64_t number = 0;
    for (char const digit : written) {
      readable = readable && digit >= '0' && digit <= '9' && number <= most;
      number = readable ? 10 * number + static_cast<std::uint64_t>(digit - '0') : 0;
    }
    if (!readable || number > most) {
      refuse(wrong, key);
      return otherwise;
    }
    return static_cast<std::uint32_t>(number);
  };
  auto const number = [&](std::string_view key, std::uint32_t otherwise) {
    return whole(key, std::numeric_limits<std::uint32_t>::max(),
                 fault::a_value_of_a_cost_is_a_whole_number, otherwise);
  };
  auto const flag = [&](std::string_view key) {
    return whole(key, 1, fault::a_flag_of_a_cost_is_0_or_1, 0);
  };
  transformer_shape& shape = read.shape;
  shape.hidden = number("d", 0);
  shape.layers = number("layers", 1);
  shape.heads = number("heads", 1);
  shape.kv_heads = number("kv_heads", shape.heads);
  if (!read.has("head_dim") && shape.heads > 0 && shape.hidden % shape.heads != 0) {
    refuse(fault::heads_divide_d_or_head_dim_is_given, "heads");
  }
  shape.head_dim = number("head_dim", shape.heads > 0 ? shape.hidden / shape.heads : 0);
  if (!read.has("ffn") && shape.hidden >= std::uint32_t{1} << 30) {
    refuse(fault::the_hidden_size_is_below_2_to_the_30_or_ffn_is_given, "d");
  }
  shape.ffn_hidden = number("ffn", 4 * shape.hidden);
  shape.gated_ffn = flag("gated") == 1;
  shape.mask = flag("causal") == 1 ? attention_mask::causal : attention_mask::full;
  shape.vocabulary = number("vocab", 0);
  read.recompute = flag("recompute");
  if (read.has("gamma")) {
    auto const gamma = read_decimal(read.value_of("gamma"));
    if (!gamma) {
      return refuse(fault::a_value_of_a_cost_is_a_number_without_sign_or_exponent, "gamma");
    }
    read.gamma = *gamma;
  }
  return read;
}

// Not constexpr, so that reaching it in a literal is a compile error which shows the fault and what
// it is about.
template <written_cost::fault Wrong, literal_text Where>
void refuse_written_cost()
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
  constexpr auto wrong = detail::read_cost(Text.view()).wrong;
  constexpr std::string_view part = detail::read_cost(Text.view()).where;
  constexpr detail::literal_text<part.size() + 1> where(part);
  if constexpr (wrong != detail::written_cost::fault::none) {
    detail::refuse_written_cost<wrong, where>();
  }
  // Not a constexpr variable: g++ would say first that the operator is no constant, and then why.
  detail::written_cost const written = detail::read_cost(Text.view());
  if (written.is_tokens) { return {.linear = 1}; }
  return gamma_corrected(written.shape, written.gamma);
}

}  // namespace literals

}  // namespace ballast::inline v0
