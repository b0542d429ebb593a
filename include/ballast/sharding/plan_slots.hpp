// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/core/detail/radix_sort.hpp>
#include <ballast/sharding/hybrid_sharding.hpp>
#include <ballast/sharding/sharding_cost.hpp>
#include <ballast/sharding/slots_plan.hpp>

namespace ballast::inline v0 {

/// Which groups of ranks may tile a slot, what they may hold, and how many slots there are.
///
///     plan_slots(lengths, machines.nodes, cost, {.largest = 64, .most_per_gpu = 8'192})
struct slot_groups {
  /// The sizes that groups may have, in any order; empty: any.
  std::span<std::uint32_t const> sizes = {};
  /// Of these only 1, 2, 4, 8, ...
  bool powers_of_two = false;
  /// No group has more ranks.
  std::uint32_t largest = std::numeric_limits<std::uint32_t>::max();
  /// A group's first rank is a multiple of its size.
  bool aligned = false;
  /// The most tokens that a rank holds in a slot.
  tokens most_per_gpu = no_token_limit;
  /// Whether a sample that no group can hold is computed all the same, by itself on a group that
  /// holds it with fewest tokens a rank, and told in plan.above_cap, instead of a refusal.
  bool is_soft = false;
  /// The most samples that a group packs.
  std::uint32_t most_samples = std::numeric_limits<std::uint32_t>::max();
  /// Of slots; nothing: the number with the shortest plan found.
  std::optional<std::size_t> number = std::nullopt;
  /// A number that is found is a multiple of this, as a pipeline's stages.
  std::size_t multiple_of = 1;
  /// Whether all ranks wait for each other after every slot, or once a step.
  grid_meeting meet = grid_meeting::microbatch;
  /// How much the search may do.
  std::uint64_t work = 60'000;
};

namespace detail {

/// Groups of one shape, and what they cost.
struct slot_kind {
  group_shape shape;
  degree_cost cost;
  tokens cap = 0;          ///< of a rank
  std::uint32_t size = 0;  ///< which of the sizes
};

/// What planning of slots looks up. Samples are numbered from the longest on.
///
/// Ensures     (1) kinds ascend by size; those from first_kind[s] on to first_kind[s + 1] have size s
///             (2) the choices of a sample are kinds that can hold it, by descending time and
///                 ascending GPU time, the first with the least
///             (3) areas are the least GPU time of each without latency, longest is the largest of
///                 their least times with it, of all sizes; within such a time as `fastest` a sample
///                 fits any group of its last choice
struct slot_problem {
  static constexpr std::size_t most_choices = 24;

  slot_problem(slot_groups const& given, node_sizes const& of)
      : rules(given), nodes(of), ranks(of.gpus())
  {}

  slot_groups const& rules;
  node_sizes const& nodes;
  std::size_t ranks;
  std::span<tokens> lengths;          ///< longest first
  std::span<std::uint32_t> original;  ///< their positions in the caller's order
  std::span<std::uint32_t> sizes;
  std::span<std::uint32_t> first_kind;
  std::span<slot_kind> kinds;
  std::span<std::uint16_t> choices;  ///< most_choices of each sample
  std::span<std::uint8_t> choice_count;
  std::span<cost_units> areas;
  std::span<cost_units> fastest;
  cost_units longest = 0;

  [[nodiscard]] std::size_t samples() const noexcept { return lengths.size(); }

  [[nodiscard]] cost_units time(std::size_t sample, std::size_t kind) const
  {
    degree_cost const& cost = kinds[kind].cost;
    return saturating_sum(cost.work(lengths[sample]), cost.exchanges(lengths[sample]));
  }

  /// What of a sample the rank with most of it holds; of one that is above every cap, as much as it
  /// may, so that nothing else fits beside it.
  [[nodiscard]] tokens share(std::size_t sample, std::size_t kind) const
  {
    tokens const gpus = kinds[kind].shape.gpus;
    return std::min((lengths[sample] + gpus - 1) / gpus, kinds[kind].cap);
  }

  [[nodiscard]] std::span<std::uint16_t const> choices_of(std::size_t sample) const
  {
    return choices.subspan(sample * most_choices, choice_count[sample]);
  }

  /// Whether a sample is too short for all groups but the smallest of this size.
  [[nodiscard]] bool is_too_short(std::size_t sample, std::size_t kind) const
  {
    return kinds[kind].size > 0 && lengths[sample] < tokens{kinds[kind].shape.gpus};
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

  void put(slot_problem const& problem, std::uint32_t sample, std::uint32_t tile)
  {
    slot_tile& to = all[tile];
    to.load = saturating_sum(to.load, problem.time(sample, to.kind));
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
        from_(scratch.take<std::uint32_t>(problem.sizes.size())),
        heads_(scratch.take<std::uint32_t>(problem.kinds.size() * levels)),
        filled_(scratch.take<std::uint64_t>(problem.kinds.size())),
        next_(scratch.take<std::uint32_t>(problem.samples())),
        open_(scratch.take<std::uint16_t>(problem.kinds.size())),
        near_(static_cast<std::uint32_t>(problem.nodes.largest()))
  {}

  /// Puts samples of a list, which is ascending, into a slot behind the tiles that there are.
  ///
  /// Returns     how many were left over; they are in `rest`, ascending, which may be the list
  std::size_t run(slot_tiling& tiling, std::uint32_t slot, cost_units limit,
                  std::span<std::uint32_t const> list, std::span<std::uint32_t> rest)
  {
    limit_ = limit;
    shift_ = std::max(0, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(limit))) - 50);
    std::fill(taken_.begin(), taken_.end(), std::uint8_t{0});
    std::fill(from_.begin(), from_.end(), 0U);
    free_ = problem_.ranks;
    failed_ = 0;
    open_count_ = 0;
    std::size_t left = 0;
    std::size_t patience = 4;
    for (std::size_t at = 0; at < list.size();) {
      if (place(tiling, slot, list[at])) {
        ++at;
        continue;
      }
      // Groups only fill up, so what is too long now stays so. Look again after ever longer waits
      // where that leaves out little.
      std::size_t next = at + 1;
      if (++failed_ >= patience) {
        next = std::max(next, first_that_may_fit(list, next));
        patience = next - at > 2 * patience ? 4 : std::min<std::size_t>(2 * patience, 256);
        failed_ = 0;
      }
      for (; at < next; ++at) { rest[left++] = list[at]; }
    }
    return left;
  }

