// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/detail/padding/finishing_times.hpp>

namespace ballast::inline v0::detail {

/// A sample whose attention is padded to the largest of its batch while the rest of its work is
/// not.
struct attention_item {
  cost_units padded;
  cost_units packed;
  std::uint32_t sample;

  [[nodiscard]] friend constexpr bool operator<(attention_item const& a, attention_item const& b)
  {
    return precedes(b.padded, a.padded, b.packed, a.packed, a.sample, b.sample);
  }
};

/// The samples of a problem in descending order of attention, then of the rest of their work.
///
/// Complexity  O(n) where costs are in the order of their attention parts, as those of
///             `quadratic_cost` are; otherwise O(n log n). 24 n bytes that the caller's frame
///             keeps.
[[nodiscard]] inline std::span<attention_item const> sorted_attention_items(
    partition_problem const& problem, workspace::frame& scratch)
{
  std::span<attention_item> const items = scratch.take<attention_item>(problem.costs.size());
  for (std::size_t place = 0; place < items.size(); ++place) {
    auto const [cost, sample] = problem.heaviest_first[place];
    cost_units const padded = problem.attention[to_index(sample)];
    items[place] = {padded, cost - padded, static_cast<std::uint32_t>(to_index(sample))};
  }
  if (!std::is_sorted(items.begin(), items.end())) { std::sort(items.begin(), items.end()); }
  return items;
}

[[nodiscard]] inline cost_units cost_of_one_batch(std::span<attention_item const> items) noexcept
{
  padded_sum all;
  for (attention_item const& item : items) { all.add(item.packed, item.padded); }
  return all.load();
}

/// Fills bag after bag with samples in descending order of attention, each up to a finishing time.
///
/// The first sample of a bag sets the attention that all others there are padded to. A sample that
/// does not fit into the rest of the time waits for the next bag, and those that follow are tried.
/// Bags with the most GPUs come first, and of one size the fastest.
///
/// Complexity  O(n + m log m) to build, 16 n + 4 m bytes of scratch. A filling takes O(n + m log n)
///             where packed work falls with attention, and O(n m) at worst.
class attention_filling {
 public:
  attention_filling(std::span<attention_item const> items, partition_problem const& problem,
                    finishing_times const& times, workspace::frame& scratch)
      : items_(items),
        problem_(problem),
        times_(times),
        bags_(scratch.take<std::uint32_t>(problem.gpus.size())),
        least_packed_(scratch.take<cost_units>(items.size())),
        waiting_(scratch.take<std::uint32_t>(items.size() + 1))
  {
    std::iota(bags_.begin(), bags_.end(), std::uint32_t{0});
    std::sort(bags_.begin(), bags_.end(), [&problem](std::uint32_t a, std::uint32_t b) {
      return precedes(problem.gpus[b], problem.gpus[a], problem.speeds[b], problem.speeds[a], a, b);
    });
    cost_units least = std::numeric_limits<cost_units>::max();
    for (std::size_t place = 0; place < items.size(); ++place) {
      least = std::min(least, items[place].packed);
      least_packed_[place] = least;
    }
  }

  struct outcome {
    bool placed = false;
    uint128 finish = 0;  ///< when the last bag that got samples finishes
  };

  outcome fill(uint128 time, std::span<bag_id> owner)
  {
    std::iota(waiting_.begin(), waiting_.end(), std::uint32_t{0});
    outcome filled;
    std::size_t placed = 0;
    for (std::uint32_t const bag : bags_) {
      cost_units room = times_.work_until(time, bag);
      cost_units level = 0;
      cost_units work = 0;
      bool open = false;
      for (std::size_t place = next_waiting(0); place < items_.size() && level <= room;) {
        attention_item const& item = items_[place];
        cost_units const padded = open ? level : item.padded;
        bool const in_time = padded <= room && item.packed <= room - padded;
        if (in_time && fits(item, bag)) {
          open = true;
          level = padded;
          room -= padded + item.packed;
          work += padded + item.packed;
          owner[item.sample] = to_id<bag_id>(bag);
          waiting_[place] = static_cast<std::uint32_t>(place + 1);
          ++placed;
        }
        ++place;
        // Where packed work is above the room up to some place, nothing before it fits.
        if (open && !in_time) { place = first_with(room - level, place); }
        place = next_waiting(place);
      }
      if (open) { filled.finish = std::max(filled.finish, times_.finish(bag, work)); }
      if (placed == items_.size()) { break; }
    }
    filled.placed = placed == items_.size();
    return filled;
  }

 private:
  [[nodiscard]] bool fits(attention_item const& item, std::uint32_t bag) const noexcept
  {
    return problem_.fits(item.sample, bag);
  }

  /// The first place from here on where packed work up to some place is so little.
  [[nodiscard]] std::size_t first_with(cost_units packed, std::size_t from) const noexcept
  {
    auto const first = least_packed_.begin() + static_cast<std::ptrdiff_t>(from);
    auto const found = std::partition_point(first, least_packed_.end(),
                                            [packed](cost_units least) { return least > packed; });
    return static_cast<std::size_t>(found - least_packed_.begin());
  }

  [[nodiscard]] std::size_t next_waiting(std::size_t place) noexcept
  {
    while (waiting_[place] != place) {
      if (waiting_[place] < items_.size()) { waiting_[place] = waiting_[waiting_[place]]; }
      place = waiting_[place];
    }
    return place;
  }

  std::span<attention_item const> items_;
  partition_problem const& problem_;
  finishing_times const& times_;
  std::span<std::uint32_t> bags_;
  std::span<cost_units> least_packed_;  // up to each place
  std::span<std::uint32_t> waiting_;    // this place, or one further on where its item has a bag
};

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
    return least_that(low + 1, high, [this](uint128 time) { return places_all(time); });
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
      next = least_that(next, most, [&](std::size_t end) {
        return static_cast<uint128>(sums_[end + 1] - sums_[first]) +
                   static_cast<uint128>(end + 1 - first) * level >
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
    return least_that(std::size_t{0}, all, [&](std::size_t count) {
      return static_cast<uint128>(sums_[all] - sums_[all - count - 1]) +
                 static_cast<uint128>(count + 1) * level >
             capacity;
    });
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
