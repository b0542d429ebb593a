// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/sharding/sharding_cost.hpp>
#include <ballast/sharding/slots_plan.hpp>

#include <bit>

namespace ballast::inline v0::detail {

/// Groups of one size, which have one shape, and what they cost.
struct slot_kind {
  group_shape shape;
  degree_cost cost;
  tokens cap = 0;  ///< of a rank
};

/// What planning of slots looks up. Samples are numbered from the longest on.
///
/// Ensures     (1) kinds ascend by size
///             (2) the choices of a sample are kinds that can hold it, by descending time and
///                 ascending GPU time; fastest is what the last one takes, with latency
///             (3) areas are the least GPU time of each without latency, longest is the largest of
///                 their least times with it, of all kinds
struct slot_problem {
  static constexpr std::size_t most_choices = 24;

  slot_problem(slot_groups const& given, node_sizes const& of)
      : rules(given), nodes(of), ranks(of.gpus())
  {}

  slot_groups const& rules;
  node_sizes const& nodes;
  std::size_t ranks;
  std::int64_t at_most = rules.samples == counts{} ? no_limit : rules.samples.number;
  std::span<tokens> lengths;          ///< longest first
  std::span<std::uint32_t> original;  ///< their positions in the caller's order
  std::span<slot_kind> kinds;
  std::span<std::uint16_t> choices;    ///< most_choices of each sample
  std::span<cost_units> choice_times;  ///< of these
  std::span<std::uint8_t> choice_count;
  std::span<cost_units> areas;
  std::span<cost_units> fastest;
  cost_units longest = 0;

  [[nodiscard]] std::size_t samples() const noexcept { return lengths.size(); }

  [[nodiscard]] std::uint32_t gpus(std::size_t kind) const { return kinds[kind].shape.gpus; }

  [[nodiscard]] cost_units time(std::size_t sample, std::size_t kind) const
  {
    degree_cost const& cost = kinds[kind].cost;
    return saturating_sum(cost.work(lengths[sample]), cost.exchanges(lengths[sample]));
  }

  /// What of a sample the rank with most of it holds; of one that is above every cap, as much as it
  /// may, so that nothing else fits beside it.
  [[nodiscard]] tokens share(std::size_t sample, std::size_t kind) const
  {
    return std::min((lengths[sample] + gpus(kind) - 1) / gpus(kind), kinds[kind].cap);
  }

  /// The GPU time of so much time of a group; no_cost where it does not fit.
  [[nodiscard]] cost_units area(cost_units time, std::size_t kind) const
  {
    return time < no_cost / gpus(kind) ? time * gpus(kind) : no_cost;
  }

  [[nodiscard]] std::span<std::uint16_t const> choices_of(std::size_t sample) const
  {
    return choices.subspan(sample * most_choices, choice_count[sample]);
  }
  [[nodiscard]] std::span<cost_units const> times_of(std::size_t sample) const
  {
    return choice_times.subspan(sample * most_choices, choice_count[sample]);
  }

  /// Whether a group has more ranks than the sample has tokens, and is none of the smallest.
  [[nodiscard]] bool is_too_short(std::size_t sample, std::size_t kind) const
  {
    return kind > 0 && lengths[sample] < tokens{gpus(kind)};
  }
};

/// Samples on a group.
struct slot_tile {
  std::uint32_t slot = 0;
  std::uint32_t first = 0;
  std::uint32_t kind = 0;
  std::uint32_t samples = 0;
  cost_units load = 0;  ///< without latency
  tokens held = 0;
};

/// Tiles of all slots, and the tile of each sample.
struct slot_tiling {
  std::span<slot_tile> all;
  std::span<std::uint32_t> of_sample;
  std::size_t size = 0;

  slot_tiling(std::size_t samples, workspace::frame& scratch)
      : all(scratch.take<slot_tile>(samples)), of_sample(scratch.take<std::uint32_t>(samples))
  {}

  void put(slot_problem const& problem, std::uint32_t sample, std::uint32_t tile, cost_units time)
  {
    slot_tile& to = all[tile];
    to.load = saturating_sum(to.load, time);
    to.held += problem.share(sample, to.kind);
    ++to.samples;
    of_sample[sample] = tile;
  }

