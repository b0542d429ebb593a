// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/detail/placement/plan_branch.hpp>

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

/// The items of a plan while a search moves them between places with a limit of work each: what every
/// place holds, heaviest first, how much room it has, and how many tokens are away from home. Work
/// may be above its limit meanwhile; all other limits the plan keeps.
///
/// Samples are items, named by their place in the order of cost, so that of two the smaller number is
/// the heavier one; bags are places.
///
/// Shapes      limits[m], which the caller keeps.
/// Expects     a problem with homes, whose places are lanes, by its first quantity; the plan lets
///             lanes have any load of it.
/// Ensures     (1) the samples of a bag come in increasing number
///             (2) by_room() is in increasing order
///             (3) moved() is the sum of the tokens that are not at home; of samples joined to one
///                 each part has its own
/// Complexity  move: O(samples of both bags + m), of which O(m) is one move of memory; may_enter:
///             plan_state::admits; everything else O(1). 36 bytes of scratch per sample, 24 per bag.
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

  limited_bags(plan_state& plan, std::span<cost_units const> limits, workspace::frame& scratch,
               workspace& memory)
      : plan_(plan),
        problem_(plan.problem()),
        items_(problem_.items),
        limits_(limits),
        order_(scratch.take<std::uint32_t>(plan.items())),
        samples_(scratch.take<held_sample>(plan.items())),
        first_(scratch.take<std::uint32_t>(limits.size())),
        last_put_(scratch.take<std::uint32_t>(limits.size())),
        by_room_(scratch.take<bag_room>(limits.size())),
        is_free_(problem_.is_open() && problem_.limits.empty() && problem_.quantities == 1 &&
                 problem_.counts.is_any(plan.items()))
  {
    auto frame = memory.open();
    auto const costs = frame.take<cost_units>(plan.items());
    auto const heaviest_first = frame.take<priced_sample>(plan.items());
    for (std::size_t item = 0; item < costs.size(); ++item) {
      costs[item] = problem_.cost(item, 0);
    }
    descending_order_into(heaviest_first, costs, memory);
    for (std::uint32_t sample = 0; sample < samples_.size(); ++sample) {
      order_[sample] = static_cast<std::uint32_t>(to_index(heaviest_first[sample].sample));
      auto const home = static_cast<std::uint32_t>(items_.home[index(sample)]);
      samples_[sample] = {heaviest_first[sample].cost, none, none, 0, home, none};
      all_ += items_.tokens_of(index(sample));
    }
  }

  /// Puts every item in the place that these say. One without a place, or that is not admitted
  /// there, goes where most of its tokens have room, or else where there is most room. Returns
  /// whether all have a place.
  [[nodiscard]] bool place(std::span<std::uint32_t const> owner)
  {
    std::fill(first_.begin(), first_.end(), none);
    std::fill(last_put_.begin(), last_put_.end(), none);
    plan_.clear();
    kept_ = 0;
    auto const bags = static_cast<std::uint32_t>(limits_.size());
    for (std::uint32_t sample = 0; sample < samples_.size(); ++sample) {
      std::uint32_t const bag = owner[index(sample)];
      samples_[sample].bag = none;
      if (bag < bags && plan_.admits(index(sample), bag)) { put(sample, bag); }
    }
    for (std::uint32_t bag = 0; bag < bags; ++bag) { by_room_[bag] = {room(bag), bag}; }
    std::sort(by_room_.begin(), by_room_.end());
    for (std::uint32_t sample = 0; sample < samples_.size(); ++sample) {
      if (samples_[sample].bag != none) { continue; }
      auto bag = home_with_room(sample);
      for (auto place = by_room_.size(); bag == none && place-- > 0;) {
        if (plan_.admits(index(sample), by_room_[place].bag)) { bag = by_room_[place].bag; }
      }
      if (bag == none) { return false; }
      reorder(bag, [&] { put(sample, bag); });
    }
    return true;
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
    return limits_[bag] - plan_.load(bag, 0);
  }
  /// All bags, the one that is furthest above its limit in front.
  [[nodiscard]] std::span<bag_room const> by_room() const noexcept { return by_room_; }
  [[nodiscard]] std::size_t first_with_room(cost_units work) const noexcept
  {
    return static_cast<std::size_t>(
        std::lower_bound(by_room_.begin(), by_room_.end(), bag_room{work, 0}, std::less{}) -
        by_room_.begin());
  }
  [[nodiscard]] tokens moved() const noexcept { return all_ - kept_; }

  /// Whether a sample may go to a bag, however much work that has; `leaving` goes before it comes.
  [[nodiscard]] bool may_enter(std::uint32_t sample, std::uint32_t bag,
                               std::uint32_t leaving = none) const
  {
    if (is_free_) { return true; }
    std::uint32_t const item = order_[sample];
    if (leaving == none) { return may_grow(samples_[sample], bag) && plan_.admits(item, bag); }
    std::uint32_t const other = order_[leaving];
    bool const keeps_step =
        (problem_.samples_of(item) - problem_.samples_of(other)) % problem_.counts.step == 0;
    return keeps_step && plan_.admits({&item, 1}, bag, {&other, 1});
  }
  /// Whether counts let one bag have one more and that of the sample one less.
  [[nodiscard]] bool may_grow(held_sample const& it, std::uint32_t bag) const
  {
    if (is_free_ || it.bag == none) { return true; }
    return problem_.counts.step == 1 &&
           problem_.counts.may_move(plan_.count(it.bag), plan_.count(bag), 1);
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
    items_.for_each_home(index(sample), [&](bag_id bag, tokens length) {
      visit(static_cast<std::uint32_t>(bag), length);
    });
  }

  /// The other bag with most of a sample's tokens that has room for it and that it may enter, of
  /// equals the first; or none.
  [[nodiscard]] std::uint32_t home_with_room(std::uint32_t sample) const
  {
    held_sample const& it = samples_[sample];
    if (items_.first_part.empty() && !it.away()) { return none; }
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

  /// Whether no bag has more work than it may, and all limits are kept.
  [[nodiscard]] bool within_limits() const
  {
    return by_room_.front().room >= 0 && plan_.is_complete() && plan_.is_whole();
  }

 private:
  [[nodiscard]] std::size_t index(std::uint32_t sample) const noexcept { return order_[sample]; }

  [[nodiscard]] tokens tokens_at(std::uint32_t sample, std::uint32_t bag) const noexcept
  {
    held_sample const& it = samples_[sample];
    bool const nothing = items_.first_part.empty() && bag != it.home;
    return nothing ? 0 : items_.tokens_at(index(sample), bag_id{bag});
  }

  void put(std::uint32_t sample, std::uint32_t bag)
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
    plan_.put(index(sample), bag);
    it.kept = tokens_at(sample, bag);
    kept_ += it.kept;
  }

  void take_out(std::uint32_t sample)
  {
    held_sample const& it = samples_[sample];
    (it.previous == none ? first_[it.bag] : samples_[it.previous].next) = it.next;
    if (it.next != none) { samples_[it.next].previous = it.previous; }
    if (last_put_[it.bag] == sample) { last_put_[it.bag] = none; }
    plan_.take(index(sample));
    kept_ -= it.kept;
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

  plan_state& plan_;
  placement_problem const& problem_;
  partition_problem const& items_;
  std::span<cost_units const> limits_;
  std::span<std::uint32_t> order_;  // items, heaviest first
  std::span<held_sample> samples_;
  std::span<std::uint32_t> first_;
  std::span<std::uint32_t> last_put_;  // near which the next one often goes; none where it has left
  std::span<bag_room> by_room_;
  bool is_free_;     // every bag takes every sample
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
    auto const may_go = [&](std::uint32_t bag) {  // as many stay in `home`, and one leaves `from`
      return bag != from && bags.may_grow(bags[sample], bag);
    };
    std::size_t const place = bags.first_with_room(other);
    if (place < by_room.size() && by_room[place].bag != home && may_go(by_room[place].bag) &&
        bags.may_enter(leaving, by_room[place].bag)) {
      consider(leaving, by_room[place].bag);
    }
    if (std::uint32_t const other_home = bags.home_with_room(leaving);
        other_home != limited_bags::none && may_go(other_home)) {
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

/// Exchanges everything that identical places hold, so that many tokens are at home: a plan that was
/// made without homes fills them in any order.
///
/// Of all pairs of a place's content and a place, it joins the one with most tokens at home, and so
/// on with what is left. That keeps at least half of what the best assignment keeps.
///
/// In, out     owner[n], every item with a place of its own lane.
/// Ensures     (1) contents stay together, and go only to a place of the same size, speed, starting
///                 loads and room; where a filter tells places apart, nowhere
/// Complexity  O(n log n + m log m); 16 bytes of scratch per item, of samples joined to one for every
///             bag that holds some of them, and 16 per place.
/// Source      D. Avis, "A Survey of Heuristics for the Weighted Matching Problem", Networks
///             13(4):475-493, 1983, on the greedy matching.
inline void relabel_places(placement_problem const& problem, std::span<std::uint32_t> owner,
                           workspace& memory)
{
  struct overlap {
    tokens length;
    std::uint32_t content;
    std::uint32_t place;
  };
  if (!problem.refused.empty()) { return; }
  auto scratch = memory.open();
  partition_problem const& items = problem.items;
  std::span<overlap> overlaps =
      scratch.take<overlap>(items.first_part.empty() ? owner.size() : items.parts.size());
  std::size_t next = 0;
  for (std::size_t item = 0; item < owner.size(); ++item) {
    items.for_each_home(item, [&](bag_id home, tokens length) {
      overlaps[next++] = {length, owner[item], static_cast<std::uint32_t>(home)};
    });
  }
  std::sort(overlaps.begin(), overlaps.end(), [](overlap const& a, overlap const& b) {
    return precedes(a.content, b.content, a.place, b.place);
  });
  std::size_t pairs = 0;
  for (overlap const& each : overlaps) {
    bool const same = pairs > 0 && overlaps[pairs - 1].content == each.content &&
                      overlaps[pairs - 1].place == each.place;
    if (same) {
      overlaps[pairs - 1].length += each.length;
    } else {
      overlaps[pairs++] = each;
    }
  }
  overlaps = overlaps.first(pairs);
  std::sort(overlaps.begin(), overlaps.end(), [](overlap const& a, overlap const& b) {
    return precedes(b.length, a.length, a.content, b.content, a.place, b.place);
  });

  // Kinds of places, by the first of each.
  std::size_t const places = problem.places();
  std::span<std::uint32_t> const kind = scratch.take<std::uint32_t>(places);
  auto const alike = [&](std::size_t a, std::size_t b) {
    bool same = items.gpus[a] == items.gpus[b] && problem.speeds[a] == problem.speeds[b];
    for (std::size_t d = 0; d < problem.quantities && same && !problem.starts.empty(); ++d) {
      same =
          problem.starts[a * problem.quantities + d] == problem.starts[b * problem.quantities + d];
    }
    return same && std::all_of(problem.limits.begin(), problem.limits.end(),
                               [&](auto const& of) { return of.room[a] == of.room[b]; });
  };
  std::size_t kinds = 0;
  std::span<std::uint32_t> const firsts = scratch.take<std::uint32_t>(places);
  for (std::uint32_t place = 0; place < places; ++place) {
    auto const* const known =
        std::find_if(firsts.data(), firsts.data() + kinds,
                     [&](std::uint32_t first) { return alike(first, place); });
    if (known == firsts.data() + kinds) { firsts[kinds++] = place; }
    kind[place] = static_cast<std::uint32_t>(known - firsts.data());
  }
  auto const nowhere = static_cast<std::uint32_t>(places);
  std::span<std::uint32_t> const place_of = scratch.take<std::uint32_t>(places);
  std::span<bool> const taken = scratch.take<bool>(places);
  std::fill(place_of.begin(), place_of.end(), nowhere);
  std::fill(taken.begin(), taken.end(), false);
  for (overlap const& each : overlaps) {
    if (place_of[each.content] != nowhere || taken[each.place] ||
        kind[each.content] != kind[each.place]) {
      continue;
    }
    place_of[each.content] = each.place;
    taken[each.place] = true;
  }
  // As many contents as places are left of every kind, whose places before firsts are taken.
  for (std::uint32_t content = 0; content < places; ++content) {
    if (place_of[content] != nowhere) { continue; }
    std::uint32_t& place = firsts[kind[content]];
    while (taken[place] || kind[place] != kind[content]) { ++place; }
    place_of[content] = place;
    taken[place] = true;
  }
  for (std::uint32_t& place : owner) { place = place_of[place]; }
}

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

  /// The step that moves the fewest tokens per unit of work that it takes off above limits in all,
  /// although it may take another bag above its own.
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

/// Brings bags below their limits, the one furthest above first, and moves few tokens for it.
///
/// In, out     work is how many steps it may still look at.
/// Ensures     (1) no bag that is within its limit gets above it, unless that takes more off
///                 others; the work above limits never grows
///             (2) it returns whether all bags are within their limits
inline bool shed_excess(limited_bags& bags, work_budget& work, workspace& memory)
{
  // A bag that cannot be relieved stays where it is in the order, and what is relieved moves back.
  std::span<bag_room const> const by_room = bags.by_room();
  for (std::size_t place = 0; place < by_room.size() && by_room[place].room < 0 && !work.spent();) {
    auto scratch = memory.open();
    relief const step = relief_search(bags, by_room[place].bag, scratch).within_limits(work);
    if (!step.found()) {
      ++place;
      continue;
    }
    step.apply(bags);
  }
  for (std::size_t place = 0; place < by_room.size() && by_room[place].room < 0 && !work.spent();) {
    auto scratch = memory.open();
    relief const step = relief_search(bags, by_room[place].bag, scratch).across_limits(work);
    ++place;
    if (step.found()) {
      step.apply(bags);
      place = 0;
    }
  }
  return bags.within_limits();
}

/// Sends a few samples home, or from home to any bag, brings all bags below their limits again and
/// samples home, and goes back where that moves more tokens; over and over, until a hundred times
/// in a row have not helped. With at most 32 samples it sends more of them, also from a bag that is
/// not home to any, and stops after three hundred times. Steps of more than 256 samples stay as
/// they are: for them it takes longer than all the rest, and they gain less.
///
/// Expects     all bags are within their limits.
/// Ensures     (1) they still are
///             (2) no more tokens are away from home than were
inline void move_less(limited_bags& bags, work_budget& work, workspace& memory)
{
  constexpr std::uint32_t most_samples = 256;
  auto const count = static_cast<std::uint32_t>(bags.samples());
  bool const few = count <= 32;
  int const most_failures = few ? 300 : 100;
  if (count > most_samples) { return; }
  auto scratch = memory.open();
  std::span<std::uint32_t> const best = scratch.take<std::uint32_t>(count);
  random_source random(count);
  int failures = 0;
  for (; failures < most_failures && bags.moved() > 0 && !work.spent(); ++failures) {
    tokens const before = bags.moved();
    for (std::uint32_t sample = 0; sample < count; ++sample) { best[sample] = bags[sample].bag; }
    for (std::uint64_t sent = few ? 2 + random.below(4) : 3; sent > 0; --sent) {
      auto const sample = static_cast<std::uint32_t>(random.below(count));
      auto const any = static_cast<std::uint32_t>(random.below(bags.by_room().size()));
      bool const goes_home = bags[sample].away() && (!few || random.below(2) == 0);
      std::uint32_t const to = goes_home ? bags[sample].home : any;
      if (to != bags[sample].bag && bags.may_enter(sample, to)) { bags.move(sample, to); }
    }
    work.spend(2 * std::uint64_t{count});
    bool const within = shed_excess(bags, work, memory);
    if (within) { return_home(bags, work); }
    if (within && bags.moved() <= before) {
      if (bags.moved() < before) { failures = 0; }
      continue;
    }
    for (std::uint32_t sample = 0; sample < count; ++sample) {
      if (bags[sample].bag != best[sample]) { bags.move(sample, best[sample]); }
    }
  }
}

/// Makes a plan one of the same loads, or within what lanes may do, that leaves more items where they
/// lie.
///
/// Most plans move almost every sample, even where loads are almost even before. This begins at home,
/// with every item where it lies. Places above what they may do give items to others, or swap them
/// for lighter ones, so that few tokens move. Where some place stays above, it takes the plan as it is
/// and exchanges what identical places hold. Then items return home as far as limits allow, and small steps begin
/// again from random moves.
///
/// In, out     the plan keeps the limits, and lanes do no more than most_load; work bounds each of
///             its searches.
/// Expects     those of limited_bags, but for loads.
/// Ensures     (1) the plan keeps them, and moves no more tokens than before; samples that stay
///                 together and lie in several bags move all but those of the bag that owns them
/// Complexity  O(n log n + n m) with a small constant: O(m) is one move of memory for each item that
///             changes places; and O(work).
/// Source      G. Aggarwal, R. Motwani, A. Zhu, "The Load Rebalancing Problem", SPAA 2003, which
///             limits the movement and makes the makespan small.
class fewest_moves_search {
 public:
  fewest_moves_search(plan_state& plan, workspace& memory, workspace::frame& scratch)
      : plan_(plan),
        memory_(memory),
        limits_(scratch.take<cost_units>(plan.lanes())),
        owner_(scratch.take<std::uint32_t>(plan.items())),
        start_(scratch.take<std::uint32_t>(plan.items()))
  {
    for (std::size_t lane = 0; lane < limits_.size(); ++lane) {
      limits_[lane] = plan.most_load(lane, 0);
    }
    std::copy(plan.owners().begin(), plan.owners().end(), owner_.begin());
  }

  void operator()(std::uint64_t work)
  {
    auto scratch = memory_.open();
    tokens const moved = plan_.moved();
    for (std::size_t lane = 0; lane < limits_.size(); ++lane) { plan_.settle(lane, 0, no_cost); }
    limited_bags bags(plan_, limits_, scratch, memory_);
    bool found = bring_back(bags, work);
    work_budget half(work / 2);
    if (!found || bags.moved() >= moved) {
      found = bags.place(owner_);
      return_home(bags, half);
    }
    half = work_budget(work / 2);
    if (found) { move_less(bags, half, memory_); }
    if (!bags.within_limits() || bags.moved() > moved) { plan_.restore(owner_); }
    for (std::size_t lane = 0; lane < limits_.size(); ++lane) {
      plan_.settle(lane, 0, limits_[lane]);
    }
  }

 private:
  bool bring_back(limited_bags& bags, std::uint64_t work)
  {
    work_budget left(work / 2);
    auto const& home = plan_.problem().items.home;
    std::transform(home.begin(), home.end(), start_.begin(),
                   [](bag_id bag) { return static_cast<std::uint32_t>(to_index(bag)); });
    if (bags.place(start_) && shed_excess(bags, left, memory_)) {
      return_home(bags, left = work_budget(work));
      return true;
    }
    std::copy(owner_.begin(), owner_.end(), start_.begin());
    relabel_places(plan_.problem(), start_, memory_);
    if (!bags.place(start_) || !bags.within_limits()) { return false; }
    return_home(bags, left = work_budget(work / 2));
    return true;
  }

  plan_state& plan_;
  workspace& memory_;
  std::span<cost_units> limits_;
  std::span<std::uint32_t> owner_;  // of the plan to begin with
  std::span<std::uint32_t> start_;
};

}  // namespace ballast::inline v0::detail
