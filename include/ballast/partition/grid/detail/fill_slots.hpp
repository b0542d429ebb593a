// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/grid/detail/grid_problem.hpp>

namespace ballast::inline v0::detail {

/// A cell of the slot that is being filled. Its order is that of a heap: emptiest first.
struct filling_cell {
  cost_units load;
  std::uint32_t rank;

  friend constexpr bool operator<(filling_cell a, filling_cell b) noexcept
  {
    return a.load != b.load ? a.load < b.load : a.rank < b.rank;
  }
};

/// So many samples in full steps, dealt from the first cell on.
inline void deal_steps(std::size_t samples, std::uint32_t step, std::span<std::uint32_t> quotas)
{
  std::size_t const steps = samples / step;
  for (std::size_t cell = 0; cell < quotas.size(); ++cell) {
    std::size_t const own = steps / quotas.size() + (cell < steps % quotas.size() ? 1 : 0);
    quotas[cell] = static_cast<std::uint32_t>(own * step);
  }
}

/// The most samples that each cell of a kind gets, so that they add up to all samples where slots
/// ask for certain counts.
inline void deal_quotas(grid_problem const& problem, kind_of_items const& kind,
                        std::span<std::uint32_t> quotas)
{
  grid_slot const& slot = problem.slots[kind.first_slot];
  if (slot.grows() || slot.least == slot.most ||
      (slot.least == 1 && slot.step == 1 && slot.most > 2)) {
    std::fill(quotas.begin(), quotas.end(), slot.most);
    return;
  }
  std::size_t samples = 0;
  for (grid_item const& item : kind.items) { samples += item.count; }
  deal_steps(samples, slot.step, quotas);
}

/// Fills slot after slot up to a height: heaviest first, each item to the emptiest cell, if it
/// stays below the height there and within the cap; otherwise a later slot takes it. The height is
/// the heaviest item left, or so many thousandths of the mean of what is left, and the last slot
/// has none. Where cells need certain counts, the lightest items left fill them up: room for as many
/// of these is kept below the height.
///
/// Items that are too heavy for the emptiest cell are jumped over: those that are left are kept as
/// a list whose links skip the ones that are gone (path halving), so that a slot looks at what it
/// takes, and not at all that is left.
class fill_to_height {
 public:
  fill_to_height(grid_cells& cells, workspace::frame& scratch)
      : cells_(cells),
        cap_differs_(*std::max_element(cells.problem.most_weights.begin(),
                                       cells.problem.most_weights.end()) !=
                     *std::min_element(cells.problem.most_weights.begin(),
                                       cells.problem.most_weights.end())),
        next_(scratch.take<std::uint32_t>(cells.owner.size() + 1)),
        heap_(scratch.take<filling_cell>(cells.problem.ranks())),
        quotas_(scratch.take<std::uint32_t>(cells.problem.cells())),
        lightest_(scratch.take<cost_units>(cells.owner.size() + 1))
  {}

  /// Returns whether all items of the kind have a cell.
  ///
  /// Expects     no slot of the kind holds anything.
  /// Complexity  O(n (log R + log n)) where weights are in the order of costs.
  [[nodiscard]] bool operator()(kind_of_items const& kind, std::uint32_t thousandths)
  {
    items_ = kind.items;
    set_counts(kind);
    std::iota(next_.begin(), next_.begin() + static_cast<std::ptrdiff_t>(items_.size() + 1), 0U);
    cost_units rest = kind.work;
    for (std::size_t slot = kind.first_slot; slot < kind.end_slot; ++slot) {
      if (cancel_scope::is_cancelled()) { return false; }
      std::uint32_t const heaviest = left_from(0);
      if (heaviest == items_.size()) { return true; }
      std::size_t const ranks = cells_.problem.ranks();
      bool const last = slot + 1 == kind.end_slot || (step_ > 1 && left_ <= step_ * ranks);
      cost_units height = std::numeric_limits<cost_units>::max();
      if (!last) {
        uint128 const shares = uint128{1000} * (kind.end_slot - slot) * ranks;
        uint128 const mean =
            (uint128{static_cast<std::uint64_t>(rest)} * thousandths + (shares - 1)) / shares;
        cost_units const beside = is_counted_ ? reserved(slot * ranks) : 0;
        height = std::max(items_[heaviest].cost + beside, static_cast<cost_units>(mean));
      }
      if (last && step_ > 1) {
        deal_steps(left_, step_, quotas_.subspan(slot * ranks, ranks));
        step_ = 1;
      }
      rest -= fill(slot, heaviest, height, last);
      if (is_counted_) { rest -= fill_up(slot); }
    }
    return left_from(0) == items_.size();
  }

