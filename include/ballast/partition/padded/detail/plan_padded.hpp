// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/core/detail/scaled_number.hpp>
#include <ballast/partition/padded/detail/fill_padded.hpp>

#include <bit>

namespace ballast::inline v0::detail {

/// Padded batches in the cells of a grid, one of which a sample can leave or join.
///
/// Complexity  a look at a change is O(1), since each cell knows its two longest of both lengths;
///             a change is O(1), or O(samples of the cell) where one of the longest leaves.
template <class Problem>
class padded_cells {
 public:
  explicit padded_cells(Problem const& problem)
      : problem_(problem),
        cells_(problem.cells()),
        loads_(problem.ranks),
        owner_(problem.lengths.size()),
        place_(problem.lengths.size())
  {}

  void assign(std::span<cell_id const> owner)
  {
    for (batch& each : cells_) { each = {}; }
    std::fill(loads_.begin(), loads_.end(), 0);
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      put(sample, to_index(owner[sample]));
    }
    for (std::size_t cell = 0; cell < cells_.size(); ++cell) { count(cell); }
  }

  [[nodiscard]] std::size_t cell_of(std::size_t sample) const { return to_index(owner_[sample]); }
  [[nodiscard]] std::span<cell_id const> owner() const { return owner_; }
  [[nodiscard]] std::span<cost_units const> loads() const { return loads_; }
  [[nodiscard]] cost_units makespan() const
  {
    return *std::max_element(loads_.begin(), loads_.end());
  }

  struct changed {
    std::size_t samples = 0;
    padded_lengths longest;
  };
  [[nodiscard]] changed without(std::size_t sample) const
  {
    batch const& own = cells_[cell_of(sample)];
    return {own.samples.size() - 1, longest_without(sample)};
  }
  [[nodiscard]] changed with(std::size_t sample, std::size_t cell) const
  {
    batch const& own = cells_[cell];
    return {own.samples.size() + 1, own.longest.with(problem_.lengths[sample])};
  }
  [[nodiscard]] changed with_instead(std::size_t sample, std::size_t other) const
  {
    batch const& own = cells_[cell_of(other)];
    return {own.samples.size(), longest_without(other).with(problem_.lengths[sample])};
  }

  /// How much more a cell costs after a change; `fits` says whether it stays within the cap.
  [[nodiscard]] cost_units growth(std::size_t cell, changed to) const
  {
    return problem_.cost(to.samples, to.longest) - cells_[cell].cost;
  }
  [[nodiscard]] bool fits(changed to) const { return problem_.fits(to.samples, to.longest); }

  void move(std::size_t sample, std::size_t cell)
  {
    std::size_t const before = cell_of(sample);
    take(sample);
    put(sample, cell);
    count(before);
    count(cell);
  }
  void swap(std::size_t sample, std::size_t other)
  {
    std::size_t const cell = cell_of(sample);
    std::size_t const others = cell_of(other);
    take(sample);
    take(other);
    put(sample, others);
    put(other, cell);
    count(cell);
    count(others);
  }

 private:
  struct batch {
    std::vector<std::uint32_t> samples;
    padded_lengths longest;
    padded_lengths second;  // the next of each length, which may be as long
    cost_units cost = 0;

    void add(padded_lengths own)
    {
      second =
          second.with({std::min(longest.source, own.source), std::min(longest.target, own.target)});
      longest = longest.with(own);
    }
  };

  Problem const& problem_;
  std::vector<batch> cells_;
  std::vector<cost_units> loads_;
  std::vector<cell_id> owner_;
  std::vector<std::uint32_t> place_;  // of each sample in its batch

  [[nodiscard]] padded_lengths longest_without(std::size_t sample) const
  {
    batch const& own = cells_[cell_of(sample)];
    padded_lengths const leaves = problem_.lengths[sample];
    return {leaves.source == own.longest.source ? own.second.source : own.longest.source,
            leaves.target == own.longest.target ? own.second.target : own.longest.target};
  }

  void take(std::size_t sample)
  {
    batch& own = cells_[cell_of(sample)];
    own.samples[place_[sample]] = own.samples.back();
    place_[own.samples.back()] = place_[sample];
    own.samples.pop_back();
    padded_lengths const left = problem_.lengths[sample];
    if (left.source < own.second.source && left.target < own.second.target) { return; }
    own.longest = {};
    own.second = {};
    for (std::uint32_t const each : own.samples) { own.add(problem_.lengths[each]); }
  }

