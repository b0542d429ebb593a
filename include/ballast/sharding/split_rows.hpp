// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/sharding/row_split.hpp>

#include <bit>
#include <functional>

namespace ballast::inline v0 {

namespace detail {

/// A split that is searched: each rank's blocks, their work, and the keys that ranks need. Blocks
/// count from 1. In front of a rank's blocks lies block 0, whose keys end before all others, and
/// behind them one whose keys begin behind all others.
class row_search {
 public:
  row_search(row_split const& split, std::size_t ranks, std::uint32_t uneven_permille,
             workspace::frame& scratch)
      : ranks_(ranks),
        held_of_rank_(static_cast<std::size_t>(split.rows_of_rank / split.block)),
        blocks_(held_of_rank_ * ranks),
        block_(split.block),
        masks_(scratch.take<mask_part>(split.masks.size())),
        owner_(scratch.take<std::uint32_t>(blocks_ + 2)),
        best_(scratch.take<std::uint32_t>(blocks_ + 2)),
        held_(scratch.take<std::uint32_t>(ranks * (held_of_rank_ + 2))),
        place_(scratch.take<std::uint32_t>(blocks_ + 2)),
        filled_(scratch.take<std::uint32_t>(ranks)),
        ends_(scratch.take<std::uint32_t>(blocks_)),
        place_of_end_(scratch.take<std::uint32_t>(blocks_ + 2))
  {
    for (std::size_t at = 0; at < masks_.size(); ++at) {
      read(split, split.masks[at], masks_[at], uneven_permille, scratch);
      layers_ += masks_[at].layers;
    }
  }

  /// Leaves the best split that it finds.
  void run()
  {
    std::fill(owner_.begin(), owner_.end(), static_cast<std::uint32_t>(ranks_));
    std::fill(filled_.begin(), filled_.end(), 0U);
    if (blocks_ > 0 && splits() <= most_tried) {
      try_all(1);
    } else if (blocks_ > 0) {
      start();
      bool const is_best = least_.uneven == 0 && least_.keys == layers_ * masks_[0].keys.back().end;
      if (!is_best) { anneal(); }
    }
    std::copy(best_.begin(), best_.end(), owner_.begin());
    refresh();
  }

  void describe(row_split& split)
  {
    auto const size = static_cast<std::size_t>(split.rows_of_rank) * ranks_;
    split.owner.resize(blocks_);
    split.rows.resize(size);
    split.places.resize(size);
    for (std::size_t row = 0; row < size; ++row) {
      std::size_t const at = row / static_cast<std::size_t>(block_) + 1;
      split.owner[at - 1] = to_id<rank_id>(owner_[at]);
      split.places[row] = owner_[at] * split.rows_of_rank + (place_[at] - 1) * block_ +
                          static_cast<tokens>(row) % block_;
      split.rows[static_cast<std::size_t>(split.places[row])] = static_cast<tokens>(row);
    }
    split.for_mask.resize(masks_.size());
    for (std::size_t mask = 0; mask < masks_.size(); ++mask) {
      mask_part const& from = masks_[mask];
      row_split::mask_part& part = split.for_mask[mask];
      part.pairs.assign(from.of_rank.begin(), from.of_rank.end());
      part.moved_to.assign(ranks_, 0);
      for (std::size_t at = 1; at <= blocks_; ++at) {
        std::uint32_t const before = held(owner_[at])[place_[at] - 1];
        tokens const rows = split.starts.back() - static_cast<tokens>(at - 1) * block_;
        part.moved_to[owner_[at]] +=
            from.more_keys(before, at) - std::clamp<tokens>(rows, 0, block_);
      }
      part.makespan = *std::max_element(part.pairs.begin(), part.pairs.end());
      part.lower_bound = from.lower_bound;
      part.moved = std::accumulate(part.moved_to.begin(), part.moved_to.end(), tokens{0});
    }
  }

 private:
  struct mask_part {
    std::span<std::int64_t> pairs_before;  ///< of blocks below each
    std::span<row_range> keys;             ///< of each block
    std::span<std::int64_t> of_rank;       ///< pairs
    std::int64_t layers;
    std::int64_t lower_bound;
    std::int64_t even;  ///< the pairs up to which a rank counts as even
    int shift;          ///< from pairs above that to keys that they are worth

