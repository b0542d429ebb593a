// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_PLACEMENT_HPP
#define BALLAST_ROUTE_PLACEMENT_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/detail/span_of.hpp>
#include <ballast/core/digest.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/integer_projection.hpp>
#include <ballast/core/jagged.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/partition/partition_plan.hpp>
#include <ballast/route/chunking.hpp>
#include <ballast/sharding/sharding_plan.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/device_groups.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <ranges>
#include <span>
#include <string>
#include <vector>

namespace ballast::inline v0 {

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
///
/// A rank's arrays have one row per token: the samples in increasing order, each sample's tokens in
/// order, without gaps. After assign_groups they lie pack by pack: first the samples of the largest
/// group that contains the rank, then those of the next smaller one, inside a group in increasing
/// order. So the rank's part of every group's samples is one range of rows. Routes move tokens from one placement to another: from where they were read
/// to where they are computed, back, or from one model's placement to the next model's. Parts of
/// samples (assign_parts) have the rows that they have in the samples' arrays.
///
/// Ensures     (1) a sample's pieces, in order, cover its tokens, each token once
///             (2) no piece is empty; a sample of length 0 has none
///             (3) each of the rows 0 to rows(r) - 1 of rank r holds one token; after assign_parts,
///                 at most one
/// Complexity  every assign: O(samples + pieces + ranks), and it allocates only if there are more
///             of them than ever before. Other members O(1), digest O(pieces).
class placement {
 public:
  /// Whole samples on the ranks that own them: as data loaders leave them, or in bags of one GPU.
  ///
  /// Shapes      lengths[n], owner[n]; ranks >= 1.
  /// Expects     lengths from 0 to longest_sample, owners below `ranks`.
  void assign_whole(std::span<tokens const> lengths, std::span<rank_id const> owner,
                    std::size_t ranks)
  {
    start(lengths.size(), owner.size(), ranks);
    for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
      expect_length(sample, lengths[sample]);
      BALLAST_EXPECTS(to_index(owner[sample]) < ranks, "sample ", sample, " lies on rank ",
                      owner[sample], " of ", ranks);
      if (lengths[sample] > 0) { append(owner[sample], {0, lengths[sample]}); }
      pieces_.end_row();
    }
  }

  /// The same for samples of any type, whose lengths a projection gives.
  template <std::ranges::forward_range Samples, integer_projection<Samples> LengthOf>
  void assign_whole(Samples&& samples, std::span<rank_id const> owner, std::size_t ranks,
                    LengthOf const& length_of)
  {
    read_lengths(samples, length_of);
    assign_whole(detail::span_of(lengths_), owner, ranks);
  }

  /// Every sample where a plan wants it: in chunks over the GPUs of the bag that owns it, chunk g on
  /// the bag's GPU g. A sample of fewer tokens than the bag has GPUs, where the bags admit it, has one
  /// token on each of the first GPUs and no piece on the others.
  ///
  /// Errors      mismatch: the plan is for other bags or for another number of samples; out_of_range:
  ///             sample `position` has a length outside [0, longest_sample] or one that its bag
  ///             does not take, so it is not the length that was planned. The placement is then
  ///             empty.
  [[nodiscard]] result<void> assign_chunks(std::span<tokens const> lengths,
                                           partition_plan const& plan, bag_layout const& bags)
  {
    if (auto checked = check(lengths, plan, bags); !checked) {
      start(0, 0, 1);
      return checked;
    }
    assign_chunks(lengths, detail::span_of(plan.owner), bags);
    return {};
  }

  /// The same for samples of any type, whose lengths a projection gives: as for partition().
  template <std::ranges::forward_range Samples, integer_projection<Samples> LengthOf>
  [[nodiscard]] result<void> assign_chunks(Samples&& samples, partition_plan const& plan,
                                           bag_layout const& bags, LengthOf const& length_of)
  {
    read_lengths(samples, length_of);
    return assign_chunks(detail::span_of(lengths_), plan, bags);
  }

