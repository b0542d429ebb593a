// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PACKING_DETAIL_PATTERN_FILLING_HPP
#define BALLAST_PARTITION_PACKING_DETAIL_PATTERN_FILLING_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/partition/detail/patterns/pattern_list.hpp>
#include <ballast/partition/packing/detail/samples_by_weight.hpp>
#include <ballast/partition/packing/detail/weight_kinds.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// Fills bins by patterns of weight kinds: so many samples of each.
///
/// Where a group has several weights, the first sample is the heaviest of its group, the next ones
/// make up for what those before them differ from their means, and the last two are a pair that
/// fills the bin exactly, or nearly. At last the bin takes what still fits, of any kind.
///
/// Ensures     (1) no bin is above the capacity
/// Complexity  O(1) per sample, and for a bin up to 96 words of 64 pairs and those of one sum more.
class pattern_filling {
 public:
  pattern_filling(samples_by_weight& waiting, std::int64_t capacity, std::span<bag_id> owner)
      : waiting_(waiting), capacity_(capacity), owner_(owner)
  {}

  /// Returns how many samples the bin got: none where the kinds lack what the pattern needs.
  [[nodiscard]] std::size_t operator()(std::span<pattern_entry const> pattern,
                                       std::span<weight_kind const> kinds, bag_id bin)
  {
    slots_ = 0;
    for (auto const [kind, times] : pattern) {
      if (times > wanted_.size() - slots_) { return 0; }
      std::fill_n(wanted_.begin() + static_cast<std::ptrdiff_t>(slots_), times, kind);
      slots_ += times;
    }
    room_ = capacity_;
    count_ = 0;
    if (!take_all(kinds)) {
      while (count_ > 0) {
        --count_;
        waiting_.put_back(taken_[count_].weight, taken_[count_].sample);
      }
      return 0;
    }
    for (std::size_t slot = 0; slot < count_; ++slot) {
      owner_[to_index(taken_[slot].sample)] = bin;
    }
    std::size_t placed = count_;
    for (std::int64_t next = next_up_to(room_); next != samples_by_weight::none;
         next = next_up_to(room_)) {
      owner_[to_index(waiting_.take(next))] = bin;
      room_ -= next;
      ++placed;
    }
    return placed;
  }

 private:
  struct taken_sample {
    std::int64_t weight;
    sample_id sample;
  };

  static constexpr std::uint64_t words_per_bin = 96;

  bool take_all(std::span<weight_kind const> kinds)
  {
    std::int64_t missing = 0;  // that those taken weigh less than their means
    for (std::size_t slot = 0; slot + 2 < slots_ || (slots_ == 1 && slot == 0); ++slot) {
      weight_kind const& kind = kinds[wanted_[slot]];
      std::int64_t const wanted =
          slot == 0 ? kind.heaviest
                    : std::clamp(kind.wanted + missing, kind.lightest, kind.heaviest);
      std::int64_t weight = waiting_.heaviest_between(kind.lightest, wanted);
      if (weight == samples_by_weight::none) {
        weight = waiting_.lightest_from(wanted);
        if (weight > kind.heaviest) { return false; }
      }
      if (weight == samples_by_weight::none || weight > room_) { return false; }
      missing += kind.wanted - weight;
      take(weight);
    }
    return slots_ == 1 || take_pair(kinds[wanted_[slots_ - 2]], kinds[wanted_[slots_ - 1]]);
  }

  bool take_pair(weight_kind const& heavy, weight_kind const& light)
  {
    work_budget words(words_per_bin);
    std::int64_t const least = heavy.lightest + light.lightest;
    for (std::int64_t sum = std::min(room_, heavy.heaviest + light.heaviest);
         sum >= least && !words.spent(); --sum) {
      std::int64_t const weight =
          waiting_.first_of_pair(sum, std::max(light.lightest, sum - heavy.heaviest),
                                 std::min(light.heaviest, sum - heavy.lightest), words);
      if (weight == samples_by_weight::none) { continue; }
      take(weight);
      take(sum - weight);
      return true;
    }
    std::int64_t const first =
        waiting_.heaviest_between(heavy.lightest, std::min(heavy.heaviest, room_ - light.lightest));
    if (first == samples_by_weight::none) { return false; }
    take(first);
    std::int64_t const second =
        waiting_.heaviest_between(light.lightest, std::min(light.heaviest, room_));
    if (second == samples_by_weight::none) { return false; }
    take(second);
    return true;
  }

  void take(std::int64_t weight)
  {
    taken_[count_++] = {weight, waiting_.take(weight)};
    room_ -= weight;
  }

  [[nodiscard]] std::int64_t next_up_to(std::int64_t room) const noexcept
  {
    return room > 0 ? waiting_.heaviest_up_to(room) : samples_by_weight::none;
  }

  samples_by_weight& waiting_;
  std::int64_t capacity_;
  std::span<bag_id> owner_;
  std::int64_t room_ = 0;
  std::size_t slots_ = 0;
  std::size_t count_ = 0;
  std::array<std::uint32_t, 64> wanted_{};  // the group of each slot
  std::array<taken_sample, 64> taken_{};
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_PACKING_DETAIL_PATTERN_FILLING_HPP
