// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/grid/detail/greedy_grid.hpp>
#include <ballast/partition/grid/detail/grid_step.hpp>
#include <ballast/partition/grid/partition_grid.hpp>

namespace ballast::inline v0::detail {

/// Renumbers the ranks of some slots so that many tokens stay at home. What kept more before stays.
///
/// Shapes      owner[n], home[n], lengths[n]; cells are slot x ranks + rank.
/// Expects     bags can be exchanged.
/// Complexity  O(n log n).
inline void keep_homes(std::span<cell_id> owner, std::span<bag_id const> home,
                       std::span<tokens const> lengths, bag_layout const& bags,
                       std::size_t first_slot, std::size_t end_slot, workspace& memory)
{
  auto scratch = memory.open();
  auto const samples = scratch.take<std::uint32_t>(owner.size());
  auto const ranks = scratch.take<std::uint32_t>(owner.size());
  auto const homes = scratch.take<bag_id>(owner.size());
  auto const own = scratch.take<tokens>(owner.size());
  std::size_t count = 0;
  tokens kept = 0;
  for (std::uint32_t sample = 0; sample < owner.size(); ++sample) {
    std::size_t const slot = to_index(owner[sample]) / bags.size();
    if (slot < first_slot || slot >= end_slot) { continue; }
    samples[count] = sample;
    ranks[count] = static_cast<std::uint32_t>(to_index(owner[sample]) % bags.size());
    homes[count] = home[sample];
    own[count] = lengths[sample];
    kept += to_index(homes[count]) == ranks[count] ? own[count] : 0;
    ++count;
  }
  partition_problem const items{{},           own.first(count), {},
                                bags.sizes(), bags.speeds(),    homes.first(count)};
  placement_problem const problem{items, 1, {}, {}, bags.speeds(), {}, {}, {}, {}};
  relabel_places(problem, ranks.first(count), memory);
  for (std::size_t at = 0; at < count; ++at) {
    kept -= to_index(homes[at]) == ranks[at] ? own[at] : 0;
  }
  for (std::size_t at = 0; at < count && kept < 0; ++at) {
    cell_id& cell = owner[samples[at]];
    cell = to_id<cell_id>(to_index(cell) / bags.size() * bags.size() + ranks[at]);
  }
}

/// Moves slots that are empty on all ranks behind the others.
///
/// Complexity  O(n + slots).
inline void empty_slots_last(std::span<cell_id> owner, std::size_t ranks, std::size_t slots,
                             workspace& memory)
{
  auto scratch = memory.open();
  auto const place = scratch.take<std::size_t>(slots);
  std::fill(place.begin(), place.end(), 0);
  for (cell_id const cell : owner) { place[to_index(cell) / ranks] = 1; }
  std::exclusive_scan(place.begin(), place.end(), place.begin(), std::size_t{0});
  for (cell_id& cell : owner) {
    cell = to_id<cell_id>(place[to_index(cell) / ranks] * ranks + to_index(cell) % ranks);
  }
}

/// Gives the slots to kinds: to each its fewest, and each further one to the kind with the most
/// weight for a slot.
///
/// Expects     slots are at least step.fewest()
inline void share_slots(grid_step const& step, std::size_t slots) noexcept
{
  for (grid_kind& kind : step.kinds) { kind.slots = kind.fewest; }
  auto const weighs_more = [](grid_kind const& a, grid_kind const& b) {
    return uint128{static_cast<std::uint64_t>(a.weight)} * b.slots >
           uint128{static_cast<std::uint64_t>(b.weight)} * a.slots;
  };
  for (std::size_t more = step.fewest(); more < slots; ++more) {
    std::size_t heaviest = 0;
    for (std::size_t kind = 1; kind < step.kinds.size(); ++kind) {
      if (weighs_more(step.kinds[kind], step.kinds[heaviest])) { heaviest = kind; }
    }
    ++step.kinds[heaviest].slots;
  }
}

/// Writes the slots of all kinds, as many as they have. Returns false where the samples of one are
/// fewer than cells that need one.
[[nodiscard]] inline bool write_slots(grid_step const& step, counts of_cells,
                                      std::span<grid_slot> slots)
{
  bool enough = true;
  std::size_t next = 0;
  for (std::uint32_t kind = 0; kind < step.kinds.size(); ++kind) {
    grid_kind const& own = step.kinds[kind];
    std::size_t const cells = step.problem.ranks() * own.slots;
    auto const number = static_cast<std::uint32_t>(
        std::min<std::int64_t>(of_cells.number, std::numeric_limits<std::uint32_t>::max()));
    grid_slot slot{kind};
    switch (of_cells.kind) {
      case counts::rule::any: break;
      case counts::rule::at_most: slot.most = number; break;
      case counts::rule::multiple_of: slot.step = number; break;
      case counts::rule::equal: {
        auto const all = static_cast<std::uint32_t>(own.samples / number / cells);
        slot.least = all * number;
        slot.most = slot.least + (own.samples != slot.least * cells ? number : 0U);
        break;
      }
      case counts::rule::filled:
        slot.least = 1;
        enough = enough && own.items >= cells;
        break;
    }
    for (std::size_t more = 0; more < own.slots; ++more) { slots[next++] = slot; }
  }
  return enough;
}

/// How a search for a plan ended: with one, with the proof that there is none, or without an answer.
enum class plan_search : std::uint8_t { found, none, gave_up };

/// The numbers of slots that a step may have: where the last has no plan, larger ones have none.
struct slot_range {
  std::size_t least;
  std::size_t last;
  std::size_t multiple;
  bool has_gaps;  ///< a number without a plan may lie above one that has a plan

