// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_MOVEMENT_RELIEF_SEARCH_HPP
#define BALLAST_PARTITION_DETAIL_MOVEMENT_RELIEF_SEARCH_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/detail/movement/limited_bags.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace ballast::inline v0::detail {

/// A sample that leaves a bag for another, and perhaps one that comes back in exchange.
struct relief {
  std::uint32_t leaving = limited_bags::none;
  std::uint32_t to = limited_bags::none;
  std::uint32_t coming = limited_bags::none;

  [[nodiscard]] bool found() const noexcept { return leaving != limited_bags::none; }

  void apply(limited_bags& bags) const
  {
    std::uint32_t const from = bags[leaving].bag;
    if (coming != limited_bags::none) { bags.move(coming, from); }
    bags.move(leaving, to);
  }
};

/// Brings an overloaded bag below its limit and moves few tokens for it, one step at a time.
///
/// A step moves a sample to the bag with the least room that is enough for it, or swaps it for a
/// lighter one of a bag that has room for the difference. The best step is the one with the fewest
/// tokens: those that it moves, and an estimate for the rest of the excess, which is the length of
/// the shortest sample at least as heavy, or a proportional part of the heaviest sample's length.
class relief_search {
 public:
  relief_search(limited_bags const& bags, std::uint32_t bag, workspace::frame& scratch)
      : bags_(bags), bag_(bag), excess_(-bags.room(bag))
  {
    std::size_t count = 0;
    for (auto each = bags.first_of(bag); each != limited_bags::none; each = bags[each].next) {
      count += bags[each].cost > 0 ? 1U : 0U;
    }
    held_ = scratch.take<candidate>(count);
    looked_at_ = count;
    auto each = bags.first_of(bag);
    tokens shortest = std::numeric_limits<tokens>::max();
    for (candidate& to_leave : held_) {
      shortest = std::min(shortest, bags[each].kept);
      to_leave = {bags[each].cost, shortest, each};
      each = bags[each].next;
    }
  }

  /// The best step that takes no other bag above its limit.
  [[nodiscard]] relief within_limits(work_budget& work)
  {
    std::span<bag_room const> const by_room = bags_.by_room();
    for (candidate const& each : held_) {
      if (std::uint32_t const home = bags_.home_with_room(each.sample);
          home != limited_bags::none) {
        consider({each.sample, home, limited_bags::none}, each.cost);
      }
      std::size_t const first = bags_.first_with_room(each.cost);
      std::size_t const last = std::min(first + window, by_room.size());
      for (std::size_t place = first; place < last; ++place) {
        if (!bags_.may_enter(each.sample, by_room[place].bag)) { continue; }
        consider({each.sample, by_room[place].bag, limited_bags::none}, each.cost);
        break;
      }
    }
    std::size_t const roomy = bags_.first_with_room(1);
    std::size_t const enough = bags_.first_with_room(excess_);
    std::size_t const first = std::max(
        roomy, std::min(enough, by_room.size() - std::min<std::size_t>(window, by_room.size())));
    std::size_t const last = std::min(first + window, by_room.size());
    for (std::size_t place = first; place < last; ++place) { swap_with(by_room[place]); }
    work.spend(looked_at_);
    return best_;
  }

  /// The best step that leaves less work above limits in all, although it may take another bag
  /// above its own: the one that moves the fewest tokens per unit of work that it takes off.
  [[nodiscard]] relief across_limits(work_budget& work)
  {
    constexpr std::size_t most_bags = 32;
    std::span<bag_room const> const roomiest =
        bags_.by_room().last(std::min(most_bags, bags_.by_room().size()));
    for (std::size_t place = roomiest.size(); place-- > 0;) {
      bag_room const other = roomiest[place];
      if (other.bag == bag_) { continue; }
      for (candidate const& each : held_) {
        weigh({each.sample, other.bag, limited_bags::none}, other.room);
        for (auto coming = bags_.first_of(other.bag); coming != limited_bags::none;
             coming = bags_[coming].next) {
          weigh({each.sample, other.bag, coming}, other.room);
        }
      }
    }
    work.spend(looked_at_);
    return best_;
  }

 private:
  static constexpr std::size_t window = 8;  // bags whose room is nearest to what is needed

  struct candidate {
    cost_units cost;
    tokens shortest;  ///< of this sample and all that are heavier
    std::uint32_t sample;
  };

  [[nodiscard]] bool allowed(relief const& step) const noexcept
  {
    return bags_.may_enter(step.leaving, step.to, step.coming) &&
           (step.coming == limited_bags::none || bags_.may_enter(step.coming, bag_, step.leaving));
  }

  /// Swaps with one bag: for every sample the lightest of the other's that leaves room enough.
  void swap_with(bag_room other)
  {
    std::uint32_t next = bags_.first_of(other.bag);
    std::uint32_t lightest = limited_bags::none;
    for (candidate const& each : held_) {
      if (each.cost <= other.room) { break; }  // it can move without a swap
      for (; next != limited_bags::none && bags_[next].cost >= each.cost - other.room;
           next = bags_[next].next) {
        lightest = next;
      }
      if (lightest == limited_bags::none || bags_[lightest].cost >= each.cost) { continue; }
      relief const step{each.sample, other.bag, lightest};
      if (allowed(step)) { consider(step, each.cost - bags_[lightest].cost); }
    }
  }

  [[nodiscard]] tokens newly_moved(relief const& step) const noexcept
  {
    return bags_.newly_moved(step.leaving, step.to) +
           (step.coming != limited_bags::none ? bags_.newly_moved(step.coming, bag_) : 0);
  }

  void consider(relief const& step, cost_units taken_off)
  {
    ++looked_at_;
    tokens const in_all = newly_moved(step) + to_complete(excess_ - taken_off);
    if (in_all < fewest_) {
      fewest_ = in_all;
      best_ = step;
    }
  }

  void weigh(relief const& step, cost_units room)
  {
    ++looked_at_;
    cost_units const net = bags_[step.leaving].cost -
                           (step.coming != limited_bags::none ? bags_[step.coming].cost : 0);
    if (net <= 0) { return; }
    cost_units const before = excess_ + std::max<cost_units>(-room, 0);
    cost_units const after =
        std::max<cost_units>(excess_ - net, 0) + std::max<cost_units>(net - room, 0);
    if (after >= before) { return; }
    // One token more than it moves, so that of steps that move none the most effective is best.
    ratio const price{std::max<tokens>(newly_moved(step), 0) + 1, before - after};
    if (price < lowest_price_ && allowed(step)) {
      lowest_price_ = price;
      best_ = step;
    }
  }

  [[nodiscard]] tokens to_complete(cost_units rest) const noexcept
  {
    if (rest <= 0) { return 0; }
    auto const lighter = std::partition_point(
        held_.begin(), held_.end(), [rest](candidate const& each) { return each.cost >= rest; });
    if (lighter != held_.begin()) { return (lighter - 1)->shortest; }
    candidate const& heaviest = held_.front();
    return static_cast<tokens>(uint128{static_cast<std::uint64_t>(rest)} *
                               static_cast<std::uint64_t>(heaviest.shortest) /
                               static_cast<std::uint64_t>(heaviest.cost));
  }

  limited_bags const& bags_;
  std::uint32_t bag_;
  cost_units excess_;
  std::span<candidate> held_;
  std::uint64_t looked_at_;
  tokens fewest_ = std::numeric_limits<tokens>::max();
  ratio lowest_price_{std::numeric_limits<std::int64_t>::max(), 1};
  relief best_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_MOVEMENT_RELIEF_SEARCH_HPP
