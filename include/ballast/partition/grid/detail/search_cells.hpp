// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/grid/grid_plan.hpp>

namespace ballast::inline v0::detail {

/// A grid that is being filled: the cell of each item, and what each cell holds.
///
/// Cells are numbered slot x ranks + rank; an item without one has cell `nowhere()`.
struct grid_cells {
  grid_problem const& problem;
  std::span<cell_id> owner;
  std::span<cost_units> loads;
  std::span<std::int64_t> weights;
  std::span<std::uint32_t> counts;
  std::span<cost_units> sums;  // scratch, by rank

  grid_cells(grid_problem const& given, std::span<cell_id> owners, workspace::frame& scratch)
      : problem(given),
        owner(owners),
        loads(scratch.take<cost_units>(given.cells())),
        weights(scratch.take<std::int64_t>(given.cells())),
        counts(scratch.take<std::uint32_t>(given.cells())),
        sums(scratch.take<cost_units>(given.ranks()))
  {}

  [[nodiscard]] std::size_t nowhere() const noexcept { return problem.cells(); }
  [[nodiscard]] std::size_t cell_of(std::size_t item) const noexcept
  {
    return to_index(owner[item]);
  }

  /// No item has a cell.
  void clear() noexcept
  {
    std::fill(owner.begin(), owner.end(), to_id<cell_id>(nowhere()));
    empty();
  }

  /// Reads what cells hold from the owners.
  void recount() noexcept
  {
    empty();
    for (std::size_t item = 0; item < owner.size(); ++item) {
      std::size_t const cell = cell_of(item);
      if (cell != nowhere()) { put(item, cell); }
    }
  }

  void put(std::size_t item, std::size_t cell) noexcept
  {
    owner[item] = to_id<cell_id>(cell);
    loads[cell] += problem.costs[item];
    weights[cell] += problem.weights[item];
    counts[cell] += problem.counts[item];
  }
  void move(std::size_t item, std::size_t cell) noexcept
  {
    std::size_t const from = cell_of(item);
    loads[from] -= problem.costs[item];
    weights[from] -= problem.weights[item];
    counts[from] -= problem.counts[item];
    put(item, cell);
  }

  /// Whether the cell has room for the item, up to `most` samples.
  [[nodiscard]] bool has_room(std::size_t item, std::size_t cell, std::uint32_t most) const noexcept
  {
    return problem.weights[item] <= problem.most_weights[cell % problem.ranks()] - weights[cell] &&
           problem.counts[item] <= most - counts[cell];
  }
  [[nodiscard]] grid_slot const& slot_of(std::size_t cell) const noexcept
  {
    return problem.slots[cell / problem.ranks()];
  }

  /// Whether every item has a cell and every cell a number of samples that its slot takes.
  [[nodiscard]] bool is_valid() const noexcept
  {
    for (std::size_t cell = 0; cell < counts.size(); ++cell) {
      if (!slot_of(cell).takes(counts[cell])) { return false; }
    }
    return std::none_of(owner.begin(), owner.end(),
                        [this](cell_id cell) { return to_index(cell) == nowhere(); });
  }

  [[nodiscard]] cost_units largest_of(std::size_t slot) const noexcept
  {
    auto const first = loads.begin() + static_cast<std::ptrdiff_t>(slot * problem.ranks());
    return *std::max_element(first, first + static_cast<std::ptrdiff_t>(problem.ranks()));
  }

  [[nodiscard]] cost_units makespan() const noexcept
  {
    cost_units sum = 0;
    if (problem.meet == grid_meeting::microbatch) {
      for (std::size_t slot = 0; slot < problem.slots.size(); ++slot) { sum += largest_of(slot); }
      return sum;
    }
    std::fill(sums.begin(), sums.end(), 0);
    for (std::size_t cell = 0; cell < loads.size(); ++cell) {
      sums[cell % problem.ranks()] += loads[cell];
    }
    return *std::max_element(sums.begin(), sums.end());
  }