  static constexpr std::size_t one_by_one = 64;  ///< so many numbers are tried one after the other

  slot_range(grid_step const& step, microbatches const& given, placement_limits const& limits,
             std::size_t samples)
      : multiple(step.falls ? 1 : given.multiple_of),
        has_gaps(limits.samples.kind == counts::rule::filled ||
                 limits.samples.kind == counts::rule::equal)
  {
    least = rounded(step.fewest());
    bool const whole = limits.samples.kind == counts::rule::multiple_of;
    // With more, a kind has more cells than samples, or than full steps of them; of equal counts, on
    // bags that hold any of them.
    auto const& caps = step.problem.most_weights;
    auto const largest = static_cast<std::size_t>(
        std::count(caps.begin(), caps.end(), *std::max_element(caps.begin(), caps.end())));
    std::size_t const further =
        has_gaps && step.is_plain
            ? samples / largest + step.kinds.size()
            : samples / (whole ? static_cast<std::size_t>(limits.samples.number) : 1);
    last = limits.samples.kind == counts::rule::filled
               ? samples / step.problem.ranks() / multiple * multiple
               : rounded(least + further);
  }

  struct found {
    std::size_t slots = 0;        ///< or 0
    bool is_without_plan = true;  ///< of every number
  };

  /// Finds the least number with which `fill` finds a plan: one after the other where there may be
  /// gaps, otherwise in steps that double, and back.
  template <class Fill>
  [[nodiscard]] found find(Fill const& fill) const
  {
    found all;
    auto const fills = [&](std::size_t slots) {
      plan_search const end = fill(slots);
      if (end == plan_search::found) { all.slots = slots; }
      all.is_without_plan = (has_gaps ? all.is_without_plan : true) && end == plan_search::none;
      return end == plan_search::found;
    };
    if (has_gaps) {
      std::size_t tried = least;
      for (; tried <= last && (tried - least) / multiple < one_by_one; tried += multiple) {
        if (fills(tried)) { return all; }
      }
      if (tried > last) { return all; }
    }
    std::size_t tried = least;
    std::size_t failed = least - multiple;
    for (std::size_t step = multiple; !fills(tried); step *= 2) {
      if (tried >= last) { return all; }
      failed = tried;
      tried += step;
    }
    while (tried - failed > multiple) {
      std::size_t const middle = failed + (tried - failed) / multiple / 2 * multiple;
      (fills(middle) ? tried : failed) = middle;
    }
    all.slots = tried;
    return all;
  }

