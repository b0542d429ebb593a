// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_GRID_DETAIL_SLOT_SHARES_HPP
#define BALLAST_PARTITION_GRID_DETAIL_SLOT_SHARES_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/grid/concepts.hpp>
#include <ballast/partition/grid/detail/grid_cells.hpp>
#include <ballast/partition/grid/detail/grid_items.hpp>
#include <ballast/partition/grid/detail/grid_step.hpp>
#include <ballast/partition/grid/detail/search_cells.hpp>
#include <ballast/partition/grid/grid_options.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

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

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_GRID_DETAIL_SLOT_SHARES_HPP
