// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_PATTERNS_COLUMN_GENERATION_HPP
#define BALLAST_PARTITION_DETAIL_PATTERNS_COLUMN_GENERATION_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/detail/patterns/cover_program.hpp>
#include <ballast/partition/detail/patterns/pattern_knapsack.hpp>
#include <ballast/partition/detail/patterns/pattern_list.hpp>
#include <ballast/partition/detail/patterns/simplex_basis.hpp>
#include <ballast/partition/detail/patterns/simplex_number.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace ballast::inline v0::detail {

/// What a linear program says about a number of bags.
enum class relaxation : std::uint8_t { fits, exceeds, unknown };

/// Whether parts of patterns cover all samples with so many bags: the linear program over all
/// patterns of one room, which starts with few patterns and asks a knapsack for those that help.
///
/// With prices p_k of the kinds, sum p_k demand_k / (the most that a set is worth which fits a bag)
/// is a number of bags that no packing gets below. That is all that a proof needs, and it is
/// computed in integers, for whatever prices. Where the work fills all bags nearly, these are
/// nearly the costs. So sets are asked for at a mix of the program's prices and those that gave the
/// best number so far, first the costs; this takes fewer knapsacks. Where such a set does not help,
/// the program's own prices follow.
///
/// Usage       start(), then solve(); take() a pattern for good, then solve() for one bag less.
///             With more samples than the basis can count, they are counted in units (`unit_bits`).
/// Ensures     (1) exceeds: so many bags cannot hold the samples that are left
///             (2) fits: the program covers them with so many bags, up to what its tolerance says
/// Complexity  O(samples * room) per knapsack, a node for 8 of these.
/// Source      P. C. Gilmore, R. E. Gomory, "A Linear Programming Approach to the Cutting-Stock
///             Problem", Operations Research 9(6):849-859, 1961; the bound: A. A. Farley, "A Note
///             on Bounding a Class of Linear Programming Problems", Operations Research
///             38(5):922-923, 1990; the mix: P. Wentges, "Weighted Dantzig-Wolfe Decomposition for
///             Linear Mixed-Integer Programming", Int. Trans. in Operational Research 4(2):151-162,
///             1997.
class column_generation {
 public:
  static constexpr std::size_t most_samples = 511;

  column_generation(std::size_t samples, std::size_t most_kinds, std::size_t table,
                    workspace::frame& scratch)
      : patterns_(16 * most_kinds + 1024, 64 * most_kinds + 4096, scratch),
        program_(most_kinds, patterns_, scratch),
        knapsack_(table, samples, scratch),
        left_(scratch.take<std::uint32_t>(most_kinds)),
        prices_(scratch.take<std::int32_t>(most_kinds)),
        best_prices_(scratch.take<std::int32_t>(most_kinds)),
        mixed_(scratch.take<std::int32_t>(most_kinds)),
        kind_of_(scratch.take<std::uint32_t>(samples)),
        is_covered_(scratch.take<std::uint8_t>(most_kinds)),
        pattern_(scratch.take<pattern_entry>(most_kinds))
  {}

  [[nodiscard]] bool has_room_for(std::size_t samples, std::size_t kinds,
                                  cost_units room) const noexcept
  {
    return samples <= kind_of_.size() && kinds <= left_.size() &&
           knapsack_.has_room_for(samples, room);
  }

  /// Expects     costs of the kinds in descending order, between 1 and room; has_room_for them, or
  ///             for as many of each kind as fit a bag; in units, fewer than 1024 samples
  void start(std::span<cost_units const> costs, std::span<std::uint32_t const> demands,
             cost_units room, int unit_bits = 0)
  {
    costs_ = costs;
    room_ = room;
    std::copy(demands.begin(), demands.end(), left_.begin());
    patterns_.clear();
    for (std::uint32_t kind = 0; kind < costs.size(); ++kind) {
      pattern_[0] = {kind, 1};
      (void)patterns_.add(pattern_.first(1));
    }
    add_first_fit();
    std::copy(demands.begin(), demands.end(), left_.begin());
    program_.start(demands, unit_bits);
    best_sum_ = 0;
    best_worth_ = one;
    for (std::size_t kind = 0; kind < costs.size(); ++kind) {
      best_prices_[kind] = static_cast<std::int32_t>(static_cast<int128>(costs[kind]) * one / room);
      best_sum_ += best_prices_[kind] * static_cast<std::int64_t>(demands[kind]);
    }
  }

  [[nodiscard]] relaxation solve(std::size_t bags, work_budget& nodes)
  {
    std::int64_t const enough =
        static_cast<std::int64_t>(bags) * basis().unit() + basis().tolerance();
    program_.restore(nodes);  // after take()
    for (;;) {
      program_.minimise(enough, nodes);
      if (!basis().is_usable() || nodes.spent()) { return relaxation::unknown; }
      if (basis().value() <= enough) { return relaxation::fits; }
      for (std::size_t kind = 0; kind < costs_.size(); ++kind) {
        prices_[kind] = static_cast<std::int32_t>(std::clamp<std::int64_t>(
            basis().prices()[kind] >> (simplex_number::fraction_bits - price_bits), 0, one));
      }
      std::size_t added = 0;
      for (std::int64_t const weight : {10, 0}) {
        if (fill_knapsack(weight, nodes) >
            knapsack_.most_worth() * static_cast<std::int64_t>(bags)) {
          return relaxation::exceeds;
        }
        added = add_patterns();
        if (added > 0) { break; }
      }
      if (added == 0) { return relaxation::unknown; }
    }
  }

