// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/detail/bounds/cheapest_cover.hpp>
#include <ballast/partition/detail/capacity/capacity_filling.hpp>
#include <ballast/partition/detail/exchange/bag_contents.hpp>
#include <ballast/partition/detail/exchange/exchange.hpp>
#include <ballast/partition/detail/exchange/settle_latest.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/makespan_lower_bound.hpp>
#include <ballast/partition/partition_plan.hpp>

#include <bit>

namespace ballast::inline v0::detail {

/// Samples of two bags, by rank, that change bags. `net` is how much work `from` loses; 0 means no
/// exchange. `net_weight` is how much weight it loses.
struct capped_exchange {
  std::size_t from = 0;
  std::size_t to = 0;
  std::size_t given_count = 0;
  std::size_t taken_count = 0;
  std::array<bag_contents::rank, subset_sum::most_members> given{};  // lightest first
  std::array<bag_contents::rank, subset_sum::most_members> taken{};
  cost_units net = 0;
  std::int64_t net_weight = 0;
};

/// A plan under local search whose bags keep to their capacities.
///
/// In, out     held says what bags weigh; work is how much the search may still do.
/// Ensures     (1) samples fit the bags that they go to, and no bag gets above its capacity
///             (2) with exchange_counts::equal, every bag keeps its number of samples
class capped_exchanges {
 public:
  using exchange_type = capped_exchange;

  capped_exchanges(partition_problem const& problem, std::span<cost_units> loads,
                   std::span<bag_id> owner, std::span<std::int64_t> held, work_budget& work,
                   workspace& memory, workspace::frame& scratch,
                   exchange_counts counts = exchange_counts::free)
      : problem_(problem),
        loads_(loads),
        held_(held),
        counts_(counts),
        contents_(problem, owner, scratch),
        work_(work),
        memory_(memory)
  {}

  [[nodiscard]] std::span<cost_units const> loads() const noexcept { return loads_; }
  [[nodiscard]] std::uint32_t speed(std::size_t bag) const noexcept { return problem_.speeds[bag]; }

  [[nodiscard]] work_budget& work() const noexcept { return work_; }

  /// How much more a bag can hold; below 0 where it is overrun.
  [[nodiscard]] std::int64_t room(std::size_t bag) const noexcept
  {
    return problem_.capacities[bag] - held_[bag];
  }

  /// The best exchange of up to `size` samples of each bag, light ones and heavy ones: where bags
  /// are full, a heavy sample changes bags with light ones of the same weight together.
  [[nodiscard]] capped_exchange find(std::size_t late, std::size_t early, wanted_net wanted,
                                     std::size_t size)
  {
    side const from = spread(late, early, size);
    side const to = spread(early, late, size);
    std::uint64_t looked_at = 0;
    exchange const found =
        find_exchange(from.costs_of(), to.costs_of(), wanted, counts_, memory_, work_,
                      [&](std::uint32_t given, std::uint32_t taken) {
                        ++looked_at;
                        return has_room(late, early, from.weight(given), to.weight(taken));
                      });
    work_.spend(4 * looked_at);
    return listed(late, early, from, to, found);
  }

  /// An exchange that takes from an overrun bag the weight that it has too much, or else as much of
  /// it as can be, and after which neither bag finishes after `latest`. `net_weight` 0 means none.
  ///
  /// Expects     bag `over` is overrun, and bag `roomy` is not.
  [[nodiscard]] capped_exchange find_relief(std::size_t over, std::size_t roomy, ratio latest,
                                            std::size_t size)
  {
    std::int64_t const most = room(roomy);
    if (most < 1) { return {}; }
    side const from = spread(over, roomy, size);
    side const to = spread(roomy, over, size);
    auto const is_early = [&](std::size_t bag, cost_units load) {
      return ratio{load, speed(bag)} <= latest;
    };
    std::uint64_t looked_at = 0;
    exchange const found = find_exchange(
        from.weights_of(), to.weights_of(), {std::min(-room(over), most), most, most}, counts_,
        memory_, work_, [&](std::uint32_t given, std::uint32_t taken) {
          ++looked_at;
          cost_units const net = from.cost(given) - to.cost(taken);
          return is_early(over, loads_[over] - net) && is_early(roomy, loads_[roomy] + net);
        });
    work_.spend(4 * looked_at);
    return found.net > 0 ? listed(over, roomy, from, to, found) : capped_exchange{};
  }

