// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/core/detail/scaled_number.hpp>

namespace ballast::inline v0 {

/// Draws sample lengths in [0, longest_sample], the same ones from equal random sources on every
/// machine.
template <class D>
concept length_distribution = std::copyable<D> && requires(D const& draw, random_source& random) {
  { draw(random) } -> std::same_as<tokens>;
};

/// `samples` lengths, drawn one after the other.
template <length_distribution Distribution>
[[nodiscard]] std::vector<tokens> draw_lengths(Distribution const& draw, std::size_t samples,
                                               random_source& random)
{
  std::vector<tokens> lengths(samples);
  for (tokens& length : lengths) { length = draw(random); }
  return lengths;
}

namespace detail {

/// A parameter as a multiple of 2^-32. The product with a power of two is exact and the conversion
/// cuts off, so that neither flags nor compilers can change the result.
[[nodiscard]] constexpr std::uint64_t to_fixed32(double parameter) noexcept
{
  return static_cast<std::uint64_t>(parameter * 4294967296.0);
}

/// A number from the normal distribution with mean 0 and variance 1: its magnitude, below 9.5, in
/// multiples of 2^-28, and its sign.
///
/// Source      G. Marsaglia, T. A. Bray, "A Convenient Method for Generating Normal Variables",
///             SIAM Review 6(3), 1964: the polar method, of which only one number is used.
struct normal_draw {
  std::uint64_t magnitude;
  bool negative;
};

[[nodiscard]] inline normal_draw draw_normal(random_source& random)
{
  while (true) {
    // Odd multiples of 2^-32 in (0, 1). What makes y odd is a bit that is free to be the sign.
    std::uint64_t const bits = random();
    std::uint64_t const x = (bits >> 32) | 1;
    std::uint64_t const y = (bits & 0xffffffff) | 1;
    uint128 const sum = static_cast<uint128>(x) * x + static_cast<uint128>(y) * y;
    if (sum >> 64 != 0) { continue; }

    auto const radius_squared = static_cast<std::uint64_t>(sum);  // of 2^-64
    constexpr std::uint64_t two_ln2 = 0x58b90bfbe8e7bcd5U;        // of 2^-62
    auto const log2_inverse =
        static_cast<std::uint64_t>(64 * fixed_point::log2_one - fixed_point::log2(radius_squared));
    auto const minus_two_ln =
        static_cast<std::uint64_t>(static_cast<uint128>(log2_inverse) * two_ln2 >> 62);  // of 2^-48
    std::uint64_t const distance = fixed_point::square_root(minus_two_ln << 8);          // of 2^-28

    // x and distance have at most 32 bits each.
    return {x * distance / fixed_point::square_root(radius_squared), (bits & 1) != 0};
  }
}

/// length * 2^exponent, rounded to nearest, and longest_sample where that is too large.
[[nodiscard]] constexpr tokens scale_length(tokens length, std::int64_t exponent)
{
  std::uint64_t const factor = fixed_point::exp2(32 * fixed_point::log2_one + exponent);
  uint128 const product = static_cast<uint128>(length) * factor + (std::uint64_t{1} << 31);
  return static_cast<tokens>(std::min(product >> 32, static_cast<uint128>(longest_sample)));
}

}  // namespace detail

/// Every sample has the same length. Expects 0 <= length <= longest_sample.
struct constant_lengths {
  tokens length = 1;

  [[nodiscard]] tokens operator()(random_source&) const
  {
    BALLAST_EXPECTS(length >= 0 && length <= longest_sample, "constant_lengths has a length of ",
                    length, ", which is not from 0 to ", longest_sample);
    return length;
  }
};

/// Whole numbers in [shortest, longest], all equally likely. Expects 0 <= shortest <= longest <=
/// longest_sample.
struct uniform_lengths {
  tokens shortest = 1;
  tokens longest = 1;

  [[nodiscard]] tokens operator()(random_source& random) const
  {
    BALLAST_EXPECTS(shortest >= 0 && shortest <= longest && longest <= longest_sample,
                    "uniform_lengths has lengths from ", shortest, " to ", longest,
                    ", which do not rise between 0 and ", longest_sample);
    return random.between(shortest, longest);
  }
};

/// median * exp(sigma * z) for normal z, rounded and kept in [1, longest_sample]: the shape of
/// texts and documents.
///
/// Expects     1 <= median <= longest_sample; 0 <= sigma <= 16.
/// Ensures     (1) the length differs by at most one token and 10^-8 of itself from the formula
///             (2) equal random sources give equal lengths under every compiler and flag
struct lognormal_lengths {
  tokens median = 1024;
  double sigma = 1.0;