  void put(std::size_t sample, std::size_t cell)
  {
    batch& own = cells_[cell];
    owner_[sample] = to_id<cell_id>(cell);
    place_[sample] = static_cast<std::uint32_t>(own.samples.size());
    own.samples.push_back(static_cast<std::uint32_t>(sample));
    own.add(problem_.lengths[sample]);
  }

  void count(std::size_t cell)
  {
    batch& own = cells_[cell];
    cost_units const cost = problem_.cost(own.samples.size(), own.longest);
    loads_[cell % problem_.ranks] += cost - own.cost;
    own.cost = cost;
  }
};

/// All plans of a small step, costliest sample first, but for those that differ by the numbers of
/// ranks without a sample or of empty slots, until `work` cells were tried.
///
/// Complexity  O(work).
template <class Problem>
class padded_search {
 public:
  padded_search(Problem const& problem, std::span<std::uint32_t const> costliest_first,
                std::uint64_t work)
      : problem_(problem),
        order_(costliest_first),
        work_(work),
        batches_(problem.cells()),
        loads_(problem.ranks),
        cell_of_(order_.size()),
        rest_(order_.size() + 1)
  {
    for (std::size_t at = order_.size(); at > 0; --at) {
      rest_[at - 1] = rest_[at] + problem.alone(order_[at - 1]);
    }
  }

  /// Writes the best plan whose makespan is below `least`, which it then is. Returns whether it has
  /// tried all.
  [[nodiscard]] bool improve(cost_units& least, std::span<cell_id> owner)
  {
    place(0, 0, 0, least, owner);
    return work_ > 0;
  }

 private:
  struct batch {
    std::size_t samples = 0;
    padded_lengths longest;
    cost_units cost = 0;
  };

  Problem const& problem_;
  std::span<std::uint32_t const> order_;
  std::uint64_t work_;
  std::vector<batch> batches_;
  std::vector<cost_units> loads_;
  std::vector<std::size_t> cell_of_;
  std::vector<cost_units> rest_;  // what samples from here on cost at least

  void place(std::size_t at, std::size_t ranks, cost_units sum, cost_units& least,
             std::span<cell_id> owner)
  {
    if (at == order_.size()) {
      least = *std::max_element(loads_.begin(), loads_.end());
      for (std::size_t sample = 0; sample < at; ++sample) {
        owner[order_[sample]] = to_id<cell_id>(cell_of_[sample]);
      }
      return;
    }
    std::size_t const used = std::min(ranks + 1, problem_.ranks);
    for (std::size_t rank = 0; rank < used; ++rank) {
      bool was_empty = false;
      for (std::size_t slot = 0; slot < problem_.slots && !was_empty; ++slot) {
        if (work_ == 0) { return; }
        --work_;
        std::size_t const cell = slot * problem_.ranks + rank;
        batch const before = batches_[cell];
        was_empty = before.samples == 0;
        batch joined{before.samples + 1, before.longest.with(problem_.lengths[order_[at]])};
        joined.cost = problem_.cost(joined.samples, joined.longest);
        cost_units const more = joined.cost - before.cost;
        auto const spread = static_cast<cost_units>(problem_.ranks);
        cost_units const mean = (sum + more + rest_[at + 1] + spread - 1) / spread;
        if (loads_[rank] + more >= least || mean >= least ||
            !problem_.fits(joined.samples, joined.longest)) {
          continue;
        }
        batches_[cell] = joined;
        loads_[rank] += more;
        cell_of_[at] = cell;
        place(at + 1, std::max(ranks, rank + 1), sum + more, least, owner);
        loads_[rank] -= more;
        batches_[cell] = before;
      }
    }
  }
};

/// Moves single samples to other cells where all batches together then cost less and no rank has
/// more than the makespan, until none does or `looks` cells were looked at. Returns the makespan.
template <class Problem>
[[nodiscard]] cost_units save_padding(Problem const& problem, std::uint64_t looks,
                                      std::span<cell_id> owner)
{
  padded_cells<Problem> cells(problem);
  cells.assign(owner);
  cost_units const makespan = cells.makespan();
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      for (std::size_t to = 0; to < problem.cells(); ++to) {
        if (looks == 0) { break; }
        --looks;
        std::size_t const from = cells.cell_of(sample);
        if (from == to) { continue; }
        auto const joined = cells.with(sample, to);
        cost_units const less = cells.growth(from, cells.without(sample));
        cost_units const more = cells.growth(to, joined);
        std::size_t const rank = to % problem.ranks;
        cost_units const load =
            cells.loads()[rank] + more + (from % problem.ranks == rank ? less : 0);
        if (less + more >= 0 || load > makespan || !cells.fits(joined)) { continue; }
        cells.move(sample, to);
        moved = true;
      }
    }
  }
  std::copy(cells.owner().begin(), cells.owner().end(), owner.begin());
  return cells.makespan();
}

