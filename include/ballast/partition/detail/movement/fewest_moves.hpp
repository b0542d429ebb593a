// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/detail/bounds/cheapest_cover.hpp>
#include <ballast/partition/detail/movement/limited_bags.hpp>
#include <ballast/partition/partition_plan.hpp>

namespace ballast::inline v0::detail {

/// Exchanges everything that identical bags own, so that many tokens are at home: a policy that
/// does not look at homes fills identical bags in any order.
///
/// Of all pairs of a bag's content and a bag, it joins the one with most tokens at home, and so on
/// with what is left. That keeps at least half of what the best assignment keeps.
///
/// In, out     owner[n], every sample with a bag.
/// Ensures     (1) contents stay together, and go only to a bag of the same size and speed with the
///                 same starting load
/// Complexity  O(n log n + m log m); 16 bytes of scratch per sample, of samples joined to one for
///             every bag that holds some of them, and 16 per bag.
/// Source      D. Avis, "A Survey of Heuristics for the Weighted Matching Problem", Networks
///             13(4):475-493, 1983, on the greedy matching.
inline void relabel_bags(partition_problem const& problem,
                         std::span<cost_units const> starting_loads, std::span<bag_id> owner,
                         workspace& memory)
{
  BALLAST_EXPECTS(problem.home.size() == owner.size(), "there are homes of ",
                  counted(problem.home.size(), "sample"), " for a plan of ", owner.size());
  struct overlap {
    tokens length;
    std::uint32_t content;
    std::uint32_t bag;
  };
  auto scratch = memory.open();
  std::span<overlap> overlaps =
      scratch.take<overlap>(problem.first_part.empty() ? owner.size() : problem.parts.size());
  std::size_t next = 0;
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    problem.for_each_home(sample, [&](bag_id home, tokens length) {
      overlaps[next++] = {length, static_cast<std::uint32_t>(owner[sample]),
                          static_cast<std::uint32_t>(home)};
    });
  }
  std::sort(overlaps.begin(), overlaps.end(), [](overlap const& a, overlap const& b) {
    return precedes(a.content, b.content, a.bag, b.bag);
  });
  std::size_t pairs = 0;
  for (overlap const& each : overlaps) {
    bool const same = pairs > 0 && overlaps[pairs - 1].content == each.content &&
                      overlaps[pairs - 1].bag == each.bag;
    if (same) {
      overlaps[pairs - 1].length += each.length;
    } else {
      overlaps[pairs++] = each;
    }
  }
  overlaps = overlaps.first(pairs);
  std::sort(overlaps.begin(), overlaps.end(), [](overlap const& a, overlap const& b) {
    return precedes(b.length, a.length, a.content, b.content, a.bag, b.bag);
  });

  std::size_t const bags = starting_loads.size();
  auto const nobody = to_id<bag_id>(bags);
  auto const kind_precedes = [&](std::uint32_t a, std::uint32_t b, auto... more) {
    return precedes(problem.gpus[a], problem.gpus[b], problem.speeds[a], problem.speeds[b],
                    starting_loads[a], starting_loads[b], more...);
  };
  std::span<bag_id> const bag_of = scratch.take<bag_id>(bags);
  std::span<bool> const taken = scratch.take<bool>(bags);
  std::fill(bag_of.begin(), bag_of.end(), nobody);
  std::fill(taken.begin(), taken.end(), false);
  for (overlap const& each : overlaps) {
    if (bag_of[each.content] == nobody && !taken[each.bag] &&
        !kind_precedes(each.content, each.bag) && !kind_precedes(each.bag, each.content)) {
      bag_of[each.content] = bag_id{each.bag};
      taken[each.bag] = true;
    }
  }

