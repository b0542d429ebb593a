// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COST_COST_SPEC_HPP
#define BALLAST_COST_COST_SPEC_HPP

#include <ballast/core/result.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/cost/gamma_correction.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/cost/training_passes.hpp>
#include <ballast/cost/transformer_shape.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace ballast::inline v0 {

/// A cost model as a command line or a configuration file names it.
struct cost_spec {
  quadratic_cost cost;          ///< gamma-corrected forward pass, or the number of tokens
  flop_polynomial forward;      ///< exact FLOP of all layers and the head; zero for `tokens`
  double gamma = 1;             ///< without meaning for `tokens`
  transformer_shape shape;      ///< empty for `tokens`
  training_passes passes;       ///< the default, with recompute as specified
  int log2_flops_per_unit = 0;  ///< what one cost unit stands for; without meaning for `tokens`

  friend bool operator==(cost_spec const&, cost_spec const&) = default;
};

namespace detail {

// Down to vocab in the order of transformer_shape's members, as the positions of its errors are.
inline constexpr std::array<std::string_view, 11> transformer_keys = {
    "d",     "layers", "heads", "kv_heads",  "head_dim", "ffn",
    "gated", "causal", "vocab", "recompute", "gamma"};

enum transformer_key : std::uint8_t {
  d_key,
  layers_key,
  heads_key,
  kv_heads_key,
  head_dim_key,
  ffn_key,
  gated_key,
  causal_key,
  vocab_key,
  recompute_key,
  gamma_key
};

using transformer_values = std::array<std::optional<std::string_view>, transformer_keys.size()>;

/// Splits `key=value,key=value`, which starts at `next` in `text`. The values are views of `text`.
[[nodiscard]] inline result<transformer_values> split_entries(std::string_view text,
                                                              std::size_t next)
{
  transformer_values values;
  while (next <= text.size()) {
    std::size_t const begin = next;
    std::size_t const end = std::min(text.find(',', begin), text.size());
    next = end + 1;
    std::string_view const entry = text.substr(begin, end - begin);
    auto const where = [&] { return "byte " + std::to_string(begin) + ": '"; };
    std::size_t const equals = entry.find('=');
    if (equals == std::string_view::npos) {
      return fail(error_code::syntax, begin,
                  where().append(entry) + "' is not of the form key=value; complete or remove it");
    }
    std::string_view const name = entry.substr(0, equals);
    auto const found = std::ranges::find(transformer_keys, name);
    if (found == transformer_keys.end()) {
      std::string message = where().append(name) + "' is no key of a transformer; choose from";
      for (std::string_view const key : transformer_keys) { message.append(" ").append(key); }
      return fail(error_code::unknown_name, begin, std::move(message));
    }
    auto& value = values[static_cast<std::size_t>(found - transformer_keys.begin())];
    if (value) {
      return fail(error_code::syntax, begin,
                  where().append(name) + "' was given before; remove one of the two");
    }
    value = entry.substr(equals + 1);
  }
  return values;
}

/// All of `text` as a number, if it is one. "inf" and "nan" are decimal numbers here.
template <class Number>
[[nodiscard]] std::optional<Number> whole_text_as(std::string_view text)
{
  Number number{};
  char const* const begin = text.data();
  char const* const end = begin + text.size();
  auto const [stopped, problem] = std::from_chars(begin, end, number);
  if (problem != std::errc{} || stopped != end) { return std::nullopt; }
  return number;
}

[[nodiscard]] inline result<cost_spec> parse_transformer(std::string_view text, std::size_t begin)
{
  auto const split = split_entries(text, begin);
  if (!split) { return tl::unexpected(split.error()); }
  transformer_values const& values = *split;
  if (!values[d_key]) {
    return fail(error_code::syntax, text.size(),
                "a transformer needs its hidden size; write for example "
                "'transformer:d=3072,gamma=0.405'");
  }

  auto const offset_of = [&](std::size_t key) {
    return values[key] ? static_cast<std::size_t>(values[key]->data() - text.data()) : begin;
  };
  std::optional<error> problem;
  auto const refuse = [&](transformer_key key, std::string const& expected) {
    if (problem) { return; }
    std::size_t const offset = offset_of(key);
    problem = error{.code = error_code::out_of_range,
                    .position = offset,
                    .message = "byte " + std::to_string(offset) + ": '" +
                               std::string(*values[key]) + "' was given for '" +
                               std::string(transformer_keys[key]) + "'; write " + expected};
  };
  auto const number = [&](transformer_key key, std::uint32_t fallback) {
    if (!values[key]) { return fallback; }
    auto const value = whole_text_as<std::uint32_t>(*values[key]);
    if (!value) { refuse(key, "a whole number below 2^32"); }
    return value.value_or(0);
  };
  auto const flag = [&](transformer_key key) {
    std::uint32_t const value = number(key, 0);
    if (value > 1) { refuse(key, "0 or 1"); }
    return value == 1;
  };

  cost_spec spec;
  transformer_shape& shape = spec.shape;
  shape.hidden = number(d_key, 0);
  shape.layers = number(layers_key, 1);
  shape.heads = number(heads_key, 1);
  shape.kv_heads = number(kv_heads_key, shape.heads);
  if (!values[head_dim_key] && shape.heads > 0 && shape.hidden % shape.heads != 0) {
    refuse(heads_key, "a divisor of d, or head_dim as well");
  }
  shape.head_dim = number(head_dim_key, shape.heads > 0 ? shape.hidden / shape.heads : 0);
  if (!values[ffn_key] && shape.hidden >= std::uint32_t{1} << 30) {
    refuse(d_key, "a number below 2^30, or ffn as well");
  }
  shape.ffn_hidden = number(ffn_key, 4 * shape.hidden);
  shape.gated_ffn = flag(gated_key);
  shape.mask = flag(causal_key) ? attention_mask::causal : attention_mask::full;
  shape.vocabulary = number(vocab_key, 0);
  spec.passes.recompute = flag(recompute_key) ? 1 : 0;
  if (values[gamma_key]) {
    auto const gamma = whole_text_as<double>(*values[gamma_key]);
    if (!gamma) { refuse(gamma_key, "a decimal number such as 0.405"); }
    spec.gamma = gamma.value_or(0);
  }
  if (problem) { return tl::unexpected(*problem); }

  auto const forward = forward_flops(shape);
  if (!forward) {
    return fail(forward.error().code, offset_of(forward.error().position), forward.error().message);
  }
  auto const cost = gamma_corrected(*forward, spec.gamma);
  if (!cost) { return fail(cost.error().code, offset_of(gamma_key), cost.error().message); }
  spec.forward = *forward;
  spec.cost = cost->cost;
  spec.log2_flops_per_unit = cost->log2_flops_per_unit;
  return spec;
}

}  // namespace detail

