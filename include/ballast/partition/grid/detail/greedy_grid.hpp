// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/grid/grid_plan.hpp>

namespace ballast::inline v0::detail {

/// What the cells of a slot hold: samples of one kind, from `least` to `most` of them and a
/// multiple of `step`.
struct grid_slot {
  std::uint32_t kind = 0;
  std::uint32_t least = 0;
  std::uint32_t most = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t step = 1;

  [[nodiscard]] constexpr bool takes(std::uint32_t samples) const noexcept
  {
    return samples >= least && samples <= most && samples % step == 0;
  }
  /// Whether a cell can be filled one sample at a time, and left whenever it is.
  [[nodiscard]] constexpr bool grows() const noexcept { return least == 0 && step == 1; }
};

/// n items (samples, or samples that stay together) for the cells of a grid of ranks and slots, within
/// one cap: what the greedy grid plans.
///
/// Shapes      costs[n], weights[n], counts[n], kinds[n], heaviest_first[n]; most_weights[ranks];
///             slots[microbatches].
/// Expects     (a) costs and weights are not negative and add up to less than 2^63
///             (b) heaviest_first is the `descending_order_into` of the costs
///             (c) ranks and microbatches are at least 1 and cells fewer than 2^32
///             (d) every kind has a slot, and slots of one kind are next to each other
struct grid_problem {
  std::span<cost_units const> costs;
  std::span<std::int64_t const> weights;
  std::span<std::uint32_t const> counts;  ///< samples of each item
  std::span<std::uint32_t const> kinds;
  std::span<priced_sample const> heaviest_first;
  std::span<std::int64_t const> most_weights;
  std::span<grid_slot const> slots;
  grid_meeting meet = grid_meeting::step;

  [[nodiscard]] constexpr std::size_t ranks() const noexcept { return most_weights.size(); }
  [[nodiscard]] constexpr std::size_t cells() const noexcept { return ranks() * slots.size(); }
};

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

  void clear() noexcept
  {
    std::fill(owner.begin(), owner.end(), to_id<cell_id>(nowhere()));
    empty();
  }

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

/// Levels the sums of ranks over some slots by moves and swaps of items.
///
/// An item is named by its place in `heaviest_first`. The items of a rank in these slots form a list,
/// lightest first, that exchanges keep in order.
///
/// In, out     work pays for the items looked at.
/// Ensures     (1) the largest sum does not grow, and every exchange makes the one that gives smaller
///             (2) cells keep to caps, counts and kinds if they did before
class rank_exchanges {
 public:
  rank_exchanges(grid_cells& cells, work_budget& work, workspace::frame& scratch)
      : cells_(cells),
        problem_(cells.problem),
        work_(work),
        lightest_(scratch.take<std::uint32_t>(problem_.ranks())),
        heavier_(scratch.take<std::uint32_t>(cells.owner.size())),
        sums_(scratch.take<cost_units>(problem_.ranks())),
        by_sum_(scratch.take<std::uint32_t>(problem_.ranks())),
        giving_(scratch.take<listed>(cells.owner.size())),
        taking_(scratch.take<listed>(cells.owner.size() + 1))
  {}

  /// Levels the sums over the slots from `first` to before `end`.
  void level(std::size_t first, std::size_t end)
  {
    first_ = first;
    end_ = end;
    read();
    auto const by_sum = [this](std::uint32_t a, std::uint32_t b) { return precedes(a, b); };
    std::iota(by_sum_.begin(), by_sum_.end(), 0U);
    std::sort(by_sum_.begin(), by_sum_.end(), by_sum);
    while (!work_.spent() && sums_[by_sum_.back()] > target_) {
      found_ = {};
      std::uint32_t const late = by_sum_.back();
      least_ = sums_[late];
      std::span<listed const> const giving = list(late, giving_);
      std::size_t const others = std::min(most_partners, by_sum_.size() - 1);
      for (std::size_t place = 0; place < others; ++place) {
        std::uint32_t const early = by_sum_[place];
        cost_units const even = (sums_[late] - sums_[early]) / 2;
        if (even == 0 || sums_[late] - even >= least_) { break; }
        search(late, giving, early, even);
        // Good enough: a quarter of what the best could take off.
        if (sums_[late] - least_ >= (even + 3) / 4) { break; }
      }
      if (least_ == sums_[late]) { break; }
      make(late);
    }
  }

