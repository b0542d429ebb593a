// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/detail/bounds/cheapest_cover.hpp>

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

/// Items to put into as few bins of one capacity as can be.
///
/// Shapes      weights[n], heaviest_first[n].
/// Expects     weights are not negative, none is above capacity, and they add up to less than 2^63;
///             heaviest_first is their `descending_order_into`.
struct bin_problem {
  std::span<std::int64_t const> weights;
  std::span<priced_sample const> heaviest_first;
  std::int64_t capacity = 0;
};

/// How many bins a packing fills, each with an item, and a number that no packing gets below.
struct bins_found {
  std::size_t bins = 0;
  std::size_t lower_bound = 0;
};

/// Bins by the room that they have left: which of them has the least that is enough?
///
/// One list of bins for each room, of capacities above 2^22 for each range of rooms, and the set of
/// those whose list is not empty.
///
/// Ensures     (1) of several bins with equal room the last that came is taken
/// Complexity  O(1), at most four words of the set, for put and take_tightest; 4 bytes of scratch
///             per list and 12 per bin.
class bins_by_room {
 public:
  static constexpr std::int64_t most_lists = std::int64_t{1} << 22;

  /// Expects     bins are numbered below `bins`.
  bins_by_room(std::int64_t capacity, std::size_t bins, workspace::frame& scratch)
      : shift_(capacity > most_lists
                   ? static_cast<int>(std::bit_width(static_cast<std::uint64_t>(capacity))) - 22
                   : 0),
        lists_(list_of(capacity) + 1, scratch),
        last_(scratch.take<std::uint32_t>(list_of(capacity) + 1)),
        before_(scratch.take<std::uint32_t>(bins)),
        room_(scratch.take<std::int64_t>(shift_ > 0 ? bins : 0))
  {}

  void put(std::uint32_t bin, std::int64_t room) noexcept
  {
    std::size_t const list = list_of(room);
    before_[bin] = lists_.contains(list) ? last_[list] : none;
    last_[list] = bin;
    if (shift_ > 0) { room_[bin] = room; }
    lists_.insert(list);
  }

  /// Removes the bin with the least room of at least `weight`, or returns `none`; `room` is what it
  /// had. Of the range that the weight is in, it looks at the last bin alone.
  [[nodiscard]] std::uint32_t take_tightest(std::int64_t weight, std::int64_t& room) noexcept
  {
    std::size_t list = lists_.first_from(list_of(weight));
    if (shift_ > 0 && list == list_of(weight) && room_[last_[list]] < weight) {
      list = lists_.first_from(list + 1);
    }
    if (list == bit_hierarchy::none) { return none; }
    std::uint32_t const taken = last_[list];
    last_[list] = before_[taken];
    if (last_[list] == none) { lists_.erase(list); }
    room = shift_ > 0 ? room_[taken] : static_cast<std::int64_t>(list);
    return taken;
  }

  static constexpr std::uint32_t none = ~std::uint32_t{0};

 private:
  [[nodiscard]] std::size_t list_of(std::int64_t room) const noexcept
  {
    return static_cast<std::size_t>(room >> shift_);
  }

  int shift_;
  bit_hierarchy lists_;
  std::span<std::uint32_t> last_;    // by list; unspecified for those that are not in the set
  std::span<std::uint32_t> before_;  // by bin: the next of its list
  std::span<std::int64_t> room_;     // by bin
};

/// Best fit decreasing: heaviest item first, each into the bin where it leaves the least room.
/// Returns how many bins that fills.
///
/// Shapes      owner[n].
/// Ensures     (1) up to a capacity of 2^22, bins <= 11/9 * fewest + 4
/// Complexity  O(n + capacity / 64), capacities above 2^22 as that.
/// Source      D. S. Johnson, A. Demers, J. D. Ullman, M. R. Garey, R. L. Graham, "Worst-Case
///             Performance Bounds for Simple One-Dimensional Packing Algorithms", SIAM J. Comput.
///             3(4):299-325, 1974.
[[nodiscard]] inline std::size_t best_fit(bin_problem const& problem, std::span<bag_id> owner,
                                          workspace& memory)
{
  auto scratch = memory.open();
  bins_by_room open(problem.capacity, owner.size(), scratch);
  std::uint32_t opened = 0;
  for (auto const [weight, sample] : problem.heaviest_first) {
    std::int64_t room = problem.capacity;
    std::uint32_t bin = open.take_tightest(weight, room);
    if (bin == bins_by_room::none) { bin = opened++; }
    open.put(bin, room - weight);
    owner[to_index(sample)] = bag_id{bin};
  }
  return opened;
}

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