 private:
  /// Returns the work that the slot took.
  cost_units fill(std::size_t slot, std::uint32_t next, cost_units height, bool last)
  {
    std::size_t const ranks = cells_.problem.ranks();
    std::size_t const first_cell = slot * ranks;
    auto heap = heap_;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      heap[rank] = {0, static_cast<std::uint32_t>(rank)};
    }
    // The lightest ones are kept to make multiples.
    std::size_t end = lightest_left_;
    for (std::size_t kept = step_ > 1 ? (step_ - 1) * ranks : 0; kept > 0 && end > next;) {
      --end;
      kept -= next_[end] == end ? 1U : 0U;
    }
    cost_units taken = 0;
    while (next < end && !heap.empty()) {
      grid_item const& item = items_[next];
      filling_cell const top = heap.front();
      std::size_t const cell = first_cell + top.rank;
      std::uint32_t const most = quotas_[cell];
      cost_units const free = height - top.load - (is_counted_ && !last ? reserved(cell) : 0);
      // Full, or for no more than what fills it up.
      if (cells_.counts[cell] == most || (is_counted_ && free < items_.back().cost)) {
        if (heap.size() == 1) { break; }
        replace_front(heap.first(heap.size() - 1), heap.back());
        heap = heap.first(heap.size() - 1);
        continue;
      }
      if (item.cost > free) {
        next = left_from(first_up_to(free, next));
        continue;
      }
      if (cells_.has_room(item.item, cell, most)) {
        cells_.put(item.item, cell);
        replace_front(heap, {top.load + item.cost, top.rank});
      } else if ((!last && !cap_differs_) ||  // a later slot has room
                 !put_elsewhere(item, heap, first_cell, height)) {
        next = left_from(next + 1);
        continue;
      }
      taken += item.cost;
      --left_;
      next_[next] = next + 1;
      next = left_from(next + 1);
    }
    return taken;
  }

  /// Puts the item in the emptiest cell of the slot that has room for it. O(ranks), until cells
  /// were looked at 2^28 times; then none has room.
  bool put_elsewhere(grid_item const& item, std::span<filling_cell> heap, std::size_t first_cell,
                     cost_units height)
  {
    looks_.spend(heap.size());
    if (looks_.spent()) { return false; }
    filling_cell* best = nullptr;
    for (filling_cell& each : heap) {
      std::size_t const cell = first_cell + each.rank;
      if (cells_.has_room(item.item, cell, quotas_[cell]) && item.cost <= height - each.load &&
          (best == nullptr || each < *best)) {
        best = &each;
      }
    }
    if (best == nullptr) { return false; }
    cells_.put(item.item, first_cell + best->rank);
    best->load += item.cost;
    // A heavier cell sinks to where the order of the heap holds again.
    auto place = static_cast<std::size_t>(best - heap.data());
    for (std::size_t child = 2 * place + 1; child < heap.size(); child = 2 * place + 1) {
      if (child + 1 < heap.size() && heap[child + 1] < heap[child]) { ++child; }
      if (!(heap[child] < heap[place])) { break; }
      std::swap(heap[child], heap[place]);
      place = child;
    }
    return true;
  }

