// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/comm/gather_samples.hpp>
#include <ballast/core.hpp>
#include <ballast/partition/partition_plan.hpp>
#include <ballast/sharding/sharding_plan.hpp>
#include <ballast/sharding/slots_plan.hpp>
#include <ballast/topology/bag_layout.hpp>

namespace ballast::inline v0 {

/// Some consecutive items of a longer run: tokens of a sequence, heads of a layer.
struct chunk {
  std::int64_t first = 0;
  std::int64_t count = 0;

  friend constexpr bool operator==(chunk, chunk) = default;
};

/// Returns chunk `index` of `length` items that are cut into `parts` consecutive chunks: how a bag
/// shares a sequence.
///
/// The first length % parts chunks have one item more than the others. GPU g of a bag gets chunk g,
/// and a bag's GPUs are consecutive ranks. So neighbours in the sequence are on neighbouring GPUs
/// of a node, and a layer that needs adjacent tokens exchanges data between neighbouring GPUs only.
///
/// Expects     length >= 0 and index < parts.
/// Ensures     (1) the chunks of all indices, in order, are all items
///             (2) their counts differ by at most one
///             (3) none is empty unless length < parts
/// Complexity  O(1).
[[nodiscard]] BALLAST_HOST_DEVICE constexpr chunk chunk_of(std::int64_t length, std::uint32_t parts,
                                                           std::uint32_t index)
{
  BALLAST_EXPECTS(length >= 0, "there are ", length, " items to split into chunks");
  BALLAST_EXPECTS(index < parts, "chunk ", index, " of ", parts);
  std::int64_t const count = length / parts;
  std::int64_t const longer = length % parts;
  bool const is_longer = index < longer;
  return {index * count + (is_longer ? index : longer), count + (is_longer ? 1 : 0)};
}

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
  /// Parts of one kind, such as all images of a step, and where their tokens lie.
  struct parts_of_kind {
    placement const& where;              ///< its items are the parts
    std::span<sample_part const> parts;  ///< ascending by sample, then by first token
  };

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
  [[nodiscard]] BALLAST_ONCE std::uint64_t digest() const noexcept;

  friend bool operator==(placement const& a, placement const& b)
  {
    return a.pieces_ == b.pieces_ && a.rows_ == b.rows_;
  }

 private:
  friend class detail::placement_writer;

  jagged<sample_id, piece> pieces_;
  std::vector<tokens> rows_;  ///< of each rank
};

namespace detail {

/// Writes a placement, sample after sample.
class placement_writer {
 public:
  placement_writer(placement& where, std::size_t ranks) : pieces_(where.pieces_), rows_(where.rows_)
  {
    BALLAST_EXPECTS(ranks >= 1, "a placement was asked for over no ranks");
    rows_.assign(ranks, 0);
    pieces_.clear();
  }

  void add(piece each) { pieces_.push_back(each); }
  void end_sample() { pieces_.end_row(); }

  /// The piece that lies in the rank's next free rows.
  [[nodiscard]] piece next_rows(rank_id rank, chunk part)
  {
    tokens const row = rows_[to_index(rank)];
    rows_[to_index(rank)] += part.count;
    return {rank, part.first, part.count, row};
  }

  /// Says which rank each GPU of a placement is, of so many ranks.
  static void rename(placement& where, std::span<rank_id const> rank_of_gpu, std::size_t ranks)
  {
    where.rows_.assign(ranks, 0);
    for (std::size_t sample = 0; sample < where.size(); ++sample) {
      for (piece& each : where.pieces_.row(to_id<sample_id>(sample))) {
        each.rank = rank_of_gpu[to_index(each.rank)];
        where.rows_[to_index(each.rank)] += each.count;
      }
    }
  }

  [[nodiscard]] jagged<sample_id, piece>& pieces() noexcept { return pieces_; }
  [[nodiscard]] std::vector<tokens>& rows() noexcept { return rows_; }

 private:
  jagged<sample_id, piece>& pieces_;
  std::vector<tokens>& rows_;
};

BALLAST_ONCE void expect_owners(std::size_t samples, std::size_t owners);

BALLAST_ONCE void expect_length(std::size_t sample, tokens length);

}  // namespace detail

/// Puts whole samples on the ranks that own them.
///
/// Shapes      lengths[n], owner[n]; ranks >= 1.
/// In, out     where is overwritten; its memory is used again in the next step, as by every call
///             that has it.
/// Expects     lengths from 0 to longest_sample, owners below `ranks`.
/// Complexity  O(samples + ranks); no allocation after a step as large.
BALLAST_ONCE void place(placement& where, std::span<tokens const> lengths,
                        std::span<rank_id const> owner, std::size_t ranks);

