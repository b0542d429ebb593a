// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COST_COST_SPEC_HPP
#define BALLAST_COST_COST_SPEC_HPP

#include <ballast/core/result.hpp>
#include <ballast/cost/detail/transformer_keys.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/cost/gamma_correction.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/cost/training_passes.hpp>
#include <ballast/cost/transformer_shape.hpp>
#include <ballast/text/detail/policy_expression.hpp>
#include <ballast/text/detail/settings_reader.hpp>
#include <ballast/text/detail/text_error.hpp>
#include <ballast/text/excerpt.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace ballast::inline v0 {

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

namespace detail {

inline constexpr std::string_view transformer_arguments =
    "d=N,layers=N,heads=N,kv_heads=N,head_dim=N,ffn=N,gated=0,causal=0,vocab=N,recompute=0,gamma=X";

/// Reads `key=value,key=value` from `begin` on. It is a policy expression without inner ones, in
/// which keys and values are all that stands between commas.
[[nodiscard]] inline result<cost_spec> parse_transformer(std::string_view text, std::size_t begin)
{
  policy_expression written;
  written.text = text;
  written.name = "transformer";
  std::optional<error> malformed;
  for (std::size_t next = begin; next <= text.size() && !malformed;) {
    std::size_t const end = std::min(text.find(',', next), text.size());
    std::string_view const entry = text.substr(next, end - next);
    std::size_t const equals = entry.find('=');
    if (equals == std::string_view::npos) {
      malformed =
          text_error(error_code::syntax, text, next,
                     excerpt(entry) + " is not of the form key=value; complete or remove it");
    } else {
      written.settings.push_back({entry.substr(0, equals), entry.substr(equals + 1), next});
    }
    next = end + 1;
  }
  settings_reader read(written, transformer_arguments, value_errors::at_the_value);
  read.refuse_others(
      std::vector<std::string_view>(transformer_keys.begin(), transformer_keys.end()));
  if (malformed) { read.refuse(*malformed); }
  if (!read.is_written("d")) {
    read.refuse(error_code::syntax, text.size(),
                "a transformer needs its hidden size; write for example "
                "'transformer:d=3072,gamma=0.405'");
  }

  cost_spec spec;
  transformer_shape& shape = spec.shape;
  bool causal = false;
  bool recompute = false;
  read.number("d", shape.hidden);
  read.number("layers", shape.layers);
  spec.layers_written = read.is_written("layers");
  read.number("heads", shape.heads);
  shape.kv_heads = shape.heads;
  read.number("kv_heads", shape.kv_heads);
  if (!read.is_written("head_dim") && shape.heads > 0 && shape.hidden % shape.heads != 0) {
    read.refuse_value("heads", "a divisor of d, or head_dim as well");
  }
  shape.head_dim = shape.heads > 0 ? shape.hidden / shape.heads : 0;
  read.number("head_dim", shape.head_dim);
  if (!read.is_written("ffn") && shape.hidden >= std::uint32_t{1} << 30) {
    read.refuse_value("d", "a number below 2^30, or ffn as well");
  }
  shape.ffn_hidden = 4 * shape.hidden;
  read.number("ffn", shape.ffn_hidden);
  read.flag("gated", shape.gated_ffn);
  read.flag("causal", causal);
  shape.mask = causal ? attention_mask::causal : attention_mask::full;
  read.number("vocab", shape.vocabulary);
  read.flag("recompute", recompute);
  spec.passes.recompute = recompute ? 1 : 0;
  read.floating_point("gamma", spec.gamma);
  if (auto const readable = read.finish(true); !readable) {
    return tl::unexpected(readable.error());
  }

  auto const refuse = [&](error const& why, std::string_view key) {
    return tl::unexpected(text_error(why.code, text, read.offset_of(key, begin), why.message));
  };
  auto const forward = forward_flops(shape);
  if (!forward) { return refuse(forward.error(), transformer_keys[forward.error().position]); }
  auto const cost = gamma_corrected(*forward, spec.gamma);
  if (!cost) { return refuse(cost.error(), "gamma"); }
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
  constexpr std::string_view transformer = "transformer:";
  if (text == "tokens") {
    cost_spec spec;
    spec.cost = {.linear = 1};
    return spec;
  }
  if (text.starts_with(transformer)) { return detail::parse_transformer(text, transformer.size()); }
  return tl::unexpected(detail::text_error(
      error_code::unknown_name, text, 0,
      excerpt(text) + " is no cost model; write 'tokens' or 'transformer:d=3072,gamma=0.405'"));
}

}  // namespace ballast::inline v0

#endif  // BALLAST_COST_COST_SPEC_HPP
