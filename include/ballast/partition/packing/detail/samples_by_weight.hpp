// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PACKING_DETAIL_SAMPLES_BY_WEIGHT_HPP
#define BALLAST_PARTITION_PACKING_DETAIL_SAMPLES_BY_WEIGHT_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/packing/detail/bit_hierarchy.hpp>
#include <ballast/partition/priced_sample.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

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

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_PACKING_DETAIL_SAMPLES_BY_WEIGHT_HPP
