// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/concepts.hpp>

#include <bit>

namespace ballast::inline v0::detail {

/// A set of small numbers that knows its next member: a bit for each number, a bit above that for
/// each word of 64 that is not zero, and so on up to one word.
///
/// Expects     numbers below `size`, which is at most 2^24: four levels.
/// Complexity  O(log_64 size), at most four words, for all but the constructor, which clears size /
///             8 bytes.
class bit_hierarchy {
 public:
  static constexpr std::size_t none = ~std::size_t{0};

  bit_hierarchy(std::size_t size, workspace::frame& scratch)
  {
    do {
      size = (size + 63) / 64;
      auto const level = scratch.take<std::uint64_t>(size);
      std::fill(level.begin(), level.end(), 0);
      levels_[height_++] = level;
    } while (size > 1);
  }

  [[nodiscard]] bool contains(std::size_t number) const noexcept
  {
    return (levels_[0][number / 64] >> (number % 64) & 1) != 0;
  }

  void insert(std::size_t number) noexcept
  {
    for (std::size_t level = 0; level < height_; ++level, number /= 64) {
      std::uint64_t& word = levels_[level][number / 64];
      bool const known = word != 0;
      word |= std::uint64_t{1} << (number % 64);
      if (known) { break; }
    }
  }

  void erase(std::size_t number) noexcept
  {
    for (std::size_t level = 0; level < height_; ++level, number /= 64) {
      std::uint64_t& word = levels_[level][number / 64];
      word &= ~(std::uint64_t{1} << (number % 64));
      if (word != 0) { break; }
    }
  }

  /// The least member that is not below `number`, or none: up to a word with a member further on,
  /// then down along the first members.
  [[nodiscard]] std::size_t first_from(std::size_t number) const noexcept
  {
    for (std::size_t level = 0; level < height_; ++level) {
      if (number / 64 >= levels_[level].size()) { break; }
      std::uint64_t const further =
          levels_[level][number / 64] & (~std::uint64_t{0} << (number % 64));
      if (further != 0) {
        number = number / 64 * 64 + static_cast<std::size_t>(std::countr_zero(further));
        while (level-- > 0) {
          number = number * 64 + static_cast<std::size_t>(std::countr_zero(levels_[level][number]));
        }
        return number;
      }
      number = number / 64 + 1;
    }
    return none;
  }

  /// Which of the 64 numbers from `number` on are members, the first of them in the lowest bit.
  [[nodiscard]] std::uint64_t window(std::size_t number) const noexcept
  {
    std::span<std::uint64_t> const words = levels_[0];
    std::size_t const shift = number % 64;
    std::uint64_t const low = words[number / 64] >> shift;
    bool const inside = shift == 0 || number / 64 + 1 == words.size();
    return inside ? low : low | words[number / 64 + 1] << (64 - shift);
  }

 private:
  std::array<std::span<std::uint64_t>, 4> levels_;
  std::size_t height_ = 0;
};

/// A bin, and the weight that it can still take.
struct bin_with_room {
  bag_id bin;
  std::int64_t room;
};

/// Bins by the room they have left, for capacities that can index an array: which of them has the
/// least room that is enough?
///
/// One list of bins for each room from 0 to the capacity, and the set of the rooms whose list is
/// not empty.
///
/// Ensures     (1) of several bins with equal room the last that came is taken
/// Complexity  O(1), at most four words of the set, for put and take_tightest; 4 bytes of scratch
///             per unit of capacity and per bin.
class bins_by_room {
 public:
  static constexpr std::int64_t largest_capacity = std::int64_t{1} << 22;

  /// Expects capacity in [0, largest_capacity]; bins are numbered below `bins`.
  bins_by_room(std::int64_t capacity, std::size_t bins, workspace::frame& scratch)
      : rooms_(static_cast<std::size_t>(capacity) + 1, scratch),
        last_(scratch.take<std::uint32_t>(static_cast<std::size_t>(capacity) + 1)),
        before_(scratch.take<std::uint32_t>(bins))
  {}

  /// Adds a bin that is not in any list.
  void put(bag_id bin, std::int64_t room) noexcept
  {
    auto const place = static_cast<std::size_t>(room);
    before_[to_index(bin)] = rooms_.contains(place) ? last_[place] : none;
    last_[place] = static_cast<std::uint32_t>(bin);
    rooms_.insert(place);
  }

  /// Removes the bin with the least room of at least `weight`, if there is one.
  [[nodiscard]] std::optional<bin_with_room> take_tightest(std::int64_t weight) noexcept
  {
    std::size_t const place = rooms_.first_from(static_cast<std::size_t>(weight));
    if (place == bit_hierarchy::none) { return std::nullopt; }
    std::uint32_t const taken = last_[place];
    last_[place] = before_[taken];
    if (last_[place] == none) { rooms_.erase(place); }
    return bin_with_room{bag_id{taken}, static_cast<std::int64_t>(place)};
  }

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  bit_hierarchy rooms_;
  std::span<std::uint32_t> last_;    // by room; unspecified for rooms that are not in the set
  std::span<std::uint32_t> before_;  // by bin: the next of its list
};

/// Samples that wait for a bin, for weights that can index an array: which is the heaviest that
/// fits, and which two fill a room exactly?
///
/// Weights that occur are kept as a set, and mirrored as a set of capacity - weight. The next
/// member of the mirrored set is the next lighter weight, and two weights of a given sum meet where
/// the set and the mirrored set, shifted against it, both have a bit: 64 pairs are looked at in one
/// `and`.
///
/// Ensures     (1) of samples of one weight the first in `heaviest_first` is taken first
/// Complexity  O(1) for take and heaviest_up_to; pair_of_sum: O(sum / 128); some 5 bytes of scratch
///             per unit of capacity, 4 per sample.
class samples_by_weight {
 public:
  /// No weight.
  static constexpr std::int64_t none = -1;

