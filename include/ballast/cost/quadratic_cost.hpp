// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/core/detail/scaled_number.hpp>
#include <ballast/cost/flops.hpp>

namespace ballast::inline v0 {

/// The cost of a sample in a transformer: a part per token and a part per pair of tokens.
///
/// The coefficients are fixed-point numbers, so that every rank, compiler, flag and device computes
/// the same cost to the bit. `gamma_corrected` and `latency_cost` compute them. Without fraction
/// bits they are plain integers: under `quadratic_cost{1}` a sample costs its number of tokens.
///
/// Units       linear and quadratic count 2^-fraction_bits units, per token and per token^2.
/// Expects     fraction_bits <= 127.
/// Ensures     (1) (linear l + quadratic l^2) / 2^fraction_bits, rounded to nearest, halves up
///             (2) no_cost where l < 0 or l > longest_sample, or where (1) is not below no_cost
///             (3) a longer sample never costs less
/// Complexity  O(1), without division or branch on the coefficients.
struct quadratic_cost {
  std::uint64_t linear = 0;
  std::uint64_t quadratic = 0;
  std::uint32_t fraction_bits = 0;

  [[nodiscard]] BALLAST_HOST_DEVICE constexpr cost_units operator()(tokens length) const
  {
    if (length < 0 || length > longest_sample) { return no_cost; }
    auto const l = static_cast<std::uint64_t>(length);
    return of(l, l * l);
  }

  /// The cost of so many tokens, of which so many pairs attend to each other.
  ///
  /// Expects     fewer than 2^31 tokens, and at most 2^62 pairs.
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr cost_units of(std::uint64_t tokens_in_all,
                                                            std::uint64_t pairs) const
  {
    BALLAST_EXPECTS(fraction_bits <= 127, "a quadratic_cost has ", fraction_bits,
                    " fraction bits, and the most is 127");
    // Below 2^95 + 2^126, which leaves room to add the half, at most 2^126.
    uint128 const work =
        static_cast<uint128>(linear) * tokens_in_all + static_cast<uint128>(quadratic) * pairs;
    uint128 const half = (uint128{1} << fraction_bits) >> 1;
    uint128 const cost = (work + half) >> fraction_bits;
    return cost < static_cast<uint128>(no_cost) ? static_cast<cost_units>(cost) : no_cost;
  }

  /// What of the cost is attention, for batches that pad this part alone: the part per token^2. It
  /// is rounded like the cost and never above it.
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr cost_units attention_part(tokens length) const
  {
    return quadratic_cost{0, quadratic, fraction_bits}(length);
  }

  friend bool operator==(quadratic_cost const&, quadratic_cost const&) = default;
};

static_assert(std::is_trivially_copyable_v<quadratic_cost>);  // kernels take it by value

namespace detail {

/// A cost model from its coefficients, with as many fraction bits as they leave room for.
///
/// Units       cost units per token, cost units per token^2.
/// Ensures     (1) each coefficient of the result is the nearest multiple of 2^-fraction_bits
///             (2) fraction_bits = 62 - floor(log2 of the larger coefficient), but from 0 to 127
///             (3) nothing where a coefficient is 2^64 units or more
/// Complexity  O(1).
[[nodiscard]] constexpr std::optional<quadratic_cost> quantise(scaled_number per_token,
                                                               scaled_number per_token_squared)
{
  int const magnitude = std::max(per_token.floor_log2(), per_token_squared.floor_log2());
  int const fraction_bits = std::clamp(62 - magnitude, 0, 127);
  auto const linear = per_token.shifted(fraction_bits).rounded();
  auto const quadratic = per_token_squared.shifted(fraction_bits).rounded();
  if (!linear || !quadratic) { return std::nullopt; }
  return quadratic_cost{.linear = *linear,
                        .quadratic = *quadratic,
                        .fraction_bits = static_cast<std::uint32_t>(fraction_bits)};
}

}  // namespace detail

/// A cost model and what its unit stands for: 2^log2_flops_per_unit FLOP at the speed of the
/// products with weights.
struct priced {
  quadratic_cost cost;
  int log2_flops_per_unit = 0;