/// Moves samples between cells, or swaps two, at random, so that the sum of the fourth powers of the
/// ranks' loads falls, which brings down the largest and the sum of all. A change that makes it
/// larger is kept too where it is no larger than some hundred changes before. Writes the plan with
/// the least makespan, of those that it looks at once per n changes, and returns it; `enough` ends
/// the search.
///
/// Expects     owner is a plan within the cap; order: samples of like cost, which share batches
///             best, are near each other.
/// Complexity  O(steps), and O(samples of a cell) where a longest sample leaves it.
/// Source      E. K. Burke, Y. Bykov, "The late acceptance hill-climbing heuristic", European Journal
///             of Operational Research 258(1), 2017.
template <class Problem>
[[nodiscard]] cost_units shift_padded(Problem const& problem, std::span<std::uint32_t const> order,
                                      std::uint64_t steps, cost_units enough,
                                      std::span<cell_id> owner)
{
  std::size_t const count = problem.lengths.size();
  padded_cells<Problem> cells(problem);
  cells.assign(owner);
  cost_units least = cells.makespan();
  if (count < 2 || problem.cells() < 2) { return least; }

  std::size_t const reach = std::min(count - 1, std::max<std::size_t>(count / 8, 8));

  // Loads as 22-bit fractions of the first makespan: those of at most 16 times it count.
  auto const power = [scale = static_cast<uint128>(least) + 1](cost_units load) {
    uint128 const part =
        std::min<uint128>((static_cast<uint128>(load) << 22U) / scale, uint128{1} << 26U);
    return part * part * part * part;
  };
  uint128 sum = 0;
  for (cost_units const load : cells.loads()) { sum += power(load); }
  std::vector<uint128> late(std::max<std::uint64_t>(steps / 400, 1), sum);
  random_source random(1);
  for (std::uint64_t step = 0; step < steps && least > enough; ++step) {
    if (step % count == 0 && cells.makespan() < least) {
      least = cells.makespan();
      std::copy(cells.owner().begin(), cells.owner().end(), owner.begin());
    }
    auto const place = static_cast<std::size_t>(random.below(count));
    std::size_t const away = static_cast<std::size_t>(random.below(2 * reach)) + count - reach;
    bool const swaps = random.below(2) == 0;
    std::size_t const sample = order[place];
    std::size_t const other = order[(place + away) % count];
    std::size_t const from = cells.cell_of(sample);
    std::size_t const to = cells.cell_of(other);
    if (from == to) { continue; }
    auto const left = swaps ? cells.with_instead(other, sample) : cells.without(sample);
    auto const joined = swaps ? cells.with_instead(sample, other) : cells.with(sample, to);
    if (!cells.fits(left) || !cells.fits(joined)) { continue; }
    std::size_t const rank = from % problem.ranks;
    std::size_t const others = to % problem.ranks;
    cost_units const less = cells.growth(from, left);
    cost_units const more = cells.growth(to, joined);
    cost_units const load = cells.loads()[rank];
    uint128 changed = sum - power(load);
    if (rank == others) {
      changed += power(load + less + more);
    } else {
      cost_units const their_load = cells.loads()[others];
      changed = changed - power(their_load) + power(load + less) + power(their_load + more);
    }
    uint128& before = late[step % late.size()];
    if (changed <= sum || changed <= before) {
      if (swaps) {
        cells.swap(sample, other);
      } else {
        cells.move(sample, to);
      }
      sum = changed;
    }
    before = std::min(before, sum);
  }
  if (cells.makespan() < least) {
    least = cells.makespan();
    std::copy(cells.owner().begin(), cells.owner().end(), owner.begin());
  }
  return least;
}