  void copy_from(slot_tiling const& other)
  {
    std::copy_n(other.all.begin(), other.size, all.begin());
    std::copy(other.of_sample.begin(), other.of_sample.end(), of_sample.begin());
    size = other.size;
  }

  [[nodiscard]] cost_units time(slot_problem const& problem, std::size_t tile) const
  {
    return saturating_sum(all[tile].load, problem.kinds[all[tile].kind].cost.latency);
  }
};

/// Fills one slot up to a limit on its length: from the longest sample on, each goes to the fullest
/// group with room for it, of the size that takes it with least GPU time within the limit, or of a
/// larger one in a node; else on a new group of that size; else wherever it fits.
///
/// Source      best-fit decreasing, over bins of several sizes.
class slot_fill {
 public:
  slot_fill(slot_problem const& problem, workspace::frame& scratch)
      : problem_(problem),
        taken_(scratch.take<std::uint8_t>(problem.ranks)),
        from_(scratch.take<std::uint32_t>(problem.kinds.size())),
        heads_(scratch.take<std::uint32_t>(problem.kinds.size() * levels)),
        filled_(scratch.take<std::uint64_t>(problem.kinds.size())),
        next_(scratch.take<std::uint32_t>(problem.samples())),
        open_(scratch.take<std::uint16_t>(problem.kinds.size())),
        near_(static_cast<std::uint32_t>(problem.nodes.largest()))
  {}

  /// From now on samples go to groups on which they take 1 / 2^finer of a slot at most, if they can.
  void prefer(int finer) { finer_ = finer; }