  /// The first free place for a group of a size: at most a node's GPUs lie in one node, more begin
  /// with one.
  [[nodiscard]] std::optional<std::uint32_t> find_place(std::size_t size)
  {
    std::uint32_t const gpus = problem_.sizes[size];
    std::uint32_t& at = from_[size];
    while (at + gpus <= problem_.ranks) {
      if (problem_.rules.aligned && at % gpus != 0) {
        at += gpus - at % gpus;
        continue;
      }
      if (!may_lie(at, size)) {
        node_id const node = problem_.nodes.node_of(to_id<rank_id>(at));
        at =
            static_cast<std::uint32_t>(to_index(problem_.nodes.first(node)) + problem_.nodes[node]);
        continue;
      }
      std::uint32_t run = 0;
      while (run < gpus && taken_[at + run] == 0) { ++run; }
      if (run == gpus) { return at; }
      at += run + 1;
    }
    return std::nullopt;
  }

  /// Whether a group of a size may begin at a rank, as far as nodes and alignment go.
  [[nodiscard]] bool may_lie(std::uint32_t at, std::size_t size) const
  {
    std::uint32_t const gpus = problem_.sizes[size];
    if (at + gpus > problem_.ranks || (problem_.rules.aligned && at % gpus != 0)) { return false; }
    node_id const node = problem_.nodes.node_of(to_id<rank_id>(at));
    std::size_t const first = to_index(problem_.nodes.first(node));
    return at + gpus <= first + problem_.nodes[node] || (gpus > near_ && at == first);
  }

  void take(std::uint32_t first, std::uint32_t gpus)
  {
    std::fill_n(taken_.begin() + first, gpus, std::uint8_t{1});
    free_ -= gpus;
  }

  /// The kind of a group of a size at a place.
  [[nodiscard]] std::size_t kind_at(std::uint32_t first, std::size_t size) const
  {
    std::size_t kind = problem_.first_kind[size];
    if (kind + 1 == problem_.first_kind[size + 1]) { return kind; }
    group_shape const shape =
        shape_of({to_id<rank_id>(first), problem_.sizes[size]}, problem_.nodes);
    while (!(problem_.kinds[kind].shape == shape)) { ++kind; }
    return kind;
  }

 private:
  static constexpr std::uint32_t levels = 64;  ///< of fullness
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  [[nodiscard]] bool place(slot_tiling& tiling, std::uint32_t slot, std::uint32_t sample)
  {
    auto const choices = problem_.choices_of(sample);
    auto const own = std::find_if(choices.begin(), choices.end(), [&](std::uint16_t kind) {
      return problem_.time(sample, kind) <= room(kind);
    });
    if (own == choices.end()) { return false; }
    std::uint32_t const gpus = problem_.kinds[*own].shape.gpus;
    for (std::size_t at = 0; at < open_count_; ++at) {
      std::uint32_t const there = problem_.kinds[open_[at]].shape.gpus;
      if (there >= gpus && (there == gpus || there <= near_) && join(tiling, sample, open_[at])) {
        return true;
      }
    }
    if (open(tiling, slot, sample, *own)) { return true; }
    for (std::size_t at = 0; at < open_count_; ++at) {
      std::uint32_t const there = problem_.kinds[open_[at]].shape.gpus;
      bool const was_tried = there >= gpus && (there == gpus || there <= near_);
      if (!was_tried && join(tiling, sample, open_[at])) { return true; }
    }
    return std::any_of(own + 1, choices.end(),
                       [&](std::uint16_t kind) { return open(tiling, slot, sample, kind); });
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
    for (std::size_t size = problem_.sizes.size(); size > 0 && free_ > 0; --size) {
      if (problem_.sizes[size - 1] > free_) { continue; }
      std::size_t const kind = problem_.first_kind[size - 1];
      look(kind, room(kind), problem_.kinds[kind].cap);
      break;
    }
    return found;
  }

  [[nodiscard]] cost_units room(std::size_t kind) const
  {
    return limit_ - problem_.kinds[kind].cost.latency;
  }

  /// How full a group is by this much, in parts of `levels`, rounded down: of two shares the larger,
  /// or the smaller.
  [[nodiscard]] std::uint32_t level(std::size_t kind, cost_units load, tokens held,
                                    bool larger) const
  {
    auto const share = [](std::int64_t part, std::int64_t whole) {
      return whole > 0 ? part * levels / whole : std::int64_t{0};
    };
    std::int64_t const by_time = share(load >> shift_, room(kind) >> shift_);
    std::int64_t const by_tokens = share(held, std::min(problem_.kinds[kind].cap, longest_sample));
    std::int64_t const of_both =
        larger ? std::max(by_time, by_tokens) : std::min(by_time, by_tokens);
    return static_cast<std::uint32_t>(std::min<std::int64_t>(of_both, levels - 1));
  }

  [[nodiscard]] bool fits(slot_tile const& tile, cost_units time, tokens share) const
  {
    return tile.load <= room(tile.kind) - time &&
           tile.held <= problem_.kinds[tile.kind].cap - share;
  }