/// Fills one bin after the other, heaviest item first; as soon as one, two or three items fill
/// exactly what is left, it takes these. Full bins waste nothing, so with many different weights the
/// number of bins often is the sum over the capacity, rounded up, and thereby proven.
///
/// Expects     a capacity of at most 2^22.
/// Complexity  O(n), plus up to words_per_bin words of 64 pairs for every bin; some 5 bytes of
///             scratch per unit of capacity, 4 per item.
/// Source      restricts to three items what MBS' searches for: K. Fleszar, K. S. Hindi, "New
///             Heuristics for One-Dimensional Bin-Packing", Computers & Operations Research
///             29(7):821-839, 2002, after J. N. D. Gupta, J. C. Ho, "A New Heuristic Algorithm for
///             the One-Dimensional Bin-Packing Problem", Production Planning & Control 10(6), 1999.
struct minimum_bin_slack {
  static constexpr std::uint64_t words_per_bin = 1024;

  [[nodiscard]] std::size_t operator()(bin_problem const& problem, std::span<bag_id> owner,
                                       workspace& memory) const
  {
    auto scratch = memory.open();
    auto const weightless =
        std::find_if(problem.heaviest_first.begin(), problem.heaviest_first.end(),
                     [](priced_sample const& each) { return each.cost == 0; });
    std::span const heavy(problem.heaviest_first.begin(), weightless);
    std::fill(owner.begin(), owner.end(), bag_id{0});  // where items of no weight stay
    if (heavy.empty()) { return owner.empty() ? 0 : 1; }

    samples_by_weight waiting(problem.capacity, heavy, owner.size(), scratch);
    std::size_t bins = 0;
    for (std::size_t placed = 0; placed < heavy.size(); ++bins) {
      placed += fill(waiting, problem.capacity, owner, to_id<bag_id>(bins));
    }
    return bins;
  }

 private:
  /// Fills one bin and returns with how many samples.
  static std::size_t fill(samples_by_weight& waiting, std::int64_t room, std::span<bag_id> owner,
                          bag_id bin)
  {
    std::size_t placed = 0;
    work_budget words(words_per_bin);
    auto const place = [&](std::int64_t weight) {
      owner[to_index(waiting.take(weight))] = bin;
      room -= weight;
      ++placed;
    };
    std::int64_t const lightest = waiting.lightest();
    std::int64_t const heaviest = waiting.heaviest_up_to(room);
    place(heaviest);
    while (room >= lightest) {
      std::int64_t const next = waiting.heaviest_up_to(room);
      if (next == waiting.none) { break; }
      if (next < room && !words.spent()) {
        std::int64_t const lighter = waiting.pair_of_sum(room, lightest, heaviest, words);
        if (lighter != waiting.none) {
          place(lighter);
          place(room);
          break;
        }
        place(first_of_three(waiting, room, next, lightest, heaviest, words));
        continue;
      }
      place(next);
    }
    return placed;
  }

  /// The heaviest sample that two others complete, if any is found; otherwise just the heaviest.
  static std::int64_t first_of_three(samples_by_weight& waiting, std::int64_t room,
                                     std::int64_t next, std::int64_t lightest,
                                     std::int64_t heaviest, work_budget& words)
  {
    if (room - next > 2 * heaviest) { return next; }
    std::int64_t const most = std::min(next, room - 2 * lightest);  // that leaves room for two
    if (most < lightest) { return next; }
    for (std::int64_t weight = waiting.heaviest_up_to(most);
         weight != waiting.none && !words.spent(); weight = waiting.heaviest_up_to(weight - 1)) {
      if (room - weight > 2 * heaviest) { break; }
      sample_id const tried = waiting.take(weight);
      bool const completed =
          waiting.pair_of_sum(room - weight, lightest, heaviest, words) != waiting.none;
      waiting.put_back(weight, tried);
      if (completed) { return weight; }
    }
    return next;
  }
};

/// The better of best fit and exact fills; best fit alone where that has the fewest bins.
[[nodiscard]] inline bins_found first_packing(bin_problem const& problem, std::span<bag_id> owner,
                                              workspace& memory)
{
  std::size_t const least = least_bins(problem.heaviest_first, problem.capacity);
  bins_found best{best_fit(problem, owner, memory), least};
  if (best.bins == least || problem.capacity > bins_by_room::most_lists) { return best; }
  auto scratch = memory.open();
  std::span<bag_id> const other = scratch.take<bag_id>(owner.size());
  std::size_t const filled = minimum_bin_slack{}(problem, other, memory);
  if (filled >= best.bins) { return best; }
  std::copy(other.begin(), other.end(), owner.begin());
  best.bins = filled;
  return best;
}

}  // namespace ballast::inline v0::detail
