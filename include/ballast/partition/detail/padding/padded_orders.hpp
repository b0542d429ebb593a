// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_PADDING_PADDED_ORDERS_HPP
#define BALLAST_PARTITION_DETAIL_PADDING_PADDED_ORDERS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/padding/finishing_times.hpp>
#include <ballast/partition/detail/padding/padded_filling.hpp>
#include <ballast/partition/priced_sample.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>

namespace ballast::inline v0::detail {

/// Fills bags of a few kinds in the best order, where every sample fits every bag.
///
/// If any plan meets a finishing time, so does one that consists of runs of heaviest_first, one per
/// bag. Of all orders of a set of bags, the one that gets furthest is the best to continue from: a
/// bag that starts later begins with a lighter sample and so gets no less far. Sets differ only in
/// how many bags of each kind they use. So there is a table with an entry for each combination of
/// these numbers: how far such bags get.
///
/// Expects     a valid partition_problem; n times the largest cost is below 2^63. To fill:
///             applies(), every sample fits every bag, and the time is not before times.least().
/// Ensures     (1) everything is placed if some plan meets the time, but for the rounding of times
///             (2) every time from outcome.finish to before outcome.next gives the same batches
/// Complexity  O(m log m) to build; to fill, kinds times the product of (bags of a kind + 1),
///             which is m with one kind. 4 bytes of scratch per entry of the table.
class padded_orders {
 public:
  struct outcome {
    bool all_placed = false;
    uint128 finish = 0;  ///< if so, when the last bag that got samples finishes
    uint128 next = std::numeric_limits<uint128>::max();  ///< when some bag could take one more

    [[nodiscard]] bool placed() const noexcept { return all_placed; }
  };

  padded_orders(partition_problem const& problem, finishing_times const& times,
                std::size_t most_entries, workspace::frame& scratch)
      : samples_(problem.heaviest_first),
        times_(times),
        bags_(scratch.take<std::uint32_t>(problem.gpus.size())),
        kinds_(scratch.take<bags_of_kind>(problem.gpus.size()))
  {
    std::iota(bags_.begin(), bags_.end(), std::uint32_t{0});
    std::sort(bags_.begin(), bags_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return precedes(problem.speeds[b], problem.speeds[a], times.finish(a, 0), times.finish(b, 0),
                      a, b);
    });
    std::size_t kinds = 0;
    std::size_t entries = 1;
    for (std::size_t first = 0; first < bags_.size();) {
      std::size_t last = first;
      while (last < bags_.size() && times.alike(bags_[first], bags_[last])) { ++last; }
      kinds_[kinds++] = {bags_.subspan(first, last - first), entries, 0, 0, 0};
      entries *= last - first + 1;
      if (kinds > 1 && entries > most_entries) { return; }
      first = last;
    }
    kinds_ = kinds_.first(kinds);
    reach_ = scratch.take<std::uint32_t>(entries);
  }

  /// Whether bags are of one kind, or of so few that the table is small enough.
  [[nodiscard]] bool applies() const noexcept { return !reach_.empty(); }

  /// Calls place(padded_batch) for each bag that gets samples, if all can be placed in time.
  template <class Place>
  outcome fill(uint128 time, Place const& place)
  {
    outcome filled{.all_placed = samples_.empty()};
    for (bags_of_kind& kind : kinds_) {
      kind.used = 0;
      kind.work = times_.work_until(time, kind.bags.front());
      kind.fuller = no_cost;
    }
    reach_[0] = 0;
    for (std::size_t entry = 1; entry < reach_.size() && !filled.all_placed; ++entry) {
      count_up();
      std::size_t furthest = 0;
      for (bags_of_kind& kind : kinds_) {
        if (kind.used == 0) { continue; }
        std::span<priced_sample const> const waiting =
            samples_.subspan(reach_[entry - kind.stride]);
        std::size_t const taken = padded_batch::most_samples(waiting, kind.work);
        furthest = std::max(furthest, samples_.size() - waiting.size() + taken);
        if (taken < waiting.size()) {
          padded_batch const fuller{0, waiting.first(taken + 1)};
          kind.fuller = std::min(kind.fuller, fuller.load());
        }
      }
      reach_[entry] = static_cast<std::uint32_t>(furthest);
      if (furthest == samples_.size()) {
        filled.all_placed = true;
        filled.finish = place_back_from(entry, place);
      }
    }
    for (bags_of_kind const& kind : kinds_) {
      if (kind.fuller == no_cost) { continue; }
      filled.next = std::min(filled.next, times_.finish(kind.bags.front(), kind.fuller));
    }
    return filled;
  }

 private:
  struct bags_of_kind {
    std::span<std::uint32_t const> bags;
    std::size_t stride;  // from an entry of the table to that with one bag more
    std::size_t used;    // by the present entry
    cost_units work;     // that one of them can do in time
    cost_units fuller;   // the least that one of them would have to do to take one more
  };

  // The numbers of bags used, from those of one entry to those of the next.
  void count_up() noexcept
  {
    for (bags_of_kind& kind : kinds_) {
      if (kind.used < kind.bags.size()) {
        ++kind.used;
        return;
      }
      kind.used = 0;
    }
  }

  // Finds the bags that led here, last to first.
  template <class Place>
  uint128 place_back_from(std::size_t entry, Place const& place)
  {
    uint128 finish = 0;
    while (entry > 0) {
      for (bags_of_kind& kind : kinds_) {
        if (kind.used == 0) { continue; }
        std::size_t const first = reach_[entry - kind.stride];
        std::size_t const taken = padded_batch::most_samples(samples_.subspan(first), kind.work);
        if (first + taken != reach_[entry]) { continue; }
        --kind.used;
        entry -= kind.stride;
        if (taken > 0) {
          padded_batch const batch{kind.bags[kind.used], samples_.subspan(first, taken)};
          finish = std::max(finish, times_.finish(batch.bag, batch.load()));
          place(batch);
        }
        break;
      }
    }
    return finish;
  }

  std::span<priced_sample const> samples_;
  finishing_times const& times_;
  std::span<std::uint32_t> bags_;
  std::span<bags_of_kind> kinds_;
  std::span<std::uint32_t> reach_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_PADDING_PADDED_ORDERS_HPP
