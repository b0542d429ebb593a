// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cost/cost_literal.hpp>
#include <ballast/text/decimal.hpp>

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