/// Puts every sample where its bag is: in chunks over the bag's GPUs, chunk g on its GPU g. A
/// sample of fewer tokens than the bag has GPUs, where the bags admit it, has one token on each of
/// the first GPUs and no piece on the others.
///
/// This is for owners or lengths that are not a plan's, such as those of the tokens that an encoder
/// makes of planned images.
///
/// Shapes      lengths[n], owner[n].
/// Expects     lengths from 0 to longest_sample; owners below bags.size(); every bag takes its
///             samples (bag_layout::takes).
/// Complexity  O(samples + pieces + ranks); no allocation after a step as large.
BALLAST_ONCE void place(placement& where, std::span<tokens const> lengths,
                        std::span<bag_id const> owner, bag_layout const& bags);

/// Puts every sample where a plan wants it: in chunks over the GPUs of the bag that owns it.
///
/// Expects     the plan's lengths and owners are those that partition() wrote.
/// Errors      mismatch: the plan is for other bags. The placement is then empty.
/// Complexity  O(samples + pieces + ranks); no allocation after a step as large.
[[nodiscard]] BALLAST_ONCE result<void> place(placement& where, partition_plan const& plan,
                                              bag_layout const& bags);

/// Puts every sequence where a plan of hybrid sharding wants it: in chunks over the GPUs of the
/// group that owns it, chunk g on the group's GPU g. The rows of a rank are pack by pack.
///
/// Expects     the plan's lengths, owners and samples are those that hybrid_sharding() wrote.
/// Errors      mismatch: the plan is for other groups. The placement is then empty.
/// Complexity  O(samples + pieces + groups + ranks); no allocation after a step as large.
[[nodiscard]] BALLAST_ONCE result<void> place(placement& where, sharding_plan const& plan,
                                              device_groups const& groups);

/// Puts the samples of one slot where a plan of slots wants them: in chunks over the ranks of the
/// group that owns each, chunk g on its rank g. Samples of other slots have no piece.
///
/// Complexity  O(samples + pieces + ranks); no allocation after a step as large.
BALLAST_ONCE void place(placement& where, slots_plan const& plan, std::size_t slot);

/// Puts the samples of one slot where they lie in a placement of all: from there a route takes them
/// to where the slot computes them, and leaves the rows of others as they are.
///
/// Expects     a placement of the plan's samples; `where` is not `all`.
/// Complexity  O(samples + pieces + ranks); no allocation after a step as large.
BALLAST_ONCE void place(placement& where, slots_plan const& plan, std::size_t slot,
                        placement const& all);

/// Puts whole samples where they were read. Of samples that are no lengths, a plan knows the
/// lengths: place(plan.lengths, all.source, all.ranks).
///
/// Expects     lengths from 0 to longest_sample, as a plan of them proves.
/// Complexity  O(samples + ranks); no allocation after a step as large.
BALLAST_ONCE void place_as_read(placement& where, gathered_samples<tokens> const& all);

/// Puts parts of samples where their tokens lie in a placement of the samples: for images that an
/// encoder has computed in another placement, and that the language model needs inside its
/// sequences.
///
/// The items of this placement are the parts: size() counts them. Token t of a part is token
/// part.first + t of its sample, on the same rank and in the same row. So a route to this
/// placement writes into the samples' own arrays, and does not touch the rows between the parts.
///
/// Expects     parts that lie within their samples and do not overlap; `where` is not `samples`.
/// Complexity  O(parts x pieces of a sample + ranks); no allocation after a step as large.
BALLAST_ONCE void place_parts(placement& where, placement const& samples,
                              std::span<sample_part const> parts);

/// The same, but it returns a new placement.
[[nodiscard]] BALLAST_ONCE placement place(std::span<tokens const> lengths,
                                           std::span<rank_id const> owner, std::size_t ranks);

/// The same, but it returns a new placement.
[[nodiscard]] BALLAST_ONCE placement place(std::span<tokens const> lengths,
                                           std::span<bag_id const> owner, bag_layout const& bags);

/// The same, but it returns a new placement.
[[nodiscard]] BALLAST_ONCE result<placement> place(partition_plan const& plan,
                                                   bag_layout const& bags);