  // As many contents as bags are left of every kind.
  auto const left = [&](auto const& is_left) {
    std::span<std::uint32_t> all = scratch.take<std::uint32_t>(bags);
    std::iota(all.begin(), all.end(), std::uint32_t{0});
    auto const end = std::partition(all.begin(), all.end(), is_left);
    all = all.first(static_cast<std::size_t>(end - all.begin()));
    std::sort(all.begin(), all.end(),
              [&](std::uint32_t a, std::uint32_t b) { return kind_precedes(a, b, a, b); });
    return all;
  };
  auto const contents = left([&](std::uint32_t content) { return bag_of[content] == nobody; });
  auto const empty = left([&](std::uint32_t bag) { return !taken[bag]; });
  for (std::size_t place = 0; place < contents.size(); ++place) {
    bag_of[contents[place]] = bag_id{empty[place]};
  }
  for (bag_id& bag : owner) { bag = bag_of[to_index(bag)]; }
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

/// Moves samples out of a bag that is far above its limit, the heaviest that find room first, each
/// to a bag that holds tokens of it or to the one with the least room that is enough: until the
/// excess is less than two of them.
inline void shed_heaviest(limited_bags& bags, std::uint32_t bag)
{
  std::span<bag_room const> const by_room = bags.by_room();
  for (auto sample = bags.first_of(bag); sample != limited_bags::none;) {
    cost_units const cost = bags[sample].cost;
    if (cost == 0) { return; }
    std::uint32_t const next = bags[sample].next;
    std::uint32_t to = bags.home_with_room(sample);
    if (to == limited_bags::none) {
      std::size_t const place = bags.first_with_room(cost);
      bool const found = place < by_room.size() && bags.may_enter(sample, by_room[place].bag);
      to = found ? by_room[place].bag : to;
    }
    if (to != limited_bags::none) {
      if (cost > -bags.room(bag) / 2) { return; }
      bags.move(sample, to);
    }
    sample = next;
  }
}

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
  for (std::uint32_t bag = 0; bag < by_room.size(); ++bag) {
    if (bags.room(bag) < 0) { shed_heaviest(bags, bag); }
  }
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

/// Packs bags anew, heaviest sample first: a sample stays where it is if the heavier ones that
/// stayed or came there leave room for it, and otherwise goes to a bag that holds tokens of it and
/// has room, or else to the bag with most room.
///
/// The room of a bag is its limit less all that it holds, so samples go where there are few. Light
/// samples come last and fill the gaps, as in longest processing time. This finds plans where
/// samples are few and heavy; where they are many and light, `shed_excess` alone moves fewer
/// tokens.
///
/// Ensures     (1) every sample is in a bag that it may enter
/// Complexity  O(n m) at worst, of which O(n) moves of memory; a plan that keeps most samples at
///             home takes O(n + moved samples * m).
inline void fill_from_home(limited_bags& bags, workspace& memory)
{
  constexpr std::size_t most_tried = 64;
  std::span<bag_room const> const by_room = bags.by_room();
  auto scratch = memory.open();
  std::span<cost_units> const packed = scratch.take<cost_units>(by_room.size());
  for (std::uint32_t bag = 0; bag < packed.size(); ++bag) { packed[bag] = bags.starting_load(bag); }

  for (std::uint32_t sample = 0; sample < bags.samples(); ++sample) {
    auto const& it = bags[sample];
    auto const has_room = [&](std::uint32_t bag) {
      return it.cost <= bags.limit(bag) - packed[bag];
    };
    std::uint32_t to = it.bag;
    if (!has_room(to)) {
      tokens most = 0;
      bags.for_each_home(sample, [&](std::uint32_t home, tokens length) {
        if (length <= most || !has_room(home) || !bags.may_enter(sample, home)) { return; }
        most = length;
        to = home;
      });
    }
    if (to == it.bag && !has_room(to)) {
      std::size_t const last = by_room.size() - std::min(most_tried, by_room.size());
      bool found = false;
      for (std::size_t place = by_room.size(); place-- > last && !found;) {
        std::uint32_t const bag = by_room[place].bag;
        found = bag != it.bag && has_room(bag) && bags.may_enter(sample, bag);
        if (found) { to = bag; }
      }
    }
    packed[to] += it.cost;
    if (to != it.bag) { bags.move(sample, to); }
  }
}

/// A plan nearly as good as the inner policy's that leaves most samples on the bags that hold them.
///
/// Most policies move almost every sample, even where loads are almost even before. This one starts
/// from home, with every sample in the bag that holds it. Bags above the limit give samples to bags
/// below it, or swap them for lighter ones, so that few tokens move. Where some bag stays above
/// the limit, it packs all bags anew, with as many samples at home as have room. Where that fails
/// too, it takes the inner policy's plan and exchanges what identical bags own. Then samples return
/// home as far as limits allow, and small steps begin again from random moves.
///
/// Expects     the inner policy packs, and chooses among all plans.
/// Ensures     (1) every sample has one bag, which it fits
///             (2) loads have grown by exactly the costs of the samples each bag now owns
///             (3) makespan <= (1 + tolerance) * the inner policy's, exactly; where the problem has
///                 no homes the plan is the inner policy's
///             (4) it moves no more tokens than the inner policy's plan does; samples that stay
///                 together and lie in several bags move all but those of the bag that owns them
///             (5) it keeps to capacities where the inner policy does
/// Returns     what the inner policy has proven.
/// Complexity  the inner policy, and O(n log n + n m) with a small constant: O(m) is one move of
///             memory for each sample that changes bags; `work` bounds the search.
/// Source      G. Aggarwal, R. Motwani, A. Zhu, "The Load Rebalancing Problem", SPAA 2003, which
///             limits the movement and makes the makespan small.
struct fewest_tokens_moved {
  policy_ref inner;
  std::uint32_t within_per_million = 0;         ///< of the inner policy's makespan
  std::uint64_t work = std::uint64_t{1} << 24;  ///< how many exchanges the search looks at