  /// What counts the cells of a kind get.
  void set_counts(kind_of_items const& kind)
  {
    std::size_t const ranks = cells_.problem.ranks();
    grid_slot const& slot = cells_.problem.slots[kind.first_slot];
    auto const own =
        quotas_.subspan(kind.first_slot * ranks, (kind.end_slot - kind.first_slot) * ranks);
    step_ = slot.least == 0 ? slot.step : 1;
    is_counted_ = !(slot.grows() || (slot.least <= 1 && slot.step == 1));
    std::fill(own.begin(), own.end(), slot.most);
    if (is_counted_ && step_ == 1) { deal_quotas(cells_.problem, kind, own); }
    lightest_[0] = 0;
    for (std::size_t count = 1; is_counted_ && count <= items_.size(); ++count) {
      lightest_[count] = lightest_[count - 1] + items_[items_.size() - count].cost;
    }
    left_ = items_.size();
    lightest_left_ = static_cast<std::uint32_t>(left_);
  }
  /// What a cell still needs when it has one more.
  [[nodiscard]] std::uint32_t missing(std::size_t cell, std::uint32_t more) const
  {
    std::uint32_t const count = cells_.counts[cell] + more;
    if (step_ > 1) { return (step_ - count % step_) % step_; }
    return quotas_[cell] - std::min(count, quotas_[cell]);
  }
  [[nodiscard]] cost_units reserved(std::size_t cell) const
  {
    return lightest_[std::min<std::size_t>(missing(cell, 1), items_.size())];
  }
  /// Fills the cells of a slot up to their counts with the lightest items left, the fullest first.
  cost_units fill_up(std::size_t slot)
  {
    std::size_t const ranks = cells_.problem.ranks();
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      heap_[rank] = {-cells_.loads[slot * ranks + rank], rank};
    }
    std::sort(heap_.begin(), heap_.end());
    cost_units taken = 0;
    for (filling_cell const each : heap_) {
      std::size_t const cell = slot * ranks + each.rank;
      for (std::uint32_t more = missing(cell, 0); more > 0; --more) {
        while (lightest_left_ > 0 && next_[lightest_left_ - 1] != lightest_left_ - 1) {
          --lightest_left_;
        }
        if (lightest_left_ == 0) { return taken; }
        grid_item const& item = items_[lightest_left_ - 1];
        if (!cells_.has_room(item.item, cell, cells_.counts[cell] + more)) { break; }
        cells_.put(item.item, cell);
        taken += item.cost;
        --left_;
        next_[lightest_left_ - 1] = lightest_left_;
      }
    }
    return taken;
  }

  [[nodiscard]] std::uint32_t left_from(std::uint32_t place) noexcept
  {
    while (next_[place] != place) {
      next_[place] = next_[next_[place]];
      place = next_[place];
    }
    return place;
  }

  [[nodiscard]] std::uint32_t first_up_to(cost_units cost, std::uint32_t place) const noexcept
  {
    auto const count = static_cast<std::uint32_t>(items_.size());
    std::uint32_t step = 1;
    while (place + step < count && items_[place + step].cost > cost) {
      place += step;
      step *= 2;
    }
    auto const first = items_.begin() + place;
    auto const found =
        std::partition_point(first, items_.begin() + std::min(count, place + step),
                             [cost](grid_item const& item) { return item.cost > cost; });
    return static_cast<std::uint32_t>(found - items_.begin());
  }

  grid_cells& cells_;
  bool cap_differs_;
  std::span<std::uint32_t> next_;  // the item itself while it is left
  work_budget looks_{std::uint64_t{1} << 28};
  std::span<filling_cell> heap_;
  std::span<std::uint32_t> quotas_;  // the most of each cell
  std::span<cost_units> lightest_;   // sums of so many of the lightest items
  std::span<grid_item const> items_;
  std::size_t left_ = 0;             // items
  std::uint32_t lightest_left_ = 0;  // the place behind it
  std::uint32_t step_ = 1;
  bool is_counted_ = false;
};