/// What batches that pad two lengths cost together at the least.
///
/// Give each sample a price. A batch of samples that pads to the lengths S and T costs f(S, T) for
/// each, which together is no less than their prices, less all by which a price is above f(S, T).
/// Let `excess` be the most by which prices of samples up to S and T are above f(S, T), in all, over
/// all S and T. Then m batches cost no less than all prices less m times the excess.
///
/// Good prices are above what a sample costs alone by about what padding costs near it. They begin
/// an eighth above. In each round the price rises of a sample whose own largest excess is below a
/// target, and others fall, all by the root of the ratio. If prices are `above` by three times the
/// target for each batch, neither higher nor lower prices would prove more, where samples are dense:
/// there the excess grows with the third power of what prices are above.
///
/// To have few different lengths, of the one with fewer values six leading bits count, of the other
/// one eight: shorter samples cost no more.
///
/// Expects     n times the cost of the longest source and target is at most 2^61.
/// Complexity  O(S x kinds x near) per round, where S is the number of different values of one
///             length, a kind are samples of equal lengths, and near are the kinds that one batch
///             can have; after 2^24 looks it ends with the rounds so far.
/// Source      the dual of the linear program that covers samples with fractions of batches, as in
///             P. C. Gilmore, R. E. Gomory, "A Linear Programming Approach to the Cutting-Stock
///             Problem", Operations Research 9(6), 1961.
template <class Problem>
class two_length_sum {
 public:
  explicit two_length_sum(Problem const& problem) : problem_(problem)
  {
    std::vector<tokens> sources;
    std::vector<tokens> targets;
    for (padded_lengths const own : problem.lengths) {
      sources.push_back(leading_bits(own.source, few_bits));
      targets.push_back(leading_bits(own.target, few_bits));
    }
    for (auto* values : {&sources, &targets}) {
      std::sort(values->begin(), values->end());
      values->erase(std::unique(values->begin(), values->end()), values->end());
    }
    by_target_ = targets.size() < sources.size();
    outer_ = std::move(by_target_ ? targets : sources);
    for (auto [outer, inner] : problem.lengths) {
      if (by_target_) { std::swap(outer, inner); }
      kinds_.push_back({leading_bits(outer, few_bits), leading_bits(inner, many_bits), 1, 0, 0, 0});
    }
    std::sort(kinds_.begin(), kinds_.end(), [](kind const& a, kind const& b) {
      return precedes(a.inner, b.inner, a.outer, b.outer);
    });
    std::size_t kept = 0;
    for (kind const& each : kinds_) {
      if (kept > 0 && kinds_[kept - 1].inner == each.inner &&
          kinds_[kept - 1].outer == each.outer) {
        ++kinds_[kept - 1].samples;
      } else {
        kinds_[kept++] = each;
      }
    }
    kinds_.resize(kept);
    for (kind& each : kinds_) {
      each.alone = cost_of(each.outer, each.inner);
      each.above = each.alone / 8 + 1;
    }
  }

  /// A lower bound of at most so many batches.
  [[nodiscard]] cost_units within(std::size_t batches)
  {
    constexpr int rounds = 4;
    auto const most_batches = static_cast<uint128>(batches);
    cost_units bound = 0;
    for (int round = 0; round < rounds; ++round) {
      auto const excess = static_cast<uint128>(largest_excess());
      if (looks_ > most_looks) { break; }
      uint128 prices = 0;
      uint128 above = 0;
      for (kind const& each : kinds_) {
        auto const samples = static_cast<uint128>(each.samples);
        prices += samples * static_cast<uint128>(each.price());
        above += samples * static_cast<uint128>(each.above);
      }
      if (prices > most_batches * excess) {
        bound = std::max(bound, static_cast<cost_units>(prices - most_batches * excess));
      }
      move_prices(above / (3 * most_batches));
    }
    return bound;
  }

 private:
  static constexpr unsigned few_bits = 6;
  static constexpr unsigned many_bits = 8;
  static constexpr std::uint64_t most_looks = std::uint64_t{1} << 24;

  struct kind {
    tokens outer;
    tokens inner;
    cost_units samples;
    cost_units alone;  // what one costs
    cost_units above;  // its price is above that
    cost_units worst;  // the largest excess that it has a share in

    [[nodiscard]] cost_units price() const { return alone + above; }
  };
  struct priced_kind {
    cost_units price;
    cost_units samples;
    cost_units worst;
    std::size_t number;
  };

  [[nodiscard]] static tokens leading_bits(tokens length, unsigned bits)
  {
    auto const wide = static_cast<std::uint64_t>(length);
    auto const width = static_cast<unsigned>(std::bit_width(wide));
    unsigned const dropped = width > bits ? width - bits : 0;
    return static_cast<tokens>(wide >> dropped << dropped);
  }

