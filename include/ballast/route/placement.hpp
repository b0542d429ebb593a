// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_PLACEMENT_HPP
#define BALLAST_ROUTE_PLACEMENT_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/jagged.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ballast::inline v0 {

namespace detail {
class placement_writer;
}  // namespace detail

/// Consecutive tokens of one sample that lie on one rank.
struct piece {
  rank_id rank{};
  tokens first = 0;  ///< of the sample's tokens
  tokens count = 0;
  tokens row = 0;  ///< of the rank's arrays: where token `first` lies; the others follow

  friend constexpr bool operator==(piece const&, piece const&) = default;
};

/// Consecutive tokens of a sample that a separate model computes, such as an image in a document.
struct sample_part {
  sample_id sample{};
  tokens first = 0;
  tokens count = 0;

  friend constexpr bool operator==(sample_part, sample_part) = default;
};

/// Where every token of a step lies: on which rank, and in which row of that rank's arrays.
/// `place`, `place_as_read` and `place_parts` make one. Routes move tokens from one placement to
/// another: from where they were read to where they are computed, back, or from one model's
/// placement to the next model's.
///
/// A rank's arrays have one row per token: the samples in increasing order, each sample's tokens in
/// order, without gaps. Those of a sharding plan lie pack by pack: first the samples of the largest
/// group that contains the rank, then those of the next smaller one, inside a group in increasing
/// order. So the rank's part of every group's samples is one range of rows. Parts of samples have
/// the rows that they have in the samples' arrays.
///
/// Ensures     (1) a sample's pieces, in order, cover its tokens, each token once
///             (2) no piece is empty; a sample of length 0 has none
///             (3) each of the rows 0 to rows(r) - 1 of rank r holds one token; of parts of
///                 samples, at most one
/// Complexity  O(1), digest O(pieces).
class placement {
 public:
  /// Number of samples.
  [[nodiscard]] std::size_t size() const noexcept { return pieces_.size(); }

  [[nodiscard]] std::size_t ranks() const noexcept { return rows_.size(); }

  /// The pieces of a sample in token order.
  [[nodiscard]] std::span<piece const> operator[](sample_id sample) const
  {
    BALLAST_EXPECTS(to_index(sample) < size(), "sample ", sample, " of a placement of ",
                    detail::counted(size(), "sample"));
    return pieces_[sample];
  }

  /// The pieces of all samples, sample after sample.
  [[nodiscard]] std::span<piece const> pieces() const noexcept { return pieces_.values(); }

  [[nodiscard]] tokens length(sample_id sample) const
  {
    auto const all = (*this)[sample];
    return all.empty() ? 0 : all.back().first + all.back().count;
  }

  /// Rows of a rank's arrays: one per token; of parts, as many as the samples have.
  [[nodiscard]] tokens rows(rank_id rank) const
  {
    BALLAST_EXPECTS(to_index(rank) < ranks(), "rank ", rank, " of a placement over ",
                    detail::counted(ranks(), "rank"));
    return rows_[to_index(rank)];
  }

  /// Returns one word that differs if any piece differs.
  [[nodiscard]] std::uint64_t digest() const noexcept
  {
    ballast::digest all;
    all.add(ranks()).add(pieces_.offsets());
    for (piece const& each : pieces()) {
      all.add(to_index(each.rank))
          .add(static_cast<std::uint64_t>(each.count))
          .add(static_cast<std::uint64_t>(each.row));
    }
    return all.value();
  }

  friend bool operator==(placement const& a, placement const& b)
  {
    return a.pieces_ == b.pieces_ && a.rows_ == b.rows_;
  }

 private:
  friend class detail::placement_writer;

  jagged<sample_id, piece> pieces_;
  std::vector<tokens> rows_;  ///< of each rank
};

}  // namespace ballast::inline v0

#endif  // BALLAST_ROUTE_PLACEMENT_HPP