  /// Puts a sample on the fullest open group of a kind with room for it.
  [[nodiscard]] bool join(slot_tiling& tiling, std::uint32_t sample, std::uint16_t kind)
  {
    if (filled_[kind] == 0 || problem_.is_too_short(sample, kind)) { return false; }
    cost_units const time = problem_.time(sample, kind);
    if (time > room(kind)) { return false; }
    tokens const share = problem_.share(sample, kind);
    // Groups with so much left over hold it; of those with less by one of the two some may.
    std::uint32_t const needs = level(kind, time, share, true);
    std::uint32_t const may_do = level(kind, time, share, false);
    std::uint64_t const enough = ~std::uint64_t{0} << needs;
    for (std::uint64_t const among :
         {enough, ~enough & ~std::uint64_t{0} << std::min(may_do, needs)}) {
      for (std::uint64_t left = filled_[kind] & among; left != 0; left &= left - 1) {
        auto const at = static_cast<std::uint32_t>(std::countr_zero(left));
        int tries = 4;
        std::uint32_t* link = &heads_[kind * levels + at];
        for (; *link != none && tries > 0; link = &next_[*link], --tries) {
          std::uint32_t const tile = *link;
          if (!fits(tiling.all[tile], time, share)) { continue; }
          *link = next_[tile];
          if (heads_[kind * levels + at] == none) { filled_[kind] &= ~(std::uint64_t{1} << at); }
          tiling.put(problem_, sample, tile);
          list(tiling, tile);
          return true;
        }
      }
    }
    return false;
  }

  [[nodiscard]] bool open(slot_tiling& tiling, std::uint32_t slot, std::uint32_t sample,
                          std::uint16_t choice)
  {
    std::size_t const size = problem_.kinds[choice].size;
    std::uint32_t const gpus = problem_.sizes[size];
    if (gpus > free_) { return false; }
    auto const first = find_place(size);
    if (!first) { return false; }
    auto const kind = static_cast<std::uint16_t>(kind_at(*first, size));
    if (problem_.time(sample, kind) > room(kind)) { return false; }
    take(*first, gpus);
    auto const open = open_.first(open_count_);
    auto const place = std::lower_bound(open.begin(), open.end(), kind);
    if (place == open.end() || *place != kind) {
      std::copy_backward(place, open.end(), open.end() + 1);
      *place = kind;
      ++open_count_;
      filled_[kind] = 0;
      std::fill_n(heads_.begin() + kind * levels, levels, none);
    }
    auto const tile = static_cast<std::uint32_t>(tiling.size++);
    tiling.all[tile] = {slot, *first, kind};
    tiling.put(problem_, sample, tile);
    list(tiling, tile);
    return true;
  }

  /// Notes how much room a group has.
  void list(slot_tiling const& tiling, std::uint32_t tile)
  {
    slot_tile const& of = tiling.all[tile];
    if (of.samples >= problem_.rules.most_samples) { return; }
    std::uint32_t const left = levels - 1 - level(of.kind, of.load, of.held, true);
    std::uint32_t& head = heads_[of.kind * levels + left];
    next_[tile] = head;
    head = tile;
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
  std::size_t failed_ = 0;
  std::uint32_t near_;
  cost_units limit_ = 0;
  int shift_ = 0;
};

/// Tries all tilings of a few samples on one node: each, longest first, on every group that there is
/// and on a new one of every size in every slot, and leaves out what cannot end below the best plan.
class slot_enumeration {
 public:
  slot_enumeration(slot_problem const& problem, std::size_t most_slots, workspace::frame& scratch)
      : problem_(problem),
        now_(problem.samples(), scratch),
        free_(scratch.take<std::uint32_t>(problem.samples())),
        ahead_(scratch.take<cost_units>(problem.samples() + 1)),
        slots_(std::min(most_slots, problem.samples()))
  {
    std::fill(free_.begin(), free_.end(), static_cast<std::uint32_t>(problem.ranks));
    ahead_[problem.samples()] = 0;
    for (std::size_t sample = problem.samples(); sample > 0; --sample) {
      ahead_[sample - 1] = saturating_sum(ahead_[sample], problem.areas[sample - 1]);
    }
  }

  [[nodiscard]] static bool takes(slot_problem const& problem) noexcept
  {
    return problem.samples() <= 10 && problem.ranks <= 64 && problem.nodes.size() == 1 &&
           !problem.rules.aligned;
  }

  /// Calls `keep` with each plan that is shorter than `most`, which it makes the new `most`.
  ///
  /// Returns     whether all were tried
  template <class Keep>
  [[nodiscard]] bool run(cost_units most, cost_units bound, work_budget& budget, Keep const& keep)
  {
    most_ = most;
    bound_ = bound;
    visit(0, 0, budget, keep);
    return !budget.spent();
  }

 private:
  template <class Keep>
  void visit(std::uint32_t sample, std::uint32_t used, work_budget& budget, Keep const& keep)
  {
    budget.spend(1 + now_.size);
    if (budget.spent() || most_ <= bound_ || least_end(sample) >= most_) { return; }
    if (sample == problem_.samples()) {
      most_ = least_end(sample);
      keep(now_, most_);
      return;
    }
    for (std::uint32_t tile = 0; tile < now_.size; ++tile) {
      slot_tile const before = now_.all[tile];
      if (before.samples >= problem_.rules.most_samples || !may_hold(sample, before.kind) ||
          before.held > problem_.kinds[before.kind].cap - problem_.share(sample, before.kind)) {
        continue;
      }
      now_.put(problem_, sample, tile);
      visit(sample + 1, used, budget, keep);
      now_.all[tile] = before;
    }
    for (std::uint32_t slot = 0; slot < std::min<std::size_t>(used + 1, slots_); ++slot) {
      for (std::uint32_t kind = 0; kind < problem_.kinds.size(); ++kind) {
        std::uint32_t const gpus = problem_.kinds[kind].shape.gpus;
        if (gpus > free_[slot]) { break; }
        if (!may_hold(sample, kind)) { continue; }
        auto const first = static_cast<std::uint32_t>(problem_.ranks) - free_[slot];
        free_[slot] -= gpus;
        now_.all[now_.size++] = {slot, first, kind};
        now_.put(problem_, sample, static_cast<std::uint32_t>(now_.size - 1));
        visit(sample + 1, std::max(used, slot + 1), budget, keep);
        --now_.size;
        free_[slot] += gpus;
      }
    }
  }

