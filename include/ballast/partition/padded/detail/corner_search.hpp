// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/padded/detail/fill_padded.hpp>

namespace ballast::inline v0::detail {

/// Looks for batches of which none costs more than a limit, by their corners: the corner of a batch
/// is its longest source and its longest target.
///
/// A batch of some corner holds a number of samples within the limit, whichever they are, as long as
/// none is beyond the corner. So a plan is known by its corners: samples in descending order of
/// sources each go to the batch that has room with the shortest target that reaches theirs, of those
/// whose source does, which leaves the longer targets to those that need them. Corners are chosen in
/// the same order, depth first. What is left after some of them is hopeless where even batches of
/// one length, `fewest_padded`, would be too many for what the chosen ones do not hold.
///
/// Complexity  O(looks) for each limit; where samples are of few kinds, pairs of lengths, that is all
///             sets of corners.
template <class Problem>
class corner_search {
 public:
  explicit corner_search(Problem const& problem) : problem_(problem), order_(problem.lengths.size())
  {
    std::iota(order_.begin(), order_.end(), 0U);
    auto const lengths = problem.lengths;
    std::sort(order_.begin(), order_.end(), [lengths](std::uint32_t a, std::uint32_t b) {
      return precedes(lengths[b].source, lengths[a].source, lengths[b].target, lengths[a].target, a,
                      b);
    });
    for (std::uint32_t const sample : order_) {
      if (kinds_.empty() || kinds_.back().lengths != lengths[sample]) {
        kinds_.push_back({lengths[sample], 0, problem.alone(sample)});
        targets_.push_back(lengths[sample].target);
      }
      ++kinds_.back().samples;
    }
    std::sort(targets_.begin(), targets_.end(), std::greater<>{});
    targets_.erase(std::unique(targets_.begin(), targets_.end()), targets_.end());
    costliest_first_.resize(kinds_.size());
    std::iota(costliest_first_.begin(), costliest_first_.end(), std::size_t{0});
    std::sort(costliest_first_.begin(), costliest_first_.end(),
              [this](std::size_t a, std::size_t b) {
                return precedes(kinds_[b].cost, kinds_[a].cost, a, b);
              });
  }

  [[nodiscard]] std::size_t kinds() const { return kinds_.size(); }

  /// Whether there are such batches, which it writes, no more than cells; nothing where the looks
  /// were too few to say.
  [[nodiscard]] std::optional<bool> fits(cost_units limit, std::uint64_t looks,
                                         std::span<std::uint32_t> batch_of)
  {
    limit_ = limit;
    looks_ = looks;
    corners_.clear();
    if (choose_from(0, {})) {
      write(batch_of);
      return true;
    }
    return looks_ > 0 ? std::optional(false) : std::nullopt;
  }

 private:
  struct kind {
    padded_lengths lengths;
    std::size_t samples;
    cost_units cost;  // of one alone
  };
  struct batch {
    tokens target;
    std::size_t room;
    std::size_t number;
  };
  using batches = std::vector<batch>;  // in ascending order of targets

  /// Samples that a batch of this corner holds.
  [[nodiscard]] std::size_t room_of(padded_lengths corner) const
  {
    auto const within = [&](std::int64_t most, std::int64_t each) {
      return each == 0 ? problem_.lengths.size() : static_cast<std::size_t>(most / each);
    };
    return std::min(within(limit_, problem_.cost_of(corner.source, corner.target)),
                    within(problem_.most_weight, problem_.weight_of(corner.source, corner.target)));
  }

  /// Puts samples of a kind into open batches; `visit` gets the batch and the number of each part.
  /// Returns how many are left.
  template <class Visit>
  static std::size_t put(kind const& each, batches& open, Visit const& visit)
  {
    std::size_t left = each.samples;
    for (batch& joined : open) {
      if (joined.target < each.lengths.target) { continue; }
      std::size_t const part = std::min(left, joined.room);
      joined.room -= part;
      left -= part;
      visit(joined, part);
      if (left == 0) { break; }
    }
    return left;
  }
  static std::size_t put(kind const& each, batches& open)
  {
    return put(each, open, [](batch const&, std::size_t) {});
  }

  static void begin(batches& open, batch next)
  {
    auto const place = std::find_if(open.begin(), open.end(), [&next](batch const& each) {
      return each.target >= next.target;
    });
    open.insert(place, next);
  }

  /// Whether batches of one length would do for kinds from `first` on.
  [[nodiscard]] bool is_hopeful(std::size_t first, batches open)
  {
    std::size_t number = corners_.size();
    std::size_t room = 0;
    for (std::size_t const at : costliest_first_) {
      if (at < first) { continue; }
      looks_ -= looks_ > 0 ? 1 : 0;
      std::size_t left = put(kinds_[at], open);
      if (left > room) {
        std::size_t const most = room_of(kinds_[at].lengths);
        if (most == 0) { return false; }
        std::size_t const more = (left - room + most - 1) / most;
        number += more;
        room += more * most;
        if (number > problem_.cells()) { return false; }
      }
      room -= left;
    }
    return true;
  }

  [[nodiscard]] bool choose_from(std::size_t first, batches const& open)
  {
    if (first == kinds_.size()) { return true; }
    return is_hopeful(first, open) && choose(first, 0, open);
  }

  /// Goes on with what these batches hold of the source of `first`, if all; then tries one more of
  /// that source, with targets from `target` on.
  [[nodiscard]] bool choose(std::size_t first, std::size_t target, batches const& open)
  {
    tokens const source = kinds_[first].lengths.source;
    batches filled = open;
    std::size_t next = first;
    while (next < kinds_.size() && kinds_[next].lengths.source == source &&
           put(kinds_[next], filled) == 0) {
      ++next;
    }
    bool const is_held = next == kinds_.size() || kinds_[next].lengths.source != source;
    if (is_held && choose_from(next, filled)) { return true; }
    if (corners_.size() == problem_.cells()) { return false; }
    for (; target < targets_.size() && looks_ > 0; ++target) {
      padded_lengths const corner{source, targets_[target]};
      std::size_t const room = room_of(corner);
      if (room == 0) { continue; }
      filled = open;
      begin(filled, {corner.target, room, corners_.size()});
      corners_.push_back(corner);
      if (is_hopeful(first, filled) && choose(first, target, filled)) { return true; }
      corners_.pop_back();
    }
    return false;
  }

  void write(std::span<std::uint32_t> batch_of) const
  {
    batches open;
    std::size_t number = 0;
    auto sample = order_.begin();
    for (kind const& each : kinds_) {
      for (; number < corners_.size() && corners_[number].source >= each.lengths.source; ++number) {
        begin(open, {corners_[number].target, room_of(corners_[number]), number});
      }
      put(each, open, [&](batch const& joined, std::size_t part) {
        for (; part > 0; --part) {
          batch_of[*sample++] = static_cast<std::uint32_t>(joined.number);
        }
      });
    }
  }

  Problem const& problem_;
  std::vector<std::uint32_t> order_;  // samples, longest source first, then longest target
  std::vector<kind> kinds_;           // in the same order
  std::vector<std::size_t> costliest_first_;
  std::vector<tokens> targets_;  // the longest first
  std::vector<padded_lengths> corners_;
  cost_units limit_ = 0;
  std::uint64_t looks_ = 0;
};

}  // namespace ballast::inline v0::detail
