// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/detail/exchange/bag_contents.hpp>
#include <ballast/partition/detail/exchange/exchange.hpp>
#include <ballast/partition/detail/exchange/settle_latest.hpp>

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

}  // namespace ballast::inline v0::detail
