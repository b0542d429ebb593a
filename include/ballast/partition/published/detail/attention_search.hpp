// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PUBLISHED_DETAIL_ATTENTION_SEARCH_HPP
#define BALLAST_PARTITION_PUBLISHED_DETAIL_ATTENTION_SEARCH_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/padding/finishing_times.hpp>
#include <ballast/partition/published/detail/attention_items.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// Looks through the plans of a few samples whose batches pad attention alone, depth first: samples
/// in descending order of attention, each in every bag where it can still lead to a better plan.
///
/// Of bags that are alike and empty, only the first is tried.
///
/// Ensures     (1) unless `work` is used up, no plan finishes before `best`
/// Complexity  O(m^n) at worst, and O(work m); 24 m + 4 n bytes of scratch.
class attention_search {
 public:
  attention_search(std::span<attention_item const> items, partition_problem const& problem,
                   finishing_times const& times, workspace::frame& scratch)
      : items_(items),
        problem_(problem),
        times_(times),
        bags_(scratch.take<batch>(problem.gpus.size())),
        bag_of_(scratch.take<std::uint32_t>(items.size()))
  {
    std::fill(bags_.begin(), bags_.end(), batch{});
  }

  /// In, out     best is when the plan in `owner` finishes, and leaves smaller where a better plan
  ///             is found, which owner then holds. work is how many bags to look at, and leaves as
  ///             what is left of it.
  void improve(uint128& best, std::uint64_t& work, std::span<bag_id> owner)
  {
    uint128 unplaced = 0;
    for (attention_item const& item : items_) {
      unplaced += static_cast<uint128>(item.padded) + static_cast<uint128>(item.packed);
    }
    place(0, unplaced, 0, best, work, owner);
  }

 private:
  struct batch {
    cost_units packed = 0;
    cost_units count = 0;
    cost_units level = 0;

    [[nodiscard]] cost_units work() const noexcept { return packed + count * level; }
  };

  // `finish` is when the bags finish what they have so far.
  void place(std::size_t next, uint128 unplaced, uint128 finish, uint128& best, std::uint64_t& work,
             std::span<bag_id> owner)
  {
    if (next == items_.size()) {
      best = std::max(finish, start_loads_finish());
      for (std::size_t item = 0; item < items_.size(); ++item) {
        owner[items_[item].sample] = to_id<bag_id>(bag_of_[item]);
      }
      return;
    }
    if (room_before(best) < unplaced) { return; }
    attention_item const& item = items_[next];
    for (std::size_t bag = 0; bag < bags_.size() && work > 0; ++bag) {
      if (!problem_.fits(item.sample, bag) || like_an_earlier_one(bag)) { continue; }
      --work;
      batch const before = bags_[bag];
      batch& with = bags_[bag];
      with.level = before.count == 0 ? item.padded : before.level;
      with.packed += item.packed;
      ++with.count;
      uint128 const then = std::max(finish, times_.finish(bag, with.work()));
      if (then < best) {
        bag_of_[next] = static_cast<std::uint32_t>(bag);
        auto const cost = static_cast<uint128>(item.padded) + static_cast<uint128>(item.packed);
        place(next + 1, unplaced - cost, then, best, work, owner);
      }
      bags_[bag] = before;
    }
  }

  [[nodiscard]] uint128 start_loads_finish() const noexcept
  {
    uint128 finish = 0;
    for (std::size_t bag = 0; bag < bags_.size(); ++bag) {
      finish = std::max(finish, times_.finish(bag, 0));
    }
    return finish;
  }

  // How much work bags can take and finish before a time.
  [[nodiscard]] uint128 room_before(uint128 time) const
  {
    uint128 room = 0;
    for (std::size_t bag = 0; bag < bags_.size() && time > 0; ++bag) {
      cost_units const most = times_.work_until(time - 1, bag);
      room += static_cast<uint128>(std::max(most - bags_[bag].work(), cost_units{0}));
    }
    return room;
  }

  [[nodiscard]] bool like_an_earlier_one(std::size_t bag) const
  {
    if (bags_[bag].count > 0) { return false; }
    for (std::size_t earlier = 0; earlier < bag; ++earlier) {
      if (bags_[earlier].count == 0 && problem_.gpus[earlier] == problem_.gpus[bag] &&
          times_.alike(earlier, bag)) {
        return true;
      }
    }
    return false;
  }

  std::span<attention_item const> items_;
  partition_problem const& problem_;
  finishing_times const& times_;
  std::span<batch> bags_;
  std::span<std::uint32_t> bag_of_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_PUBLISHED_DETAIL_ATTENTION_SEARCH_HPP