 private:
  [[nodiscard]] std::size_t rounded(std::size_t slots) const noexcept
  {
    return (slots + multiple - 1) / multiple * multiple;
  }
};

/// Finds cells for the items of a step: by the greedy grid where it knows the limits, from which
/// limit_search goes on, kind after kind, and by that alone where it does not or finds none.
class grid_maker {
 public:
  /// Shapes      home[n], or empty.
  grid_maker(grid_step const& step, std::span<cost_units const> costs,
             sample_lengths const& lengths, std::span<bag_id const> home, bag_layout const& bags,
             microbatches const& given, placement_limits const& limits, workspace& memory,
             workspace::frame& scratch)
      : step_(step),
        costs_(costs),
        lengths_(lengths),
        home_(home),
        bags_(bags),
        given_(given),
        limits_(limits),
        memory_(memory),
        owner_(scratch.take<cell_id>(step.items.costs.size())),
        lower_bound_{}
  {}

  [[nodiscard]] std::span<cell_id const> owner() const noexcept { return owner_; }
  [[nodiscard]] ratio lower_bound() const noexcept
  {
    return is_proven_ ? std::max(lower_bound_, makespan_) : lower_bound_;
  }
  [[nodiscard]] bool is_tie_proven() const noexcept { return is_tie_proven_; }

  /// Looks for a plan with so many slots; of kinds, the step then says how many each has.
  [[nodiscard]] plan_search fill(std::size_t slots, std::uint64_t most_work)
  {
    std::size_t const ranks = bags_.size();
    if (slots < step_.fewest()) { return plan_search::none; }
    bool const is_too_large = slots >= (std::size_t{1} << 32) / ranks;
    if (is_too_large || cancel_scope::is_cancelled()) { return plan_search::gave_up; }
    auto scratch = memory_.open();
    auto const laid_out = scratch.take<grid_slot>(slots);
    share_slots(step_, slots);
    is_small_ = limit_search::is_small(owner_.size(), ranks * slots);
    is_proven_ = is_tie_proven_ = false;
    slots_ = 0;
    makespan_ = {no_cost, 1};
    bool const is_enough = write_slots(step_, limits_.samples, laid_out);
    if (!is_enough && step_.kinds.size() == 1) { return plan_search::none; }
    grid_problem problem = step_.problem;
    problem.slots = laid_out;
    lower_bound_ = grid_lower_bound(step_, problem, bags_, limits_.starting_loads, memory_);
    is_greedy_ =
        step_.is_plain && is_enough &&
        (fill_slots(problem, owner_, memory_, false) || fill_slots(problem, owner_, memory_, true));
    if (is_greedy_) {
      level_ranks(problem, owner_, memory_);
      grid_cells cells(problem, owner_, scratch);
      cells.recount();
      makespan_ = {cells.makespan(), bags_.speeds()[0]};
    } else {
      constexpr std::size_t most_tried = std::size_t{1} << 14;  // items x cells, of plain limits
      if (step_.is_plain && owner_.size() > most_tried / (ranks * slots)) {
        return plan_search::gave_up;
      }
      bool const is_hard =
          step_.is_plain && !limit_search::is_small_grid(owner_.size(), ranks * slots);
      std::uint64_t const work = is_hard ? most_work / 16 : most_work;
      plan_search const end =
          step_.kinds.size() == 1 ? place_all(work, false) : search_shares(slots, work);
      if (end != plan_search::found) { return end; }
      (void)write_slots(step_, limits_.samples, laid_out);
      lower_bound_ = grid_lower_bound(step_, problem, bags_, limits_.starting_loads, memory_);
    }
    slots_ = slots;
    return plan_search::found;
  }
  /// Makes the plan that was found last shorter. Of steps whose slots may stay empty it is that of the
  /// least slots; then more are tried, one after the other, up to so many, as long as that helps,
  /// and up to all of them of small grids. So no plan is longer than one of fewer slots. Of many items a
  /// first plan is most of the work: another greedy one is improved only where it is shorter, and by
  /// search alone none is made near the bound.
  void shorten(std::size_t slots)
  {
    improve();
    if (!step_.falls || step_.joins) { return; }
    auto scratch = memory_.open();
    share_slots(step_, slots);
    grid_problem const problem = with_slots(slots, scratch);
    ratio const bound = grid_lower_bound(step_, problem, bags_, limits_.starting_loads, memory_);
    auto const best = scratch.take<cell_id>(owner_.size());
    ratio least{no_cost, 1};
    std::size_t tried = slots_;
    bool const is_large = owner_.size() >= many;
    for (bool goes_on = true; goes_on; ++tried) {
      lower_bound_ = bound;  // with fewer slots, where cells are counted, it may be above
      bool const is_shorter = makespan_ < least;
      if (is_shorter) {
        least = makespan_;
        std::copy(owner_.begin(), owner_.end(), best.begin());
      }
      bool const is_near = is_large && !step_.is_plain ? is_short(least, 5) : is_short(least);
      goes_on = tried < slots && !is_near && (is_shorter || is_small_);
      std::uint64_t const work = is_small_ ? given_.work : given_.work / 2;
      bool const has_plan = goes_on && fill(tried + 1, work) == plan_search::found;
      if (has_plan && (!is_large || makespan_ < least)) { improve(); }
    }
    std::copy(best.begin(), best.end(), owner_.begin());
    is_proven_ = is_proven_ && slots_ == slots;
    makespan_ = least;
  }
  [[nodiscard]] std::size_t slots() const noexcept { return slots_; }