  /// Puts samples of a list, which is ascending, into a slot behind the tiles that there are.
  ///
  /// Returns     how many were left over; they are in `rest`, ascending, which may be the list
  std::size_t run(slot_tiling& tiling, std::uint32_t slot, cost_units limit,
                  std::span<std::uint32_t const> list, std::span<std::uint32_t> rest,
                  work_budget& budget)
  {
    limit_ = limit;
    shift_ = std::max(0, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(limit))) - 50);
    std::fill(taken_.begin(), taken_.end(), std::uint8_t{0});
    std::fill(from_.begin(), from_.end(), 0U);
    free_ = problem_.ranks;
    open_count_ = 0;
    std::size_t left = 0;
    std::size_t failed = 0;
    std::size_t patience = 4;
    for (std::size_t at = 0; at < list.size();) {
      budget.spend(1);
      if (place(tiling, slot, list[at])) {
        ++at;
        continue;
      }
      // Groups only fill up, so what is too long now stays so. Look again after ever longer waits
      // where that leaves out little.
      std::size_t next = at + 1;
      if (++failed >= patience) {
        next = std::max(next, first_that_may_fit(list, next));
        patience = next - at > 2 * patience ? 4 : std::min<std::size_t>(2 * patience, 256);
        failed = 0;
      }
      for (; at < next; ++at) { rest[left++] = list[at]; }
    }
    return left;
  }

 private:
  static constexpr std::uint32_t levels = 64;  ///< of fullness
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  [[nodiscard]] bool place(slot_tiling& tiling, std::uint32_t slot, std::uint32_t sample)
  {
    auto const choices = problem_.choices_of(sample);
    auto const times = problem_.times_of(sample);
    std::size_t chosen = 0;
    while (chosen + 1 < choices.size() && times[chosen] > room(choices[chosen]) >> finer_) {
      ++chosen;
    }
    if (times[chosen] > room(choices[chosen])) { return false; }
    std::uint32_t const gpus = problem_.gpus(choices[chosen]);
    auto const join_any = [&](bool near) {
      auto const open = open_.first(open_count_);
      return std::any_of(open.begin(), open.end(), [&](std::uint16_t kind) {
        std::uint32_t const there = problem_.gpus(kind);
        bool const is_near = there == gpus || (there > gpus && there <= near_);
        return is_near == near && join(tiling, sample, kind);
      });
    };
    auto const open_at = [&](std::size_t at) {
      return open(tiling, slot, sample, choices[at], times[at]);
    };
    if (join_any(true) || open_at(chosen) || join_any(false)) { return true; }
    for (std::size_t at = chosen + 1; at < choices.size(); ++at) {
      if (open_at(at)) { return true; }
    }
    return false;
  }

  /// The first sample of a list, from one on, for which there may be room in a group.
  [[nodiscard]] std::size_t first_that_may_fit(std::span<std::uint32_t const> list,
                                               std::size_t from) const
  {
    std::size_t found = list.size();
    auto const look = [&](std::size_t kind, cost_units time, tokens held) {
      auto const begin = list.begin() + static_cast<std::ptrdiff_t>(from);
      auto const end = list.begin() + static_cast<std::ptrdiff_t>(std::max(from, found));
      auto const first = std::partition_point(begin, end, [&](std::uint32_t sample) {
        return problem_.time(sample, kind) > time || problem_.share(sample, kind) > held;
      });
      found = static_cast<std::size_t>(first - list.begin());
    };
    for (std::size_t at = 0; at < open_count_; ++at) {
      std::size_t const kind = open_[at];
      auto const most = static_cast<std::int64_t>(std::bit_width(filled_[kind]));
      if (most == 0) { continue; }
      look(kind, most == levels ? room(kind) : (room(kind) / levels + 1) * most,
           most == levels ? problem_.kinds[kind].cap
                          : (problem_.kinds[kind].cap / levels + 1) * most);
    }
    for (std::size_t kind = problem_.kinds.size(); kind > 0; --kind) {  // a new group
      if (problem_.gpus(kind - 1) > free_) { continue; }
      look(kind - 1, room(kind - 1), problem_.kinds[kind - 1].cap);
      break;
    }
    return found;
  }

  /// The first group of a kind with so much left over.
  [[nodiscard]] std::uint32_t& head(std::size_t kind, std::uint32_t left)
  {
    return heads_[kind * levels + left];
  }

  [[nodiscard]] cost_units room(std::size_t kind) const
  {
    return limit_ - problem_.kinds[kind].cost.latency;
  }

  /// How full a group is by this much, in parts of `levels`, rounded down.
  [[nodiscard]] std::uint32_t level(std::size_t kind, cost_units load, tokens held) const
  {
    std::int64_t const time = std::max<std::int64_t>(1, room(kind) >> shift_);
    std::int64_t const by_time = (load >> shift_) * levels / time;
    std::int64_t const by_tokens = held * levels / problem_.kinds[kind].cap;
    return static_cast<std::uint32_t>(
        std::min<std::int64_t>(std::max(by_time, by_tokens), levels - 1));
  }

  /// Puts a sample on the fullest open group of a kind with room for it.
  [[nodiscard]] bool join(slot_tiling& tiling, std::uint32_t sample, std::uint16_t kind)
  {
    if (filled_[kind] == 0 || problem_.is_too_short(sample, kind)) { return false; }
    // No group has more left over than those of the last list.
    auto const most = static_cast<std::int64_t>(std::bit_width(filled_[kind]));
    tokens const cap = problem_.kinds[kind].cap;
    tokens const share = problem_.share(sample, kind);
    if (most < levels && share > (cap / levels + 1) * most) { return false; }
    cost_units const time = problem_.time(sample, kind);
    if (time > (most < levels ? (room(kind) / levels + 1) * most : room(kind))) { return false; }
    // All groups with more left over than the next level hold it; of those at it some may.
    std::uint64_t left = filled_[kind] & ~std::uint64_t{0} << level(kind, time, share);
    for (; left != 0; left &= left - 1) {
      auto const at = static_cast<std::uint32_t>(std::countr_zero(left));
      std::uint32_t* link = &head(kind, at);
      for (int tries = 4; *link != none && tries > 0; link = &next_[*link], --tries) {
        std::uint32_t const tile = *link;
        slot_tile const& there = tiling.all[tile];
        if (there.load > room(kind) - time || there.held > cap - share) { continue; }
        *link = next_[tile];
        if (head(kind, at) == none) { filled_[kind] &= ~(std::uint64_t{1} << at); }
        put(tiling, sample, tile, time);
        return true;
      }
    }
    return false;
  }

  /// The first free place for a group: at most a node's GPUs lie in one node, more begin with one.
  [[nodiscard]] std::optional<std::uint32_t> find_place(std::size_t kind)
  {
    auto const [gpus, fewest, most] = problem_.kinds[kind].shape;
    node_sizes const& nodes = problem_.nodes;
    std::uint32_t& at = from_[kind];
    while (at + gpus <= problem_.ranks) {
      node_id const node = nodes.node_of(to_id<rank_id>(at));
      std::size_t const first = to_index(nodes.first(node));
      bool const is_within = at + gpus <= first + nodes[node];
      std::uint32_t run = 0;
      if (problem_.rules.aligned && at % gpus != 0) {
        at += gpus - at % gpus;
      } else if (most == gpus ? !is_within
                              : at != first || shape_of({to_id<rank_id>(at), gpus}, nodes) !=
                                                   problem_.kinds[kind].shape) {
        at = static_cast<std::uint32_t>(first + nodes[node]);
      } else {
        while (run < gpus && taken_[at + run] == 0) { ++run; }
        if (run == gpus) { return at; }
        at += run + 1;
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] bool open(slot_tiling& tiling, std::uint32_t slot, std::uint32_t sample,
                          std::uint16_t kind, cost_units time)
  {
    std::uint32_t const gpus = problem_.gpus(kind);
    auto const first = gpus <= free_ ? find_place(kind) : std::nullopt;
    if (!first) { return false; }
    std::fill_n(taken_.begin() + *first, gpus, std::uint8_t{1});
    free_ -= gpus;
    auto const open = open_.first(open_count_);
    auto const place = std::lower_bound(open.begin(), open.end(), kind);
    if (place == open.end() || *place != kind) {
      std::copy_backward(place, open.end(), open.end() + 1);
      *place = kind;
      ++open_count_;
      filled_[kind] = 0;
      std::fill_n(&head(kind, 0), levels, none);
    }
    auto const tile = static_cast<std::uint32_t>(tiling.size++);
    tiling.all[tile] = {slot, *first, kind};
    put(tiling, sample, tile, time);
    return true;
  }

  /// Puts a sample on a group, and notes how much room is left.
  void put(slot_tiling& tiling, std::uint32_t sample, std::uint32_t tile, cost_units time)
  {
    tiling.put(problem_, sample, tile, time);
    slot_tile const& of = tiling.all[tile];
    if (of.samples >= problem_.at_most) { return; }
    std::uint32_t const left = levels - 1 - level(of.kind, of.load, of.held);
    next_[tile] = std::exchange(head(of.kind, left), tile);
    filled_[of.kind] |= std::uint64_t{1} << left;
  }

  slot_problem const& problem_;
  std::span<std::uint8_t> taken_;    ///< whether a rank is in a group
  std::span<std::uint32_t> from_;    ///< of each size, where its next place can be
  std::span<std::uint32_t> heads_;   ///< groups of each kind by what is left of them: lists
  std::span<std::uint64_t> filled_;  ///< which of these lists have any
  std::span<std::uint32_t> next_;
  std::span<std::uint16_t> open_;  ///< kinds of the slot's groups, ascending
  std::size_t open_count_ = 0;
  std::size_t free_ = 0;
  std::uint32_t near_;
  cost_units limit_ = 0;
  int shift_ = 0;
  int finer_ = 0;
};

/// Searches for the plan: for several numbers of slots it fills slot after slot, the longest samples
/// first, each with its share of the tokens that are left, and the last with all that is left; its
/// length is found by bisection. Of few samples on one node all tilings are tried.
class slot_search {
 public:
  slot_search(slot_problem const& problem, cost_units bound, workspace::frame& scratch)
      : problem_(problem),
        bound_(bound),
        best_(problem.samples(), scratch),
        now_(problem.samples(), scratch),
        fill_(problem, scratch),
        list_(scratch.take<std::uint32_t>(problem.samples())),
        rest_(scratch.take<std::uint32_t>(problem.samples()))
  {}

  [[nodiscard]] slot_tiling& best() noexcept { return best_; }

  /// Returns the slots that the plan uses; 0 where none was found.
  [[nodiscard]] std::size_t run(std::size_t fewest, work_budget& budget)
  {
    slot_groups const& rules = problem_.rules;
    // Of a number that is given some may stay empty.
    std::size_t const step = rules.number ? 1 : rules.multiple_of;
    std::size_t const most = rules.number.value_or(problem_.samples() + step);
    std::size_t slots = std::min(most, (fewest + step - 1) / step * step);
    auto const is_done = [&] { return has_plan() && (makespan_ == bound_ || budget.spent()); };
    for (std::size_t tries = 0; tries < wanted || !has_plan(); ++tries) {
      attempt(slots, 1000, budget);
      if (slots == most || is_done()) { break; }
      slots = std::min(most, slots + (tries < 8 ? step : slots / step / 2 * step + step));
    }
    // The more samples a group packs, the fuller it is, and the more they exchange.
    for (int const finer : {0, 1, 2, 3, 4, 5, 62}) {
      fill_.prefer(finer);
      for (std::uint32_t const share : shares) {
        if (has_plan() && !is_done()) { attempt(planned_, share, budget); }
      }
    }
    if (problem_.samples() <= few && problem_.ranks <= 64 && problem_.nodes.size() == 1 &&
        !rules.aligned) {
      now_.size = 0;
      free_.fill(static_cast<std::uint32_t>(problem_.ranks));
      for (std::size_t sample = problem_.samples(); sample > 0; --sample) {
        ahead_[sample - 1] = ahead_[sample] + problem_.areas[sample - 1];
      }
      try_all(0, 0, rules.number.value_or(few), budget);
    }
    return slots_;
  }

 private:
  static constexpr std::size_t few = 10;  ///< samples

  /// Tries all tilings from a sample on: each, longest first, on every group that there is and on a
  /// new one of every size in every slot, and leaves out what cannot end below the best plan.
  void try_all(std::uint32_t sample, std::uint32_t used, std::size_t most_slots,
               work_budget& budget)
  {
    budget.spend(1 + now_.size);
    cost_units const end = least_end(sample);
    if (budget.spent() || makespan_ <= bound_ || end >= makespan_) { return; }
    if (sample == problem_.samples()) {
      makespan_ = end;
      slots_ = used;
      best_.copy_from(now_);
      return;
    }
    for (std::uint32_t tile = 0; tile < now_.size; ++tile) {
      slot_tile const before = now_.all[tile];
      if (before.samples >= problem_.at_most || !may_hold(sample, before.kind) ||
          before.held > problem_.kinds[before.kind].cap - problem_.share(sample, before.kind)) {
        continue;
      }
      now_.put(problem_, sample, tile, problem_.time(sample, before.kind));
      try_all(sample + 1, used, most_slots, budget);
      now_.all[tile] = before;
    }
    for (std::uint32_t slot = 0; slot < std::min<std::size_t>(used + 1, most_slots); ++slot) {
      for (std::uint32_t kind = 0; kind < problem_.kinds.size(); ++kind) {
        std::uint32_t const gpus = problem_.gpus(kind);
        if (gpus > free_[slot]) { break; }
        if (!may_hold(sample, kind)) { continue; }
        auto const first = static_cast<std::uint32_t>(problem_.ranks) - free_[slot];
        free_[slot] -= gpus;
        now_.all[now_.size++] = {slot, first, kind};
        now_.put(problem_, sample, static_cast<std::uint32_t>(now_.size - 1),
                 problem_.time(sample, kind));
        try_all(sample + 1, std::max(used, slot + 1), most_slots, budget);
        --now_.size;
        free_[slot] += gpus;
      }
    }
  }

  [[nodiscard]] bool may_hold(std::uint32_t sample, std::uint32_t kind) const
  {
    auto const choices = problem_.choices_of(sample);
    bool const is_soft = choices.size() == 1 && choices.front() == kind;
    bool const fits = problem_.lengths[sample] <= problem_.kinds[kind].cap * problem_.gpus(kind);
    return !problem_.is_too_short(sample, kind) && (fits || is_soft);
  }

  /// What no plan ends below that has the tiles of now and the samples from one on.
  [[nodiscard]] cost_units least_end(std::uint32_t sample) const
  {
    std::array<cost_units, few> longest{};
    cost_units area = ahead_[sample];
    for (std::size_t tile = 0; tile < now_.size; ++tile) {
      slot_tile const& each = now_.all[tile];
      longest[each.slot] = std::max(longest[each.slot], now_.time(problem_, tile));
      area = saturating_sum(area, problem_.area(each.load, each.kind));
    }
    auto const sum = std::accumulate(longest.begin(), longest.end(), cost_units{0}, saturating_sum);
    return std::max(sum, area / static_cast<cost_units>(problem_.ranks));
  }

  [[nodiscard]] bool has_plan() const noexcept { return slots_ > 0; }

  static constexpr std::size_t wanted = 4;  ///< numbers of slots
  /// Of the mean of the slots' tokens, in thousandths, for all but the last.
  static constexpr std::array<std::uint32_t, 5> shares = {980, 1020, 1000, 960, 1040};

  void attempt(std::size_t slots, std::uint32_t share, work_budget& budget)
  {
    now_.size = 0;
    std::iota(list_.begin(), list_.end(), 0U);
    std::size_t left = list_.size();
    cost_units sum = 0;
    for (std::size_t slot = 0; slot + 1 < slots && left > 0; ++slot) {
      std::size_t const before = now_.size;
      left = fill_.run(now_, static_cast<std::uint32_t>(slot),
                       limit_of(list_.first(left), slots - slot, share), list_.first(left), list_,
                       budget);
      sum = saturating_sum(sum, longest_from(before));
      if (saturating_sum(sum, limit_of(list_.first(left), 1, 0)) >= makespan_) { return; }
    }
    if (left > 0) {
      auto const last = fill_last(slots - 1, list_.first(left), makespan_ - sum, budget);
      if (!last) { return; }
      sum = saturating_sum(sum, *last);
    }
    if (sum >= makespan_) { return; }
    slots_ = planned_ = slots;
    makespan_ = sum;
    best_.copy_from(now_);
  }

  [[nodiscard]] cost_units longest_from(std::size_t first) const
  {
    cost_units longest = 0;
    for (std::size_t tile = first; tile < now_.size; ++tile) {
      longest = std::max(longest, now_.time(problem_, tile));
    }
    return longest;
  }

  /// How long a slot is if the longest samples of a list, with their share of its tokens, keep all
  /// ranks busy; at least as long as the longest takes.
  [[nodiscard]] cost_units limit_of(std::span<std::uint32_t const> list, std::size_t slots,
                                    std::uint32_t share) const
  {
    tokens left = 0;
    for (std::uint32_t const sample : list) { left += problem_.lengths[sample]; }
    if (slots > 1) { left = left / static_cast<tokens>(slots) / 1000 * share; }
    cost_units area = 0;
    cost_units longest = 0;
    for (std::uint32_t const sample : list) {
      area += problem_.areas[sample];
      longest = std::max(longest, problem_.fastest[sample]);
      left -= problem_.lengths[sample];
      if (left <= 0 && slots > 1) { break; }
    }
    return std::max(longest, area / static_cast<cost_units>(problem_.ranks) + 1);
  }

  /// The length of the last slot, which has to hold the whole list and be below `most`.
  [[nodiscard]] std::optional<cost_units> fill_last(std::size_t slot,
                                                    std::span<std::uint32_t const> list,
                                                    cost_units most, work_budget& budget)
  {
    std::size_t const before = now_.size;
    cost_units const least = limit_of(list, 1, 0);
    auto const holds = [&](cost_units limit) {
      now_.size = before;
      return fill_.run(now_, static_cast<std::uint32_t>(slot), limit, list, rest_, budget) == 0;
    };
    cost_units high = least;
    cost_units low = least;
    cost_units step = std::max<cost_units>(1, least / 256);
    while (!holds(high)) {
      low = high;
      high = saturating_sum(high, step);
      if (high >= most || high / 8 > least) { return std::nullopt; }
      step = saturating_sum(step, step);
    }
    bool is_high = true;
    for (int halving = 0; halving < 4 && high - low > least / 1024 + 1; ++halving) {
      cost_units const middle = low + (high - low) / 2;
      is_high = holds(middle);
      (is_high ? high : low) = middle;
    }
    if (!is_high) { (void)holds(high); }
    return longest_from(before);
  }

  slot_problem const& problem_;
  cost_units bound_;
  slot_tiling best_;
  slot_tiling now_;
  slot_fill fill_;
  std::span<std::uint32_t> list_;
  std::span<std::uint32_t> rest_;
  std::size_t slots_ = 0;
  std::size_t planned_ = 0;  ///< slots that the best plan was made for
  cost_units makespan_ = no_cost;
  std::array<std::uint32_t, few> free_{};    ///< ranks of each slot
  std::array<cost_units, few + 1> ahead_{};  ///< least GPU time of the samples from each on
};

}  // namespace ballast::inline v0::detail