/// The same, but it returns a new placement.
[[nodiscard]] BALLAST_ONCE result<placement> place(sharding_plan const& plan,
                                                   device_groups const& groups);

/// The same, but it returns a new placement.
[[nodiscard]] BALLAST_ONCE placement place_as_read(gathered_samples<tokens> const& all);

/// The same, but it returns a new placement.
[[nodiscard]] BALLAST_ONCE placement place_parts(placement const& samples,
                                                 std::span<sample_part const> parts);

/// Puts samples where their parts lie: the reverse of place_parts. A sample whose images were
/// encoded on three ranks and whose text was read on a fourth has pieces on all four.
///
/// It tells place_by_node and measure_route where the tokens of whole samples come from. A rank's
/// rows are its pieces sample after sample, which is the order of no array where there are several
/// kinds: routes take the parts kind by kind.
///
/// Shapes      kinds: at least one, all over equally many ranks.
/// In, out     where is overwritten; its memory is used again in the next step.
/// Expects     each token of a sample is in one part, and the parts are below `samples`.
/// Ensures     (1) token part.first + t of a sample is on the rank of token t of its part
/// Complexity  O((samples + parts) kinds + pieces); no allocation after a step as large.
BALLAST_ONCE void place(placement& where, workspace& memory, std::size_t samples,
                        std::span<placement::parts_of_kind const> kinds);

/// The same tokens where each process has the arrays of several ranks, as of its GPUs: process p
/// has those of ranks p x joined to (p + 1) x joined - 1, one behind the other, and is rank p here.
///
/// Expects     joined >= 1, and the ranks of `each` are a multiple of it; where is not `each`.
/// Complexity  O(pieces x joined + ranks); no allocation after a step as large.
BALLAST_ONCE void join_ranks_into(placement& where, placement const& each, std::size_t joined);

}  // namespace ballast::inline v0

#ifndef BALLAST_COMPILED

namespace ballast::inline v0 {

[[nodiscard]] BALLAST_ONCE std::uint64_t placement::digest() const noexcept
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

BALLAST_ONCE void place(placement& where, std::span<tokens const> lengths,
                        std::span<rank_id const> owner, std::size_t ranks)
{
  detail::expect_owners(lengths.size(), owner.size());
  detail::placement_writer write(where, ranks);
  for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
    detail::expect_length(sample, lengths[sample]);
    BALLAST_EXPECTS(to_index(owner[sample]) < ranks, "sample ", sample, " lies on rank ",
                    owner[sample], " of ", ranks);
    if (lengths[sample] > 0) { write.add(write.next_rows(owner[sample], {0, lengths[sample]})); }
    write.end_sample();
  }
}

BALLAST_ONCE void place(placement& where, std::span<tokens const> lengths,
                        std::span<bag_id const> owner, bag_layout const& bags)
{
  detail::expect_owners(lengths.size(), owner.size());
  detail::placement_writer write(where, bags.gpus());
  for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
    BALLAST_EXPECTS(to_index(owner[sample]) < bags.size(), "sample ", sample, " is in bag ",
                    owner[sample], " of ", bags.size());
    bag const home = bags[owner[sample]];
    detail::expect_length(sample, lengths[sample]);
    BALLAST_EXPECTS(bags.takes(owner[sample], lengths[sample]), "sample ", sample, " of ",
                    detail::counted(lengths[sample], "token"), " cannot lie on the ",
                    detail::counted(home.gpus, "GPU"), " of bag ", owner[sample]);
    tokens const holders = std::min<tokens>(home.gpus, lengths[sample]);
    for (std::uint32_t gpu = 0; gpu < holders; ++gpu) {
      auto const rank = to_id<rank_id>(to_index(home.first) + gpu);
      write.add(write.next_rows(rank, chunk_of(lengths[sample], home.gpus, gpu)));
    }
    write.end_sample();
  }
}

[[nodiscard]] BALLAST_ONCE result<void> place(placement& where, partition_plan const& plan,
                                              bag_layout const& bags)
{
  if (plan.bags_digest != bags.digest()) {
    where = {};
    return fail(error_code::mismatch, 0,
                "the plan is for other bags than these; give the bags that it was made for");
  }
  place(where, detail::span_of(plan.lengths), detail::span_of(plan.owner), bags);
  return {};
}