/// Reads `tokens` or `transformer:d=3072,gamma=0.405[,key=value...]`.
///
/// Keys of a transformer, in any order: d (hidden size, needed), layers (1), heads (1), kv_heads
/// (as many as heads), head_dim (d / heads), ffn (4 d), gated (0), causal (0), vocab (0: no head),
/// recompute (0), gamma (1: FLOP as they are). gated, causal and recompute are 0 or 1; recompute
/// changes `passes` and not `cost`, which is that of one forward pass. Nothing may surround the
/// parts, not even spaces.
///
/// Ensures     (1) the numbers are those of `forward_flops` and `gamma_corrected`
/// Errors      position is a byte offset, at most text.size(). syntax: not of this form, d is
///             missing, or a key is given twice; unknown_name: no such model or key, and which
///             there are; out_of_range: a value that is no number of its kind or that the model
///             cannot have.
/// Complexity  O(text.size()).
[[nodiscard]] inline result<cost_spec> parse_cost_spec(std::string_view text)
{
  constexpr std::string_view transformer = "transformer:";
  if (text == "tokens") {
    cost_spec spec;
    spec.cost = {.linear = 1};
    return spec;
  }
  if (text.starts_with(transformer)) { return detail::parse_transformer(text, transformer.size()); }
  return fail(error_code::unknown_name, 0,
              std::string("'").append(text) +
                  "' is no cost model; write 'tokens' or 'transformer:d=3072,gamma=0.405'");
}

}  // namespace ballast::inline v0

#endif  // BALLAST_COST_COST_SPEC_HPP
