// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/grid/detail/grid_problem.hpp>

namespace ballast::inline v0::detail {

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

}  // namespace ballast::inline v0::detail