  [[nodiscard]] tokens operator()(random_source& random) const
  {
    BALLAST_EXPECTS(median >= 1 && median <= longest_sample, "lognormal_lengths has a median of ",
                    median, ", which is not from 1 to ", longest_sample);
    BALLAST_EXPECTS(sigma >= 0 && sigma <= 16, "lognormal_lengths has a sigma of ", sigma,
                    ", which is not from 0 to 16");
    constexpr std::uint64_t log2_e = 0x171547652U;  // of 2^-32
    auto const [magnitude, negative] = detail::draw_normal(random);
    uint128 const product = static_cast<uint128>(magnitude) * detail::to_fixed32(sigma) * log2_e;
    auto const exponent = static_cast<std::int64_t>(product >> (28 + 32 + 32 - 48));
    return std::max(detail::scale_length(median, negative ? -exponent : exponent), tokens{1});
  }
};

/// Lengths in [shortest, longest] with a density that falls as l^-(alpha + 1): the heavy tail of
/// videos and of models' responses.
///
/// Expects     1 <= shortest <= longest <= longest_sample; 1/1024 <= alpha <= 1024.
/// Ensures     (1) the length differs by at most one token and 10^-8 of itself from
///                 shortest * w^(-1/alpha), w uniform in ((shortest/longest)^alpha, 1]
///             (2) equal random sources give equal lengths under every compiler and flag
struct bounded_pareto_lengths {
  tokens shortest = 1;
  tokens longest = longest_sample;
  double alpha = 1.0;

  [[nodiscard]] tokens operator()(random_source& random) const
  {
    namespace fixed = detail::fixed_point;
    BALLAST_EXPECTS(shortest >= 1 && shortest <= longest && longest <= longest_sample,
                    "bounded_pareto_lengths has lengths from ", shortest, " to ", longest,
                    ", which do not rise between 1 and ", longest_sample);
    BALLAST_EXPECTS(alpha >= 1.0 / 1024 && alpha <= 1024, "bounded_pareto_lengths has an alpha of ",
                    alpha, ", which is not from 1/1024 to 1024");
    std::uint64_t const power = detail::to_fixed32(alpha);
    auto const log2_ratio =
        static_cast<std::uint64_t>(fixed::log2(static_cast<std::uint64_t>(longest)) -
                                   fixed::log2(static_cast<std::uint64_t>(shortest)));
    auto const log2_range =
        static_cast<std::int64_t>(static_cast<uint128>(log2_ratio) * power >> 32);

    // w in multiples of 2^-63; where the tail is thinner than one of them, it ends there.
    constexpr std::int64_t log2_whole = 63 * fixed::log2_one;
    std::uint64_t const least = std::max<std::uint64_t>(fixed::exp2(log2_whole - log2_range), 1);
    std::uint64_t const w = least + random.below((std::uint64_t{1} << 63) - least + 1);
    auto const log2_inverse = static_cast<std::uint64_t>(log2_whole - fixed::log2(w));
    auto const exponent = (static_cast<uint128>(log2_inverse) << 32) / power;
    auto const capped = std::min(exponent, static_cast<uint128>(32 * fixed::log2_one));
    return std::clamp(detail::scale_length(shortest, static_cast<std::int64_t>(capped)), shortest,
                      longest);
  }
};

/// Draws from `second` with probability `share_of_second` and from `first` otherwise.
/// Expects 0 <= share_of_second <= 1.
template <length_distribution First, length_distribution Second>
struct mixed_lengths {
  First first;
  Second second;
  ratio share_of_second = {1, 2};

  [[nodiscard]] tokens operator()(random_source& random) const
  {
    BALLAST_EXPECTS(share_of_second.numerator >= 0 && share_of_second.denominator >= 1 &&
                        share_of_second.numerator <= share_of_second.denominator,
                    "mixed_lengths has a share_of_second of ", share_of_second.numerator, " / ",
                    share_of_second.denominator, ", which is not from 0 to 1");
    auto const whole = static_cast<std::uint64_t>(share_of_second.denominator);
    auto const part = static_cast<std::uint64_t>(share_of_second.numerator);
    return random.below(whole) < part ? second(random) : first(random);
  }
};

template <class First, class Second>
mixed_lengths(First, Second, ratio) -> mixed_lengths<First, Second>;

/// Moves lengths of `inner` outside [shortest, longest] to the nearer bound. Expects
/// 0 <= shortest <= longest <= longest_sample.
template <length_distribution Inner>
struct clamped_lengths {
  Inner inner;
  tokens shortest = 1;
  tokens longest = longest_sample;