  /// The best move of one sample, or swap of one for one, among those that make the later of the
  /// two bags earlier.
  ///
  /// Expects     bag `late` finishes after bag `early`.
  [[nodiscard]] capped_exchange find_swap(std::size_t late, std::size_t early)
  {
    auto scratch = memory_.open();
    std::span<item const> const giving = heaviest_first(late, early, 0, scratch);
    std::size_t const blanks = counts_ == exchange_counts::free ? 1 : 0;  // to move one alone
    std::span<item const> const taking = heaviest_first(early, late, blanks, scratch);
    std::uint64_t looked_at = giving.size() + taking.size();
    swapped_places const best =
        nearest_swap(*this, late, early, giving, taking, [&](std::size_t given, std::size_t taken) {
          ++looked_at;
          return has_room(late, early, giving[given].weight, taking[taken].weight);
        });
    work_.spend(looked_at);
    capped_exchange result{late, early, 1, 0, {}, {}, best.net, 0};
    if (best.net > 0) {
      result.given[0] = giving[best.given].rank;
      result.taken[0] = taking[best.taken].rank;
      result.taken_count = result.taken[0] == bag_contents::none ? 0 : 1;
      result.net_weight = giving[best.given].weight - taking[best.taken].weight;
    }
    return result;
  }

  /// A swap of any two samples that both bags have room for, whatever it does to the makespan;
  /// after a few draws without one, none, and then no sample is given.
  [[nodiscard]] capped_exchange draw_swap(std::size_t bag, std::size_t other,
                                          random_source& random) const
  {
    constexpr int draws = 8;
    auto scratch = memory_.open();
    std::span<item const> const giving = heaviest_first(bag, other, 0, scratch);
    std::span<item const> const taking = heaviest_first(other, bag, 0, scratch);
    work_.spend(giving.size() + taking.size());
    capped_exchange result{bag, other, 0, 0, {}, {}, 0, 0};
    if (giving.empty() || taking.empty()) { return result; }
    for (int draw = 0; draw < draws && result.given_count == 0; ++draw) {
      item const given = giving[random.below(giving.size())];
      item const taken = taking[random.below(taking.size())];
      if (!has_room(bag, other, given.weight, taken.weight)) { continue; }
      result.given_count = result.taken_count = 1;
      result.given[0] = given.rank;
      result.taken[0] = taken.rank;
      result.net = given.cost - taken.cost;
      result.net_weight = given.weight - taken.weight;
    }
    return result;
  }

  void make(capped_exchange const& chosen) noexcept
  {
    auto const given = span_of(chosen.given, 0, chosen.given_count);
    auto const taken = span_of(chosen.taken, 0, chosen.taken_count);
    contents_.move(given, chosen.from, chosen.to);
    contents_.move(taken, chosen.to, chosen.from);
    held_[chosen.from] -= chosen.net_weight;
    held_[chosen.to] += chosen.net_weight;
    loads_[chosen.from] -= chosen.net;
    loads_[chosen.to] += chosen.net;
  }

 private:
  struct item {
    cost_units cost;
    std::int64_t weight;
    bag_contents::rank rank;  // or bag_contents::none
  };

  /// The candidates of one bag, lightest first.
  struct side {
    std::array<bag_contents::rank, subset_sum::most_members> ranks{};
    std::array<cost_units, subset_sum::most_members> costs{};
    std::array<std::int64_t, subset_sum::most_members> weights{};
    std::size_t size = 0;

    [[nodiscard]] std::span<cost_units const> costs_of() const noexcept
    {
      return span_of(costs, 0, size);
    }
    [[nodiscard]] std::span<std::int64_t const> weights_of() const noexcept
    {
      return span_of(weights, 0, size);
    }
    [[nodiscard]] cost_units cost(std::uint32_t subset) const noexcept
    {
      return sum(costs, subset);
    }
    [[nodiscard]] std::int64_t weight(std::uint32_t subset) const noexcept
    {
      return sum(weights, subset);
    }

   private:
    [[nodiscard]] static std::int64_t sum(
        std::array<std::int64_t, subset_sum::most_members> const& of, std::uint32_t subset) noexcept
    {
      std::int64_t all = 0;
      for (; subset != 0; subset &= subset - 1) {
        all += of[static_cast<std::size_t>(std::countr_zero(subset))];
      }
      return all;
    }
  };