  [[nodiscard]] cost_units cost_of(tokens outer, tokens inner) const
  {
    return problem_.cost(1,
                         by_target_ ? padded_lengths{inner, outer} : padded_lengths{outer, inner});
  }

  /// The excess over all S and T. For one S, T rises: kinds join where T reaches them, and leave
  /// where f(S, T) reaches their price.
  [[nodiscard]] cost_units largest_excess()
  {
    cost_units largest = 0;
    for (kind& each : kinds_) { each.worst = 0; }
    auto const leave = [this](priced_kind const& gone) {
      kinds_[gone.number].worst = std::max(kinds_[gone.number].worst, gone.worst);
    };
    for (tokens const outer : outer_) {
      near_.clear();
      for (std::size_t next = 0; next < kinds_.size() && looks_ <= most_looks;) {
        tokens const inner = kinds_[next].inner;
        cost_units const cost = cost_of(outer, inner);
        std::size_t const before = near_.size();
        for (; next < kinds_.size() && kinds_[next].inner == inner; ++next) {
          kind const& each = kinds_[next];
          if (each.outer > outer || each.price() <= cost) { continue; }
          near_.push_back({each.price(), each.samples, 0, next});
        }
        if (near_.size() == before) { continue; }
        cost_units excess = 0;
        std::size_t kept = 0;
        for (priced_kind const& each : near_) {
          if (each.price <= cost) {
            leave(each);
            continue;
          }
          excess += each.samples * (each.price - cost);
          near_[kept++] = each;
        }
        looks_ += near_.size();
        near_.resize(kept);
        for (priced_kind& each : near_) { each.worst = std::max(each.worst, excess); }
        largest = std::max(largest, excess);
      }
      looks_ += kinds_.size() / 4;
      for (priced_kind const& each : near_) { leave(each); }
    }
    return largest;
  }

  /// Makes the largest excess of each kind more like the target.
  void move_prices(uint128 target)
  {
    constexpr uint128 one = 1 << 10;
    auto const longest = problem_.longest();
    cost_units const highest = problem_.cost(1, longest);
    for (kind& each : kinds_) {
      uint128 const ratio = target * one * one / (static_cast<uint128>(each.worst) + 1);
      uint128 const factor = fixed_point::square_root(
          static_cast<std::uint64_t>(std::clamp(ratio, one * one / 16, one * one * 16)));
      auto const moved = static_cast<cost_units>(static_cast<uint128>(each.above) * factor / one);
      each.above = std::clamp(moved, cost_units{1}, std::max(highest - each.alone, cost_units{1}));
    }
  }

  Problem const& problem_;
  bool by_target_ = false;  // the outer length is the target
  std::vector<tokens> outer_;
  std::vector<kind> kinds_;
  std::vector<priced_kind> near_;
  std::uint64_t looks_ = 0;
};

/// What was found for a padded step: the makespan is no_cost where there is no plan, and the bound
/// is no_cost where none exists.
struct found_padded {
  std::vector<cell_id> owner;
  cost_units makespan = no_cost;
  cost_units lower_bound = 0;

  /// Whether a search ends with this that looks for a makespan of `enough`, or with 0 for the least.
  [[nodiscard]] bool ends(cost_units enough) const
  {
    return makespan <= std::max(lower_bound, enough) || (enough > 0 && lower_bound > enough);
  }
};

/// Searches plans of one batch a rank by their corners, for limits between the bound and the makespan:
/// first for those that no plan keeps, then for those that one is found for.
template <class Problem>
void search_corners(Problem const& problem, std::uint64_t looks, cost_units enough,
                    found_padded& found)
{
  constexpr std::size_t few_kinds = 64;
  corner_search<Problem> search(problem);
  if (problem.slots > 1 || search.kinds() > few_kinds) { return; }
  padded_cells<Problem> cells(problem);
  std::vector<std::uint32_t> batch_of(problem.lengths.size());
  std::vector<cell_id> tried(problem.lengths.size());
  cost_units const most = problem.cost(problem.lengths.size(), problem.longest());
  for (bool const for_bound : {true, false}) {
    cost_units low = found.lower_bound;
    cost_units high = std::min(found.makespan, most + 1);
    for (cost_units limit = std::clamp(enough, low, high); low < high && !found.ends(enough);
         limit = low + (high - low) / 2) {
      std::optional<bool> const fits = search.fits(limit, looks, batch_of);
      if (fits == true) {
        deal_batches(problem, batch_of, tried);
        cells.assign(tried);
        found.makespan = cells.makespan();
        found.owner = tried;
        high = found.makespan;
      } else if (fits == false || !for_bound) {
        low = limit + 1;
        if (for_bound) { found.lower_bound = low > most ? no_cost : low; }
      } else {
        high = limit;
      }
    }
    if (found.lower_bound == no_cost) { return; }
  }
}