  /// Expects weights in [1, capacity], in decreasing order, and samples below `samples`.
  samples_by_weight(std::int64_t capacity, std::span<priced_sample const> heaviest_first,
                    std::size_t samples, workspace::frame& scratch)
      : capacity_(capacity),
        weights_(static_cast<std::size_t>(capacity) + 1, scratch),
        mirrored_(static_cast<std::size_t>(capacity) + 1, scratch),
        first_(scratch.take<std::uint32_t>(static_cast<std::size_t>(capacity) + 1)),
        next_(scratch.take<std::uint32_t>(samples))
  {
    for (std::size_t place = heaviest_first.size(); place-- > 0;) {
      put_back(heaviest_first[place].cost, heaviest_first[place].sample);
    }
  }

  [[nodiscard]] std::int64_t heaviest_up_to(std::int64_t weight) const noexcept
  {
    std::size_t const place = mirrored_.first_from(index(capacity_ - weight));
    return place == bit_hierarchy::none ? none : capacity_ - static_cast<std::int64_t>(place);
  }

  [[nodiscard]] std::int64_t lightest() const noexcept { return lightest_from(0); }

  [[nodiscard]] std::int64_t lightest_from(std::int64_t least) const noexcept
  {
    std::size_t const weight = weights_.first_from(index(least));
    return weight == bit_hierarchy::none ? none : static_cast<std::int64_t>(weight);
  }

  /// Removes a sample of a weight that occurs.
  sample_id take(std::int64_t weight) noexcept
  {
    std::uint32_t const sample = first_[index(weight)];
    first_[index(weight)] = next_[sample];
    if (next_[sample] == last) {
      weights_.erase(index(weight));
      mirrored_.erase(index(capacity_ - weight));
    }
    return sample_id{sample};
  }

  /// Adds a sample, as the first of its weight.
  void put_back(std::int64_t weight, sample_id sample) noexcept
  {
    bool const known = weights_.contains(index(weight));
    next_[to_index(sample)] = known ? first_[index(weight)] : last;
    first_[index(weight)] = static_cast<std::uint32_t>(sample);
    weights_.insert(index(weight));
    mirrored_.insert(index(capacity_ - weight));
  }

  /// The lighter weight of two samples that add up to `sum`, of all such pairs the lightest; none
  /// where there is no such pair. `words` pays for the words of the sets that it reads.
  [[nodiscard]] std::int64_t pair_of_sum(std::int64_t sum, std::int64_t lightest,
                                         std::int64_t heaviest, work_budget& words) const noexcept
  {
    return first_of_pair(sum, std::max(lightest, sum - heaviest), sum / 2, words);
  }

  /// The lightest weight from `least` to `most` that another sample completes to `sum`, or none.
  ///
  /// Expects     0 <= least; most <= sum <= capacity
  [[nodiscard]] std::int64_t first_of_pair(std::int64_t sum, std::int64_t least, std::int64_t most,
                                           work_budget& words) const noexcept
  {
    for (std::int64_t weight = least; weight <= most; weight += 64) {
      words.spend(1);
      // The partner of a weight w is sum - w, which is mirrored at capacity - sum + w.
      std::uint64_t pairs =
          weights_.window(index(weight)) & mirrored_.window(index(capacity_ - sum + weight));
      if (most - weight < 63) { pairs &= (std::uint64_t{2} << (most - weight)) - 1; }
      for (; pairs != 0; pairs &= pairs - 1) {
        std::int64_t const found = weight + std::countr_zero(pairs);
        bool const with_itself = 2 * found == sum;
        if (!with_itself || next_[first_[index(found)]] != last) { return found; }
      }
    }
    return none;
  }

  /// The heaviest weight from `least` to `most`, or none.
  [[nodiscard]] std::int64_t heaviest_between(std::int64_t least, std::int64_t most) const noexcept
  {
    if (most < least) { return none; }
    std::int64_t const weight = heaviest_up_to(most);
    return weight < least ? none : weight;
  }

 private:
  static constexpr std::uint32_t last = ~std::uint32_t{0};

  [[nodiscard]] static constexpr std::size_t index(std::int64_t weight) noexcept
  {
    return static_cast<std::size_t>(weight);
  }

  std::int64_t capacity_;
  bit_hierarchy weights_;
  bit_hierarchy mirrored_;          // has capacity - weight for every weight
  std::span<std::uint32_t> first_;  // by weight: a sample; unspecified where there is none
  std::span<std::uint32_t> next_;   // by sample: the next of its weight
};

/// What samples are worth, so that no bin holds more than `bin` together: their weights and the
/// capacity, or prices of a linear program. A packing that could do with a bin less has bins that
/// lack worth, and not just room: where two samples of .45 share a bin, nothing better is in reach.
struct sample_worths {
  std::span<std::int64_t> of;
  std::int64_t bin;
};

}  // namespace ballast::inline v0::detail