  [[nodiscard]] static capped_exchange listed(std::size_t from, std::size_t to, side const& giving,
                                              side const& taking, exchange const& found) noexcept
  {
    capped_exchange result{from, to, 0, 0, {}, {}, 0, 0};
    result.given_count = list_members<bag_contents::rank>(found.given, giving.ranks, result.given);
    result.taken_count = list_members<bag_contents::rank>(found.taken, taking.ranks, result.taken);
    result.net = giving.cost(found.given) - taking.cost(found.taken);
    result.net_weight = giving.weight(found.given) - taking.weight(found.taken);
    return result;
  }

  [[nodiscard]] std::int64_t weight(bag_contents::rank rank) const noexcept
  {
    return problem_.weights[to_index(problem_.heaviest_first[rank].sample)];
  }

  [[nodiscard]] bool has_room(std::size_t from, std::size_t to, std::int64_t given,
                              std::int64_t taken) const noexcept
  {
    return held_[to] + given - taken <= problem_.capacities[to] &&
           held_[from] - given + taken <= problem_.capacities[from];
  }

  /// Samples that may go to the other bag, from the lightest to the heaviest at even distances.
  [[nodiscard]] side spread(std::size_t bag, std::size_t other, std::size_t most) const noexcept
  {
    auto const next = [&](bag_contents::rank rank) {
      return contents_.first_movable(contents_.heavier(rank), bag, other);
    };
    auto const first = contents_.first_movable(contents_.lightest(bag), bag, other);
    std::size_t count = 0;
    for (auto rank = first; rank != bag_contents::none; rank = next(rank)) { ++count; }
    std::size_t const wanted = std::min(count, most);
    side chosen;
    std::size_t place = 0;
    for (auto rank = first; chosen.size < wanted; rank = next(rank)) {
      if (place++ != chosen.size * count / wanted) { continue; }
      chosen.ranks[chosen.size] = rank;
      chosen.costs[chosen.size] = contents_.cost(rank);
      chosen.weights[chosen.size++] = weight(rank);
    }
    return chosen;
  }

  /// All samples that may go to the other bag, and behind them `blanks` entries without a sample.
  [[nodiscard]] std::span<item const> heaviest_first(std::size_t bag, std::size_t other,
                                                     std::size_t blanks,
                                                     workspace::frame& scratch) const
  {
    std::size_t count = blanks;
    auto const first = contents_.first_movable(contents_.lightest(bag), bag, other);
    auto const next = [&](bag_contents::rank rank) {
      return contents_.first_movable(contents_.heavier(rank), bag, other);
    };
    for (auto rank = first; rank != bag_contents::none; rank = next(rank)) { ++count; }
    std::span<item> const items = scratch.take<item>(count);
    std::fill_n(items.rbegin(), blanks, item{0, 0, bag_contents::none});
    std::size_t place = count - blanks;
    for (auto rank = first; rank != bag_contents::none; rank = next(rank)) {
      items[--place] = {contents_.cost(rank), weight(rank), rank};
    }
    return items;
  }

