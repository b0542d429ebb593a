// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/concepts.hpp>

#include <functional>

namespace ballast::inline v0::detail {

/// A bag and the work that it may still take; negative where it has more than its limit.
struct bag_room {
  cost_units room;
  std::uint32_t bag;

  friend constexpr bool operator<(bag_room a, bag_room b) noexcept
  {
    return a.room < b.room || (a.room == b.room && a.bag < b.bag);
  }
};

/// Samples in bags with a limit of work each, while a search moves them: what every bag holds,
/// heaviest first, how much room it has, and how many tokens are away from home.
///
/// Samples are named by their place in heaviest_first, so that of two the smaller number is the
/// heavier one.
///
/// Shapes      starting_loads[m], limits[m], which the caller keeps.
/// Expects     home[n] is there, and no starting load is above its limit.
/// Ensures     (1) the samples of a bag come in increasing number
///             (2) by_room() is in increasing order
///             (3) moved() is the sum of the tokens that are not at home; of samples joined to one
///                 each part has its own
/// Complexity  move: O(samples of both bags + m), of which O(m) is one move of memory; everything
///             else O(1). 32 bytes of scratch per sample, 40 per bag.
class limited_bags {
 public:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  /// A walk through a bag takes as long as memory does, so what it reads lies in 16 bytes.
  struct held_sample {
    cost_units cost;
    std::uint32_t next;  ///< of this bag's samples, or none
    std::uint32_t previous;
    tokens kept;         ///< of its tokens, what lies in the bag that holds it
    std::uint32_t home;  ///< where most of them lie
    std::uint32_t bag;   ///< that holds it

    [[nodiscard]] bool away() const noexcept { return bag != home; }
  };

  limited_bags(partition_problem const& problem, std::span<cost_units const> starting_loads,
               std::span<cost_units const> limits, workspace::frame& scratch)
      : problem_(problem),
        starting_loads_(starting_loads),
        limits_(limits),
        samples_(scratch.take<held_sample>(problem.costs.size())),
        first_(scratch.take<std::uint32_t>(limits.size())),
        last_put_(scratch.take<std::uint32_t>(limits.size())),
        loads_(scratch.take<cost_units>(limits.size())),
        weights_(scratch.take<std::int64_t>(problem.capacities.size())),
        by_room_(scratch.take<bag_room>(limits.size()))
  {
    BALLAST_EXPECTS(problem.home.size() == problem.costs.size(), "there are homes of ",
                    counted(problem.home.size(), "sample"), " for a problem of ",
                    problem.costs.size());
    for (std::uint32_t sample = 0; sample < samples_.size(); ++sample) {
      auto const home = static_cast<std::uint32_t>(problem.home[index(sample)]);
      samples_[sample] = {problem.heaviest_first[sample].cost, none, none, 0, home, none};
      all_ += problem.tokens_of(index(sample));
    }
  }

  /// Puts every sample in the bag that owns it. A sample without a bag, or in one that it does not
  /// fit, goes where most of its tokens have room, or else where there is most room.
  void place(std::span<bag_id const> owner)
  {
    std::fill(first_.begin(), first_.end(), none);
    std::fill(last_put_.begin(), last_put_.end(), none);
    std::copy(starting_loads_.begin(), starting_loads_.end(), loads_.begin());
    std::fill(weights_.begin(), weights_.end(), 0);
    kept_ = 0;
    auto const bags = static_cast<std::uint32_t>(loads_.size());
    for (auto sample = static_cast<std::uint32_t>(samples_.size()); sample-- > 0;) {
      auto const bag = static_cast<std::uint32_t>(owner[index(sample)]);
      samples_[sample].bag = none;
      if (bag < bags && fits(sample, bag)) { put(sample, bag); }  // in front of its bag
    }
    for (std::uint32_t bag = 0; bag < bags; ++bag) { by_room_[bag] = {room(bag), bag}; }
    std::sort(by_room_.begin(), by_room_.end());
    for (std::uint32_t sample = 0; sample < samples_.size(); ++sample) {
      if (samples_[sample].bag != none) { continue; }
      auto bag = home_with_room(sample);
      if (bag == none) {
        auto place = by_room_.size() - 1;
        while (place > 0 && !may_enter(sample, by_room_[place].bag)) { --place; }
        while (!fits(sample, by_room_[place].bag)) { ++place; }  // no capacity has room for it
        bag = by_room_[place].bag;
      }
      reorder(bag, [&] { put(sample, bag); });
    }
  }