  /// A number of bags that the samples left at the last solve() need, as proven by best_prices().
  [[nodiscard]] std::size_t least_bags() const noexcept
  {
    return best_worth_ > 0 ? static_cast<std::size_t>((best_sum_ - 1) / best_worth_ + 1) : 0;
  }

  /// Of the kinds, for least_bags(): the prices that gave it, in units of nearly a bag / 2^22.
  [[nodiscard]] std::span<std::int32_t const> best_prices() const noexcept
  {
    return best_prices_.first(costs_.size());
  }

  /// That of the last solve(), with the amounts of patterns.
  [[nodiscard]] simplex_basis const& basis() const noexcept { return program_.basis(); }

  [[nodiscard]] std::span<pattern_entry const> pattern(std::size_t row) const noexcept
  {
    return patterns_[basis().column(row)];
  }

  /// Takes the pattern of this row of the program for good. Calls give(kind, times) for what is
  /// left of it.
  template <class Give>
  void take(std::size_t row, Give const& give)
  {
    for (auto const [kind, times] : patterns_[basis().column(row)]) {
      std::uint32_t const taken = std::min(times, left_[kind]);
      left_[kind] -= taken;
      give(kind, taken);
    }
    program_.take(row);
  }

 private:
  static constexpr int price_bits = 22;  // so that most_samples are worth less than 2^31 together
  static constexpr std::int32_t one = 1 << price_bits;
  static constexpr std::int32_t least_gain = 16;
  static constexpr std::size_t most_added = 20;

  void add_first_fit()
  {
    for (std::size_t count = 1; count > 0;) {
      cost_units room = room_;
      count = 0;
      std::uint32_t bags = std::numeric_limits<std::uint32_t>::max();
      for (std::uint32_t kind = 0; kind < costs_.size(); ++kind) {
        auto const times =
            static_cast<std::uint32_t>(std::min<cost_units>(left_[kind], room / costs_[kind]));
        if (times == 0) { continue; }
        bags = std::min(bags, left_[kind] / times);
        room -= times * costs_[kind];
        pattern_[count++] = {kind, times};
      }
      for (auto const [kind, times] : pattern_.first(count)) { left_[kind] -= bags * times; }
      if (count > 0 && !patterns_.add(pattern_.first(count))) { return; }
    }
  }

  /// Prices sets by the mix, `weight` sixteenths of it the best prices. Returns what all samples
  /// are worth.
  std::int64_t fill_knapsack(std::int64_t weight, work_budget& nodes)
  {
    std::int64_t sum = 0;
    knapsack_.clear(room_);
    for (std::size_t kind = costs_.size(); kind-- > 0;) {
      mixed_[kind] = static_cast<std::int32_t>(
          (best_prices_[kind] * weight + prices_[kind] * (16 - weight)) / 16);
      sum += mixed_[kind] * static_cast<std::int64_t>(left_[kind]);
      if (mixed_[kind] == 0) { continue; }
      auto const most =
          static_cast<std::uint32_t>(std::min<cost_units>(left_[kind], room_ / costs_[kind]));
      for (std::uint32_t each = 0; each < most; ++each) {
        kind_of_[knapsack_.size()] = static_cast<std::uint32_t>(kind);
        knapsack_.add(costs_[kind], mixed_[kind]);
      }
    }
    nodes.spend(knapsack_.size() * static_cast<std::size_t>(room_) / 8 + 1);
    std::int64_t const worth = knapsack_.most_worth();
    if (static_cast<int128>(sum) * best_worth_ > static_cast<int128>(best_sum_) * worth) {
      best_sum_ = sum;
      best_worth_ = worth;
      for (std::size_t kind = 0; kind < costs_.size(); ++kind) {
        best_prices_[kind] = static_cast<std::int32_t>(mixed_[kind] * std::int64_t{one} / worth);
      }
    }
    return sum;
  }

  /// For the heaviest kind, then for the next one that no pattern of this call has, adds the best
  /// set with it, if that is worth more than one at the program's prices. Returns how many it
  /// added, or 0 where the list is full.
  std::size_t add_patterns()
  {
    std::size_t added = 0;
    std::fill_n(is_covered_.begin(), costs_.size(), std::uint8_t{0});
    for (std::size_t last = knapsack_.size(); last-- > 0 && added < most_added;) {
      if (is_covered_[kind_of_[last]] != 0) { continue; }
      std::size_t count = 0;
      std::int64_t worth = 0;
      knapsack_.best_set_with(last, [&](std::size_t item) {
        std::uint32_t const kind = kind_of_[item];
        worth += prices_[kind];
        if (count == 0 || pattern_[count - 1].kind != kind) { pattern_[count++] = {kind, 0}; }
        ++pattern_[count - 1].times;
      });
      if (worth <= one + least_gain) { continue; }
      if (!patterns_.add(pattern_.first(count))) { return 0; }
      for (auto const [kind, times] : pattern_.first(count)) { is_covered_[kind] = 1; }
      ++added;
    }
    return added;
  }

  pattern_list patterns_;
  cover_program program_;
  pattern_knapsack knapsack_;
  std::span<cost_units const> costs_;
  std::span<std::uint32_t> left_;
  std::span<std::int32_t> prices_;
  std::span<std::int32_t> best_prices_;  // of the best number of bags, best_sum_ / best_worth_
  std::span<std::int32_t> mixed_;
  std::span<std::uint32_t> kind_of_;  // of the items of the knapsack
  std::span<std::uint8_t> is_covered_;
  std::span<pattern_entry> pattern_;
  std::int64_t best_sum_ = 0;
  std::int64_t best_worth_ = one;
  cost_units room_ = 0;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_PATTERNS_COLUMN_GENERATION_HPP