/// Deals items to some cells: heaviest first, each to the emptiest cell that has room for it.
///
/// Shapes      quotas: the most of each cell, from `first` on.
/// Returns     whether all items have a cell; where items lack room in more cells than a few for
///             each item and cell, it gives up
/// Complexity  O((n + cells) log cells)
[[nodiscard]] inline bool deal_items(grid_cells& cells, std::span<grid_item const> items,
                                     std::size_t first, std::span<std::uint32_t const> quotas,
                                     workspace& memory)
{
  auto scratch = memory.open();
  auto const all = scratch.take<filling_cell>(quotas.size());
  auto const aside = scratch.take<filling_cell>(quotas.size());
  for (std::uint32_t cell = 0; cell < quotas.size(); ++cell) { all[cell] = {0, cell}; }
  auto const later = [](filling_cell a, filling_cell b) { return b < a; };
  auto heap = all;
  work_budget looks(
      std::max<std::uint64_t>(std::uint64_t{1} << 22, 8 * (items.size() + quotas.size())));
  for (grid_item const& item : items) {
    std::size_t refused = 0;
    while (!heap.empty()) {
      filling_cell const top = heap.front();
      if (cells.has_room(item.item, first + top.rank, quotas[top.rank])) {
        cells.put(item.item, first + top.rank);
        replace_front(heap, {top.load + item.cost, top.rank});
        break;
      }
      if (cells.counts[first + top.rank] < quotas[top.rank]) { aside[refused++] = top; }
      std::pop_heap(heap.begin(), heap.end(), later);
      heap = heap.first(heap.size() - 1);
    }
    looks.spend(refused);
    if (heap.empty() || looks.spent()) { return false; }
    for (std::size_t each = 0; each < refused; ++each) {
      heap = all.first(heap.size() + 1);
      heap.back() = aside[each];
      std::push_heap(heap.begin(), heap.end(), later);
    }
  }
  return true;
}

/// Deals the items of a kind to all its cells at once. Where caps are the same, the cells then go to
/// slots by their loads, so that a slot's cells are of nearly one height. Or it deals them to slot after
/// slot, each the heaviest that are left, as many as its cells need.
///
/// Returns     whether all items have a cell
/// Expects     no slot of the kind holds anything
/// Complexity  that of deal_items
[[nodiscard]] inline bool deal_kind(grid_cells& cells, kind_of_items const& kind, bool by_slots,
                                    workspace& memory)
{
  std::size_t const ranks = cells.problem.ranks();
  std::size_t const first = kind.first_slot * ranks;
  std::size_t const count = kind.end_slot * ranks - first;
  auto scratch = memory.open();
  auto const quotas = scratch.take<std::uint32_t>(count);
  deal_quotas(cells.problem, kind, quotas);
  if (by_slots) {
    auto left = kind.items;
    for (std::size_t cell = 0; cell < count; cell += ranks) {
      auto const own = quotas.subspan(cell, ranks);
      std::size_t const all = std::reduce(own.begin(), own.end(), std::size_t{0});
      auto const next = left.first(std::min(all, left.size()));
      if (!deal_items(cells, next, first + cell, own, memory)) { return false; }
      left = left.subspan(next.size());
    }
    return left.empty();
  }
  auto const& caps = cells.problem.most_weights;
  if (!deal_items(cells, kind.items, first, quotas, memory)) { return false; }
  if (std::any_of(caps.begin(), caps.end(), [&](std::int64_t cap) { return cap != caps[0]; })) {
    return true;
  }
  auto const all = scratch.take<filling_cell>(count);
  for (std::size_t cell = 0; cell < count; ++cell) {
    all[cell] = {-cells.loads[first + cell], static_cast<std::uint32_t>(cell)};
  }
  std::sort(all.begin(), all.end());
  for (std::size_t place = 0; place < count; ++place) {
    quotas[all[place].rank] = static_cast<std::uint32_t>(place);
  }
  for (grid_item const& item : kind.items) {
    cells.move(item.item, first + quotas[cells.cell_of(item.item) - first]);
  }
  return true;
}