    [[nodiscard]] std::int64_t pairs(std::size_t first, std::size_t count) const
    {
      return pairs_before[first + count] - pairs_before[first];
    }
    [[nodiscard]] std::int64_t total() const { return pairs_before.back(); }
    [[nodiscard]] tokens more_keys(std::size_t before, std::size_t at) const
    {
      return keys[at].end - std::max(keys[at].first, keys[before].end);
    }
    [[nodiscard]] std::int64_t price(std::int64_t pairs_of_rank) const
    {
      std::int64_t const over = pairs_of_rank - even;
      if (over <= 0) { return 0; }
      return shift <= 0 ? over << -shift : ((over - 1) >> shift) + 1;
    }
  };

  /// The work above what counts as even, in millionths of the mean, of the mask where that is most;
  /// then the keys that ranks need, by layers.
  struct quality {
    std::uint64_t uneven = ~std::uint64_t{0};
    std::int64_t keys = 0;
  };

  /// An end of what a rank has in a row: the blocks below `at`, or those from it on.
  struct row_end {
    std::size_t at;
    bool is_top;

    [[nodiscard]] std::size_t first(std::size_t count) const { return is_top ? at - count : at; }
    [[nodiscard]] std::size_t inmost(std::size_t count) const
    {
      return is_top ? at - count : at + count - 1;
    }
  };

  static constexpr std::uint32_t nowhere = ~std::uint32_t{0};
  static constexpr std::uint64_t most_tried = 20'000;  ///< splits

  void read(row_split const& split, row_mask const& mask, mask_part& part,
            std::uint32_t uneven_permille, workspace::frame& scratch)
  {
    part.layers = mask.layers;
    part.pairs_before = scratch.take<std::int64_t>(blocks_ + 2);
    part.keys = scratch.take<row_range>(blocks_ + 2);
    part.of_rank = scratch.take<std::int64_t>(ranks_);
    part.keys[0] = {0, 0};
    part.keys[blocks_ + 1] = {split.starts.back(), split.starts.back()};
    part.pairs_before[0] = part.pairs_before[1] = 0;
    std::span<std::int64_t> const work = scratch.take<std::int64_t>(blocks_);
    std::fill(work.begin(), work.end(), 0);
    for (std::size_t each = 0; each + 1 < split.starts.size(); ++each) {
      masked_document const own(split, mask, each);
      for (tokens row = 0; row < own.rows;) {
        tokens const at = (own.start + row) / block_;
        tokens const end = std::min(own.rows, (at + 1) * block_ - own.start);
        work[static_cast<std::size_t>(at)] += own.pairs_before(end) - own.pairs_before(row);
        row = end;
      }
    }
    for (std::size_t at = 1; at <= blocks_; ++at) {
      part.keys[at] = keys_of_block(split, mask, at - 1);
      part.pairs_before[at + 1] = part.pairs_before[at] + work[at - 1];
    }
    auto const total = static_cast<std::uint64_t>(part.total());
    part.lower_bound = static_cast<std::int64_t>((total + ranks_ - 1) / ranks_);
    for (std::int64_t const each : work) { part.lower_bound = std::max(part.lower_bound, each); }
    uint128 const allowed = uint128{total} * (1000 + uneven_permille) / 1000 / ranks_;
    part.even =
        std::max(part.lower_bound, static_cast<std::int64_t>(std::min<uint128>(allowed, total)));
  }

  [[nodiscard]] std::span<std::uint32_t> held(std::size_t rank) const
  {
    return held_.subspan(rank * (held_of_rank_ + 2), held_of_rank_ + 2);
  }

  /// The keys that a rank needs more for a block, by layers, where `before` is its one before that.
  [[nodiscard]] std::int64_t more_keys(std::size_t before, std::size_t at) const
  {
    std::int64_t keys = 0;
    for (mask_part const& mask : masks_) { keys += mask.layers * mask.more_keys(before, at); }
    return keys;
  }

