// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_WORKLOAD_LENGTH_HISTOGRAM_HPP
#define BALLAST_WORKLOAD_LENGTH_HISTOGRAM_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/detail/fixed_point_math.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/core/uint128.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace ballast::inline v0 {

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

#endif  // BALLAST_WORKLOAD_LENGTH_HISTOGRAM_HPP