[[nodiscard]] BALLAST_ONCE result<void> place(placement& where, sharding_plan const& plan,
                                              device_groups const& groups)
{
  if (plan.groups_digest != groups.digest()) {
    where = {};
    return fail(error_code::mismatch, 0,
                "the plan is for other groups of GPUs than these; give those that it was made for");
  }
  std::span<tokens const> const lengths = detail::span_of(plan.lengths);
  detail::expect_owners(lengths.size(), plan.owner.size());
  for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
    detail::expect_length(sample, lengths[sample]);
    std::uint32_t const gpus = groups[plan.owner[sample]].gpus;
    BALLAST_EXPECTS(lengths[sample] == 0 || lengths[sample] >= gpus, "sample ", sample, " of ",
                    detail::counted(lengths[sample], "token"), " cannot lie on the ",
                    detail::counted(gpus, "GPU"), " of group ", plan.owner[sample]);
  }
  detail::placement_writer write(where, groups.gpus());
  jagged<sample_id, piece>& pieces = write.pieces();
  pieces.resize(lengths.size(), [&](std::size_t sample) -> std::size_t {
    return lengths[sample] == 0 ? 0 : groups[plan.owner[sample]].gpus;
  });
  for (std::size_t pack = groups.size(); pack > 0; --pack) {  // by descending degree
    auto const id = to_id<group_id>(pack - 1);
    auto const [first, gpus] = groups[id];
    for (sample_id const sample : plan.samples[id]) {
      tokens const length = lengths[to_index(sample)];
      std::span<piece> const chunks = pieces.row(sample);  // none of a sequence without tokens
      for (std::uint32_t gpu = 0; gpu < chunks.size(); ++gpu) {
        chunks[gpu] =
            write.next_rows(to_id<rank_id>(to_index(first) + gpu), chunk_of(length, gpus, gpu));
      }
    }
  }
  return {};
}

BALLAST_ONCE void place(placement& where, slots_plan const& plan, std::size_t slot)
{
  detail::placement_writer write(where, plan.ranks);
  for (std::size_t sample = 0; sample < plan.lengths.size(); ++sample) {
    slots_plan::group const& group = plan.groups[to_index(plan.owner[to_id<sample_id>(sample)])];
    auto const [first, gpus] = group.ranks;
    for (std::uint32_t gpu = 0; gpu < gpus && group.slot == slot; ++gpu) {
      chunk const part = chunk_of(plan.lengths[sample], gpus, gpu);
      auto const rank = to_id<rank_id>(to_index(first) + gpu);
      if (part.count > 0) { write.add(write.next_rows(rank, part)); }
    }
    write.end_sample();
  }
}

BALLAST_ONCE void place(placement& where, slots_plan const& plan, std::size_t slot,
                        placement const& all)
{
  BALLAST_EXPECTS(&where != &all, "a placement cannot be made of parts of itself");
  detail::expect_owners(all.size(), plan.owner.size());
  detail::placement_writer write(where, all.ranks());
  for (std::size_t sample = 0; sample < all.size(); ++sample) {
    auto const id = to_id<sample_id>(sample);
    if (plan.groups[to_index(plan.owner[id])].slot == slot) {
      for (piece const& each : all[id]) { write.add(each); }
    }
    write.end_sample();
  }
  for (std::size_t rank = 0; rank < all.ranks(); ++rank) {
    write.rows()[rank] = all.rows(to_id<rank_id>(rank));
  }
}

BALLAST_ONCE void place_as_read(placement& where, gathered_samples<tokens> const& all)
{
  place(where, detail::span_of(all.samples), detail::span_of(all.source), all.ranks);
}

BALLAST_ONCE void place_parts(placement& where, placement const& samples,
                              std::span<sample_part const> parts)
{
  BALLAST_EXPECTS(&where != &samples, "a placement cannot be made of parts of itself");
  detail::placement_writer write(where, samples.ranks());
  for (sample_part const& part : parts) {
    BALLAST_EXPECTS(part.first >= 0 && part.count >= 0 &&
                        part.first <= samples.length(part.sample) - part.count,
                    "part ", where.size(), " is ", detail::counted(part.count, "token"),
                    " from token ", part.first, " on of sample ", part.sample, ", which has ",
                    samples.length(part.sample));
    for (piece const& each : samples[part.sample]) {
      tokens const first = std::max(each.first, part.first);
      tokens const end = std::min(each.first + each.count, part.first + part.count);
      if (first < end) {
        write.add({each.rank, first - part.first, end - first, each.row + first - each.first});
      }
    }
    write.end_sample();
  }
  for (std::size_t rank = 0; rank < samples.ranks(); ++rank) {
    write.rows()[rank] = samples.rows(to_id<rank_id>(rank));
  }
}