  [[nodiscard]] bool may_hold(std::uint32_t sample, std::uint32_t kind) const
  {
    auto const choices = problem_.choices_of(sample);
    bool const is_soft = choices.size() == 1 && choices.front() == kind;
    tokens const gpus = problem_.kinds[kind].shape.gpus;
    bool const fits = (problem_.lengths[sample] + gpus - 1) / gpus <= problem_.kinds[kind].cap;
    return !problem_.is_too_short(sample, kind) && (fits || is_soft);
  }

  /// What no plan ends below that has these tiles and the samples from one on.
  [[nodiscard]] cost_units least_end(std::uint32_t sample) const
  {
    cost_units sum = 0;
    uint128 area = static_cast<std::uint64_t>(ahead_[sample]);
    for (std::uint32_t slot = 0; slot < slots_; ++slot) {
      cost_units longest = 0;
      for (std::size_t tile = 0; tile < now_.size; ++tile) {
        if (now_.all[tile].slot != slot) { continue; }
        longest = std::max(longest, now_.time(problem_, tile));
        area += uint128{static_cast<std::uint64_t>(now_.all[tile].load)} *
                problem_.kinds[now_.all[tile].kind].shape.gpus;
      }
      sum = saturating_sum(sum, longest);
    }
    uint128 const even = (area + problem_.ranks - 1) / problem_.ranks;
    return even < static_cast<uint128>(no_cost) ? std::max(sum, static_cast<cost_units>(even))
                                                : no_cost;
  }

  slot_problem const& problem_;
  slot_tiling now_;
  std::span<std::uint32_t> free_;  ///< ranks of each slot
  std::span<cost_units> ahead_;    ///< least GPU time of the samples from each on
  std::size_t slots_;
  cost_units most_ = 0;
  cost_units bound_ = 0;
};

/// Searches for the plan: for several numbers of slots it fills slot after slot, the longest samples
/// first, each with its share of the tokens that are left, and the last with all that is left; its
/// length is found by bisection.
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

  [[nodiscard]] slot_tiling const& best() const noexcept { return best_; }

  /// Returns the slots that the plan uses; 0 where none was found.
  [[nodiscard]] std::size_t run(std::size_t fewest, work_budget& budget, workspace::frame& scratch)
  {
    slot_groups const& rules = problem_.rules;
    std::size_t const step = rules.multiple_of;
    std::size_t slots = rules.number.value_or((fewest + step - 1) / step * step);
    auto const is_done = [&] { return has_plan() && (makespan_ == bound_ || budget.spent()); };
    for (std::size_t tries = 0; tries < wanted || !has_plan(); ++tries) {
      (void)attempt(slots, 1000, budget);
      if (rules.number || slots > problem_.samples() || is_done()) { break; }
      slots += tries >= 8 ? slots / step / 2 * step + step : step;
    }
    for (std::uint32_t const share : shares) {
      if (has_plan() && slots_ > 1 && !is_done()) { (void)attempt(planned_, share, budget); }
    }
    if (slot_enumeration::takes(problem_) && !is_done()) {
      try_all(rules.number.value_or(problem_.samples()), budget, scratch);
    }
    return slots_;
  }

 private:
  /// Tries all plans of a step of few samples.
  void try_all(std::size_t most_slots, work_budget& budget, workspace::frame& scratch)
  {
    slot_enumeration all(problem_, most_slots, scratch);
    (void)all.run(makespan_, bound_, budget, [&](slot_tiling const& found, cost_units makespan) {
      best_.copy_from(found);
      makespan_ = makespan;
      slots_ = 1;
      for (slot_tile const& tile : best_.all.first(best_.size)) {
        slots_ = std::max<std::size_t>(slots_, tile.slot + 1);
      }
    });
  }

  [[nodiscard]] bool has_plan() const noexcept { return slots_ > 0; }

  static constexpr std::size_t wanted = 4;  ///< numbers of slots
  /// Of the mean of the slots' tokens, in thousandths, for all but the last.
  static constexpr std::array<std::uint32_t, 4> shares = {980, 1020, 960, 1040};