/// Gives the cells of each slot to the ranks anew: slots with the largest cells first, the heaviest
/// cell of each to the rank with the least so far and, of these, with the fewest cells that hold
/// something. So the cells that must be empty are spread over the ranks. A slot whose cells would
/// not keep to the caps stays as it is.
///
/// Complexity  O(n + K R log R).
inline void rows_to_ranks(grid_cells& cells, workspace& memory)
{
  std::size_t const ranks = cells.problem.ranks();
  std::size_t const slots = cells.problem.slots.size();
  auto scratch = memory.open();
  auto const order = scratch.take<std::uint32_t>(slots);
  auto const largest = scratch.take<cost_units>(slots);
  auto const rows = scratch.take<std::uint32_t>(ranks);
  auto const takers = scratch.take<std::uint32_t>(ranks);
  auto const sums = scratch.take<cost_units>(ranks);
  auto const busy = scratch.take<std::uint32_t>(ranks);
  auto const moved_to = scratch.take<cell_id>(cells.problem.cells() + 1);
  std::iota(order.begin(), order.end(), 0U);
  for (std::size_t slot = 0; slot < slots; ++slot) { largest[slot] = cells.largest_of(slot); }
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return largest[a] != largest[b] ? largest[a] > largest[b] : a < b;
  });
  std::fill(sums.begin(), sums.end(), 0);
  std::fill(busy.begin(), busy.end(), 0U);
  for (std::uint32_t const slot : order) {
    std::size_t const first = slot * ranks;
    std::iota(rows.begin(), rows.end(), 0U);
    std::iota(takers.begin(), takers.end(), 0U);
    std::sort(rows.begin(), rows.end(), [&](std::uint32_t a, std::uint32_t b) {
      cost_units const left = cells.loads[first + a];
      cost_units const right = cells.loads[first + b];
      if (left != right) { return left > right; }
      bool const left_empty = cells.counts[first + a] == 0;
      bool const right_empty = cells.counts[first + b] == 0;
      return left_empty != right_empty ? right_empty : a < b;
    });
    std::sort(takers.begin(), takers.end(), [&](std::uint32_t a, std::uint32_t b) {
      if (sums[a] != sums[b]) { return sums[a] < sums[b]; }
      return busy[a] != busy[b] ? busy[a] < busy[b] : a < b;
    });
    bool fit = true;
    for (std::size_t place = 0; place < ranks; ++place) {
      fit = fit && cells.weights[first + rows[place]] <= cells.problem.most_weights[takers[place]];
    }
    if (!fit) { std::copy(rows.begin(), rows.end(), takers.begin()); }
    for (std::size_t place = 0; place < ranks; ++place) {
      std::size_t const cell = first + rows[place];
      sums[takers[place]] += cells.loads[cell];
      busy[takers[place]] += cells.counts[cell] > 0 ? 1U : 0U;
      moved_to[cell] = to_id<cell_id>(first + takers[place]);
    }
  }
  moved_to.back() = to_id<cell_id>(cells.nowhere());
  for (cell_id& cell : cells.owner) { cell = moved_to[to_index(cell)]; }
  cells.recount();
}

/// Puts an item in each empty cell for which there is one in a cell of several: the lightest, where
/// every cell needs one; otherwise only where the makespan does not grow.
///
/// Complexity  O(n) for each empty cell, and O(R) for each slot and each item that moves.
inline void fill_empty_cells(grid_cells& cells)
{
  grid_problem const& problem = cells.problem;
  std::size_t const ranks = problem.ranks();
  std::size_t const none = problem.slots.size();
  std::size_t measured = none;  // the slot whose largest cell has this height
  cost_units height = 0;
  for (std::size_t cell = 0; cell < problem.cells(); ++cell) {
    grid_slot const& slot = cells.slot_of(cell);
    if (cells.counts[cell] != 0 || slot.step != 1) { continue; }
    bool const needed = slot.least > 0;
    if (measured != cell / ranks) {
      measured = cell / ranks;
      height = cells.largest_of(measured);
    }
    for (std::size_t place = problem.heaviest_first.size(); place-- > 0;) {
      auto const [cost, sample] = problem.heaviest_first[place];
      std::size_t const item = to_index(sample);
      std::size_t const from = cells.cell_of(item);
      if (problem.kinds[item] != slot.kind || cells.counts[from] <= problem.counts[item] ||
          !cells.slot_of(from).takes(cells.counts[from] - problem.counts[item]) ||
          !cells.has_room(item, cell, slot.most)) {
        continue;
      }
      bool const free =
          problem.meet == grid_meeting::step ? from % ranks == cell % ranks : cost <= height;
      if (!needed && !free) { continue; }
      cells.move(item, cell);
      measured = none;
      break;
    }
  }
}