  partition_problem problem_;
  std::span<cost_units> loads_;
  std::span<std::int64_t> held_;
  exchange_counts counts_;
  bag_contents contents_;
  work_budget& work_;
  workspace& memory_;
};

/// Brings overrun bags within their capacities by exchanges that move weight and hardly any work.
///
/// The bag that is overrun by most exchanges samples with one of those with most room: a few
/// samples for a few that weigh less and cost about as much. At first no bag may finish later than
/// the latest does, or than `limit`; where that is too strict, a little later, and at last at any
/// time.
///
/// Ensures     (1) no bag gets above its capacity that was not, and none that was gets heavier
///             (2) it returns whether all bags keep to their capacities
/// Complexity  O(m log m) and the exchanges searched for each one made, until the work of `plan` is
///             spent.
inline bool relieve_overruns(capped_exchanges& plan, std::span<std::uint32_t const> speeds,
                             ratio limit, workspace::frame& scratch)
{
  constexpr std::size_t few_partners = 8;
  constexpr std::size_t candidates = 10;
  constexpr int looser[] = {62, 10, 7, 4, 1, 0};  // the latest finish grows by a 2^k-th of itself
  std::span<std::uint32_t> const roomiest_first = scratch.take<std::uint32_t>(speeds.size());
  std::iota(roomiest_first.begin(), roomiest_first.end(), std::uint32_t{0});
  auto const more_room = [&plan](std::uint32_t a, std::uint32_t b) {
    return plan.room(a) > plan.room(b) || (plan.room(a) == plan.room(b) && a < b);
  };
  auto const search = [&](std::size_t over, int by, std::size_t size, std::size_t partners) {
    ratio latest = std::max(limit, makespan_of(plan.loads(), speeds));
    latest.numerator += std::min(latest.numerator >> by, no_cost - latest.numerator);
    capped_exchange best;
    for (std::uint32_t const roomy : roomiest_first.first(partners)) {
      if (plan.room(roomy) < 1 || plan.work().spent()) { break; }
      capped_exchange const found = plan.find_relief(over, roomy, latest, size);
      if (found.net_weight > best.net_weight) { best = found; }
      if (best.net_weight >= -plan.room(over)) { break; }
    }
    return best;
  };

  while (!plan.work().spent()) {
    std::sort(roomiest_first.begin(), roomiest_first.end(), more_room);
    plan.work().spend(speeds.size());
    std::size_t const over = roomiest_first.back();
    if (plan.room(over) >= 0) { return true; }
    capped_exchange best;
    for (int const by : looser) {
      best = search(over, by, candidates, std::min(few_partners, speeds.size()));
      // Half of the overrun with even loads is better than all of it with uneven ones.
      if (best.net_weight >= -plan.room(over) / 2) { break; }
    }
    if (best.net_weight == 0) {
      best = search(over, looser[5], subset_sum::most_members, speeds.size());
    }
    if (best.net_weight == 0) { return false; }
    plan.make(best);
  }
  return plan.room(*std::min_element(roomiest_first.begin(), roomiest_first.end(),
                                     [&](auto a, auto b) { return more_room(b, a); })) >= 0;
}

/// Searches plans that keep to the capacities for one with a small makespan: from several starts by
/// exchanges, and then from what a few random swaps make of the best one, over and over.
///
/// In, out     `bags` enters with a plan that may overrun and leaves with the best one found.
/// Expects     no plan that keeps to the capacities has a makespan below `bound`; no bag has a load
///             below its starting load.
/// Ensures     (1) no bag of a plan that it found is above its capacity
///             (2) where the plan that it began with keeps to the capacities, the makespan does not
///                 grow
///             (3) with exchange_counts::equal, every bag keeps its number of samples
///             (4) it ends when no bag finishes after `bound`, or when the work is spent
/// Complexity  O(n m + work); 8 n + 8 m bytes of scratch beside that of the exchanges.
class capacity_search {
 public:
  capacity_search(partition_problem const& problem, bags_with_room const& bags, ratio bound,
                  exchange_counts counts, std::uint64_t work, workspace& memory,
                  workspace::frame& scratch)
      : problem_(problem),
        bags_(bags),
        bound_(bound),
        counts_(counts),
        left_(work),
        memory_(memory),
        scratch_(scratch),
        best_loads_(scratch.take<cost_units>(bags.loads().size())),
        best_owner_(scratch.take<bag_id>(bags.owner().size())),
        first_loads_(scratch.take<cost_units>(bags.loads().size())),
        first_owner_(scratch.take<bag_id>(bags.owner().size()))
  {
    std::copy(bags.loads().begin(), bags.loads().end(), first_loads_.begin());
    std::copy(bags.owner().begin(), bags.owner().end(), first_owner_.begin());
  }

  /// Searches plans in which every bag keeps its number of samples. Returns whether it found one.
  bool search_counts(std::span<cost_units const> starting_loads)
  {
    relieve(left_.left() / 4);
    if (found_) { settle(left_.left() / 2); }
    if (!is_within(wide)) {
      bags_.replace(first_loads_, first_owner_);
      std::uint64_t const work = left_.left() / 2;
      work_budget steps(work);
      bool const fits = fill_by_count(problem_, bags_, starting_loads, steps, memory_);
      left_.spend(work - steps.left());
      if (fits) { even_out(left_.left()); }
    }
    if (found_) { shake(); }
    return found_;
  }

