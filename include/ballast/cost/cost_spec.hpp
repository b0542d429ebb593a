// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/text/decimal.hpp>

#include <bit>

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

/// What is wrong with a text, in a sentence.
[[nodiscard]] inline error refused_cost(std::string_view text, written_cost const& read)
{
  using fault = written_cost::fault;
  auto const at = [text](error_code code, std::string_view part, std::string const& why) {
    return text_error(code, text, static_cast<std::size_t>(part.data() - text.data()), why);
  };
  auto const value = [&](std::string_view expected) {
    std::string_view const written = read.value_of(read.where);
    return at(error_code::out_of_range, written,
              concat(read.where, " is ", excerpt(written), "; give ", expected));
  };
  std::string const quoted = excerpt(read.where);
  switch (read.wrong) {
    case fault::none:
    case fault::a_cost_reads_like_transformer_d_3072_gamma_0_405_or_tokens: break;
    case fault::a_setting_of_a_cost_reads_like_gamma_0_405:
      return at(error_code::syntax, read.where,
                quoted + " is not of the form key=value; complete or remove it");
    case fault::a_cost_has_no_such_key:
      return at(error_code::unknown_name, read.where,
                quoted +
                    " is no parameter of transformer, which takes d=N,layers=N,heads=N,kv_heads=N,"
                    "head_dim=N,ffn=N,gated=0,causal=0,vocab=N,recompute=0,gamma=X");
    case fault::a_key_of_a_cost_is_given_once:
      return at(error_code::syntax, read.where, quoted + " is given twice; remove one of the two");
    case fault::a_transformer_needs_its_hidden_size:
      return at(error_code::syntax, text.substr(text.size()),
                "a transformer needs its hidden size; write for example "
                "'transformer:d=3072,gamma=0.405'");
    case fault::a_value_of_a_cost_is_a_whole_number:
      return value("a whole number from 0 to 4294967295");
    case fault::a_flag_of_a_cost_is_0_or_1: return value("0 or 1");
    case fault::a_value_of_a_cost_is_a_number_without_sign_or_exponent:
      return value("a decimal number such as 0.405");
    case fault::heads_divide_d_or_head_dim_is_given:
      return value("a divisor of d, or head_dim as well");
    case fault::the_hidden_size_is_below_2_to_the_30_or_ffn_is_given:
      return value("a number below 2^30, or ffn as well");
  }
  return at(error_code::unknown_name, text,
            quoted + " is no cost model; write 'tokens' or 'transformer:d=3072,gamma=0.405'");
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

/// A cost model as a command line or a configuration file names it.
struct cost_spec {
  quadratic_cost cost;      ///< gamma-corrected forward pass, or the number of tokens
  flop_polynomial forward;  ///< exact FLOP of all layers and the head; zero for `tokens`
  double gamma = 1;         ///< without meaning for `tokens`
  transformer_shape shape;  ///< empty for `tokens`
  bool layers_written =
      false;               ///< whether the text says how many layers, or they are 1 for want of it
  training_passes passes;  ///< the default, with recompute as specified
  int log2_flops_per_unit = 0;  ///< what one cost unit stands for; without meaning for `tokens`

  friend bool operator==(cost_spec const&, cost_spec const&) = default;
};

/// Reads `tokens` or `transformer:d=3072,gamma=0.405[,key=value...]`.
///
/// Keys of a transformer, in any order: d (hidden size, needed), layers (1), heads (1), kv_heads
/// (as many as heads), head_dim (d / heads), ffn (4 d), gated (0), causal (0), vocab (0: no head),
/// recompute (0), gamma (1: FLOP as they are). gated, causal and recompute are 0 or 1; recompute
/// changes `passes` and not `cost`, which is that of one forward pass. There are no spaces.
///
/// Ensures     (1) the numbers are those of `forward_flops` and `gamma_corrected`
/// Errors      position is a byte offset, at most text.size(). syntax: not of this form, d is
///             missing, or a key is given twice; unknown_name: there is no such model or key, and
///             the message lists those there are; out_of_range: a value is no number of its
///             kind, or the model cannot have it.
/// Complexity  O(text.size()).
[[nodiscard]] inline result<cost_spec> parse_cost_spec(std::string_view text)
{
  auto const read = detail::read_cost(text, detail::nearest_double);
  if (read.wrong != detail::written_cost::fault::none) {
    return tl::unexpected(detail::refused_cost(text, read));
  }
  cost_spec spec;
  if (read.is_tokens) {
    spec.cost = {.linear = 1};
    return spec;
  }
  spec.shape = read.shape;
  spec.gamma = read.gamma;
  spec.layers_written = read.has("layers");
  spec.passes.recompute = read.recompute;

  auto const refuse = [&](error const& why, std::string_view key) {
    std::size_t const offset =
        read.has(key) ? static_cast<std::size_t>(read.value_of(key).data() - text.data())
                      : text.find(':') + 1;
    return tl::unexpected(detail::text_error(why.code, text, offset, why.message));
  };
  auto const forward = forward_flops(spec.shape);
  if (!forward) {
    return refuse(forward.error(), detail::transformer_keys[forward.error().position]);
  }
  auto const cost = gamma_corrected(*forward, spec.gamma);
  if (!cost) { return refuse(cost.error(), "gamma"); }
  spec.forward = *forward;
  spec.cost = cost->cost;
  spec.log2_flops_per_unit = cost->log2_flops_per_unit;
  return spec;
}

}  // namespace ballast::inline v0
