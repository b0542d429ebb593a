// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COST_SPAN_COST_HPP
#define BALLAST_COST_SPAN_COST_HPP

#include <ballast/core/config.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/cost/quadratic_cost.hpp>

#include <cstdint>
#include <span>

namespace ballast::inline v0 {

/// A document of text with images, whose tokens attend to all tokens of their own image.
struct document_with_images {
  tokens length = 0;                    ///< images included
  std::span<tokens const> images = {};  ///< the length of each
};

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

  [[nodiscard]] constexpr cost_units operator()(document_with_images const& document) const
  {
    if (!is_length(document.length)) { return no_cost; }
    tokens left = document.length;
    std::uint64_t attended = pairs(document.length);
    for (tokens const image : document.images) {
      if (!is_length(image) || image > left) { return no_cost; }
      left -= image;
      auto const side = static_cast<std::uint64_t>(image);
      attended += side * side - pairs(image);
    }
    return each.of(static_cast<std::uint64_t>(document.length), attended);
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

#endif  // BALLAST_COST_SPAN_COST_HPP