 private:
  /// The problem with so many slots, which kinds share already.
  [[nodiscard]] grid_problem with_slots(std::size_t slots, workspace::frame& scratch) const
  {
    grid_problem problem = step_.problem;
    auto const all = scratch.take<grid_slot>(slots);
    (void)write_slots(step_, limits_.samples, all);
    problem.slots = all;
    return problem;
  }
  /// Makes the plan that was found last shorter, where it is the greedy one and not near its bound.
  void improve()
  {
    if (!is_greedy_) { return; }
    reserve_for_search(memory_, owner_.size(), slots_ * bags_.size(), 1);
    if (is_short(makespan_) && limits_.then.what() != second_objective::kind::fewest_moves) {
      return;
    }
    std::uint64_t const most = are_many() ? owner_.size() : many;
    std::uint64_t work = given_.work / 8 * many / most;
    if (meets(slots_) && step_.kinds.size() == 1 && !is_small_) {
      work -= try_other_start(work / 4);
    }
    if (!is_proven_) { (void)place_all(work, true); }
  }
  /// Makes the plan shorter, and another one that is dealt slot after slot; the better one stays. They
  /// lie near different plans: where few samples are long, slots of these alone are better. Returns how
  /// much work was given.
  std::uint64_t try_other_start(std::uint64_t work)
  {
    auto scratch = memory_.open();
    grid_problem const problem = with_slots(slots_, scratch);
    auto const other = scratch.take<cell_id>(owner_.size());
    if (!fill_slots(problem, other, memory_, true)) { return 0; }
    level_ranks(problem, other, memory_);
    (void)place_all(work, true);
    if (is_proven_) { return work; }
    std::swap_ranges(owner_.begin(), owner_.end(), other.begin());
    ratio const least = makespan_;
    (void)place_all(work, true);
    if (!(makespan_ < least)) { std::copy(other.begin(), other.end(), owner_.begin()); }
    makespan_ = std::min(makespan_, least);
    return 2 * work;
  }
  /// Whether that is near the bound: rows of many items are near what exchanges make of them.
  [[nodiscard]] bool is_short(ratio makespan) const
  {
    return is_short(makespan, is_small_ ? 63 : are_many() ? 8 : 14);
  }
  /// Whether it is that but for a power of 2 of it.
  [[nodiscard]] bool is_short(ratio makespan, int part) const
  {
    cost_units const near = makespan.numerator >> part;
    return makespan.numerator - near <=
           work_until(lower_bound_, static_cast<std::uint32_t>(makespan.denominator));
  }
  [[nodiscard]] bool are_many() const { return meets(slots_) && owner_.size() > many; }
  [[nodiscard]] bool meets(std::size_t slots) const
  {
    return given_.meet == grid_meeting::microbatch && (slots > 1 || step_.kinds.size() > 1);
  }