  /// Searches all plans, but where samples have homes, first those that are near to the one at
  /// hand. The search of all fillings takes up to `nodes` steps. Returns whether it found a plan.
  bool search(std::span<cost_units const> starting_loads, cheapest_cover const& cover,
              std::uint64_t nodes)
  {
    if (!problem_.home.empty()) {
      relieve(left_.left() / 4);
      settle(left_.left());
      if (found_) { return true; }
    } else if (bags_.any_overrun()) {
      left_.spend(bags_.owner().size());
      if (fill_by_density(problem_, bags_, starting_loads, bound_, cover, memory_)) {
        // Where it is far from even, cost does not follow from weight, and the next start is
        // better.
        ratio const made = makespan_of(bags_.loads(), problem_.speeds);
        ratio const near{bound_.numerator + (bound_.numerator >> 4), bound_.denominator};
        settle(made <= near ? left_.left() : left_.left() / 4);
      }
      if (!is_within(wide)) {
        auto frame = memory_.open();
        auto const by_weight = frame.take<priced_sample>(problem_.weights.size());
        descending_order_into(by_weight, problem_.weights, memory_);
        left_.spend(bags_.owner().size());
        if (fill_by_weight(problem_, bags_, starting_loads, by_weight, memory_)) {
          even_out(left_.left());
        }
      }
      bags_.replace(first_loads_, first_owner_);
    }
    if (problem_.home.empty() && !is_within(wide)) {
      relieve(left_.left() / 4);
      settle(left_.left());
    }
    if (!found_) {
      bags_.replace(first_loads_, first_owner_);
      work_budget steps(nodes);
      if (!place_within_capacity(problem_, bags_, starting_loads, bags_.owner(), steps, memory_)) {
        return false;
      }
      settle(left_.left());
    }
    shake();
    return true;
  }

  // Settles what a few random swaps make of the best plan, as long as there is work.
  void shake()
  {
    constexpr std::uint64_t seed = 1;
    constexpr int swaps = 2;
    random_source random(seed);
    std::size_t const count = bags_.loads().size();
    while (count > 1 && !is_within(narrow) && !left_.spent()) {
      auto frame = memory_.open();
      bags_.replace(best_loads_, best_owner_);
      left_.spend(bags_.owner().size() + count);
      capped_exchanges plan(problem_, bags_.loads(), bags_.owner(), bags_.held(), left_, memory_,
                            frame, counts_);
      std::size_t bag = latest();
      for (int swap = 0; swap < swaps; ++swap) {
        std::size_t const other = (bag + 1 + random.below(count - 1)) % count;
        plan.make(plan.draw_swap(bag, other, random));
        bag = random.below(count);
      }
      settle_latest(plan, bound_, frame)();
      keep_best();
    }
    bags_.replace(best_loads_, best_owner_);
  }

  [[nodiscard]] std::size_t latest() const noexcept
  {
    std::size_t late = 0;
    auto const finish = [this](std::size_t bag) {
      return ratio{bags_.loads()[bag], problem_.speeds[bag]};
    };
    for (std::size_t bag = 1; bag < bags_.loads().size(); ++bag) {
      if (finish(bag) > finish(late)) { late = bag; }
    }
    return late;
  }

  // How near to the bound a plan is good enough, as a power of 2 by which that is divided: for not
  // looking at other starts, and for not looking at all.
  static constexpr int wide = 11;
  static constexpr int narrow = 17;

  [[nodiscard]] bool is_within(int nearness) const
  {
    cost_units const exact = bound_.numerator;
    ratio const near{exact + std::min(exact >> nearness, no_cost - exact), bound_.denominator};
    return found_ && makespan_of(best_loads_, problem_.speeds) <= near;
  }

  void keep_best()
  {
    if (found_ &&
        makespan_of(best_loads_, problem_.speeds) <= makespan_of(bags_.loads(), problem_.speeds)) {
      return;
    }
    found_ = true;
    std::copy(bags_.loads().begin(), bags_.loads().end(), best_loads_.begin());
    std::copy(bags_.owner().begin(), bags_.owner().end(), best_owner_.begin());
  }

  void relieve(std::uint64_t work)
  {
    if (bags_.any_overrun()) {
      auto frame = memory_.open();
      work_budget steps(work);
      capped_exchanges plan(problem_, bags_.loads(), bags_.owner(), bags_.held(), steps, memory_,
                            frame, counts_);
      bool const relieved = relieve_overruns(plan, problem_.speeds, bound_, frame);
      left_.spend(work - steps.left());
      if (!relieved) { return; }
    }
    keep_best();
  }