 private:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::size_t most_partners = 16;
  static constexpr int most_tries = 8;

  struct listed {
    cost_units cost;
    std::uint32_t place;
  };
  struct exchange_of_items {
    std::uint32_t given = none;
    std::uint32_t taken = none;  ///< none: a move
    std::uint32_t early = 0;
  };

  [[nodiscard]] bool precedes(std::uint32_t a, std::uint32_t b) const noexcept
  {
    return sums_[a] != sums_[b] ? sums_[a] < sums_[b] : a < b;
  }
  [[nodiscard]] cost_units cost(std::uint32_t place) const noexcept
  {
    return place == none ? 0 : problem_.heaviest_first[place].cost;
  }
  [[nodiscard]] std::size_t item(std::uint32_t place) const noexcept
  {
    return to_index(problem_.heaviest_first[place].sample);
  }

  /// Reads the lists and the sums, and what no plan of these slots' items is below.
  void read()
  {
    std::size_t const ranks = problem_.ranks();
    std::fill(lightest_.begin(), lightest_.end(), none);
    std::fill(sums_.begin(), sums_.end(), 0);
    cost_units total = 0;
    target_ = 0;
    for (std::size_t place = 0; place < heavier_.size(); ++place) {
      auto const [cost, sample] = problem_.heaviest_first[place];
      std::size_t const cell = cells_.cell_of(to_index(sample));
      if (cell < first_ * ranks || cell >= end_ * ranks || cost == 0) { continue; }
      std::size_t const rank = cell % ranks;
      heavier_[place] = lightest_[rank];
      lightest_[rank] = static_cast<std::uint32_t>(place);
      sums_[rank] += cost;
      total += cost;
      target_ = std::max(target_, cost);
    }
    auto const all = static_cast<cost_units>(ranks);
    target_ = std::max(target_, total / all + (total % all != 0 ? 1 : 0));
  }

  [[nodiscard]] std::span<listed const> list(std::uint32_t rank, std::span<listed> into) noexcept
  {
    std::size_t count = 0;
    for (std::uint32_t place = lightest_[rank]; place != none; place = heavier_[place]) {
      into[count++] = {cost(place), place};
    }
    work_.spend(count);
    return into.first(count);
  }

  /// Looks for the exchange of these two ranks that makes the later of them earliest: for each item
  /// given, the ones around that which would make them even.
  void search(std::uint32_t late, std::span<listed const> giving, std::uint32_t early,
              cost_units even)
  {
    taking_[0] = {0, none};  // a move gives for nothing
    std::size_t const taking = 1 + list(early, taking_.subspan(1)).size();
    std::size_t from = 0;
    for (listed const given : giving) {
      while (from < taking && given.cost - taking_[from].cost > even) { ++from; }
      int tries = most_tries;
      for (std::size_t place = from; place < taking && tries-- > 0; ++place) {
        if (!consider(late, given, early, taking_[place])) { break; }
      }
      tries = most_tries;
      for (std::size_t place = from; place-- > 0 && tries-- > 0;) {
        if (!consider(late, given, early, taking_[place])) { break; }
      }
    }
  }

  /// Keeps this exchange if it is the best so far. Returns whether one further away could be.
  bool consider(std::uint32_t late, listed given, std::uint32_t early, listed taken)
  {
    cost_units const net = given.cost - taken.cost;
    cost_units const later = std::max(sums_[late] - net, sums_[early] + net);
    if (later >= least_) { return false; }
    if (taken.place == none ? cell_for(given.place, early) == cells_.nowhere()
                            : !may_swap(given.place, taken.place)) {
      return true;
    }
    least_ = later;
    found_ = {given.place, taken.place, early};
    return false;
  }

  [[nodiscard]] bool may_swap(std::uint32_t given, std::uint32_t taken) const noexcept
  {
    std::size_t const a = item(given);
    std::size_t const b = item(taken);
    std::size_t const from = cells_.cell_of(a);
    std::size_t const to = cells_.cell_of(b);
    std::int64_t const heavier = problem_.weights[a] - problem_.weights[b];
    std::size_t const ranks = problem_.ranks();
    if (problem_.kinds[a] != problem_.kinds[b] ||
        cells_.weights[to] + heavier > problem_.most_weights[to % ranks] ||
        cells_.weights[from] - heavier > problem_.most_weights[from % ranks]) {
      return false;
    }
    std::uint32_t const more = problem_.counts[a] - problem_.counts[b];  // wraps round, and back
    return more == 0 || (cells_.slot_of(to).takes(cells_.counts[to] + more) &&
                         cells_.slot_of(from).takes(cells_.counts[from] - more));
  }