 private:
  void empty() noexcept
  {
    std::fill(loads.begin(), loads.end(), 0);
    std::fill(weights.begin(), weights.end(), 0);
    std::fill(counts.begin(), counts.end(), 0U);
  }
};

/// An item with all that a pass over the items looks at.
struct grid_item {
  cost_units cost;
  std::int64_t weight;
  std::uint32_t item;
  std::uint32_t count;
};

/// The items of one kind, heaviest first, and their slots.
struct kind_of_items {
  std::span<grid_item const> items;
  std::size_t first_slot;
  std::size_t end_slot;
  cost_units work;
};

/// The items of a problem by kind.
///
/// Complexity  O(n + slots); 24 bytes of scratch per item.
[[nodiscard]] inline std::span<kind_of_items const> items_by_kind(grid_problem const& problem,
                                                                  workspace::frame& scratch)
{
  std::size_t const kinds = std::size_t{problem.slots.back().kind} + 1;
  auto const items = scratch.take<grid_item>(problem.costs.size());
  auto const by_kind = scratch.take<kind_of_items>(kinds);
  auto const next = scratch.take<std::size_t>(kinds + 1);
  for (std::size_t& each : next) { each = 0; }
  for (std::uint32_t const kind : problem.kinds) { ++next[kind + 1]; }
  for (std::size_t kind = 0; kind < kinds; ++kind) {
    by_kind[kind] = {items.subspan(next[kind], next[kind + 1]), problem.slots.size(), 0, 0};
    next[kind + 1] += next[kind];
  }
  for (std::size_t slot = problem.slots.size(); slot-- > 0;) {
    kind_of_items& own = by_kind[problem.slots[slot].kind];
    own.first_slot = slot;
    if (own.end_slot == 0) { own.end_slot = slot + 1; }
  }
  for (auto const [cost, sample] : problem.heaviest_first) {
    auto const item = static_cast<std::uint32_t>(to_index(sample));
    std::uint32_t const kind = problem.kinds[item];
    items[next[kind]++] = {cost, problem.weights[item], item, problem.counts[item]};
    by_kind[kind].work += cost;
  }
  return by_kind;
}

/// How a search for a plan ended: with one, with the proof that there is none, or without an answer.
enum class plan_search : std::uint8_t { found, none, gave_up };

/// Looks for cells for all items of a kind by trying them: heaviest items first, each in the
/// tightest cell, then in the others. Cells with the same room and number of samples are one.
class cells_by_trial {
 public:
  /// So many looks at cells for one kind, and no search where one way down takes too many.
  static constexpr std::uint64_t most_looks = std::uint64_t{1} << 19;
  static constexpr std::size_t largest = std::size_t{1} << 14;  ///< items x cells

  /// Expects     items x cells <= largest
  cells_by_trial(grid_problem const& problem, kind_of_items const& kind, workspace::frame& scratch)
      : slot_(problem.slots[kind.first_slot]),
        items_(scratch.take<grid_item>(kind.items.size())),
        cells_(scratch.take<content>((kind.end_slot - kind.first_slot) * problem.ranks())),
        tried_(scratch.take<trial>(items_.size() + 1)),
        weight_from_(scratch.take<std::int64_t>(items_.size() + 1)),
        samples_from_(scratch.take<std::uint64_t>(items_.size() + 1))
  {
    std::copy(kind.items.begin(), kind.items.end(), items_.begin());
    std::sort(items_.begin(), items_.end(), [](grid_item const& a, grid_item const& b) {
      if (a.weight != b.weight) { return a.weight > b.weight; }
      return a.count != b.count ? a.count > b.count : a.item < b.item;
    });
    for (std::size_t cell = 0; cell < cells_.size(); ++cell) {
      cells_[cell] = {problem.most_weights[cell % problem.ranks()], 0};
    }
    weight_from_[items_.size()] = 0;
    samples_from_[items_.size()] = 0;
    for (std::size_t item = items_.size(); item-- > 0;) {
      weight_from_[item] = weight_from_[item + 1] + items_[item].weight;
      samples_from_[item] = samples_from_[item + 1] + items_[item].count;
      single_ = single_ && items_[item].count == 1;
    }
  }

  [[nodiscard]] plan_search run()
  {
    work_budget looks(most_looks);
    std::size_t next = 0;  // item
    if (!may_end_well(next)) { return plan_search::none; }
    tried_[0] = {};
    while (next < items_.size()) {
      looks.spend(2 * cells_.size());
      if (looks.spent()) { return plan_search::gave_up; }
      trial& own = tried_[next];
      if (own.any) { give(own.cell, items_[next], -1); }
      if (choose(items_[next], own)) {
        give(own.cell, items_[next], 1);
        if (may_end_well(next + 1)) { tried_[++next] = {}; }
      } else if (next-- == 0) {
        return plan_search::none;
      }
    }
    return plan_search::found;
  }