  [[nodiscard]] std::size_t samples() const noexcept { return samples_.size(); }
  [[nodiscard]] held_sample const& operator[](std::uint32_t sample) const noexcept
  {
    return samples_[sample];
  }
  /// The heaviest sample of a bag, or none; the others follow by `next`.
  [[nodiscard]] std::uint32_t first_of(std::uint32_t bag) const noexcept { return first_[bag]; }
  [[nodiscard]] cost_units room(std::uint32_t bag) const noexcept
  {
    return limits_[bag] - loads_[bag];
  }
  [[nodiscard]] cost_units limit(std::uint32_t bag) const noexcept { return limits_[bag]; }
  [[nodiscard]] cost_units starting_load(std::uint32_t bag) const noexcept
  {
    return starting_loads_[bag];
  }
  /// All bags, the one that is furthest above its limit in front.
  [[nodiscard]] std::span<bag_room const> by_room() const noexcept { return by_room_; }
  /// The first bag in that order that has room for so much work.
  [[nodiscard]] std::size_t first_with_room(cost_units work) const noexcept
  {
    return static_cast<std::size_t>(
        std::lower_bound(by_room_.begin(), by_room_.end(), bag_room{work, 0}, std::less{}) -
        by_room_.begin());
  }
  [[nodiscard]] tokens moved() const noexcept { return all_ - kept_; }

  /// Whether a sample may be in a bag, however much work that has; `leaving` goes before it comes.
  [[nodiscard]] bool may_enter(std::uint32_t sample, std::uint32_t bag,
                               std::uint32_t leaving = none) const noexcept
  {
    if (!fits(sample, bag)) { return false; }
    if (weights_.empty()) { return true; }
    std::int64_t const freed = leaving == none ? 0 : weight(leaving);
    return weight(sample) <= problem_.capacities[bag] - weights_[bag] + freed;
  }

  /// How many more tokens would be away from home if a sample went to a bag.
  [[nodiscard]] tokens newly_moved(std::uint32_t sample, std::uint32_t bag) const noexcept
  {
    return samples_[sample].kept - tokens_at(sample, bag);
  }

  /// Calls visit(bag, tokens) for the bags that hold tokens of a sample.
  template <class Visit>
  void for_each_home(std::uint32_t sample, Visit&& visit) const
  {
    problem_.for_each_home(index(sample), [&](bag_id bag, tokens length) {
      visit(static_cast<std::uint32_t>(bag), length);
    });
  }

  /// The other bag with most of a sample's tokens that has room for it and that it may enter, of
  /// equals the first; or none.
  [[nodiscard]] std::uint32_t home_with_room(std::uint32_t sample) const
  {
    held_sample const& it = samples_[sample];
    if (problem_.first_part.empty() && !it.away()) { return none; }
    std::uint32_t best = none;
    tokens most = 0;
    for_each_home(sample, [&](std::uint32_t bag, tokens length) {
      if (bag == it.bag || length <= most || it.cost > room(bag) || !may_enter(sample, bag)) {
        return;
      }
      most = length;
      best = bag;
    });
    return best;
  }

  void move(std::uint32_t sample, std::uint32_t bag)
  {
    reorder(samples_[sample].bag, [&] { take_out(sample); });
    reorder(bag, [&] { put(sample, bag); });
  }

  /// Whether no bag has more work or weight than it may.
  [[nodiscard]] bool within_limits() const noexcept
  {
    return by_room_.front().room >= 0 && std::equal(weights_.begin(), weights_.end(),
                                                    problem_.capacities.begin(), std::less_equal{});
  }

  void store(std::span<bag_id> owner, std::span<cost_units> loads) const noexcept
  {
    for (std::uint32_t sample = 0; sample < samples_.size(); ++sample) {
      owner[index(sample)] = bag_id{samples_[sample].bag};
    }
    std::copy(loads_.begin(), loads_.end(), loads.begin());
  }

 private:
  [[nodiscard]] std::size_t index(std::uint32_t sample) const noexcept
  {
    return to_index(problem_.heaviest_first[sample].sample);
  }

  [[nodiscard]] bool fits(std::uint32_t sample, std::uint32_t bag) const noexcept
  {
    return problem_.fits(index(sample), bag);
  }

  [[nodiscard]] tokens tokens_at(std::uint32_t sample, std::uint32_t bag) const noexcept
  {
    held_sample const& it = samples_[sample];
    bool const nothing = problem_.first_part.empty() && bag != it.home;
    return nothing ? 0 : problem_.tokens_at(index(sample), bag_id{bag});
  }

  [[nodiscard]] std::int64_t weight(std::uint32_t sample) const noexcept
  {
    return problem_.weights[index(sample)];
  }

  void put(std::uint32_t sample, std::uint32_t bag) noexcept
  {
    std::uint32_t before = none;
    std::uint32_t after = first_[bag];
    if (last_put_[bag] != none) {
      after = last_put_[bag];
      before = samples_[after].previous;
    }
    while (before != none && before > sample) {
      after = before;
      before = samples_[before].previous;
    }
    while (after < sample) {  // none is the largest number
      before = after;
      after = samples_[after].next;
    }
    held_sample& it = samples_[sample];
    it.bag = bag;
    it.previous = before;
    it.next = after;
    (before == none ? first_[bag] : samples_[before].next) = sample;
    if (after != none) { samples_[after].previous = sample; }
    last_put_[bag] = sample;
    loads_[bag] += it.cost;
    it.kept = tokens_at(sample, bag);
    kept_ += it.kept;
    if (!weights_.empty()) { weights_[bag] += weight(sample); }
  }