  /// Counts anew what follows from the owners.
  quality refresh()
  {
    std::fill(filled_.begin(), filled_.end(), 0U);
    for (mask_part& mask : masks_) { std::fill(mask.of_rank.begin(), mask.of_rank.end(), 0); }
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      held(rank).front() = 0;
      held(rank).back() = static_cast<std::uint32_t>(blocks_ + 1);
    }
    quality found{0, 0};
    for (std::uint32_t at = 1; at <= blocks_; ++at) {
      std::size_t const rank = owner_[at];
      place_[at] = ++filled_[rank];
      held(rank)[place_[at]] = at;
      found.keys += more_keys(held(rank)[place_[at] - 1], at);
      for (mask_part& mask : masks_) { mask.of_rank[rank] += mask.pairs(at, 1); }
    }
    for (mask_part const& mask : masks_) {
      std::int64_t const over =
          *std::max_element(mask.of_rank.begin(), mask.of_rank.end()) - mask.even;
      if (over <= 0) { continue; }
      uint128 const share = uint128{static_cast<std::uint64_t>(over)} * ranks_ * 1'000'000;
      auto const total = static_cast<std::uint64_t>(mask.total());
      found.uneven =
          std::max(found.uneven, static_cast<std::uint64_t>((share + total - 1) / total));
    }
    return found;
  }

  void keep_if_better()
  {
    quality const found = refresh();
    if (!precedes(found.uneven, least_.uneven, found.keys, least_.keys)) { return; }
    least_ = found;
    std::copy(owner_.begin(), owner_.end(), best_.begin());
  }

  /// How many splits there are, ranks being alike, or more than are tried.
  [[nodiscard]] std::uint64_t splits() const
  {
    std::uint64_t all = 1;
    for (std::size_t left = blocks_; left > held_of_rank_ && all <= most_tried;) {
      // With the first block that is left go so many others.
      for (std::size_t other = 1; other < held_of_rank_ && all <= most_tried; ++other) {
        all = all * (left - other) / other;
      }
      left -= held_of_rank_;
    }
    return all;
  }

  void try_all(std::size_t at)
  {
    if (at > blocks_) {
      keep_if_better();
      return;
    }
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      auto const before =
          std::count(owner_.begin() + 1, owner_.begin() + static_cast<std::ptrdiff_t>(at), rank);
      if (static_cast<std::size_t>(before) == held_of_rank_) { continue; }
      owner_[at] = rank;
      try_all(at + 1);
      if (before == 0) { return; }  // the ranks behind it are like it
    }
  }

  /// Begins with heads and tails of the pack, and with blocks in a row, which move fewer keys.
  void start()
  {
    for (bool const has_tails : {held_of_rank_ % 2 == 0, false}) {
      for (std::size_t at = 0; at < blocks_; ++at) {
        std::size_t const rank =
            has_tails ? std::min(at, blocks_ - 1 - at) / (held_of_rank_ / 2) : at / held_of_rank_;
        owner_[at + 1] = static_cast<std::uint32_t>(rank);
      }
      keep_if_better();
    }
  }