  /// Places kind after kind, from the plan that there is or from none.
  [[nodiscard]] plan_search place_all(std::uint64_t work, bool has_start)
  {
    bool const is_one = step_.kinds.size() == 1;
    std::size_t const rounds = is_one || !is_small_ ? 1 : 2;
    for (std::size_t round = 0; round < rounds; ++round) {
      std::size_t first = 0;
      for (std::size_t kind = 0; kind < step_.kinds.size(); ++kind) {
        std::size_t const own = step_.kinds[kind].slots;
        plan_search const end = place(kind, first, own, work, has_start || round > 0);
        if (end != plan_search::found) { return end; }
        first += own;
      }
    }
    return plan_search::found;
  }

  [[nodiscard]] plan_search place(std::size_t kind, std::size_t first_slot, std::size_t slots,
                                  std::uint64_t work, bool has_start)
  {
    std::size_t const ranks = bags_.size();
    bool const meets = this->meets(slots);
    bool const is_one = step_.kinds.size() == 1;
    auto scratch = memory_.open();
    auto const samples = scratch.take<std::uint32_t>(costs_.size());
    bool const has_starts = !limits_.starting_loads.empty();
    auto const starts = scratch.take<cost_units>(has_starts || !meets ? ranks : 0);
    std::size_t count = 0;
    for (std::uint32_t sample = 0; sample < costs_.size(); ++sample) {
      if (step_.problem.kinds[step_.item_of[sample]] == kind) { samples[count++] = sample; }
    }
    auto const own = samples.first(count);
    placement_limits limits = limits_;
    auto const fits = [&](sample_id sample, bag_id bag) {
      return limits_.fits(to_id<sample_id>(own[to_index(sample)]), bag);
    };
    auto const asked = scratch.take<sample_id>(limits_.mixes.empty() ? 0 : count);
    auto const mixes = [&](std::span<sample_id const> together) {
      std::transform(together.begin(), together.end(), asked.begin(),
                     [own](sample_id sample) { return to_id<sample_id>(own[to_index(sample)]); });
      return limits_.mixes(asked.first(together.size()));
    };
    auto const of_kind = [&](auto const values) {
      using value = std::remove_cvref_t<decltype(values[0])>;
      auto const some = scratch.take<value>(values.empty() ? 0 : count);
      for (std::size_t at = 0; at < some.size(); ++at) { some[at] = values[own[at]]; }
      return some;
    };
    auto const keys_of_kind = [&](sample_keys const& keys) {
      auto const all = scratch.take<std::int64_t>(keys.size());
      keys.read_into(all);
      return sample_keys(of_kind(std::span<std::int64_t const>(all)));
    };
    auto const costs = of_kind(costs_);
    auto const home = of_kind(home_);
    sample_lengths const lengths{of_kind(lengths_.own), of_kind(lengths_.fitting),
                                 lengths_.short_samples};
    limits.together = keys_of_kind(limits_.together);
    limits.apart = keys_of_kind(limits_.apart);
    for (std::size_t at = 0; at < limits.also.size(); ++at) {
      limits.also[at].of = of_kind(std::span<std::int64_t const>(limits.also[at].of));
    }
    if (limits.then.what() == second_objective::kind::least) {
      limits.then = least(of_kind(limits_.then.of()));
    }
    if (!limits_.fits.empty()) { limits.fits = fits; }
    if (!limits_.mixes.empty()) { limits.mixes = mixes; }
    // Work before the step belongs to the first slot, or to every bag with what other kinds do.
    for (std::size_t rank = 0; rank < starts.size(); ++rank) {
      bool const has = has_starts && (!meets || first_slot == 0);
      starts[rank] = has ? limits_.starting_loads[rank] : 0;
    }
    for (std::size_t item = 0; item < owner_.size() && !meets; ++item) {
      bool const is_placed = step_.problem.kinds[item] < kind || has_start;
      if (step_.problem.kinds[item] == kind || !is_placed) { continue; }
      starts[to_index(owner_[item]) % ranks] += step_.problem.costs[item];
    }
    limits.starting_loads = starts;
    limited_items items(costs, 1, {lengths, {}, home}, bags_, limits, scratch, {slots, meets});
    if (!items.read(scratch)) { return plan_search::none; }
    placement_problem const problem = items.problem();
    limit_search search(problem, items.ranked(), is_one ? lower_bound_ : ratio{}, work, memory_,
                        scratch);
    auto const start = scratch.take<std::uint32_t>(problem.size());
    std::size_t const first_cell = first_slot * ranks;
    for (std::size_t at = 0; at < count && has_start; ++at) {
      start[items.item(at)] =
          static_cast<std::uint32_t>(to_index(owner_[step_.item_of[own[at]]]) - first_cell);
    }
    if (has_start) { search.begin_with(start); }
    if (!search(tie_of(limits), limits.within_per_million)) {
      return search.is_proven() ? plan_search::none : plan_search::gave_up;
    }
    for (std::size_t at = 0; at < count; ++at) {
      owner_[step_.item_of[own[at]]] =
          to_id<cell_id>(first_cell + search.plan().owner(items.item(at)));
    }
    is_proven_ = is_one && search.is_proven();
    is_tie_proven_ = is_one && search.is_tie_proven();
    makespan_ = search.makespan();
    return plan_search::found;
  }