  [[nodiscard]] tokens operator()(random_source& random) const
  {
    BALLAST_EXPECTS(0 <= shortest && shortest <= longest && longest <= longest_sample,
                    "clamped_lengths has lengths from ", shortest, " to ", longest,
                    ", which do not rise between 0 and ", longest_sample);
    return std::clamp(inner(random), shortest, longest);
  }
};

template <class Inner>
clamped_lengths(Inner, tokens, tokens) -> clamped_lengths<Inner>;

/// How many samples have a length in [shortest, longest].
struct length_bin {
  tokens shortest = 0;
  tokens longest = 0;
  std::size_t samples = 0;

  friend bool operator==(length_bin const&, length_bin const&) = default;
};

/// The empirical distribution of sample lengths: what a trace looks like, and a source of more
/// samples like its own.
///
/// Expects     at least one and fewer than 2^32 lengths, each in [0, longest_sample].
/// Ensures     (1) samples, min, max and mean are exact; no sum overflows
///             (2) quantile(q) is the shortest length that at least the share q of the samples do
///                 not exceed: quantile(0) is min, quantile(1/2) the lower median, quantile(1) max
///             (3) bins(n) are at most n bins without gaps from min to max; every sample is in one,
///                 and their edges divide [max(min, 1), max + 1] into equal ratios, each rounded to
///                 a whole number of tokens; bins that rounding would leave empty are left out
///             (4) operator() draws every sample with equal probability
/// Complexity  constructor: O(n log n); bins: O(bins log n); everything else O(1).
class length_histogram {
 public:
  explicit length_histogram(std::vector<tokens> lengths) : sorted_(std::move(lengths))
  {
    BALLAST_EXPECTS(!sorted_.empty(), "a histogram was asked for of no lengths");
    BALLAST_EXPECTS(sorted_.size() < (std::uint64_t{1} << 32), "a histogram was asked for of ",
                    sorted_.size(), " lengths, and there can be fewer than 2^32");
    std::sort(sorted_.begin(), sorted_.end());
    BALLAST_EXPECTS(min() >= 0 && max() <= longest_sample,
                    "a histogram was asked for of lengths from ", min(), " to ", max(),
                    ", which are not from 0 to ", longest_sample);
  }

  [[nodiscard]] std::size_t samples() const noexcept { return sorted_.size(); }
  [[nodiscard]] tokens min() const noexcept { return sorted_.front(); }
  [[nodiscard]] tokens max() const noexcept { return sorted_.back(); }

  [[nodiscard]] ratio mean() const noexcept
  {
    // Below 2^32 lengths below 2^31.
    return {std::accumulate(sorted_.begin(), sorted_.end(), tokens{0}),
            static_cast<std::int64_t>(sorted_.size())};
  }

  /// Expects 0 <= share <= 1.
  [[nodiscard]] tokens quantile(ratio share) const
  {
    BALLAST_EXPECTS(
        share.numerator >= 0 && share.numerator <= share.denominator && share.denominator >= 1,
        "a quantile was asked for at ", share.numerator, " / ", share.denominator,
        ", which is not from 0 to 1");
    auto const whole = static_cast<std::uint64_t>(share.denominator);
    uint128 const scaled =
        static_cast<uint128>(sorted_.size()) * static_cast<std::uint64_t>(share.numerator);
    auto const samples_below = static_cast<std::size_t>((scaled + whole - 1) / whole);
    return sorted_[samples_below == 0 ? 0 : samples_below - 1];
  }

  /// Bins for a picture with a logarithmic axis. Expects 1 <= most <= 1024.
  [[nodiscard]] std::vector<length_bin> bins(std::size_t most) const
  {
    BALLAST_EXPECTS(most >= 1 && most <= 1024, "a histogram was asked for of ", most,
                    " bins, which is not from 1 to 1024");
    namespace fixed = detail::fixed_point;
    auto const first = fixed::log2(static_cast<std::uint64_t>(std::max(min(), tokens{1})));
    auto const last = fixed::log2(static_cast<std::uint64_t>(max()) + 1);

    std::vector<length_bin> all;
    tokens shortest = min();
    auto begin = sorted_.begin();
    for (std::size_t bin = 1; bin <= most; ++bin) {
      // At most 31 * 2^48 * 1024, so this fits.
      auto const edge =
          first + (last - first) * static_cast<std::int64_t>(bin) / static_cast<std::int64_t>(most);
      tokens const longest = bin == most ? max() : static_cast<tokens>(fixed::exp2(edge)) - 1;
      if (longest < shortest) { continue; }
      auto const end = std::upper_bound(begin, sorted_.end(), longest);
      all.push_back({shortest, longest, static_cast<std::size_t>(end - begin)});
      shortest = longest + 1;
      begin = end;
    }
    return all;
  }

  /// The length of a sample drawn at random.
  [[nodiscard]] tokens operator()(random_source& random) const
  {
    return sorted_[static_cast<std::size_t>(random.below(sorted_.size()))];
  }

 private:
  std::vector<tokens> sorted_;
};

}  // namespace ballast::inline v0