[[nodiscard]] BALLAST_ONCE placement place(std::span<tokens const> lengths,
                                           std::span<rank_id const> owner, std::size_t ranks)
{
  placement where;
  place(where, lengths, owner, ranks);
  return where;
}

[[nodiscard]] BALLAST_ONCE placement place(std::span<tokens const> lengths,
                                           std::span<bag_id const> owner, bag_layout const& bags)
{
  placement where;
  place(where, lengths, owner, bags);
  return where;
}

[[nodiscard]] BALLAST_ONCE result<placement> place(partition_plan const& plan,
                                                   bag_layout const& bags)
{
  placement where;
  if (auto done = place(where, plan, bags); !done) { return tl::unexpected(done.error()); }
  return where;
}

[[nodiscard]] BALLAST_ONCE result<placement> place(sharding_plan const& plan,
                                                   device_groups const& groups)
{
  placement where;
  if (auto done = place(where, plan, groups); !done) { return tl::unexpected(done.error()); }
  return where;
}

[[nodiscard]] BALLAST_ONCE placement place_as_read(gathered_samples<tokens> const& all)
{
  placement where;
  place_as_read(where, all);
  return where;
}

[[nodiscard]] BALLAST_ONCE placement place_parts(placement const& samples,
                                                 std::span<sample_part const> parts)
{
  placement where;
  place_parts(where, samples, parts);
  return where;
}

BALLAST_ONCE void place(placement& where, workspace& memory, std::size_t samples,
                        std::span<placement::parts_of_kind const> kinds)
{
  BALLAST_EXPECTS(!kinds.empty(), "samples of no parts were to be placed");
  auto scratch = memory.open();
  std::span<std::size_t> const next = scratch.take<std::size_t>(kinds.size());
  std::fill(next.begin(), next.end(), 0);
  detail::placement_writer write(where, kinds.front().where.ranks());
  for (std::size_t sample = 0; sample < samples; ++sample) {
    auto const has_next = [&](std::size_t kind) {
      return next[kind] < kinds[kind].parts.size() &&
             to_index(kinds[kind].parts[next[kind]].sample) == sample;
    };
    while (true) {
      std::size_t first = kinds.size();
      for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
        if (has_next(kind) &&
            (first == kinds.size() ||
             kinds[kind].parts[next[kind]].first < kinds[first].parts[next[first]].first)) {
          first = kind;
        }
      }
      if (first == kinds.size()) { break; }
      std::size_t const part = next[first]++;
      tokens const offset = kinds[first].parts[part].first;
      for (piece const& each : kinds[first].where[to_id<sample_id>(part)]) {
        write.add(write.next_rows(each.rank, {offset + each.first, each.count}));
      }
    }
    write.end_sample();
  }
}

BALLAST_ONCE void join_ranks_into(placement& where, placement const& each, std::size_t joined)
{
  BALLAST_EXPECTS(&where != &each, "a placement cannot be joined in place");
  BALLAST_EXPECTS(joined >= 1 && each.ranks() % joined == 0, "a placement over ",
                  detail::counted(each.ranks(), "rank"), " cannot be one over processes of ",
                  joined);
  detail::placement_writer write(where, each.ranks() / joined);
  for (std::size_t rank = 0; rank < each.ranks(); ++rank) {
    write.rows()[rank / joined] += each.rows(to_id<rank_id>(rank));
  }
  for (std::size_t sample = 0; sample < each.size(); ++sample) {
    for (piece part : each[to_id<sample_id>(sample)]) {
      std::size_t const process = to_index(part.rank) / joined;
      for (std::size_t rank = process * joined; rank < to_index(part.rank); ++rank) {
        part.row += each.rows(to_id<rank_id>(rank));
      }
      part.rank = to_id<rank_id>(process);
      write.add(part);
    }
    write.end_sample();
  }
}

namespace detail {

BALLAST_ONCE void expect_owners(std::size_t samples, std::size_t owners)
{
  BALLAST_EXPECTS(samples == owners, "there are lengths of ", counted(samples, "sample"),
                  " and owners of ", owners);
}

BALLAST_ONCE void expect_length(std::size_t sample, tokens length)
{
  BALLAST_EXPECTS(length >= 0 && length <= longest_sample, "sample ", sample, " has a length of ",
                  length, ", which is not from 0 to ", longest_sample);
}

}  // namespace detail

}  // namespace ballast::inline v0

#endif