  /// Exchanges equally many blocks at the ends of what ranks have in a row, at random. What makes
  /// the split worse is taken too, up to a random limit that falls with the steps (annealing),
  /// while work above what counts as even gets dearer: a mean's from 4 times a rank's rows on.
  void anneal()
  {
    constexpr std::int64_t stages = 12;
    auto const steps =
        static_cast<std::int64_t>(std::clamp<std::size_t>(112 * blocks_, 24'000, 3'000'000)) /
        stages;
    std::fill(place_of_end_.begin(), place_of_end_.end(), nowhere);
    for (std::size_t at = 1; at <= blocks_; ++at) { note_end(at); }
    for (std::int64_t stage = 0; stage < 2 * stages; ++stage) {
      if (stage >= stages && refresh().uneven == 0) { break; }
      std::int64_t const worth = (block_ * layers_ * static_cast<std::int64_t>(held_of_rank_) * 4)
                                 << std::min(stage, stages);
      for (mask_part& mask : masks_) {
        std::int64_t const mean = mask.total() / static_cast<std::int64_t>(ranks_);
        mask.shift = 0;
        while ((mean >> mask.shift) > worth) { ++mask.shift; }
        while (mask.shift <= 0 && mean > 0 && (mean << -mask.shift) < worth) { --mask.shift; }
      }
      for (std::int64_t step = 0; step < steps && end_count_ > 0; ++step) {
        if (step % 256 == 0 && cancel_scope::is_cancelled()) { return; }
        std::int64_t const left = std::max<std::int64_t>(stages - stage, 1) * steps - step;
        try_exchange(block_ * layers_ * left / (stages * steps));
      }
    }
    keep_if_better();
  }

  /// Notes whether two ranks meet before a block.
  void note_end(std::size_t at)
  {
    if (at < 2 || at > blocks_) { return; }
    bool const is_end = owner_[at] != owner_[at - 1];
    std::uint32_t const place = place_of_end_[at];
    if (is_end && place == nowhere) {
      place_of_end_[at] = static_cast<std::uint32_t>(end_count_);
      ends_[end_count_++] = static_cast<std::uint32_t>(at);
    } else if (!is_end && place != nowhere) {
      ends_[place] = ends_[--end_count_];
      place_of_end_[ends_[place]] = place;
      place_of_end_[at] = nowhere;
    }
  }

  void try_exchange(std::int64_t heat)
  {
    std::uint64_t const bits = random_();
    std::uint64_t const more = random_();
    auto const drawn = [](std::uint64_t word, std::size_t count) {
      return static_cast<std::size_t>((word >> 40) * count >> 24);
    };
    row_end const a{ends_[drawn(bits, end_count_)], (bits & 1) != 0};
    std::size_t const rank_a = owner_[a.inmost(1)];
    row_end b{ends_[drawn(more, end_count_)], (bits & 2) != 0};
    if ((bits & 28) != 0) {  // mostly the neighbour takes the blocks, and gives others of its own
      std::size_t const rank = owner_[a.is_top ? a.at : a.at - 1];
      b.at = end_of_run(rank, 1 + drawn(more, held_of_rank_), b.is_top);
    }
    std::size_t const rank_b = owner_[b.inmost(1)];
    if (rank_a == rank_b) { return; }
    std::size_t count = 1;
    bool const is_whole = (bits & 96) == 0;
    while ((is_whole || (more >> count & 1) != 0) && count < 32 &&
           owner_[a.inmost(count + 1)] == rank_a && owner_[b.inmost(count + 1)] == rank_b) {
      ++count;
    }
    // -log2 of a random number below 1, in 256ths, straight between powers of two.
    std::uint64_t const number = (bits >> 8 & 0xFFFFFFFFU) | 1U;
    auto const width = static_cast<int>(std::bit_width(number));
    auto const fraction = static_cast<std::int64_t>((number << (64 - width) << 1) >> 56);
    exchange_if(a.first(count), b.first(count), count,
                heat * ((32 - width) * 256 + 255 - fraction) / 256);
  }

  /// Exchanges `count` blocks from `first` on and from `second` on if that costs at most so much.
  void exchange_if(std::size_t first, std::size_t second, std::size_t count, std::int64_t limit)
  {
    std::size_t const a = owner_[first];
    std::size_t const b = owner_[second];
    std::int64_t cost = 0;
    for (mask_part const& mask : masks_) {
      std::int64_t const to_a = mask.pairs(second, count) - mask.pairs(first, count);
      cost += mask.price(mask.of_rank[a] + to_a) - mask.price(mask.of_rank[a]) +
              mask.price(mask.of_rank[b] - to_a) - mask.price(mask.of_rank[b]);
    }
    if (cost > limit + 24 * block_ * layers_) { return; }  // keys seldom make good for that
    cost += keys_by_change(a, place_[first], count, second) +
            keys_by_change(b, place_[second], count, first);
    if (cost > limit) { return; }
    for (mask_part& mask : masks_) {
      std::int64_t const to_a = mask.pairs(second, count) - mask.pairs(first, count);
      mask.of_rank[a] += to_a;
      mask.of_rank[b] -= to_a;
    }
    std::size_t const gone_of_b = place_[second];
    change(a, place_[first], count, second);
    change(b, gone_of_b, count, first);
    for (std::size_t const at : {first, first + count, second, second + count}) { note_end(at); }
  }

  /// The block behind the last one in a row with that in a place of a rank, or the first one.
  [[nodiscard]] std::size_t end_of_run(std::size_t rank, std::size_t place, bool is_top) const
  {
    auto const own = held(rank).subspan(1, held_of_rank_);
    auto const at = own.begin() + static_cast<std::ptrdiff_t>(place) - 1;
    auto const is_in_row = [&](std::uint32_t const& each) {
      return static_cast<std::ptrdiff_t>(each) - *at == &each - &*at;
    };
    if (is_top) { return *(std::partition_point(at, own.end(), is_in_row) - 1) + std::size_t{1}; }
    return *std::partition_point(own.begin(), at, std::not_fn(is_in_row));
  }

  [[nodiscard]] std::size_t place_for(std::size_t rank, std::size_t at) const
  {
    auto const own = held(rank);
    return static_cast<std::size_t>(std::lower_bound(own.begin(), own.end(), at) - own.begin());
  }

  /// The keys that a rank needs more with `count` blocks from `first` on in place of as many from
  /// its place `gone` on.
  [[nodiscard]] std::int64_t keys_by_change(std::size_t rank, std::size_t gone, std::size_t count,
                                            std::size_t first) const
  {
    auto const own = held(rank);
    std::size_t const rest = gone + count;
    std::size_t const place = place_for(rank, first);
    std::size_t const before = own[place == rest ? gone - 1 : place - 1];
    std::size_t const behind = own[place == gone ? rest : place];
    return more_keys(own[gone - 1], own[rest]) - more_keys(own[gone - 1], own[gone]) -
           more_keys(own[rest - 1], own[rest]) + more_keys(before, first) +
           more_keys(first + count - 1, behind) - more_keys(before, behind);
  }

  void change(std::size_t rank, std::size_t gone, std::size_t count, std::size_t first)
  {
    auto const own = held(rank);
    auto const at = [&](std::size_t place) {
      return own.begin() + static_cast<std::ptrdiff_t>(place);
    };
    std::size_t place = place_for(rank, first);
    std::size_t const begin = std::min(place, gone);
    std::size_t const end = std::max(place, gone + count);
    if (place > gone) {
      std::rotate(at(gone), at(gone + count), at(end));
      place -= count;
    } else {
      std::rotate(at(begin), at(gone), at(end));
    }
    for (std::size_t each = 0; each < count; ++each) {
      own[place + each] = static_cast<std::uint32_t>(first + each);
      owner_[first + each] = static_cast<std::uint32_t>(rank);
    }
    for (std::size_t each = begin; each < end; ++each) {
      place_[own[each]] = static_cast<std::uint32_t>(each);
    }
  }

  std::size_t ranks_;
  std::size_t held_of_rank_;
  std::size_t blocks_;
  tokens block_;
  std::int64_t layers_ = 0;
  std::span<mask_part> masks_;
  std::span<std::uint32_t> owner_;
  std::span<std::uint32_t> best_;   ///< owners
  std::span<std::uint32_t> held_;   ///< the blocks of each rank, in order
  std::span<std::uint32_t> place_;  ///< of each block in those of its rank
  std::span<std::uint32_t> filled_;
  std::span<std::uint32_t> ends_;  ///< blocks before which two ranks meet
  std::span<std::uint32_t> place_of_end_;
  std::size_t end_count_ = 0;
  quality least_;
  random_source random_{0x5eed};
};

/// The keys that ranks move at least, where none has more pairs than the makespans say. Of the rank
/// whose highest row of a document is the j-th of all, that row is at least where j - 1 ranks
/// cannot have all rows above it, and it needs the keys that this row sees. With a window it needs
/// those below its first row, which begins another block for each rank.
inline void bound_moved_keys(row_split& split)
{
  for (row_split::mask_part& part : split.for_mask) { part.least_moved = 0; }
  for (std::size_t document = 0; document + 1 < split.starts.size(); ++document) {
    tokens const rows = split.starts[document + 1] - split.starts[document];
    tokens cut = split.block - split.starts[document] % split.block;
    tokens ranks = 0;
    for (tokens top = rows; top > 0;) {
      for (std::size_t at = 0; ranks > 0 && at < split.masks.size(); ++at) {
        masked_document const own(split, split.masks[at], document);
        split.for_mask[at].least_moved +=
            own.window < rows ? std::min(own.window - 1, cut) : own.keys_of({0, top}).end;
      }
      cut += ranks++ > 0 ? split.block : 0;
      tokens low = 0;
      while (low < top) {
        tokens const middle = low + (top - low) / 2;
        bool can = rows - middle <= ranks * split.rows_of_rank;
        for (std::size_t at = 0; can && at < split.masks.size(); ++at) {
          masked_document const own(split, split.masks[at], document);
          std::int64_t const pairs = own.pairs_before(rows) - own.pairs_before(middle);
          can = (pairs + ranks - 1) / ranks <= split.for_mask[at].makespan;
        }
        if (can) {
          top = middle;
        } else {
          low = middle + 1;
        }
      }
    }
  }
}

/// Why rows cannot be split, if so.
[[nodiscard]] inline result<void> check_rows(std::span<tokens const> documents, std::size_t ranks,
                                             std::span<row_mask const> masks, tokens block)
{
  constexpr tokens most = tokens{1} << 30;
  if (ranks == 0 || block < 1 ||
      block > most / static_cast<tokens>(std::min<std::size_t>(ranks, most))) {
    return fail(error_code::out_of_range, 0, "blocks of ", counted(block, "row"), " on ",
                counted(ranks, "rank"), " cannot be split; give one of both at least, and at most ",
                most, " rows in one block for each rank");
  }
  tokens rows = 0;
  for (std::size_t at = 0; at < documents.size(); ++at) {
    if (documents[at] < 0 || documents[at] > most - rows) {
      return fail(error_code::out_of_range, at, "document ", at, " of ",
                  counted(documents[at], "row"), " is negative or brings the pack above ", most,
                  " rows; correct it, or split fewer at once");
    }
    rows += documents[at];
  }
  std::uint64_t layers = 0;
  for (std::size_t at = 0; at < masks.size(); ++at) {
    row_mask const& mask = masks[at];
    layers += mask.layers;
    bool is_right =
        mask.layers > 0 && layers <= 1000 && mask.window >= 0 &&
        (mask.prefixes.empty() || (mask.window == 0 && mask.prefixes.size() == documents.size()));
    for (std::size_t each = 0; is_right && each < mask.prefixes.size(); ++each) {
      is_right = mask.prefixes[each] >= 0 && mask.prefixes[each] <= documents[each];
    }
    if (!is_right) {
      return fail(error_code::out_of_range, at, "mask ", at,
                  " has no layer, or more than 1000 with those before it, or a negative window, or "
                  "a window and prefixes, or not a prefix of each document; correct it");
    }
  }
  if (masks.empty()) {
    return fail(error_code::out_of_range, 0, "there is no mask of attention; give at least one");
  }
  return {};
}

}  // namespace detail

/// Splits the rows of a pack of documents over the ranks of a context-parallel group: equally many
/// rows on each, attention even for every mask at once, and then few keys moved.
///
/// Shapes      documents[n]: rows of each, in the order of the pack.
/// In, out     split is overwritten, and keeps its memory for the next pack.
/// Ensures     (1) those of row_split
///             (2) a rank counts as even with so many thousandths more pairs than the mean, or with
///                 the lower bound. Where there are at most 20,000 splits, none has less work above
///                 that, of the mask where it is most by the mean; and none that has as little
///                 moves fewer keys, by layers. Where there are more, blocks in a row and heads and
///                 tails of the pack are not better in this
///             (3) the split depends on nothing but the arguments: integers, and no clock
///             (4) with a split and a workspace that have seen as large a pack, no allocation
/// Errors      out_of_range: there is no rank, no row in a block, or too many of them; document
///             `position` is negative or brings the pack above 2^30 rows; there is no mask, or mask
///             `position` is none. The split is then unspecified.
/// Complexity  O(rows + blocks log n) for each mask, and a search of 112 steps for each block, of
///             24,000 at least and 3 million at most.
/// Source      heads and tails are the rule of Megatron-LM; the search and the bounds are ours.
[[nodiscard]] inline result<void> split_rows_into(
    row_split& split, workspace& memory, std::span<tokens const> documents, std::size_t ranks,
    std::span<row_mask const> masks, tokens block = 128, std::uint32_t uneven_permille = 5)
{
  if (auto checked = detail::check_rows(documents, ranks, masks, block); !checked) {
    return checked;
  }
  split.block = block;
  split.masks.assign(masks.begin(), masks.end());
  split.starts.assign(1, 0);
  for (tokens const rows : documents) { split.starts.push_back(split.starts.back() + rows); }
  tokens const each = block * static_cast<tokens>(ranks);
  split.rows_of_rank = (split.starts.back() + each - 1) / each * block;
  auto scratch = memory.open();
  detail::row_search search(split, ranks, uneven_permille, scratch);
  search.run();
  if (detail::cancel_scope::is_cancelled()) { return detail::cancelled(); }
  search.describe(split);
  detail::bound_moved_keys(split);
  return {};
}

/// The same, once: returns a new split.
[[nodiscard]] inline result<row_split> split_rows(std::span<tokens const> documents,
                                                  std::size_t ranks,
                                                  std::span<row_mask const> masks,
                                                  tokens block = 128,
                                                  std::uint32_t uneven_permille = 5)
{
  row_split split;
  workspace memory;
  auto const done = split_rows_into(split, memory, documents, ranks, masks, block, uneven_permille);
  if (!done) { return tl::unexpected(done.error()); }
  return split;
}

}  // namespace ballast::inline v0