/// The greedy grid: fills slot after slot up to a height, for several heights, and keeps the best
/// plan.
///
/// The height of a slot is the longest sample left or the mean of what is left, raised by 0, 0.5, 1,
/// ... per cent, the longer of them; samples go heaviest first to the emptiest cell that stays below
/// it and below its cap. Long samples so come to lie in the same slots. Then slots give their cells
/// to ranks, heaviest to the rank with the least work. One more plan deals all samples over all
/// cells at once and sorts these into slots; where counts are prescribed and samples stay together, it is
/// the only one. limit_search goes on from the best: so large steps try two heights, small ones forty.
///
/// In, out     owner[n] enters unspecified and leaves with one cell per item.
/// Returns     whether it found a plan, the one with the smallest makespan, and of these the first
/// Complexity  O(n (log n + log R) + K R log R) for each height, where weights are in the order of
///             costs and caps the same.
/// Source      D. K. Friesen, M. A. Langston, "Variable Sized Bin Packing", SIAM J. Computing
///             15(1):222-230, 1986, for bins of several heights; the heights are ours.
[[nodiscard]] inline bool fill_slots(grid_problem const& problem, std::span<cell_id> owner,
                                     workspace& memory, bool is_dealt)
{
  constexpr std::uint32_t heights = 40;
  constexpr std::uint64_t work = 10'240;  // items or cells, whichever are more, of all passes
  auto scratch = memory.open();
  auto const kinds = items_by_kind(problem, scratch);
  auto const tried = scratch.take<cell_id>(owner.size());
  grid_cells cells(problem, tried, scratch);
  fill_to_height fill(cells, scratch);
  cost_units least = no_cost;
  auto const keep_best = [&] {
    rows_to_ranks(cells, memory);
    fill_empty_cells(cells);
    if (!cells.is_valid()) { return; }
    cost_units const makespan = cells.makespan();
    if (makespan >= least) { return; }
    least = makespan;
    std::copy(tried.begin(), tried.end(), owner.begin());
  };

  bool const grow =
      std::all_of(problem.slots.begin(), problem.slots.end(),
                  [](grid_slot const& slot) { return slot.step == 1 && slot.least <= 1; });
  auto const larger = std::max<std::uint64_t>(owner.size(), problem.cells());
  std::uint64_t const a_pass = larger == 0 ? 1 : larger;
  auto const passes =
      static_cast<std::uint32_t>(std::clamp<std::uint64_t>(work / a_pass, 1, heights));
  auto const fill_all = [&](std::uint32_t height) {
    cells.clear();
    bool const placed = std::all_of(kinds.begin(), kinds.end(), [&](auto const& kind) {
      return fill(kind, 1000 + 5 * height);
    });
    if (placed) { keep_best(); }
  };
  // The first ones come last: with no room to spare in a slot, the last one gets too much.
  bool const are_single = std::all_of(problem.counts.begin(), problem.counts.end(),
                                      [](auto each) { return each == 1; });
  auto const deal_all = [&](bool by_slots) {
    cells.clear();
    bool const placed = std::all_of(kinds.begin(), kinds.end(), [&](auto const& kind) {
      return deal_kind(cells, kind, by_slots, memory);
    });
    if (placed) { keep_best(); }
  };
  bool const fills = grow || are_single;
  if (is_dealt) {
    if (!grow && fills) { deal_all(true); }
    return least != no_cost;
  }
  for (std::uint32_t pass = 0; fills && pass < passes; ++pass) { fill_all((pass + 2) % heights); }
  if (fills && least == no_cost) { fill_all(heights); }
  if (!grow || work / a_pass >= 4 || least == no_cost) { deal_all(false); }
  return least != no_cost;
}

}  // namespace ballast::inline v0::detail