  /// Expects     run() returned found; no slot of the kind holds anything.
  void put_into(grid_cells& grid, std::size_t first_cell) const
  {
    for (std::size_t item = 0; item < items_.size(); ++item) {
      grid.put(items_[item].item, first_cell + tried_[item].cell);
    }
  }

 private:
  struct content {
    std::int64_t room;
    std::uint32_t samples;

    friend constexpr bool operator==(content, content) = default;
    friend constexpr bool operator<(content a, content b) noexcept
    {
      return a.room != b.room ? a.room < b.room : a.samples < b.samples;
    }
  };
  struct trial {
    std::size_t cell = 0;
    content held = {0, 0};  // what the cell held before the item
    bool any = false;
  };

  void give(std::size_t cell, grid_item const& item, int times) noexcept
  {
    cells_[cell].room -= times * item.weight;
    cells_[cell].samples += static_cast<std::uint32_t>(times) * item.count;
  }

  /// The next content in order that has room for the item, and a cell that has it.
  [[nodiscard]] bool choose(grid_item const& item, trial& last) const noexcept
  {
    trial best;
    for (std::size_t cell = 0; cell < cells_.size(); ++cell) {
      content const& own = cells_[cell];
      bool const has_room = item.weight <= own.room && own.samples <= slot_.most &&
                            item.count <= slot_.most - own.samples;
      if (has_room && (!last.any || last.held < own) && (!best.any || own < best.held)) {
        best = {cell, own, true};
      }
    }
    last = best;
    return best.any;
  }

  /// Whether the items from this one on may still fit, and give every cell what it lacks.
  [[nodiscard]] bool may_end_well(std::size_t next) const noexcept
  {
    std::int64_t const weight = weight_from_[next];
    std::uint64_t const samples = samples_from_[next];
    std::size_t const left = items_.size() - next;
    std::int64_t const lightest = left == 0 ? 0 : items_.back().weight;
    std::int64_t weight_without_room = weight;
    std::uint64_t without_place = samples;
    std::uint64_t lacking = 0;
    for (content const& own : cells_) {
      std::uint64_t const lacks = lacks_of(own.samples);
      lacking += lacks;
      if (lacking > samples || own.samples + lacks > slot_.most) { return false; }
      if (lacks > 0 && own.room < (single_ ? weight_from_[items_.size() - lacks] : lightest)) {
        return false;
      }
      if (left == 0 || own.room < lightest) { continue; }
      weight_without_room -= std::min(weight_without_room, own.room);
      without_place -= std::min<std::uint64_t>(without_place, slot_.most - own.samples);
    }
    return weight_without_room == 0 && without_place == 0;
  }

  /// How many samples a cell lacks at least for a number that its slot takes.
  [[nodiscard]] std::uint64_t lacks_of(std::uint32_t samples) const noexcept
  {
    std::uint64_t const least = std::max(samples, slot_.least);
    return (least + slot_.step - 1) / slot_.step * slot_.step - samples;
  }

  grid_slot slot_;
  std::span<grid_item> items_;
  std::span<content> cells_;
  std::span<trial> tried_;
  std::span<std::int64_t> weight_from_;  // of the items from each on
  std::span<std::uint64_t> samples_from_;
  bool single_ = true;
};

/// Puts all items of a kind in cells, if it finds some.
///
/// Expects     no slot of the kind holds anything.
/// Complexity  O(items x cells) for a way down; at most cells_by_trial::most_looks.
[[nodiscard]] inline plan_search search_cells(grid_cells& cells, kind_of_items const& kind,
                                              workspace& memory)
{
  std::size_t const ranks = cells.problem.ranks();
  std::size_t const count = (kind.end_slot - kind.first_slot) * ranks;
  if (kind.items.size() > cells_by_trial::largest / count) { return plan_search::gave_up; }
  auto scratch = memory.open();
  cells_by_trial trial(cells.problem, kind, scratch);
  plan_search const end = trial.run();
  if (end == plan_search::found) { trial.put_into(cells, kind.first_slot * ranks); }
  return end;
}

}  // namespace ballast::inline v0::detail
