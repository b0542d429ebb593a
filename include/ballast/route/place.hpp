// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_PLACE_HPP
#define BALLAST_ROUTE_PLACE_HPP

#include <ballast/comm/gather_samples.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/jagged.hpp>
#include <ballast/core/result.hpp>
#include <ballast/partition/partition_plan.hpp>
#include <ballast/route/chunking.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/sharding/sharding_plan.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/device_groups.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ballast::inline v0 {

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

inline void expect_owners(std::size_t samples, std::size_t owners)
{
  BALLAST_EXPECTS(samples == owners, "there are lengths of ", counted(samples, "sample"),
                  " and owners of ", owners);
}

inline void expect_length(std::size_t sample, tokens length)
{
  BALLAST_EXPECTS(length >= 0 && length <= longest_sample, "sample ", sample, " has a length of ",
                  length, ", which is not from 0 to ", longest_sample);
}

}  // namespace detail

/// Puts whole samples on the ranks that own them.
///
/// Shapes      lengths[n], owner[n]; ranks >= 1.
/// In, out     where is overwritten; its memory is used again in the next step, as by every `_into`
///             here.
/// Expects     lengths from 0 to longest_sample, owners below `ranks`.
/// Complexity  O(samples + ranks); no allocation after a step as large.
inline void place_into(placement& where, std::span<tokens const> lengths,
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
inline void place_into(placement& where, std::span<tokens const> lengths,
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

/// Puts every sample where a plan wants it: in chunks over the GPUs of the bag that owns it.
///
/// Expects     the plan's lengths and owners are those that partition() wrote.
/// Errors      mismatch: the plan is for other bags. The placement is then empty.
/// Complexity  O(samples + pieces + ranks); no allocation after a step as large.
[[nodiscard]] inline result<void> place_into(placement& where, partition_plan const& plan,
                                             bag_layout const& bags)
{
  if (plan.bags_digest != bags.digest()) {
    where = {};
    return fail(error_code::mismatch, 0,
                "the plan is for other bags than these; give the bags that it was made for");
  }
  place_into(where, detail::span_of(plan.lengths), detail::span_of(plan.owner), bags);
  return {};
}

/// Puts every sequence where a plan of hybrid sharding wants it: in chunks over the GPUs of the
/// group that owns it, chunk g on the group's GPU g. The rows of a rank are pack by pack.
///
/// Expects     the plan's lengths, owners and samples are those that hybrid_sharding() wrote.
/// Errors      mismatch: the plan is for other groups. The placement is then empty.
/// Complexity  O(samples + pieces + groups + ranks); no allocation after a step as large.
[[nodiscard]] inline result<void> place_into(placement& where, sharding_plan const& plan,
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

/// Puts whole samples where they were read. Of samples that are no lengths, a plan knows the
/// lengths: place(plan.lengths, all.source, all.ranks).
///
/// Expects     lengths from 0 to longest_sample, as a plan of them proves.
/// Complexity  O(samples + ranks); no allocation after a step as large.
inline void place_as_read_into(placement& where, gathered_samples<tokens> const& all)
{
  place_into(where, detail::span_of(all.samples), detail::span_of(all.source), all.ranks);
}

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
inline void place_parts_into(placement& where, placement const& samples,
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

// The same, but each returns a new placement.

/// place_into() of whole samples on ranks, into a new placement.
[[nodiscard]] inline placement place(std::span<tokens const> lengths,
                                     std::span<rank_id const> owner, std::size_t ranks)
{
  placement where;
  place_into(where, lengths, owner, ranks);
  return where;
}

/// place_into() of samples in bags, into a new placement.
[[nodiscard]] inline placement place(std::span<tokens const> lengths, std::span<bag_id const> owner,
                                     bag_layout const& bags)
{
  placement where;
  place_into(where, lengths, owner, bags);
  return where;
}

/// place_into() of a plan, into a new placement.
[[nodiscard]] inline result<placement> place(partition_plan const& plan, bag_layout const& bags)
{
  placement where;
  if (auto done = place_into(where, plan, bags); !done) { return tl::unexpected(done.error()); }
  return where;
}

/// place_into() of a plan of hybrid sharding, into a new placement.
[[nodiscard]] inline result<placement> place(sharding_plan const& plan, device_groups const& groups)
{
  placement where;
  if (auto done = place_into(where, plan, groups); !done) { return tl::unexpected(done.error()); }
  return where;
}

/// place_as_read_into(), into a new placement.
[[nodiscard]] inline placement place_as_read(gathered_samples<tokens> const& all)
{
  placement where;
  place_as_read_into(where, all);
  return where;
}

/// place_parts_into(), into a new placement.
[[nodiscard]] inline placement place_parts(placement const& samples,
                                           std::span<sample_part const> parts)
{
  placement where;
  place_parts_into(where, samples, parts);
  return where;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_ROUTE_PLACE_HPP