  /// Looks for numbers of slots, for each kind, that have cells for its items, those near the ones
  /// that share_slots() gives first, and places the kinds in these.
  [[nodiscard]] plan_search search_shares(std::size_t slots, std::uint64_t work)
  {
    std::size_t const choices = slots - step_.fewest() + 1;  // further slots of one kind
    std::size_t const kinds = step_.kinds.size();
    if (choices > 256 / kinds) { return plan_search::gave_up; }
    auto scratch = memory_.open();
    auto const ends = scratch.take<plan_search>(kinds * choices);
    for (std::size_t kind = 0; kind < kinds; ++kind) {
      for (std::size_t more = 0; more < choices; ++more) {
        std::size_t const own = step_.kinds[kind].fewest + more;
        std::size_t const cells = own * bags_.size();
        bool const is_short =
            limits_.samples.kind == counts::rule::filled && step_.kinds[kind].items < cells;
        ends[kind * choices + more] =
            is_short ? plan_search::none : place(kind, 0, own, work / 8, false);
      }
    }
    work_budget tries(std::uint64_t{1} << 16);
    plan_search const end = share(ends, choices, 0, choices - 1, tries);
    return end == plan_search::found ? place_all(work, false) : end;
  }

  /// Gives the kinds from this one on `rest` further slots, each a number that ended well.
  [[nodiscard]] plan_search share(std::span<plan_search const> ends, std::size_t choices,
                                  std::size_t kind, std::size_t rest, work_budget& tries)
  {
    tries.spend(1);
    if (tries.spent()) { return plan_search::gave_up; }
    grid_kind& own = step_.kinds[kind];
    bool const is_last = kind + 1 == step_.kinds.size();
    std::size_t const wanted = std::min(own.slots - own.fewest, rest);
    plan_search all = plan_search::none;
    for (std::size_t away = 0; away <= 2 * choices; ++away) {  // wanted, then on both sides of it
      std::size_t const step = (away + 1) / 2;
      bool const is_below = away % 2 == 1;
      if (is_below ? step > wanted : wanted + step > rest) { continue; }
      std::size_t const more = is_below ? wanted - step : wanted + step;
      if (is_last && more != rest) { continue; }
      plan_search end = ends[kind * choices + more];
      if (end == plan_search::none) { continue; }
      if (!is_last) {
        plan_search const others = share(ends, choices, kind + 1, rest - more, tries);
        end = others == plan_search::found ? end : others;
      }
      if (end == plan_search::found) {
        own.slots = own.fewest + more;
        return end;
      }
      if (end == plan_search::gave_up) { all = end; }
    }
    return all;
  }

  static constexpr std::uint64_t many = 1024;