  /// The cell of a rank with the most room in these slots to which an item may move, or nowhere.
  [[nodiscard]] std::size_t cell_for(std::uint32_t given, std::uint32_t rank) const noexcept
  {
    std::size_t const moved = item(given);
    std::size_t const from = cells_.cell_of(moved);
    std::uint32_t const samples = problem_.counts[moved];
    std::size_t best = cells_.nowhere();
    if (!cells_.slot_of(from).takes(cells_.counts[from] - samples)) { return best; }
    for (std::size_t slot = first_; slot < end_; ++slot) {
      std::size_t const cell = slot * problem_.ranks() + rank;
      grid_slot const& to = problem_.slots[slot];
      if (to.kind == problem_.kinds[moved] && cells_.has_room(moved, cell, to.most) &&
          to.takes(cells_.counts[cell] + samples) &&
          (best == cells_.nowhere() || cells_.weights[cell] < cells_.weights[best])) {
        best = cell;
      }
    }
    return best;
  }

  void make(std::uint32_t late)
  {
    auto const [given, taken, early] = found_;
    cost_units const net = cost(given) - cost(taken);
    std::size_t const from = cells_.cell_of(item(given));
    std::size_t const to = taken == none ? cell_for(given, early) : cells_.cell_of(item(taken));
    cells_.move(item(given), to);
    relist(given, late, early);
    if (taken != none) {
      cells_.move(item(taken), from);
      relist(taken, early, late);
    }
    sums_[late] -= net;
    sums_[early] += net;
    auto const by_sum = [this](std::uint32_t a, std::uint32_t b) { return precedes(a, b); };
    // Both change their places: the early rank goes back, and the latest, which was last, forth.
    auto const last = by_sum_.end() - 1;
    auto const was = std::find(by_sum_.begin(), last, early);
    auto const now = std::lower_bound(was + 1, last, early, by_sum);
    std::rotate(was, was + 1, now);
    auto const earlier = std::lower_bound(by_sum_.begin(), last, late, by_sum);
    std::rotate(earlier, last, by_sum_.end());
  }

  void relist(std::uint32_t place, std::uint32_t from, std::uint32_t to) noexcept
  {
    std::uint32_t* link = &lightest_[from];
    while (*link != place) { link = &heavier_[*link]; }
    *link = heavier_[place];
    link = &lightest_[to];
    while (*link != none && *link > place) { link = &heavier_[*link]; }
    heavier_[place] = *link;
    *link = place;
  }

  grid_cells& cells_;
  grid_problem const& problem_;
  work_budget& work_;
  std::span<std::uint32_t> lightest_;  // item of each rank
  std::span<std::uint32_t> heavier_;   // the next of the same rank
  std::span<cost_units> sums_;
  std::span<std::uint32_t> by_sum_;  // ranks, least first
  std::span<listed> giving_;
  std::span<listed> taking_;
  std::size_t first_ = 0;
  std::size_t end_ = 0;
  cost_units target_ = 0;
  cost_units least_ = 0;  // the later of two ranks after the best exchange found
  exchange_of_items found_;
};

/// Exchanges samples between cells until none helps: over the whole step where ranks meet once, or
/// slot by slot where they meet in every microbatch.
///
/// The rank with the most work gives a sample, or swaps one, with those that have the least: the
/// exchange after which the later of the two finishes earliest, and which keeps both cells within
/// caps, counts and kinds. So the largest sum goes down with every exchange.
///
/// Complexity  100 n steps along lists of samples; O(n) scratch.
inline void level_ranks(grid_problem const& problem, std::span<cell_id> owner, workspace& memory)
{
  constexpr std::uint64_t work_per_sample = 100;
  auto scratch = memory.open();
  grid_cells cells(problem, owner, scratch);
  cells.recount();
  work_budget left(work_per_sample * owner.size());
  rank_exchanges exchanges(cells, left, scratch);
  if (problem.meet == grid_meeting::step) { return exchanges.level(0, problem.slots.size()); }
  for (std::size_t slot = 0; slot < problem.slots.size(); ++slot) {
    exchanges.level(slot, slot + 1);
  }
}

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