  friend bool operator==(priced const&, priced const&) = default;
};

namespace detail {

/// The cost in units of 2^log2_flops_per_unit FLOP, where it can be represented. A gamma without a
/// value is none that a cost can have.
[[nodiscard]] constexpr std::optional<quadratic_cost> correct(flop_polynomial forward,
                                                              std::optional<scaled_number> gamma,
                                                              int log2_flops_per_unit)
{
  if (!gamma) { return std::nullopt; }
  return quantise(scaled_number(forward.linear).shifted(-log2_flops_per_unit),
                  (*gamma * scaled_number(forward.quadratic)).shifted(-log2_flops_per_unit));
}

/// The unit in which the larger of a token's two terms is in [2^11, 2^12), if not too fine.
[[nodiscard]] constexpr int suitable_unit(flop_polynomial forward,
                                          std::optional<scaled_number> gamma)
{
  scaled_number const factor = gamma.value_or(scaled_number());
  int const log2_flops = std::max(scaled_number(forward.linear).floor_log2(),
                                  (factor * scaled_number(forward.quadratic)).floor_log2());
  return std::clamp(log2_flops - 11, -11, 64);
}

// Not constexpr, so that reaching one at compile time is an error that shows its name.
inline void a_dimension_of_a_transformer_is_at_least_1() {}
inline void heads_are_a_multiple_of_kv_heads() {}
inline void gamma_is_finite_and_not_negative() {}
inline void the_flop_per_token_fit_64_bits() {}

}  // namespace detail

/// Latency up to a constant factor: linear l + gamma quadratic l^2, since a FLOP of attention takes
/// gamma times as long as one of the products with weights. The caller chooses the unit.
///
/// Costs that are added up need one unit: price the largest model with the function below, then the
/// others with its unit. They add up only where the weight products of all run equally fast; else
/// fit each model and use `latency_cost`.
///
/// Units       2^log2_flops_per_unit FLOP.
/// Expects     -64 <= log2_flops_per_unit <= 64.
/// Ensures     (1) the cost is within 1/2 + l^2 2^(1 - fraction_bits) units of the formula, or
///                 no_cost
/// Errors      out_of_range, position 0: gamma is negative, infinite or NaN, or a token costs 2^64
///             units or more.
/// Complexity  O(1).
/// Source      K. Zhang et al., "KnapFormer: An Online Load Balancer for Efficient Diffusion
///             Transformers Training", arXiv:2508.06001, 2025.
[[nodiscard]] inline result<quadratic_cost> gamma_corrected(flop_polynomial forward, double gamma,
                                                            int log2_flops_per_unit)
{
  BALLAST_EXPECTS(-64 <= log2_flops_per_unit && log2_flops_per_unit <= 64,
                  "log2_flops_per_unit is ", log2_flops_per_unit, ", which is not from -64 to 64");
  auto const factor = detail::scaled_number::from(gamma);
  if (!factor) {
    return fail(error_code::out_of_range, 0,
                "gamma is negative or not finite; give how many times as long as other FLOP those "
                "of attention take, such as 0.4");
  }
  auto const cost = detail::correct(forward, factor, log2_flops_per_unit);
  if (!cost) {
    return fail(error_code::out_of_range, 0,
                "one token costs 2^64 units or more; choose a larger unit or a smaller gamma");
  }
  return *cost;
}

/// The same in a unit that suits the model.
///
/// Ensures     (1) the larger of a token's two terms is in [2^11, 2^12) units, so that rounding
///                 moves no cost by more than a 4096th part, and 51 fraction bits remain
///             (2) where those terms are below one FLOP, the unit is 2^-11 FLOP instead
[[nodiscard]] inline result<priced> gamma_corrected(flop_polynomial forward, double gamma)
{
  int const unit = detail::suitable_unit(forward, detail::scaled_number::from(gamma));
  return gamma_corrected(forward, gamma, unit).map([unit](quadratic_cost cost) {
    return priced{.cost = cost, .log2_flops_per_unit = unit};
  });
}

/// The same for a model that is written in the program: what is wrong with it is a compile error.
///
///     constexpr auto cost = gamma_corrected(classic_transformer(3072), 0.405);
///
/// Ensures     (1) the cost is that of the functions above
template <std::same_as<transformer_shape> Shape>  // braces alone are a flop_polynomial
[[nodiscard]] consteval quadratic_cost gamma_corrected(Shape shape, double gamma)
{
  detail::shape_fault const fault = detail::check_shape(shape).fault;
  if (fault == detail::shape_fault::zero_dimension) {
    detail::a_dimension_of_a_transformer_is_at_least_1();
  }
  if (fault == detail::shape_fault::unequal_head_groups) {
    detail::heads_are_a_multiple_of_kv_heads();
  }
  auto const factor = detail::scaled_number::from(gamma);
  if (!factor) { detail::gamma_is_finite_and_not_negative(); }
  auto const forward = detail::count_flops(shape);
  if (!forward) { detail::the_flop_per_token_fit_64_bits(); }
  auto const cost = detail::correct(*forward, factor, detail::suitable_unit(*forward, factor));
  if (!cost) { detail::the_flop_per_token_fit_64_bits(); }
  return *cost;
}

/// The cost of what attends in spans: a row of packed documents, each of which attends to itself
/// alone, text with images, and sliding windows. It counts pairs of tokens as the mask has them.
///
/// Take the coefficients of a transformer without causal mask, since the pairs are counted here.
///
/// Units       each.quadratic counts 2^-fraction_bits units per pair of a token and one that it
///             attends to; itself is such a pair.
/// Ensures     (1) (linear x all tokens + quadratic x pairs) / 2^fraction_bits, rounded once, to
///                 nearest, halves up
///             (2) with a causal mask token i attends to those from i - window + 1 to i of its
///                 document; without, to those nearer than the window on both sides
///             (3) a token of an image attends to all of the image besides
///             (4) no_cost where a length is negative, where images are longer than their document,
///                 where all tokens are more than longest_sample, or where (1) is not below no_cost
///             (5) without mask and window, of one document, the cost is that of `each`
/// Complexity  O(documents + images), no allocation.
/// Source      images in causal text: KnapFormer, section 5.
struct span_cost {
  /// A document of text with images, whose tokens attend to all tokens of their own image.
  struct document {
    tokens length = 0;                    ///< images included
    std::span<tokens const> images = {};  ///< the length of each
  };