  void settle(std::uint64_t work)
  {
    if (bags_.any_overrun()) { return; }
    auto frame = memory_.open();
    work_budget steps(work);
    capped_exchanges plan(problem_, bags_.loads(), bags_.owner(), bags_.held(), steps, memory_,
                          frame, counts_);
    settle_in_stages(plan, bound_, frame);
    left_.spend(work - steps.left());
    keep_best();
    bags_.replace(best_loads_, best_owner_);
  }

  // Settles a plan that was made by weight, and whose work is far from even: first by single swaps
  // of the latest bag with one of the earliest, of which a hundred cost as much as an exchange of
  // many samples.
  void even_out(std::uint64_t work)
  {
    {
      auto frame = memory_.open();
      work_budget steps(work);
      capped_exchanges plan(problem_, bags_.loads(), bags_.owner(), bags_.held(), steps, memory_,
                            frame, counts_);
      swap_with_earliest(plan, bound_, frame);
      left_.spend(work - steps.left());
    }
    settle(left_.left());
  }

  partition_problem problem_;
  bags_with_room bags_;
  ratio bound_;
  exchange_counts counts_;
  work_budget left_;
  workspace& memory_;
  workspace::frame& scratch_;
  std::span<cost_units> best_loads_;
  std::span<bag_id> best_owner_;
  std::span<cost_units> first_loads_;  // the plan at hand, or what was relieved of it
  std::span<bag_id> first_owner_;
  bool found_ = false;
};

/// A plan in which no bag gets more than its memory holds.
///
/// The inner policy plans without capacities. Where that overruns bags, a new plan gives every bag
/// work and weight evenly, another weight alone, and a third relieves the overrun bags of the inner
/// policy's plan by exchanges that move weight and hardly any work. Where none works out, plans are
/// made by work, by weight, and at last by a search of all fillings. Then exchanges within the
/// capacities even out the work, also where the inner policy's plan kept to them. Where samples have
/// homes, only a plan that overruns is changed.
///
/// With exchange_counts::equal every bag keeps its number of samples: only swaps of as many samples
/// for as many bring a plan within its capacity, and one that keeps to the capacities stays.
///
/// Expects     the inner policy packs; with exchange_counts::equal, what it proves holds for plans
///             of its counts.
/// Ensures     (1) every sample that found room has one bag, which it fits
///             (2) loads have grown by exactly the costs of the samples each bag now owns
///             (3) no bag weighs more than its capacity, unless counts are kept
///             (4) if a plan that keeps to the capacities exists, counts are free, and the search of
///                 all fillings ends within `work`, all samples have a bag; otherwise some may have
///                 none. Of steps in which a plan from nothing looks at bags 2^30 times, a second or
///                 two, it gives up
///             (5) no plan has a makespan below the one returned
///             (6) where the inner policy's plan keeps to the capacities, the makespan is not above
///                 that plan's
/// Complexity  the inner policy; where it overruns, O(n (m + log n) + work); n m as far as (4)
struct within_capacities {
  policy_ref inner;
  exchange_counts counts = exchange_counts::free;
  std::uint64_t work = 300'000;  ///< how many samples and sums each search looks at

  ratio operator()(partition_problem const& problem, std::span<cost_units> loads,
                   std::span<bag_id> owner, workspace& memory) const
  {
    bool const is_free = counts == exchange_counts::free;
    auto scratch = memory.open();
    std::span<cost_units> const starts = scratch.take<cost_units>(loads.size());
    std::copy(loads.begin(), loads.end(), starts.begin());
    partition_problem without_limits = problem;
    without_limits.weights = {};
    without_limits.capacities = {};
    ratio const proven = inner(without_limits, loads, owner, memory);
    bags_with_room const bags(problem, loads, owner, scratch);
    bool const overrun = bags.any_overrun();
    if (!overrun && (!is_free || !problem.home.empty())) { return proven; }
    cheapest_cover const cover(problem, scratch);
    ratio const bound = std::max({proven, with_lower_bound(problem, starts, memory).lower_bound,
                                  capacity_bound(problem, cover, memory)});
    if (!overrun && makespan_of(loads, problem.speeds) <= bound) { return bound; }
    capacity_search find(problem, bags, bound, counts, work, memory, scratch);
    static_cast<void>(is_free ? find.search(starts, cover, work) : find.search_counts(starts));
    return bound;
  }
};

}  // namespace ballast::inline v0::detail
