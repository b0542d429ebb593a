// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PUBLISHED_DETAIL_ATTENTION_BOUND_HPP
#define BALLAST_PARTITION_PUBLISHED_DETAIL_ATTENTION_BOUND_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/padding/cheapest_chain.hpp>
#include <ballast/partition/detail/padding/finishing_times.hpp>
#include <ballast/partition/published/detail/attention_items.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>

namespace ballast::inline v0::detail {

/// How early bags that pad attention alone could finish if samples could be split: no plan finishes
/// before.
///
/// Let bags of one capacity V have the largest attention parts M_1 >= M_2 >= ... in some plan. Fill
/// bags with samples in descending order instead, each up to V, and split the sample that crosses
/// the end of a bag. Then no bag begins with more attention than M_j, since by induction the first
/// j bags have got no less far than the plan's, which hold all samples with more attention than
/// M_(j+1): with these or smaller attention parts to pad to, no order gets further than the
/// descending one, because of two samples the one with more packed work does less harm where
/// padding is expensive. So where this filling leaves something, no plan meets V. A bag holds a
/// whole number of samples, so the filling also stops where the bags so far hold no more: an
/// exchange of samples between two of them that puts the one with more packed work first never has
/// the first bags hold more.
///
/// Where packed parts do not fall with attention, each counts as the least of those before it. A
/// bag of s times the speed counts as s bags, and bags with work to start with as bags that have
/// the least such work; each of these only lowers the bound. Fractions of units are rounded down.
///
/// That a large bag counts as several loses the padding inside it. The argument holds for bags of
/// several capacities in their plan's order too. So where bags differ, the `cheapest_chain` of such
/// fillings is a second bound; in it a sample is split into 8 parts, or fewer where there are many,
/// and a bag has every part that it begins.
///
/// Complexity  O(n + m) to build, 8 n bytes of scratch; a filling takes O(pieces x log n), where a
///             piece is a bag of the greatest common divisor of all speeds; the chain takes up to
///             2^21 steps and 8 bytes for every part.
class attention_bound {
 public:
  attention_bound(std::span<attention_item const> items, partition_problem const& problem,
                  std::span<cost_units const> starting_loads, finishing_times const& times,
                  workspace::frame& scratch)
      : items_(items), times_(times), sums_(scratch.take<cost_units>(items.size() + 1))
  {
    sums_[0] = 0;
    cost_units least = std::numeric_limits<cost_units>::max();
    for (std::size_t place = 0; place < items.size(); ++place) {
      least = std::min(least, items[place].packed);
      sums_[place + 1] = sums_[place] + least;
    }
    for (std::uint32_t const speed : problem.speeds) { slowest_ = std::gcd(slowest_, speed); }
    idle_ = std::numeric_limits<cost_units>::max();
    for (std::size_t bag = 0; bag < starting_loads.size(); ++bag) {
      std::uint32_t const parts = problem.speeds[bag] / slowest_;
      pieces_ += parts;
      alike_ = alike_ && parts == 1;
      idle_ = std::min(idle_, starting_loads[bag] / parts);
    }
  }

  /// The least time of a chain of the bags as they are, from `low` up to that of a plan.
  [[nodiscard]] uint128 least_time_of(cheapest_chain& chain, uint128 low, uint128 plan,
                                      workspace::frame& scratch) const
  {
    constexpr std::size_t most_looks = std::size_t{1} << 15;
    unsigned halvings = 3;
    while (halvings > 0 && (items_.size() << halvings) * chain.kinds() > most_looks) { --halvings; }
    uint128 const parts = uint128{1} << halvings;
    auto const packed_before = [&](std::size_t place) {
      std::size_t const item = place >> halvings;
      uint128 const whole = static_cast<uint128>(sums_[item]) * parts;
      uint128 const begun = place - (item << halvings);
      return begun == 0 ? whole
                        : whole + begun * static_cast<uint128>(sums_[item + 1] - sums_[item]);
    };
    auto const reach = [&](std::size_t first, std::size_t end, cost_units work) {
      auto const level = static_cast<uint128>(items_[first >> halvings].padded);
      uint128 const most = static_cast<uint128>(work) * parts + packed_before(first);
      auto const until = [&](std::size_t place) {
        return packed_before(place) + (place - first) * level;
      };
      // The part before the end is the last that begins in time; those that cost nothing are too.
      while (end > first && until(end - 1) >= most && until(end) > most) { --end; }
      return end;
    };
    return chain.least_time(low, plan, items_.size() << halvings, reach, scratch);
  }

