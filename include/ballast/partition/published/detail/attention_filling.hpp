// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PUBLISHED_DETAIL_ATTENTION_FILLING_HPP
#define BALLAST_PARTITION_PUBLISHED_DETAIL_ATTENTION_FILLING_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/padding/finishing_times.hpp>
#include <ballast/partition/published/detail/attention_items.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>

namespace ballast::inline v0::detail {

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

  /// Writes the bag of every sample into owner, which is complete only if all are placed.
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

  /// The first item at or after a place that has no bag yet.
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

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_PUBLISHED_DETAIL_ATTENTION_FILLING_HPP
