// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/detail/read_samples.hpp>
#include <ballast/partition/grid/detail/grid_step.hpp>
#include <ballast/partition/grid/detail/search_cells.hpp>
#include <ballast/partition/grid/grid_lower_bound.hpp>

#include <functional>
#include <iterator>
#include <ranges>

namespace ballast::inline v0 {

namespace detail {

/// Why a grid cannot be planned, whatever its samples are, if so.
[[nodiscard]] inline result<void> check_grid(grid_options const& given, std::size_t samples,
                                             std::size_t ranks)
{
  constexpr auto limit = std::size_t{1} << 32;
  auto const refuse = [](auto const&... pieces) {
    return fail(error_code::out_of_range, 0, pieces...);
  };
  if (samples >= limit) { return refuse("a step has more than 2^32 - 1 samples; split it"); }
  if (ranks == 0) { return refuse("a grid of 0 ranks computes nothing; give at least one"); }
  std::size_t const slots = given.microbatches.value_or(1);
  if (slots == 0) {
    return refuse("options.microbatches is 0; give at least 1, or none to find the least");
  }
  if (given.multiple_of == 0) {
    return refuse("options.multiple_of is 0, and only 0 is a multiple of it; give 1 or more");
  }
  if (given.microbatches && slots % given.multiple_of != 0) {
    return refuse("options.microbatches is ", slots, " and options.multiple_of ", given.multiple_of,
                  "; give a multiple, or no number of microbatches");
  }
  if (slots >= limit / ranks || given.multiple_of >= limit / ranks) {
    return refuse("a grid of ", counted(ranks, "rank"), " and ",
                  counted(std::max(slots, given.multiple_of), "slot"),
                  " has more than 2^32 - 1 cells; use fewer");
  }
  std::size_t const cells = ranks * std::max(slots, given.multiple_of);
  if (given.fill_cells && samples < cells) {
    return fail(error_code::infeasible, 0, "options.fill_cells asks for a sample in each of ",
                counted(cells, "cell"), ", and a step has ", counted(samples, "sample"),
                "; give fewer ranks or microbatches, or leave it out");
  }
  if (given.weight_multiple < 1) {
    return refuse("options.weight_multiple is ", given.weight_multiple, "; give 1 or more");
  }
  bool const by_rank = !given.most_weights.empty();
  if (by_rank && (given.most_weights.size() != ranks || given.most_weight != no_limit)) {
    return refuse("options.most_weights has ", counted(given.most_weights.size(), "entry"), " for ",
                  counted(ranks, "rank"),
                  ", or stands beside most_weight; give one for each rank, or one for all");
  }
  std::int64_t const least =
      by_rank ? *std::min_element(given.most_weights.begin(), given.most_weights.end())
              : given.most_weight;
  if (least < 0) { return refuse("a cell cannot hold ", least, "; give the most that it holds"); }
  bool const has_number = given.counts.kind == cell_counts::rule::at_most ||
                          given.counts.kind == cell_counts::rule::multiple_of;
  if (has_number && given.counts.number == 0) {
    return refuse("options.counts asks for 0 samples in a cell; give at least 1");
  }
  if (given.counts.kind == cell_counts::rule::multiple_of && samples % given.counts.number != 0) {
    return fail(error_code::infeasible, 0, "a step has ", counted(samples, "sample"),
                ", no multiple of ", given.counts.number,
                ", as options.counts asks of every cell; leave out ",
                samples % given.counts.number);
  }
  auto const lists =
      std::to_array<std::pair<char const*, std::size_t>>({{"together", given.together.size()},
                                                          {"home", given.home.size()},
                                                          {"kinds", given.kinds.size()}});
  for (auto const& [name, size] : lists) {
    if (size != 0 && size != samples) {
      return fail(error_code::out_of_range, std::min(size, samples), "options.", name, " has ",
                  counted(size, "entry"), " for ", counted(samples, "sample"),
                  "; give one for each sample, or none");
    }
  }
  for (std::size_t sample = 0; sample < given.home.size(); ++sample) {
    if (to_index(given.home[sample]) >= ranks) {
      return fail(error_code::out_of_range, sample, "sample ", sample, " lies on rank ",
                  to_index(given.home[sample]), " of a grid of ", counted(ranks, "rank"),
                  "; correct its home");
    }
  }
  return {};
}

/// A weight, rounded up as the options say, or why it cannot be.
[[nodiscard]] inline result<std::int64_t> rounded_weight(std::size_t sample, std::int64_t weight,
                                                         std::int64_t multiple, std::int64_t total)
{
  std::int64_t const most = std::numeric_limits<std::int64_t>::max() - 1 - total;
  if (weight < 0) {
    return fail(error_code::out_of_range, sample, "sample ", sample, " has the weight ", weight,
                ", which is negative; correct it");
  }
  std::int64_t const units = weight / multiple + (weight % multiple != 0 ? 1 : 0);
  if (units > most / multiple) {
    return fail(error_code::out_of_range, sample, "sample ", sample, " of weight ", weight,
                " brings the total above 63 bits; use a coarser unit or fewer samples");
  }
  return units * multiple;
}

/// Renumbers the ranks of some slots so that much weight stays at home: pairs of a row and the home
/// of most of its weight go first. What kept more before stays.
///
/// Shapes      owner[n], home[n], weights[n]; cells are slot x ranks + rank.
/// Complexity  O(n log n).
inline void keep_homes(std::span<cell_id> owner, std::span<rank_id const> home,
                       std::span<std::int64_t const> weights, std::size_t ranks,
                       std::size_t first_slot, std::size_t end_slot, workspace& memory)
{
  struct held {
    std::uint64_t pair;  ///< row x ranks + home
    std::int64_t weight;
  };
  auto scratch = memory.open();
  auto const pairs = scratch.take<held>(owner.size());
  std::size_t count = 0;
  std::int64_t kept = 0;
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    std::size_t const cell = to_index(owner[sample]);
    if (cell < first_slot * ranks || cell >= end_slot * ranks) { continue; }
    std::size_t const row = cell % ranks;
    pairs[count++] = {row * ranks + to_index(home[sample]), weights[sample]};
    if (row == to_index(home[sample])) { kept += weights[sample]; }
  }
  auto const used = pairs.first(count);
  std::sort(used.begin(), used.end(), [](held a, held b) { return a.pair < b.pair; });
  std::size_t merged = 0;
  for (held const each : used) {
    if (merged > 0 && used[merged - 1].pair == each.pair) {
      used[merged - 1].weight += each.weight;
    } else {
      used[merged++] = each;
    }
  }
  auto const best = used.first(merged);
  std::sort(best.begin(), best.end(), [](held a, held b) {
    return a.weight != b.weight ? a.weight > b.weight : a.pair < b.pair;
  });
  constexpr auto none = std::numeric_limits<std::uint32_t>::max();
  auto const rank_of = scratch.take<std::uint32_t>(ranks);
  auto const row_of = scratch.take<std::uint32_t>(ranks);
  std::fill(rank_of.begin(), rank_of.end(), none);
  std::fill(row_of.begin(), row_of.end(), none);
  std::int64_t would_keep = 0;
  for (held const each : best) {
    auto const row = static_cast<std::uint32_t>(each.pair / ranks);
    auto const rank = static_cast<std::uint32_t>(each.pair % ranks);
    if (rank_of[row] != none || row_of[rank] != none) { continue; }
    rank_of[row] = rank;
    row_of[rank] = row;
    would_keep += each.weight;
  }
  if (would_keep <= kept) { return; }
  std::uint32_t free = 0;
  for (std::uint32_t& rank : rank_of) {
    if (rank != none) { continue; }
    while (row_of[free] != none) { ++free; }
    rank = free++;
  }
  for (cell_id& cell : owner) {
    std::size_t const at = to_index(cell);
    if (at < first_slot * ranks || at >= end_slot * ranks) { continue; }
    cell = to_id<cell_id>(at - at % ranks + rank_of[at % ranks]);
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

/// Writes the slots of one kind. Returns false where its samples are fewer than cells that need one.
[[nodiscard]] inline bool write_slots(grid_step const& step, std::size_t kind,
                                      grid_options const& options, std::span<grid_slot> slots)
{
  grid_kind const& own = step.kinds[kind];
  std::size_t const cells = step.problem.ranks() * slots.size();
  grid_slot slot{static_cast<std::uint32_t>(kind)};
  switch (options.counts.kind) {
    case cell_counts::rule::any: break;
    case cell_counts::rule::at_most: slot.most = options.counts.number; break;
    case cell_counts::rule::equal:
      slot.least = static_cast<std::uint32_t>(own.samples / cells);
      slot.most = slot.least + (own.samples % cells != 0 ? 1U : 0U);
      break;
    case cell_counts::rule::multiple_of: slot.step = options.counts.number; break;
  }
  if (options.fill_cells) { slot.least = std::max(slot.least, slot.step); }
  std::fill(slots.begin(), slots.end(), slot);
  return !options.fill_cells || (own.items >= cells && own.samples / slot.step >= cells);
}

/// Writes the slots of all kinds, as many as they have.
[[nodiscard]] inline bool write_slots(grid_step const& step, grid_options const& options,
                                      std::span<grid_slot> slots)
{
  bool enough = true;
  std::size_t next = 0;
  for (std::size_t kind = 0; kind < step.kinds.size(); ++kind) {
    std::size_t const own = step.kinds[kind].slots;
    enough = write_slots(step, kind, options, slots.subspan(next, own)) && enough;
    next += own;
  }
  return enough;
}

/// Whether there are cells for the items of one kind in so many slots.
[[nodiscard]] inline plan_search search_kind(grid_step const& step, grid_options const& options,
                                             std::size_t kind, std::size_t slots, workspace& memory)
{
  auto scratch = memory.open();
  auto const laid_out = scratch.take<grid_slot>(slots + step.kinds.size() - 1);
  for (std::size_t other = 0; other < step.kinds.size(); ++other) {  // one slot each, unused
    laid_out[other + (other < kind ? 0 : slots - 1)] = {static_cast<std::uint32_t>(other)};
  }
  if (!write_slots(step, kind, options, laid_out.subspan(kind, slots))) {
    return plan_search::none;
  }
  grid_problem problem = step.problem;
  problem.slots = laid_out;
  grid_cells cells(problem, scratch.take<cell_id>(problem.costs.size()), scratch);
  cells.clear();
  return search_cells(cells, items_by_kind(problem, scratch)[kind], memory);
}

/// Looks for numbers of slots, for each kind, that have cells for its items, near those that
/// share_slots() gives, and gives the kinds these.
///
/// Complexity  a search for each kind and number; it gives up above 256 of them.
[[nodiscard]] inline plan_search search_shares(grid_step const& step, grid_options const& options,
                                               std::size_t slots, workspace& memory)
{
  if (slots < step.fewest()) { return plan_search::none; }
  share_slots(step, slots);
  std::size_t const choices = slots - step.fewest() + 1;  // further slots of one kind
  std::size_t const kinds = step.kinds.size();
  if (kinds == 1) { return search_kind(step, options, 0, slots, memory); }
  if (choices > 256 / kinds) { return plan_search::gave_up; }
  auto scratch = memory.open();
  // ends[kind][more]: of the kind alone; reached[kind][more]: of the kinds before it together.
  auto const ends = scratch.take<plan_search>(kinds * choices);
  auto const reached = scratch.take<plan_search>((kinds + 1) * choices);
  std::fill(reached.begin(), reached.end(), plan_search::none);
  reached[0] = plan_search::found;
  auto const both = [](plan_search a, plan_search b) {
    if (a == plan_search::none || b == plan_search::none) { return plan_search::none; }
    return a == plan_search::found ? b : a;
  };
  for (std::size_t kind = 0; kind < kinds; ++kind) {
    for (std::size_t own = 0; own < choices; ++own) {
      plan_search const end =
          search_kind(step, options, kind, step.kinds[kind].fewest + own, memory);
      ends[kind * choices + own] = end;
      for (std::size_t before = 0; before + own < choices; ++before) {
        plan_search const joined = both(reached[kind * choices + before], end);
        plan_search& all = reached[(kind + 1) * choices + before + own];
        if (all != plan_search::found && joined != plan_search::none) { all = joined; }
      }
    }
  }
  std::size_t rest = choices - 1;
  if (reached[kinds * choices + rest] != plan_search::found) {
    return reached[kinds * choices + rest];
  }
  for (std::size_t kind = kinds; kind-- > 0;) {
    grid_kind& own = step.kinds[kind];
    std::size_t const wanted = own.slots - own.fewest;
    auto const away = [wanted](std::size_t more) {
      return more > wanted ? more - wanted : wanted - more;
    };
    std::size_t best = choices;
    for (std::size_t more = 0; more <= rest; ++more) {
      bool const can = both(reached[kind * choices + rest - more], ends[kind * choices + more]) ==
                       plan_search::found;
      if (can && (best == choices || away(more) < away(best))) { best = more; }
    }
    own.slots = own.fewest + best;
    rest -= best;
  }
  return plan_search::found;
}

/// The numbers of slots that a step may have: where the last has no plan, larger ones have none.
struct slot_range {
  std::size_t least;
  std::size_t last;
  std::size_t multiple;
  bool has_gaps;  ///< a number without a plan may lie above one that has a plan

  static constexpr std::size_t one_by_one = 64;  ///< so many numbers are tried one after the other

  slot_range(grid_step const& step, grid_options const& options, std::size_t samples)
      : multiple(options.multiple_of),
        has_gaps(options.fill_cells || options.counts.kind == cell_counts::rule::equal)
  {
    least = rounded(step.fewest());
    bool const whole = options.counts.kind == cell_counts::rule::multiple_of;
    // With more, a kind has more cells than samples, or than full steps of them; of equal counts,
    // more cells of the largest cap, which hold any of them.
    auto const& caps = step.problem.most_weights;
    auto const largest = static_cast<std::size_t>(
        std::count(caps.begin(), caps.end(), *std::max_element(caps.begin(), caps.end())));
    std::size_t const further = has_gaps ? samples / largest + step.kinds.size()
                                         : samples / (whole ? options.counts.number : 1);
    last = options.fill_cells ? samples / step.problem.ranks() / multiple * multiple
                              : rounded(least + further);
  }

  /// Finds the least number with which `fill` finds a plan: one after the other where there may be
  /// gaps, otherwise in steps that double, and back. Returns 0 where there is none.
  template <class Fill>
  [[nodiscard]] std::size_t find(Fill const& fill) const
  {
    if (has_gaps) {
      std::size_t tried = least;
      for (; tried <= last && (tried - least) / multiple < one_by_one; tried += multiple) {
        if (fill(tried)) { return tried; }
      }
      if (tried > last) { return 0; }
    }
    std::size_t tried = least;
    std::size_t failed = least - multiple;
    for (std::size_t step = multiple; !fill(tried); step *= 2) {
      if (tried >= last) { return 0; }
      failed = tried;
      tried += step;
    }
    while (tried - failed > multiple) {
      std::size_t const middle = failed + (tried - failed) / multiple / 2 * multiple;
      (fill(middle) ? tried : failed) = middle;
    }
    return tried;
  }

  /// Whether it is proven that no number has a plan.
  [[nodiscard]] bool has_no_plan(grid_step const& step, grid_options const& options,
                                 workspace& memory) const
  {
    std::size_t const first = has_gaps ? least : last;
    if (first <= last && (last - first) / multiple >= one_by_one) { return false; }
    for (std::size_t slots = first; slots <= last; slots += multiple) {
      if (!is_without_plan(step, options, slots, memory)) { return false; }
    }
    return true;
  }

  /// Whether it is proven that this number of slots has no plan.
  [[nodiscard]] static bool is_without_plan(grid_step const& step, grid_options const& options,
                                            std::size_t slots, workspace& memory)
  {
    return slots < step.fewest() ||
           search_shares(step, options, slots, memory) == plan_search::none;
  }

 private:
  [[nodiscard]] std::size_t rounded(std::size_t slots) const noexcept
  {
    return (slots + multiple - 1) / multiple * multiple;
  }
};

/// Runs the policy with so many slots. Fills the plan's shape, items' owners and bound where it
/// found a plan.
template <grid_policy Policy>
[[nodiscard]] bool fill_grid(grid_plan& plan, std::span<cell_id> owner, grid_step const& step,
                             std::size_t slots, grid_options const& options, Policy const& policy,
                             workspace& memory)
{
  if (slots >= (std::size_t{1} << 32) / step.problem.ranks()) { return false; }
  auto scratch = memory.open();
  auto const laid_out = scratch.take<grid_slot>(slots);
  if (slots < step.fewest()) { return false; }
  grid_problem problem = step.problem;
  problem.slots = laid_out;
  auto const filled = [&] {
    return write_slots(step, options, laid_out) && policy(problem, owner, memory);
  };
  share_slots(step, slots);
  if (!filled() &&
      (step.kinds.size() == 1 ||
       search_shares(step, options, slots, memory) != plan_search::found || !filled())) {
    return false;
  }

  // A policy that is wrong ends the program here: its cells would be taken for safe.
  grid_cells cells(problem, owner, scratch);
  cells.recount();
  BALLAST_EXPECTS(cells.is_valid(),
                  "the policy left a sample without a cell, or a cell with a "
                  "number of samples that its slot does not take");
  for (std::size_t cell = 0; cell < problem.cells(); ++cell) {
    BALLAST_EXPECTS(cells.weights[cell] <= problem.most_weights[cell % problem.ranks()],
                    "the policy put a weight of ", cells.weights[cell], " in cell ", cell,
                    ", above its cap");
  }
  for (std::size_t item = 0; item < owner.size(); ++item) {
    BALLAST_EXPECTS(cells.slot_of(cells.cell_of(item)).kind == problem.kinds[item],
                    "the policy put an item in a slot of another kind");
  }
  plan.microbatches = slots;
  plan.makespan = cells.makespan();
  plan.lower_bound = grid_lower_bound(problem, memory);
  BALLAST_EXPECTS(plan.lower_bound <= plan.makespan, "no plan gets below ", plan.lower_bound,
                  ", and the policy's has ", plan.makespan);
  plan.kinds.clear();
  if (options.kinds.empty()) { return true; }
  for (grid_slot const& slot : laid_out) { plan.kinds.push_back(step.kinds[slot.kind].key); }
  return true;
}

}  // namespace detail

/// Decides which rank computes which samples in which of its microbatches, for trainers that add up
/// gradients over several microbatches a step, as many on every rank: the form for a training loop.
///
/// Shapes      samples[n] of any type, n < 2^32; options: arrays of n or empty.
/// In, out     plan is overwritten, and keeps its memory for the next step.
/// Expects     cost_of(sample) returns what the sample costs, weight_of(sample) what it takes of a
///             cell's cap, as its tokens; both are integers. A sample that is a number is its own
///             weight. The policy does what grid_policy says.
/// Ensures     (1) those of grid_plan
///             (2) the options are kept: every rank has as many cells; no cell weighs more than
///                 its cap, has another number of samples than asked for, samples of two kinds, or
///                 a part of samples that stay together
///             (3) a number of microbatches that is not given is the least that is found, and
///                 plan.fewest_microbatches says below which there is no plan, and plan.decided
///                 what asks for so many
///             (4) the plan depends on nothing but the arguments, so every rank finds the same one
///             (5) with a plan and a workspace that have seen a step as large, nothing is allocated
/// Errors      out_of_range: there are 0 ranks or 0 microbatches, options are out of range, sample
///             `position` has a negative weight or cost, or they overflow; infeasible: sample
///             `position` or the samples that stay together with it are above every cap; or no plan
///             was found, with a number of microbatches that is too small (the sentence says the
///             least found), or with any. The sentence says whether none exists or the search gave
///             up; in small grids it hardly ever does. The plan is then unspecified.
/// Complexity  O(n) calls of cost_of and weight_of, radix sorts of both, the policy (once, or
///             O(log K) times where it does not find a plan at once), and the bound; with samples
///             that stay together, kinds or homes O(n log n).
template <std::ranges::forward_range Samples, grid_policy Policy,
          integer_projection<Samples> CostOf, integer_projection<Samples> WeightOf = std::identity>
[[nodiscard]] result<void> partition_grid_into(grid_plan& plan, workspace& memory,
                                               Samples&& samples, std::size_t ranks,
                                               grid_options const& options, Policy const& policy,
                                               CostOf const& cost_of,
                                               WeightOf const& weight_of = {})
{
  auto const count = static_cast<std::size_t>(std::ranges::distance(samples));
  if (auto checked = detail::check_grid(options, count, ranks); !checked) { return checked; }
  plan.ranks = ranks;
  plan.meet = options.meet;
  plan.costs.resize(count);
  plan.weights.resize(count);
  std::size_t next = 0;
  cost_units total_cost = 0;
  std::int64_t total_weight = 0;
  for (auto&& sample : samples) {
    auto const weight =
        detail::rounded_weight(next, detail::saturated(std::invoke(weight_of, sample)),
                               options.weight_multiple, total_weight);
    if (!weight) { return tl::unexpected(weight.error()); }
    cost_units const cost = detail::saturated(std::invoke(cost_of, sample));
    if (auto checked = detail::check_cost({next}, cost, total_cost); !checked) { return checked; }
    total_cost += cost;
    total_weight += *weight;
    plan.costs[next] = cost;
    plan.weights[next++] = *weight;
  }

  auto scratch = memory.open();
  auto const step = detail::read_grid(detail::span_of(plan.costs), detail::span_of(plan.weights),
                                      ranks, options, scratch, memory);
  if (!step) { return tl::unexpected(step.error()); }
  auto const owner = scratch.take<cell_id>(step->problem.costs.size());
  auto const fill = [&](std::size_t slots) {
    return detail::fill_grid(plan, owner, *step, slots, options, policy, memory);
  };
  plan.fewest_microbatches = step->fewest();
  if (!options.microbatches || !fill(*options.microbatches)) {
    detail::slot_range const range(*step, options, count);
    std::size_t const found = range.find(fill);
    if (found == 0) {
      bool const proven = range.has_no_plan(*step, options, memory);
      return fail(error_code::infeasible, 0, "no plan for ", detail::counted(count, "sample"),
                  " on ", detail::counted(ranks, "rank"), " ", proven ? "exists" : "was found",
                  " that keeps to options' caps, counts, groups and kinds",
                  options.multiple_of > 1 ? ", with as many microbatches as asked for" : "",
                  options.fill_cells ? " and has a sample in every cell" : "",
                  proven ? "" : ", and the search gave up before it had tried all",
                  "; relax one of them");
    }
    if (options.microbatches) {
      bool const proven =
          detail::slot_range::is_without_plan(*step, options, *options.microbatches, memory);
      return fail(error_code::infeasible, 0, "no plan with ",
                  detail::counted(*options.microbatches, "microbatch"), " ",
                  proven ? "exists" : "was found in a search that gave up", "; the least found is ",
                  found, ", and no plan has fewer than ", plan.fewest_microbatches,
                  "; give that many, or none");
    }
    if (plan.microbatches != found && !fill(found)) { return fail(error_code::infeasible, 0, ""); }
  }

  plan.decided = step->decide(plan.microbatches, options);
  plan.owner.resize(count);
  std::span<cell_id> const owners = detail::mutable_span_of(plan.owner);
  for (std::size_t sample = 0; sample < count; ++sample) {
    owners[sample] = owner[step->item_of[sample]];
  }
  auto const& caps = step->problem.most_weights;
  bool const one_cap = std::all_of(caps.begin(), caps.end(),
                                   [&caps](std::int64_t cap) { return cap == caps.front(); });
  if (!options.home.empty() && one_cap) {
    std::size_t const at_once = options.meet == grid_meeting::step ? plan.microbatches : 1;
    for (std::size_t slot = 0; slot < plan.microbatches; slot += at_once) {
      detail::keep_homes(owners, options.home, detail::span_of(plan.weights), ranks, slot,
                         slot + at_once, memory);
    }
  }
  std::size_t const cells = ranks * plan.microbatches;
  plan.loads.assign(cells, 0);
  plan.filled.assign(cells, 0);
  std::int64_t moved = 0;
  for (std::size_t sample = 0; sample < count; ++sample) {
    std::size_t const cell = to_index(owners[sample]);
    plan.loads[cell] += plan.costs[sample];
    plan.filled[cell] += plan.weights[sample];
    bool const leaves = !options.home.empty() && to_index(options.home[sample]) != cell % ranks;
    moved += leaves ? plan.weights[sample] : 0;
  }
  plan.moved = moved == 0 ? ratio{} : ratio{moved, total_weight};
  plan.samples.collect(detail::span_of(plan.owner), cells);
  return {};
}

/// The same, once: returns a new plan.
///
///     auto const plan = partition_grid(lengths, 64, {.most_weight = 16'384}, refine_grid{}, cost);
template <std::ranges::forward_range Samples, grid_policy Policy,
          integer_projection<Samples> CostOf, integer_projection<Samples> WeightOf = std::identity>
[[nodiscard]] result<grid_plan> partition_grid(Samples&& samples, std::size_t ranks,
                                               grid_options const& options, Policy const& policy,
                                               CostOf const& cost_of,
                                               WeightOf const& weight_of = {})
{
  grid_plan plan;
  workspace memory;
  result<void> const done = ballast::partition_grid_into(
      plan, memory, std::forward<Samples>(samples), ranks, options, policy, cost_of, weight_of);
  if (!done) { return tl::unexpected(done.error()); }
  return plan;
}

}  // namespace ballast::inline v0