  /// The least time at which the filling places everything, of those from `times.least()` on; where
  /// there are too many pieces to try, that.
  [[nodiscard]] uint128 least_time() const
  {
    constexpr std::uint64_t most_pieces = 1 << 16;
    uint128 low = times_.least();
    if (pieces_ > most_pieces || places_all(low)) { return low; }
    uint128 const enough = times_.finish_anywhere(cost_of_one_batch(items_));
    uint128 high = low;  // low fails
    for (uint128 step = low / 64 + 1;; step *= 2) {
      high = std::min(high + step, std::max(low, enough));
      if (high >= enough || places_all(high)) { break; }
      low = high;
    }
    while (low + 1 < high) {
      uint128 const middle = low + (high - low) / 2;
      (places_all(middle) ? high : low) = middle;
    }
    return high;
  }

 private:
  [[nodiscard]] bool places_all(uint128 time) const
  {
    uint128 const work = times_.work_of_speed(time, slowest_);
    if (work < static_cast<uint128>(idle_)) { return items_.empty(); }
    uint128 const capacity = work - static_cast<uint128>(idle_);
    std::size_t next = 0;
    std::size_t most = 0;  // samples that the bags so far can hold
    uint128 left = 0;      // of the next sample, out of `whole`, where it is split
    uint128 whole = 0;
    for (std::uint64_t piece = 0; piece < pieces_ && next < items_.size(); ++piece) {
      uint128 room = capacity;
      auto const level = static_cast<uint128>(items_[next].padded);
      most = std::min(most + most_samples(capacity, level), items_.size());
      if (whole > 0) {
        uint128 const size = static_cast<uint128>(sums_[next + 1] - sums_[next]) + level;
        uint128 const rest = left * size / whole;
        if (rest > room) {
          left = rest - room;
          whole = size;
          continue;
        }
        room -= rest;
        ++next;
        whole = 0;
      }
      std::size_t const first = next;
      next = last_for_which(next, most, [&](std::size_t end) {
        return static_cast<uint128>(sums_[end] - sums_[first]) +
                   static_cast<uint128>(end - first) * level <=
               room;
      });
      if (next == most) { continue; }
      room -= static_cast<uint128>(sums_[next] - sums_[first]) +
              static_cast<uint128>(next - first) * level;
      whole = static_cast<uint128>(sums_[next + 1] - sums_[next]) + level;
      left = whole - room;
    }
    return next == items_.size();
  }

  /// How many samples a bag can hold that pads their attention to this level.
  [[nodiscard]] std::size_t most_samples(uint128 capacity, uint128 level) const
  {
    std::size_t const all = items_.size();
    if (!alike_) { return all; }
    return last_for_which(0, all, [&](std::size_t count) {
      return static_cast<uint128>(sums_[all] - sums_[all - count]) +
                 static_cast<uint128>(count) * level <=
             capacity;
    });
  }

  /// The last number from first to last that meets a condition; first does, and none after one that
  /// does not.
  template <class Condition>
  [[nodiscard]] static std::size_t last_for_which(std::size_t first, std::size_t last,
                                                  Condition const& holds)
  {
    while (first < last) {
      std::size_t const middle = first + (last - first + 1) / 2;
      if (holds(middle)) {
        first = middle;
      } else {
        last = middle - 1;
      }
    }
    return first;
  }

  std::span<attention_item const> items_;
  finishing_times const& times_;
  std::span<cost_units> sums_;  // of packed parts, as this bound counts them
  std::uint32_t slowest_ = 0;   // the speed of a piece
  std::uint64_t pieces_ = 0;
  bool alike_ = true;  // every piece is a bag
  cost_units idle_ = 0;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_PUBLISHED_DETAIL_ATTENTION_BOUND_HPP