  /// The same with owners that are not a plan's.
  ///
  /// Shapes      lengths[n], owner[n].
  /// Expects     lengths from 0 to longest_sample; owners below bags.size(); every bag takes its
  ///             samples (bag_layout::takes).
  void assign_chunks(std::span<tokens const> lengths, std::span<bag_id const> owner,
                     bag_layout const& bags)
  {
    start(lengths.size(), owner.size(), bags.gpus());
    for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
      BALLAST_EXPECTS(to_index(owner[sample]) < bags.size(), "sample ", sample, " is in bag ",
                      owner[sample], " of ", bags.size());
      bag const home = bags[owner[sample]];
      expect_length(sample, lengths[sample]);
      BALLAST_EXPECTS(bags.takes(owner[sample], lengths[sample]), "sample ", sample, " of ",
                      lengths[sample], " tokens cannot lie on the ", home.gpus, " GPUs of bag ",
                      owner[sample]);
      tokens const holders = std::min<tokens>(home.gpus, lengths[sample]);
      for (std::uint32_t gpu = 0; gpu < holders; ++gpu) {
        append(to_id<rank_id>(to_index(home.first) + gpu),
               chunk_of(lengths[sample], home.gpus, gpu));
      }
      pieces_.end_row();
    }
  }

  /// Every sequence where a plan of hybrid sharding wants it: in chunks over the GPUs of the group
  /// that owns it, chunk g on the group's GPU g. The rows of a rank are pack by pack (see above).
  ///
  /// Errors      mismatch: the plan is for other groups or for another number of sequences;
  ///             out_of_range: sequence `position` has a length outside [0, longest_sample], or has
  ///             tokens but fewer than its group has GPUs, so it is not the length that was planned.
  ///             The placement is then empty.
  /// Complexity  O(samples + pieces + groups + ranks).
  [[nodiscard]] result<void> assign_groups(std::span<tokens const> lengths,
                                           sharding_plan const& plan, device_groups const& groups)
  {
    if (auto checked = check(lengths, plan, groups); !checked) {
      start(0, 0, 1);
      return checked;
    }
    assign_groups(lengths, detail::span_of(plan.owner), groups);
    return {};
  }

  /// The same with owners that are not a plan's.
  ///
  /// Shapes      lengths[n], owner[n].
  /// Expects     lengths from 0 to longest_sample, each 0 or at least as many as its group has GPUs;
  ///             owners below groups.size().
  void assign_groups(std::span<tokens const> lengths, std::span<group_id const> owner,
                     device_groups const& groups)
  {
    start(lengths.size(), owner.size(), groups.gpus());
    packs_.collect(owner, groups.size());
    for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
      expect_length(sample, lengths[sample]);
      std::uint32_t const gpus = groups[owner[sample]].gpus;
      BALLAST_EXPECTS(lengths[sample] == 0 || lengths[sample] >= gpus, "sample ", sample, " of ",
                      lengths[sample], " tokens cannot lie on the ", gpus, " GPUs of group ",
                      owner[sample]);
    }
    pieces_.resize(lengths.size(), [&](std::size_t sample) -> std::size_t {
      return lengths[sample] == 0 ? 0 : groups[owner[sample]].gpus;
    });
    for (std::size_t pack = groups.size(); pack > 0; --pack) {  // by descending degree
      auto const id = to_id<group_id>(pack - 1);
      auto const [first, gpus] = groups[id];
      for (sample_id const sample : packs_[id]) {
        tokens const length = lengths[to_index(sample)];
        for (std::uint32_t gpu = 0; length > 0 && gpu < gpus; ++gpu) {
          pieces_.row(sample)[gpu] =
              next_rows(to_id<rank_id>(to_index(first) + gpu), chunk_of(length, gpus, gpu));
        }
      }
    }
  }

  /// Parts of samples, where their tokens lie in a placement of the samples: for images that an
  /// encoder has computed in another placement, and that the language model needs inside its
  /// sequences.
  ///
  /// The items of this placement are the parts: size() counts them. Token t of a part is token
  /// part.first + t of its sample, on the same rank and in the same row. So a route to this
  /// placement writes into the samples' own arrays, and does not touch the rows between the parts.
  ///
  /// Expects     parts that lie within their samples and do not overlap.
  /// Complexity  O(parts x pieces of a sample + ranks).
  void assign_parts(placement const& samples, std::span<sample_part const> parts)
  {
    BALLAST_EXPECTS(this != &samples, "a placement cannot be made of parts of itself");
    start(parts.size(), parts.size(), samples.ranks());
    for (sample_part const& part : parts) {
      BALLAST_EXPECTS(part.first >= 0 && part.count >= 0 &&
                          part.first <= samples.length(part.sample) - part.count,
                      "part ", size(), " is ", part.count, " tokens from token ", part.first,
                      " on of sample ", part.sample, ", which has ", samples.length(part.sample));
      for (piece const& each : samples[part.sample]) {
        tokens const first = std::max(each.first, part.first);
        tokens const end = std::min(each.first + each.count, part.first + part.count);
        if (first < end) {
          pieces_.push_back(
              {each.rank, first - part.first, end - first, each.row + first - each.first});
        }
      }
      pieces_.end_row();
    }
    rows_ = samples.rows_;
  }

  /// Number of samples.
  [[nodiscard]] std::size_t size() const noexcept { return pieces_.size(); }

  [[nodiscard]] std::size_t ranks() const noexcept { return rows_.size(); }

  /// The pieces of a sample in token order.
  [[nodiscard]] std::span<piece const> operator[](sample_id sample) const
  {
    BALLAST_EXPECTS(to_index(sample) < size(), "sample ", sample, " of a placement of ", size(),
                    " samples");
    return pieces_[sample];
  }

  /// The pieces of all samples, sample after sample.
  [[nodiscard]] std::span<piece const> pieces() const noexcept { return pieces_.values(); }

  [[nodiscard]] tokens length(sample_id sample) const
  {
    auto const all = (*this)[sample];
    return all.empty() ? 0 : all.back().first + all.back().count;
  }

  /// Rows of a rank's arrays: one per token; after assign_parts, as many as the samples have.
  [[nodiscard]] tokens rows(rank_id rank) const
  {
    BALLAST_EXPECTS(to_index(rank) < ranks(), "rank ", rank, " of a placement over ", ranks(),
                    " ranks");
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
  [[nodiscard]] static result<void> check(std::span<tokens const> lengths,
                                          partition_plan const& plan, bag_layout const& bags)
  {
    if (plan.bags_digest != bags.digest()) {
      return fail(error_code::mismatch, 0,
                  "the plan is for other bags than these; give the bags that it was made for");
    }
    if (plan.owner.size() != lengths.size()) {
      return fail(error_code::mismatch, 0, "the plan is for ", plan.owner.size(),
                  " samples, not for ", lengths.size(), "; give those that it was made for");
    }
    for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
      std::uint32_t const gpus = bags[plan.owner[sample]].gpus;
      tokens const length = lengths[sample];
      if (length < 0 || length > longest_sample || !bags.takes(plan.owner[sample], length)) {
        return fail(error_code::out_of_range, sample, "sample ", sample, " of ", length,
                    " tokens cannot lie on the ", gpus,
                    " GPUs of its bag; give the lengths that were planned");
      }
    }
    return {};
  }

  [[nodiscard]] static result<void> check(std::span<tokens const> lengths,
                                          sharding_plan const& plan, device_groups const& groups)
  {
    if (plan.groups_digest != groups.digest()) {
      return fail(
          error_code::mismatch, 0,
          "the plan is for other groups of GPUs than these; give those that it was made for");
    }
    if (plan.owner.size() != lengths.size()) {
      return fail(error_code::mismatch, 0, "the plan is for ", plan.owner.size(),
                  " sequences, not for ", lengths.size(), "; give those that it was made for");
    }
    for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
      std::uint32_t const gpus = groups[plan.owner[sample]].gpus;
      tokens const length = lengths[sample];
      if (length < 0 || length > longest_sample || (length > 0 && length < gpus)) {
        return fail(error_code::out_of_range, sample, "sequence ", sample, " of ", length,
                    " tokens cannot lie on the ", gpus,
                    " GPUs of its group; give the lengths that were planned");
      }
    }
    return {};
  }

  template <class Samples, class LengthOf>
  void read_lengths(Samples& samples, LengthOf const& length_of)
  {
    lengths_.clear();
    for (auto&& sample : samples) {
      lengths_.push_back(static_cast<tokens>(std::invoke(length_of, sample)));
    }
  }

  void start(std::size_t samples, std::size_t owners, std::size_t ranks)
  {
    BALLAST_EXPECTS(samples == owners, "there are lengths of ", samples, " samples and owners of ",
                    owners);
    BALLAST_EXPECTS(ranks >= 1, "a placement was asked for over no ranks");
    rows_.assign(ranks, 0);
    pieces_.clear();
  }

  static void expect_length(std::size_t sample, tokens length)
  {
    BALLAST_EXPECTS(length >= 0 && length <= longest_sample, "sample ", sample, " has a length of ",
                    length, ", which is not from 0 to ", longest_sample);
  }

  void append(rank_id rank, chunk part) { pieces_.push_back(next_rows(rank, part)); }

  /// The piece that lies in the rank's next free rows.
  [[nodiscard]] piece next_rows(rank_id rank, chunk part)
  {
    tokens const row = rows_[to_index(rank)];
    rows_[to_index(rank)] += part.count;
    return {rank, part.first, part.count, row};
  }

  jagged<sample_id, piece> pieces_;
  std::vector<tokens> rows_;           ///< of each rank
  std::vector<tokens> lengths_;        ///< that a projection gave, while they are placed
  jagged<group_id, sample_id> packs_;  ///< of the groups, while they are placed
};

}  // namespace ballast::inline v0

#endif  // BALLAST_ROUTE_PLACEMENT_HPP