/// Fills orders evenly, keeps the best, shifts samples, and searches small steps whole. The bound is
/// the mean of what all batches cost at least, for one length or both, or the least largest batch,
/// for one. It stops at a makespan of `enough`.
///
/// Expects     check_padded has no objection.
template <class Problem>
[[nodiscard]] found_padded plan_padded(Problem const& problem, std::uint64_t work_per_sample,
                                       cost_units enough = 0)
{
  constexpr std::size_t few = 16;  // samples: of more, the search of all plans hardly ends
  constexpr std::uint64_t work_of_few = 200'000;
  std::size_t const count = problem.lengths.size();
  found_padded found{std::vector<cell_id>(count), no_cost, 0};
  std::vector<std::uint32_t> const order = costliest_first(problem);
  std::vector<cost_units> costs;
  costs.reserve(count);
  for (std::uint32_t const sample : order) { costs.push_back(problem.alone(sample)); }
  cost_units const largest_batch = least_largest_padded(costs, problem.cells());
  cost_units const sum = std::max(least_padded_sum(costs).within(problem.cells()),
                                  two_length_sum(problem).within(problem.cells()));
  auto const ranks = static_cast<cost_units>(problem.ranks);
  found.lower_bound = std::max(sum / ranks + (sum % ranks == 0 ? 0 : 1), largest_batch);
  std::vector<std::uint32_t> batch_of(count);
  std::vector<cell_id> tried(count);
  padded_cells<Problem> cells(problem);
  padded_orders_of(problem, [&](std::vector<std::uint32_t> const& runs) {
    if (found.ends(enough) || !fill_evenly(problem, runs, largest_batch, batch_of)) { return; }
    deal_batches(problem, batch_of, tried);
    cells.assign(tried);
    if (cells.makespan() >= found.makespan) { return; }
    found.makespan = cells.makespan();
    found.owner = tried;
  });
  constexpr std::uint64_t most_looks = 1 << 17;
  std::uint64_t const work = work_per_sample * count;
  if (!found.ends(enough)) { search_corners(problem, std::min(work, most_looks), enough, found); }
  if (!found.ends(enough) && found.makespan != no_cost) {
    found.makespan =
        shift_padded(problem, order, work, std::max(found.lower_bound, enough), found.owner);
  }
  if (!found.ends(enough) && count <= few) {
    padded_search<Problem> search(problem, order, work_of_few);
    if (search.improve(found.makespan, found.owner)) { found.lower_bound = found.makespan; }
  }
  return found;
}

/// The same, also where no order fits the cells within the cap: first the heaviest cell is made
/// lighter, as if weights were costs and cells ranks. At last, padding that does no rank any good is
/// saved.
template <class CostOf, class WeightOf>
[[nodiscard]] found_padded plan_padded_within(padded_problem<CostOf, WeightOf> const& problem,
                                              std::uint64_t work_per_sample)
{
  std::uint64_t const work = work_per_sample * problem.lengths.size();
  found_padded found = plan_padded(problem, work_per_sample);
  if (found.makespan == no_cost && found.lower_bound != no_cost) {
    constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();
    padded_problem<WeightOf, WeightOf> const lighter{
        problem.lengths, problem.cells(), 1, no_limit, problem.weight_of, problem.weight_of};
    found_padded light = plan_padded(lighter, work_per_sample);
    if (light.lower_bound > problem.most_weight) { found.lower_bound = no_cost; }
    if (light.makespan > problem.most_weight) { return found; }
    found.owner = std::move(light.owner);  // cells have the numbers that they have in the grid
    found.makespan =
        shift_padded(problem, costliest_first(problem), work, found.lower_bound, found.owner);
  }
  if (found.makespan == no_cost) { return found; }
  found.makespan = save_padding(problem, work, found.owner);
  return found;
}

}  // namespace ballast::inline v0::detail