  grid_step const& step_;
  std::span<cost_units const> costs_;
  sample_lengths const& lengths_;
  std::span<bag_id const> home_;
  bag_layout const& bags_;
  microbatches const& given_;
  placement_limits const& limits_;
  workspace& memory_;
  std::span<cell_id> owner_;
  ratio lower_bound_;
  ratio makespan_;
  std::size_t slots_ = 0;
  bool is_small_ = false;
  bool is_greedy_ = false;
  bool is_proven_ = false;
  bool is_tie_proven_ = false;
};

/// When a step ends whose cells have these loads.
///
/// Shapes      loads[slots x bags], slot after slot; starts[bags], or empty.
/// Complexity  O(slots bags).
[[nodiscard]] inline ratio grid_makespan(std::span<cost_units const> loads, bag_layout const& bags,
                                         grid_meeting meet, std::span<cost_units const> starts,
                                         workspace& memory)
{
  auto scratch = memory.open();
  auto const sums = scratch.take<cost_units>(bags.size());
  std::fill(sums.begin(), sums.end(), 0);
  std::copy(starts.begin(), starts.end(), sums.begin());
  std::int64_t const common = common_speed(bags.speeds());
  cost_units all = 0;
  for (std::size_t cell = 0; cell < loads.size(); ++cell) {
    std::size_t const bag = cell % bags.size();
    sums[bag] += loads[cell];
    if (meet == grid_meeting::step || bag + 1 != bags.size()) { continue; }
    cost_units latest = 0;
    for (std::size_t each = 0; each < bags.size(); ++each) {
      latest = std::max(latest, std::exchange(sums[each], 0) * (common / bags.speeds()[each]));
    }
    all += latest;
  }
  return meet == grid_meeting::step ? makespan_of(sums, bags.speeds()) : ratio{all, common};
}

BALLAST_ONCE result<void> plan_grid(grid_plan& plan, workspace& memory,
                                    sample_lengths const& lengths, bag_layout const& bags,
                                    microbatches const& given, placement_limits const& limits)
{
  std::size_t const count = lengths.own.size();
  std::size_t const ranks = bags.size();
  auto scratch = memory.open();
  cost_units left = no_cost - 1;
  for (cost_units const start : limits.starting_loads) { left -= start; }
  std::int64_t const common = common_speed(bags.speeds());
  std::int64_t const slowest = *std::min_element(bags.speeds().begin(), bags.speeds().end());
  if (given.meet == grid_meeting::microbatch) {
    left = common == no_cost ? -1 : left - (no_cost - no_cost / (common / slowest));
  }
  for (std::size_t sample = 0; sample < count; ++sample) {
    if (plan.costs[sample] > left) {
      return fail(
          error_code::out_of_range, sample,
          "the samples and limits.starting_loads together, in a unit that bags of all these "
          "speeds share, cost more than 63 bits hold; use a coarser unit or rounder speeds");
    }
    left -= plan.costs[sample];
  }
  all_caps const caps(limits);
  plan.ranks = ranks;
  plan.meet = given.meet;
  plan.weights.resize(count);
  for (std::size_t sample = 0; sample < count; ++sample) {
    plan.weights[sample] =
        caps.size() == 0 ? lengths.own[sample] : taken_of(caps[0], sample, lengths.own);
  }
  auto const home = bags_of_home(limits, bags, scratch);
  std::int64_t const unit = std::max<std::int64_t>(
      common_divisor(limits.starting_loads, common_divisor(span_of(plan.costs))), 1);
  auto const costs = divided(span_of(plan.costs), unit, scratch);
  placement_limits in_units = limits;
  in_units.starting_loads = divided(limits.starting_loads, unit, scratch);
  auto const step =
      read_grid(costs, span_of(plan.weights), lengths, bags, given, in_units, scratch, memory);
  if (!step) { return tl::unexpected(step.error()); }
  grid_maker maker(*step, costs, lengths, home, bags, given, in_units, memory, scratch);
  auto const fill = [&](std::size_t slots) { return maker.fill(slots, given.work); };
  auto const rounded = [&](std::size_t slots) {
    return (slots + given.multiple_of - 1) / given.multiple_of * given.multiple_of;
  };
  plan.fewest_microbatches = step->fewest();
  plan.microbatches = given.number.value_or(0);
  plan_search end = plan_search::gave_up;
  if (given.number && !step->falls) { end = fill(*given.number); }
  if (end != plan_search::found) {
    slot_range::found const found = slot_range(*step, given, limits, count).find(fill);
    if (found.slots == 0) {
      return fail(error_code::infeasible, 0, "no plan for ", counted(count, "sample"), " on ",
                  counted(ranks, "bag"), " ", found.is_without_plan ? "exists" : "was found",
                  " that keeps to the limits of cells and kinds",
                  given.multiple_of > 1 ? ", with as many microbatches as asked for" : "",
                  found.is_without_plan ? "" : ", and the search gave up before it had tried all",
                  "; relax one of them");
    }
    std::size_t least = found.slots;
    if (step->falls && least > given.number.value_or(least)) {
      end = fill(*given.number);
      if (end == plan_search::found) { least = *given.number; }
    }
    if (given.number && (!step->falls || least > *given.number)) {
      return fail(error_code::infeasible, 0, "no plan with ", counted(*given.number, "microbatch"),
                  " ", end == plan_search::none ? "exists" : "was found in a search that gave up",
                  "; the least found is ", rounded(least), ", and no plan has fewer than ",
                  plan.fewest_microbatches, "; give that many, or none");
    }
    plan.microbatches = given.number.value_or(rounded(least));
    if (maker.slots() != least) { (void)fill(least); }
  }
  maker.shorten(plan.microbatches);

  plan.decided = step->decide(plan.microbatches, given);
  plan.owner.resize(count);
  std::span<cell_id> const owners = mutable_span_of(plan.owner);
  for (std::size_t sample = 0; sample < count; ++sample) {
    owners[sample] = maker.owner()[step->item_of[sample]];
  }
  if (step->falls && limits.starting_loads.empty()) {
    empty_slots_last(owners, ranks, plan.microbatches, memory);
  }
  if (!home.empty() && step->is_alike) {
    std::size_t const at_once = given.meet == grid_meeting::step ? plan.microbatches : 1;
    for (std::size_t slot = 0; slot < plan.microbatches; slot += at_once) {
      keep_homes(owners, home, lengths.own, bags, slot, slot + at_once, memory);
    }
  }
  std::size_t const cells = ranks * plan.microbatches;
  plan.loads.assign(cells, 0);
  plan.filled.assign(cells, 0);
  plan.moved = {};
  tokens moved = 0;
  tokens all = 0;
  for (std::size_t sample = 0; sample < count; ++sample) {
    std::size_t const cell = to_index(owners[sample]);
    plan.loads[cell] += plan.costs[sample];
    plan.filled[cell] += plan.weights[sample];
    bool const leaves = !home.empty() && to_index(home[sample]) != cell % ranks;
    moved += leaves ? lengths.own[sample] : 0;
    all += lengths.own[sample];
  }
  if (moved > 0) { plan.moved = {moved, all}; }
  plan.samples.collect(span_of(plan.owner), cells);
  plan.above_cap.clear();
  for (std::size_t at = 0; at < caps.size(); ++at) {
    for (std::size_t cell = 0; cell < cells && caps[at].is_soft; ++cell) {
      auto const id = to_id<cell_id>(cell);
      std::int64_t held = 0;
      for (sample_id const sample : plan.samples[id]) {
        held += taken_of(caps[at], to_index(sample), lengths.own);
      }
      bool const is_over = held > room_of_bag(bags, cell % ranks, caps[at]);
      if (is_over &&
          std::find(plan.above_cap.begin(), plan.above_cap.end(), id) == plan.above_cap.end()) {
        plan.above_cap.push_back(id);
      }
    }
  }
  plan.kinds.clear();
  for (grid_kind const& kind : step->kinds) {
    if (!given.kinds.empty()) { plan.kinds.insert(plan.kinds.end(), kind.slots, kind.key); }
  }
  plan.makespan =
      grid_makespan(span_of(plan.loads), bags, given.meet, limits.starting_loads, memory);
  plan.lower_bound = maker.lower_bound();
  plan.lower_bound.numerator *= unit;
  plan.then_is_proven = maker.is_tie_proven();
  BALLAST_EXPECTS(plan.lower_bound <= plan.makespan, "a grid ends before its bound");
  return {};
}

}  // namespace ballast::inline v0::detail