  quadratic_cost each;
  bool causal = true;
  tokens window = longest_sample;  ///< at least 1

  /// How many pairs of a document attend, or of one that is all image.
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr std::uint64_t pairs(tokens length) const
  {
    auto const l = static_cast<std::uint64_t>(length);
    auto const seen = static_cast<std::uint64_t>(length < window ? length : window);
    std::uint64_t const below = seen * (seen + 1) / 2 + (l - seen) * seen;
    return causal ? below : 2 * below - l;
  }

  [[nodiscard]] BALLAST_HOST_DEVICE constexpr cost_units operator()(tokens length) const
  {
    return is_length(length) ? each.of(static_cast<std::uint64_t>(length), pairs(length)) : no_cost;
  }

  /// A packed row, of documents of these lengths.
  [[nodiscard]] constexpr cost_units operator()(std::span<tokens const> row) const
  {
    tokens total = 0;
    std::uint64_t attended = 0;
    for (tokens const length : row) {
      if (!is_length(length) || length > longest_sample - total) { return no_cost; }
      total += length;
      attended += pairs(length);
    }
    return each.of(static_cast<std::uint64_t>(total), attended);
  }

  [[nodiscard]] constexpr cost_units operator()(document const& text) const
  {
    if (!is_length(text.length)) { return no_cost; }
    tokens left = text.length;
    std::uint64_t attended = pairs(text.length);
    for (tokens const image : text.images) {
      if (!is_length(image) || image > left) { return no_cost; }
      left -= image;
      auto const side = static_cast<std::uint64_t>(image);
      attended += side * side - pairs(image);
    }
    return each.of(static_cast<std::uint64_t>(text.length), attended);
  }

  /// What of the cost is attention: the part per pair.
  template <class Sample>
  [[nodiscard]] constexpr cost_units attention_part(Sample const& sample) const
    requires requires(span_cost const& cost) { cost(sample); }
  {
    return span_cost{{0, each.quadratic, each.fraction_bits}, causal, window}(sample);
  }

  friend bool operator==(span_cost const&, span_cost const&) = default;

 private:
  [[nodiscard]] BALLAST_HOST_DEVICE static constexpr bool is_length(tokens length)
  {
    return length >= 0 && length <= longest_sample;
  }
};

}  // namespace ballast::inline v0