  ratio operator()(partition_problem const& problem, std::span<cost_units> loads,
                   std::span<bag_id> owner, workspace& memory) const
  {
    auto scratch = memory.open();
    std::span<cost_units> const starting_loads = scratch.take<cost_units>(loads.size());
    std::copy(loads.begin(), loads.end(), starting_loads.begin());
    ratio const proven = inner(problem, loads, owner, memory);
    if (problem.home.empty() ||
        std::find(owner.begin(), owner.end(), to_id<bag_id>(loads.size())) != owner.end()) {
      return proven;
    }

    ratio const makespan = makespan_of(loads, problem.speeds);
    std::span<cost_units> const limits = scratch.take<cost_units>(loads.size());
    for (std::size_t bag = 0; bag < loads.size(); ++bag) {
      limits[bag] = work_within(makespan, within_per_million, problem.speeds[bag]);
    }
    limited_bags bags(problem, starting_loads, limits, scratch);
    bags.place(owner);
    tokens const inner_moved = bags.moved();
    bring_back(bags, problem, starting_loads, owner, memory);
    work_budget half(work / 2);
    if (!bags.within_limits() || bags.moved() >= inner_moved) {
      bags.place(owner);
      return_home(bags, half);
    }
    half = work_budget(work / 2);
    if (bags.within_limits()) { move_less(bags, half, memory); }
    if (bags.within_limits() && bags.moved() < inner_moved) { bags.store(owner, loads); }
    return proven;
  }

 private:
  void bring_back(limited_bags& bags, partition_problem const& problem,
                  std::span<cost_units const> starting_loads, std::span<bag_id const> owner,
                  workspace& memory) const
  {
    work_budget left(work / 2);
    bags.place(problem.home);
    if (shed_excess(bags, left, memory)) { return return_home(bags, left = work_budget(work)); }
    left = work_budget(work / 2);
    bags.place(problem.home);
    fill_from_home(bags, memory);
    if (!shed_excess(bags, left, memory)) {
      auto scratch = memory.open();
      std::span<bag_id> const relabelled = scratch.take<bag_id>(owner.size());
      std::copy(owner.begin(), owner.end(), relabelled.begin());
      relabel_bags(problem, starting_loads, relabelled, memory);
      bags.place(relabelled);
      left = work_budget(work / 2);
    }
    return_home(bags, left);
  }
};

}  // namespace ballast::inline v0::detail