  [[nodiscard]] bool attempt(std::size_t slots, std::uint32_t share, work_budget& budget)
  {
    now_.size = 0;
    std::iota(list_.begin(), list_.end(), 0U);
    std::size_t left = list_.size();
    cost_units sum = 0;
    for (std::size_t slot = 0; slot + 1 < slots && left > 0; ++slot) {
      std::size_t const before = now_.size;
      budget.spend(left);
      left = fill_.run(now_, static_cast<std::uint32_t>(slot),
                       limit_of(list_.first(left), slots - slot, share), list_.first(left), list_);
      sum = saturating_sum(sum, longest_from(before));
      if (saturating_sum(sum, limit_of(list_.first(left), 1, 0)) >= makespan_) { return false; }
    }
    if (left > 0) {
      auto const last = fill_last(slots - 1, list_.first(left), makespan_ - sum, budget);
      if (!last) { return false; }
      sum = saturating_sum(sum, *last);
    }
    if (sum >= makespan_) { return false; }
    slots_ = planned_ = slots;
    makespan_ = sum;
    best_.copy_from(now_);
    return true;
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
    tokens all = 0;
    for (std::uint32_t const sample : list) { all += problem_.lengths[sample]; }
    tokens const own = slots == 1 ? all
                                  : all / static_cast<tokens>(1000 * slots) * share +
                                        all % static_cast<tokens>(1000 * slots) * share /
                                            static_cast<tokens>(1000 * slots);
    tokens had = 0;
    uint128 area = 0;
    cost_units least = 0;
    for (std::uint32_t const sample : list) {
      if (had >= own && slots > 1) { break; }
      had += problem_.lengths[sample];
      area += static_cast<std::uint64_t>(problem_.areas[sample]);
      least = std::max(least, problem_.fastest[sample]);
    }
    uint128 const even = (area + problem_.ranks - 1) / problem_.ranks;
    return std::max(least, even < static_cast<uint128>(no_cost / 4) ? static_cast<cost_units>(even)
                                                                    : no_cost / 4);
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
      budget.spend(list.size());
      return fill_.run(now_, static_cast<std::uint32_t>(slot), limit, list, rest_) == 0;
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
};

/// Sizes of groups that the rules admit, ascending, in an array of the frame's. Of any sizes above 64
/// those are left out that have more than six binary digits.
[[nodiscard]] inline std::span<std::uint32_t> slot_sizes(slot_groups const& rules,
                                                         std::uint32_t most,
                                                         workspace::frame& scratch)
{
  std::size_t const every = 64 + 32 * static_cast<std::size_t>(std::bit_width(most));
  std::span<std::uint32_t> sizes = scratch.take<std::uint32_t>(std::max(every, rules.sizes.size()));
  std::size_t count = 0;
  auto const add = [&](std::uint32_t size) {
    if (size > most || (rules.powers_of_two && !std::has_single_bit(size))) { return; }
    sizes[count++] = size;
  };
  if (!rules.sizes.empty()) {
    for (std::uint32_t const size : rules.sizes) { add(size); }
    std::sort(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(count));
    auto const end = std::unique(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(count));
    return sizes.first(static_cast<std::size_t>(end - sizes.begin()));
  }
  for (std::uint32_t size = 1; size <= most;) {
    add(size);
    size += size < 64 ? 1U : std::uint32_t{1} << (std::bit_width(size) - 6);
  }
  return sizes.first(count);
}

/// The kinds of groups of each size: of one shape where nodes are alike, or the group lies in one.
inline void find_slot_kinds(slot_problem& problem, sharding_cost const& cost,
                            workspace::frame& scratch)
{
  std::size_t const sizes = problem.sizes.size();
  node_sizes const& nodes = problem.nodes;
  std::size_t const starts = nodes.all_equal() ? 1 : nodes.size();
  std::span<slot_kind> const kinds =
      scratch.take<slot_kind>(sizes * std::min<std::size_t>(starts, 16));
  problem.first_kind = scratch.take<std::uint32_t>(sizes + 1);
  std::size_t count = 0;
  for (std::size_t size = 0; size < sizes; ++size) {
    std::uint32_t const gpus = problem.sizes[size];
    auto const from = static_cast<std::uint32_t>(count);
    problem.first_kind[size] = from;
    auto const add = [&](group_shape shape) {
      auto const known = kinds.subspan(from, count - from);
      if (std::any_of(known.begin(), known.end(),
                      [&](slot_kind const& each) { return each.shape == shape; })) {
        return;
      }
      tokens const rows = longest_sample / gpus;  // a group's fit the 32 bits of cu_seqlens
      kinds[count++] = {shape, cost.at(shape), std::min(problem.rules.most_per_gpu, rows),
                        static_cast<std::uint32_t>(size)};
    };
    if (gpus <= nodes.largest()) {
      add({gpus, gpus, gpus});
      continue;
    }
    for (std::size_t node = 0; node < starts && count - from < 16; ++node) {
      std::size_t const first = to_index(nodes.first(to_id<node_id>(node)));
      if (first + gpus > problem.ranks) { break; }
      add(shape_of({to_id<rank_id>(first), gpus}, nodes));
    }
  }
  problem.first_kind[sizes] = static_cast<std::uint32_t>(count);
  problem.kinds = kinds.first(count);
}

/// The sizes that a sample may be given: each longer group has to be a fifth shorter in time, and
/// none has both more time and more GPU time than another.
inline void choose_slot_kinds(slot_problem& problem, std::size_t sample)
{
  constexpr std::size_t most = slot_problem::most_choices;
  struct choice {
    cost_units time;
    cost_units area;
  };
  std::span<std::uint16_t> const kinds = problem.choices.subspan(sample * most, most);
  std::array<choice, most> known{};
  std::size_t count = 0;
  cost_units least_time = no_cost;
  cost_units least_area = no_cost;
  auto const price = [&](std::size_t kind) {
    cost_units const time = problem.time(sample, kind);
    tokens const gpus = problem.kinds[kind].shape.gpus;
    choice const each{time, time < no_cost / gpus ? time * gpus : no_cost};
    least_time = std::min(least_time, saturating_sum(time, problem.kinds[kind].cost.latency));
    least_area = std::min(least_area, each.area);
    return each;
  };
  std::uint32_t widest = 0;
  for (std::size_t size = 0; size < problem.sizes.size(); ++size) {
    std::uint32_t const kind = problem.first_kind[size];
    if (problem.is_too_short(sample, kind)) { break; }
    widest = kind;
    tokens const gpus = problem.sizes[size];
    if (problem.lengths[sample] > problem.kinds[kind].cap * gpus) { continue; }
    choice const each = price(kind);
    for (std::uint32_t other = kind + 1; other < problem.first_kind[size + 1]; ++other) {
      (void)price(other);
    }
    // Less than 1 / 512 is rounding, and not worth the ranks.
    while (count > 0 && each.area < known[count - 1].area - known[count - 1].area / 512 &&
           each.time <= known[count - 1].time) {
      --count;
    }
    if (count == 0 || each.time / 4 <= known[count - 1].time / 5) {
      count = std::min(count, most - 1);
      known[count] = each;
      kinds[count++] = static_cast<std::uint16_t>(kind);
    }
  }
  if (count == 0 && problem.rules.is_soft) {
    kinds[count++] = static_cast<std::uint16_t>(widest);
    (void)price(widest);
  }
  problem.choice_count[sample] = static_cast<std::uint8_t>(count);
  problem.longest = std::max(problem.longest, least_time);
  cost_units slowest = 0;
  if (count > 0) {
    std::uint32_t const size = problem.kinds[kinds[count - 1]].size;
    for (std::uint32_t kind = kinds[count - 1]; kind < problem.first_kind[size + 1]; ++kind) {
      slowest = std::max(
          slowest, saturating_sum(problem.time(sample, kind), problem.kinds[kind].cost.latency));
    }
  }
  problem.fastest[sample] = slowest;
  problem.areas[sample] = least_area;
}

/// Refuses rules that admit no plan, whatever the samples are.
[[nodiscard]] inline result<void> check_slots(slot_groups const& rules, node_sizes const& nodes,
                                              std::size_t samples)
{
  if (nodes.gpus() > most_gpus || samples >= no_shard_group) {
    return fail(error_code::out_of_range, 0, "slots of ", counted(nodes.gpus(), "GPU"), " and ",
                counted(samples, "sample"), ": the most are 16777216 and 4294967294");
  }
  if (rules.multiple_of == 0 || rules.most_samples == 0 || rules.most_per_gpu < 1 ||
      rules.largest == 0 || rules.number == std::size_t{0}) {
    return fail(
        error_code::out_of_range, 0,
        "number, multiple_of, largest, most_samples and most_per_gpu of slots are at least 1; "
        "correct them");
  }
  if (rules.number.value_or(1) > std::size_t{1} << 24 || rules.multiple_of > std::size_t{1} << 24) {
    return fail(error_code::out_of_range, 0,
                "there are at most 16777216 slots; give a smaller number");
  }
  if (rules.number && *rules.number % rules.multiple_of != 0) {
    return fail(error_code::infeasible, 0, *rules.number, " slots are no multiple of ",
                rules.multiple_of, "; give a number that is one");
  }
  for (std::size_t at = 0; at < rules.sizes.size(); ++at) {
    if (rules.sizes[at] == 0) {
      return fail(error_code::out_of_range, at, "size ", at, " of groups is 0; leave it out");
    }
  }
  return {};
}

/// Sorts the samples and looks up what they cost.
///
/// Errors      as plan_slots_into.
[[nodiscard]] inline result<void> read_slots(slot_problem& problem, std::span<tokens const> lengths,
                                             sharding_cost const& cost, workspace::frame& scratch)
{
  std::size_t const count = lengths.size();
  problem.sizes =
      slot_sizes(problem.rules,
                 std::min({static_cast<std::uint32_t>(problem.ranks), problem.rules.largest,
                           cost.by_rows ? std::numeric_limits<std::uint32_t>::max() : cost.heads}),
                 scratch);
  if (problem.sizes.empty()) {
    return fail(error_code::infeasible, 0, "no size of groups is admitted of ",
                counted(problem.ranks, "GPU"), " and ", counted(cost.heads, "head"),
                "; allow smaller groups");
  }
  find_slot_kinds(problem, cost, scratch);
  std::span<std::uint64_t> const words = scratch.take<std::uint64_t>(count);
  for (std::size_t sample = 0; sample < count; ++sample) {
    if (lengths[sample] < 0 || lengths[sample] > longest_sample) {
      return fail(error_code::out_of_range, sample, "sample ", sample, " has a length of ",
                  lengths[sample], ", which is not from 0 to ", longest_sample);
    }
    auto const shortness = static_cast<std::uint64_t>(longest_sample - lengths[sample]);
    words[sample] = shortness << 32 | sample;
  }
  radix_sort(words, scratch.take<std::uint64_t>(count));
  problem.lengths = scratch.take<tokens>(count);
  problem.original = scratch.take<std::uint32_t>(count);
  problem.choices = scratch.take<std::uint16_t>(count * slot_problem::most_choices);
  problem.choice_count = scratch.take<std::uint8_t>(count);
  problem.areas = scratch.take<cost_units>(count);
  problem.fastest = scratch.take<cost_units>(count);
  cost_units all = 0;
  for (std::size_t at = 0; at < count; ++at) {
    auto const sample = static_cast<std::uint32_t>(words[at]);
    problem.original[at] = sample;
    problem.lengths[at] = lengths[sample];
    choose_slot_kinds(problem, at);
    if (problem.choice_count[at] == 0) {
      return fail(error_code::infeasible, sample, "sample ", sample, " of ",
                  counted(lengths[sample], "token"), " fits no group of which each GPU may hold ",
                  counted(problem.rules.most_per_gpu, "token"),
                  "; allow more tokens, larger groups, or a soft cap");
    }
    all = saturating_sum(all, problem.areas[at]);
    if (all == no_cost) {
      return fail(error_code::out_of_range, sample, "the costs up to sample ", sample,
                  " do not fit 63 bits; give them in coarser units");
    }
  }
  return {};
}

/// What no plan is shorter than: all ranks busy with each sample's least GPU time, and the longest
/// sample on the group that is fastest for it.
[[nodiscard]] inline cost_units slots_lower_bound(slot_problem const& problem)
{
  cost_units all = 0;
  for (cost_units const area : problem.areas) { all += area; }
  auto const ranks = static_cast<cost_units>(problem.ranks);
  return std::max(problem.longest, all / ranks + (all % ranks != 0 ? 1 : 0));
}

/// The fewest slots whose ranks hold all tokens.
[[nodiscard]] inline std::size_t fewest_slots(slot_problem const& problem)
{
  tokens all = 0;
  for (std::size_t sample = 0; sample < problem.samples(); ++sample) {
    std::uint16_t const widest = problem.choices_of(sample).back();
    all += std::min(problem.lengths[sample],
                    problem.share(sample, widest) * problem.kinds[widest].shape.gpus);
  }
  if (all == 0) { return problem.samples() > 0 ? 1 : 0; }
  auto const cells = (all - 1) / problem.rules.most_per_gpu;
  return static_cast<std::size_t>(cells / static_cast<tokens>(problem.ranks)) + 1;
}

/// When the last group of a step ends, where each begins as soon as its ranks have ended what they do
/// before. With `reorder`, groups of one kind in a slot change places: those that take longest go to
/// the ranks that are ready first.
[[nodiscard]] inline cost_units run_slots(std::span<slots_plan::group> groups,
                                          std::span<std::uint32_t const> kinds,
                                          std::span<cost_units> ready, bool reorder,
                                          workspace::frame& scratch)
{
  std::span<std::uint32_t> const by_load = scratch.take<std::uint32_t>(groups.size());
  std::span<std::uint32_t> const by_ready = scratch.take<std::uint32_t>(groups.size());
  std::span<device_group> const places = scratch.take<device_group>(groups.size());
  std::span<cost_units> const begins = scratch.take<cost_units>(groups.size());
  std::fill(ready.begin(), ready.end(), cost_units{0});
  auto const of = [&](device_group ranks) {
    return ready.subspan(to_index(ranks.first), ranks.gpus);
  };
  auto const begin_of = [&](device_group ranks) {
    return *std::max_element(of(ranks).begin(), of(ranks).end());
  };
  for (std::size_t first = 0; first < groups.size();) {
    std::size_t end = first;
    for (; end < groups.size() && groups[end].slot == groups[first].slot; ++end) {
      by_load[end] = by_ready[end] = static_cast<std::uint32_t>(end);
      places[end] = groups[end].ranks;
      begins[end] = begin_of(groups[end].ranks);
    }
    if (reorder) {
      std::sort(&by_load[first], &by_load[first] + (end - first), [&](auto a, auto b) {
        return precedes(kinds[a], kinds[b], groups[b].load, groups[a].load, a, b);
      });
      std::sort(&by_ready[first], &by_ready[first] + (end - first), [&](auto a, auto b) {
        return precedes(kinds[a], kinds[b], begins[a], begins[b], a, b);
      });
      for (std::size_t at = first; at < end; ++at) {
        groups[by_load[at]].ranks = places[by_ready[at]];
      }
    }
    for (; first < end; ++first) {
      auto const own = of(groups[first].ranks);
      std::fill(own.begin(), own.end(),
                saturating_sum(begin_of(groups[first].ranks), groups[first].load));
    }
  }
  return ready.empty() ? 0 : *std::max_element(ready.begin(), ready.end());
}

/// Writes the plan that a search found.
inline void describe_slots(slots_plan& plan, slot_problem const& problem, slot_tiling const& tiling,
                           workspace::frame& scratch)
{
  std::size_t const ranks = problem.ranks;
  std::span<std::uint8_t> const taken = scratch.take<std::uint8_t>(ranks * plan.slots);
  std::fill(taken.begin(), taken.end(), std::uint8_t{0});
  std::size_t busy = 0;
  for (slot_tile const& tile : tiling.all.first(tiling.size)) {
    std::uint32_t const gpus = problem.kinds[tile.kind].shape.gpus;
    std::fill_n(taken.begin() + static_cast<std::ptrdiff_t>(tile.slot * ranks + tile.first), gpus,
                std::uint8_t{1});
    busy += gpus;
  }
  std::size_t const count = tiling.size + ranks * plan.slots - busy;
  struct entry {
    std::uint32_t slot;
    std::uint32_t first;
    std::uint32_t tile;
  };
  std::span<entry> const entries = scratch.take<entry>(count);
  std::size_t next = 0;
  for (std::uint32_t tile = 0; tile < tiling.size; ++tile) {
    entries[next++] = {tiling.all[tile].slot, tiling.all[tile].first, tile};
  }
  for (std::size_t cell = 0; cell < taken.size(); ++cell) {
    if (taken[cell] != 0) { continue; }
    entries[next++] = {static_cast<std::uint32_t>(cell / ranks),
                       static_cast<std::uint32_t>(cell % ranks), no_shard_group};
  }
  auto const in_order = [](entry const& a, entry const& b) {
    return precedes(a.slot, b.slot, a.first, b.first);
  };
  std::sort(entries.begin(), entries.end(), in_order);
  std::span<std::uint32_t> const kinds = scratch.take<std::uint32_t>(count);
  plan.groups.resize(count);
  for (std::size_t at = 0; at < count; ++at) {
    auto const [slot, first, tile] = entries[at];
    kinds[at] = tile == no_shard_group ? no_shard_group : tiling.all[tile].kind;
    plan.groups[at] = {slot, {to_id<rank_id>(first), 1}, 0, 0};
    if (tile == no_shard_group) { continue; }
    plan.groups[at].ranks.gpus = problem.kinds[kinds[at]].shape.gpus;
    plan.groups[at].load = tiling.time(problem, tile);
  }
  std::span<cost_units> const ready = scratch.take<cost_units>(ranks);
  bool const meet_once = problem.rules.meet == grid_meeting::step;
  plan.makespan = run_slots(mutable_span_of(plan.groups), kinds, ready, meet_once, scratch);
  if (meet_once) {  // then groups have other places
    for (std::size_t at = 0; at < count; ++at) {
      entries[at].first = static_cast<std::uint32_t>(to_index(plan.groups[at].ranks.first));
    }
    std::sort(entries.begin(), entries.end(), in_order);
    std::sort(plan.groups.begin(), plan.groups.end(), [](auto const& a, auto const& b) {
      return precedes(a.slot, b.slot, a.ranks.first, b.ranks.first);
    });
  }
  plan.first_group.assign(plan.slots + 1, 0);
  for (slots_plan::group const& each : plan.groups) { ++plan.first_group[each.slot + 1]; }
  std::partial_sum(plan.first_group.begin(), plan.first_group.end(), plan.first_group.begin());
  if (!meet_once) {
    plan.makespan = 0;
    for (std::size_t slot = 0; slot < plan.slots; ++slot) {
      plan.makespan = saturating_sum(plan.makespan, plan.length_of(slot));
    }
  }
  std::span<std::uint32_t> const group_of_tile = scratch.take<std::uint32_t>(tiling.size);
  for (std::uint32_t at = 0; at < count; ++at) {
    if (entries[at].tile != no_shard_group) { group_of_tile[entries[at].tile] = at; }
  }
  plan.owner.resize(problem.samples());
  for (std::size_t at = 0; at < problem.samples(); ++at) {
    plan.owner[to_id<sample_id>(problem.original[at])] =
        to_id<group_id>(group_of_tile[tiling.of_sample[at]]);
  }
  plan.samples.collect(span_of(plan.owner), count);
  plan.cu_seqlens.clear();
  plan.above_cap.clear();
  for (std::size_t at = 0; at < count; ++at) {
    slots_plan::group& group = plan.groups[at];
    std::int32_t sum = 0;
    plan.cu_seqlens.push_back(0);
    for (sample_id const sample : plan.samples[to_id<group_id>(at)]) {
      tokens const length = plan.lengths[to_index(sample)];
      group.held += (length + group.ranks.gpus - 1) / group.ranks.gpus;
      plan.cu_seqlens.push_back(sum += static_cast<std::int32_t>(length));
    }
    plan.cu_seqlens.end_row();
    if (group.held > problem.rules.most_per_gpu) { plan.above_cap.push_back(to_id<group_id>(at)); }
  }
}

}  // namespace detail

/// Tiles slots by groups of ranks of the sizes that a step's samples need, and decides which group
/// computes which samples, one or several: long samples on many ranks, short ones packed on few, in
/// a training step of several microbatches (dynamic context parallelism). Every rank is in one group
/// of every slot.
///
/// A group of at most as many ranks as the largest node has lies in one node; a larger one begins
/// with a node. A sample shorter than a group has ranks goes to no such group, unless there are no
/// smaller ones.
///
/// Shapes      lengths[n], n < 2^32 - 1.
/// In, out     plan is overwritten, and keeps its memory for the next step.
/// Ensures     (1) those of slots_plan
///             (2) no rank holds more than most_per_gpu tokens of a slot, but in groups above_cap
///             (3) slots are as many as `number` says, or a multiple of multiple_of; of a number that
///                 is given, some may stay empty
///             (4) the plan depends on nothing but the arguments, so every rank finds the same one
///             (5) with a plan and a workspace that have seen a step as large, nothing is allocated
/// Errors      out_of_range: sample `position` has no length from 0 to longest_sample, or the costs
///             up to it do not fit 63 bits, or a rule is out of range; infeasible: sample `position`
///             fits no group and the cap is not soft; no size is admitted; `number` is no multiple;
///             or no plan with so many slots was found.
/// Complexity  O(n sizes) costs of samples, and at most 12 plans of slots, of which each visits the
///             samples that are left once a slot; about rules.work visits.
/// Source      the execution model is that of dynamic context parallelism in Megatron-LM.
[[nodiscard]] inline result<void> plan_slots_into(slots_plan& plan, workspace& memory,
                                                  std::span<tokens const> lengths,
                                                  node_sizes const& nodes,
                                                  sharding_cost const& cost,
                                                  slot_groups const& rules = {})
{
  if (auto checked = detail::check_slots(rules, nodes, lengths.size()); !checked) {
    return checked;
  }
  auto scratch = memory.open();
  detail::slot_problem problem(rules, nodes);
  if (auto read = detail::read_slots(problem, lengths, cost, scratch); !read) { return read; }
  plan.ranks = problem.ranks;
  plan.meet = rules.meet;
  plan.lengths.assign(lengths.begin(), lengths.end());
  plan.lower_bound = detail::slots_lower_bound(problem);
  plan.fewest_slots = detail::fewest_slots(problem);
  detail::slot_search search(problem, plan.lower_bound, scratch);
  detail::work_budget budget(rules.work);
  std::size_t const found = lengths.empty() ? 0 : search.run(plan.fewest_slots, budget, scratch);
  if (detail::cancel_scope::is_cancelled()) { return detail::cancelled(); }
  if (found == 0 && !lengths.empty()) {
    return fail(error_code::infeasible, 0, "no plan of ",
                detail::counted(rules.number.value_or(0), "slot"), " was found; at least ",
                plan.fewest_slots, " are needed: give more, or leave the number out");
  }
  plan.slots = rules.number.value_or((found + rules.multiple_of - 1) / rules.multiple_of *
                                     rules.multiple_of);
  detail::describe_slots(plan, problem, search.best(), scratch);
  return {};
}

/// The same, once: returns a new plan.
[[nodiscard]] inline result<slots_plan> plan_slots(std::span<tokens const> lengths,
                                                   node_sizes const& nodes,
                                                   sharding_cost const& cost,
                                                   slot_groups const& rules = {})
{
  slots_plan plan;
  workspace memory;
  auto const done = plan_slots_into(plan, memory, lengths, nodes, cost, rules);
  if (!done) { return tl::unexpected(done.error()); }
  return plan;
}

}  // namespace ballast::inline v0