  void take_out(std::uint32_t sample) noexcept
  {
    held_sample const& it = samples_[sample];
    (it.previous == none ? first_[it.bag] : samples_[it.previous].next) = it.next;
    if (it.next != none) { samples_[it.next].previous = it.previous; }
    if (last_put_[it.bag] == sample) { last_put_[it.bag] = none; }
    loads_[it.bag] -= it.cost;
    kept_ -= it.kept;
    if (!weights_.empty()) { weights_[it.bag] -= weight(sample); }
  }

  /// Changes the load of a bag and moves the bag to its new position in by_room().
  template <class Change>
  void reorder(std::uint32_t bag, Change const& change)
  {
    auto const before =
        std::lower_bound(by_room_.begin(), by_room_.end(), bag_room{room(bag), bag}, std::less{});
    change();
    bag_room const changed{room(bag), bag};
    auto const after = std::lower_bound(by_room_.begin(), by_room_.end(), changed, std::less{});
    if (after <= before) {
      std::move_backward(after, before, before + 1);
      *after = changed;
    } else {
      *std::move(before + 1, after, before) = changed;
    }
  }

  partition_problem const& problem_;
  std::span<cost_units const> starting_loads_;
  std::span<cost_units const> limits_;
  std::span<held_sample> samples_;
  std::span<std::uint32_t> first_;
  std::span<std::uint32_t> last_put_;  // near which the next one often goes; none where it has left
  std::span<cost_units> loads_;
  std::span<std::int64_t> weights_;
  std::span<bag_room> by_room_;
  tokens all_ = 0;   // of all samples
  tokens kept_ = 0;  // of them, those at home
};

/// Brings one sample to a bag that holds tokens of it if that leaves fewer tokens away from home,
/// in exchange for a sample that takes its place or goes to a third bag with room. Returns whether
/// it did.
inline bool exchange_home(limited_bags& bags, std::uint32_t sample, std::uint32_t home,
                          work_budget& work)
{
  cost_units const cost = bags[sample].cost;
  tokens const gained = -bags.newly_moved(sample, home);
  std::uint32_t const from = bags[sample].bag;
  cost_units const room = bags.room(home);
  std::span<bag_room const> const by_room = bags.by_room();
  tokens fewest = 0;
  std::uint32_t best = limited_bags::none;
  std::uint32_t best_bag = limited_bags::none;
  auto const consider = [&](std::uint32_t leaving, std::uint32_t bag) {
    tokens const moved = bags.newly_moved(leaving, bag) - gained;
    if (moved < fewest) {
      fewest = moved;
      best = leaving;
      best_bag = bag;
    }
  };
  for (auto leaving = bags.first_of(home); leaving != limited_bags::none && !work.spent();
       leaving = bags[leaving].next, work.spend(1)) {
    cost_units const other = bags[leaving].cost;
    if (cost - other > room) { break; }  // too light to make room, as all that follow
    if (!bags.may_enter(sample, home, leaving)) { continue; }
    if (other - cost <= bags.room(from) && bags.may_enter(leaving, from, sample)) {
      consider(leaving, from);
    }
    std::size_t const place = bags.first_with_room(other);
    if (place < by_room.size() && by_room[place].bag != home &&
        bags.may_enter(leaving, by_room[place].bag)) {
      consider(leaving, by_room[place].bag);
    }
    if (std::uint32_t const other_home = bags.home_with_room(leaving);
        other_home != limited_bags::none) {
      consider(leaving, other_home);
    }
  }
  if (best == limited_bags::none) { return false; }
  bags.move(best, best_bag);
  bags.move(sample, home);
  return true;
}

/// Brings one sample to a bag that holds more of its tokens if that leaves fewer away from home:
/// alone or in exchange. Returns whether it did.
inline bool bring_home(limited_bags& bags, std::uint32_t sample, work_budget& work)
{
  std::uint32_t const with_room = bags.home_with_room(sample);
  if (with_room != limited_bags::none && bags.newly_moved(sample, with_room) < 0) {
    bags.move(sample, with_room);
    return true;
  }
  bool returned = false;
  bags.for_each_home(sample, [&](std::uint32_t home, tokens) {
    if (!returned && bags.newly_moved(sample, home) < 0) {
      returned = exchange_home(bags, sample, home, work);
    }
  });
  return returned;
}

/// Undoes moves that were not needed, until nothing more can go home.
///
/// In, out     work is how many exchanges it may still look at.
/// Expects     all bags are within their limits.
/// Ensures     (1) they still are
///             (2) no more tokens are away from home than were
/// Complexity  O(samples away * samples of a bag) per pass; a pass that brings nothing home is the
///             last.
inline void return_home(limited_bags& bags, work_budget& work)
{
  for (bool returned = true; returned && !work.spent();) {
    returned = false;
    for (std::uint32_t sample = 0; sample < bags.samples(); ++sample) {
      if (bags[sample].away()) { returned = bring_home(bags, sample, work) || returned; }
    }
  }
}

}  // namespace ballast::inline v0::detail
