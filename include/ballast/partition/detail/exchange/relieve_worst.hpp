// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_EXCHANGE_RELIEVE_WORST_HPP
#define BALLAST_PARTITION_DETAIL_EXCHANGE_RELIEVE_WORST_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/partition/detail/bounds/work_limits.hpp>
#include <ballast/partition/detail/exchange/bag_exchanges.hpp>
#include <ballast/partition/detail/exchange/subset_sums.hpp>

#include <cstddef>

namespace ballast::inline v0::detail {

/// Local search for plans that cannot reach their bound, or have too few samples per bag to do so
/// with one exchange per bag: it exchanges with the bag that finishes last only.
///
/// First it tries every bag that has room. Where no exchange helps, it gathers the room of all bags
/// in one of them, by exchanges that leave the makespan as it is, and tries that one after each.
///
/// Ensures     (1) the makespan never grows, and either it or the number of bags that have it
///                 shrinks with every success
/// Complexity  O(m) exchanges without a gain end the first search, and O(m^2) the second, unless
///             the work of `plan` is spent before.
class relieve_worst {
 public:
  relieve_worst(bag_exchanges& plan, ratio target) noexcept : plan_(plan), target_(target) {}

  /// Goes on until every bag finishes by the target, or nothing helps.
  void operator()()
  {
    find_worst();
    while (makespan_ > target_ && (relieve() || relieve_after_gathering())) { find_worst(); }
  }

 private:
  static constexpr int rounds = 10;

  void find_worst()
  {
    worst_ = 0;
    for (std::size_t bag = 1; bag < plan_.bags(); ++bag) {
      if (plan_.finish(bag) > plan_.finish(worst_)) { worst_ = bag; }
    }
    makespan_ = plan_.finish(worst_);
    plan_.work().spend(plan_.bags());
  }

  // The work that a bag can take and still finish before the makespan; negative for the worst.
  [[nodiscard]] cost_units room(std::size_t bag) const noexcept
  {
    return work_before(makespan_, plan_.speed(bag)) - plan_.load(bag);
  }

  [[nodiscard]] bool relieve()
  {
    for (std::size_t const count : {std::size_t{8}, std::size_t{11}, subset_sum::most_members}) {
      for (std::size_t bag = 0; bag < plan_.bags(); ++bag) {
        if (relieve_by(bag, count)) { return true; }
      }
    }
    return false;
  }

  // Passes work from the worst bag so that both finish before the makespan, as evenly as may be.
  [[nodiscard]] bool relieve_by(std::size_t bag, std::size_t count)
  {
    cost_units const least = -room(worst_);
    cost_units const most = room(bag);
    if (bag == worst_ || most < least || plan_.work().spent()) { return false; }
    cost_units const middle = least + (most - least) / 2;
    for (bool const spread : {false, true}) {
      bag_exchange const chosen =
          spread ? plan_.find_spread(worst_, bag, {middle, middle, most}, count)
                 : plan_.find(worst_, bag, {middle, middle, most}, count);
      if (chosen.found.net < least) { continue; }
      plan_.make(chosen);
      return true;
    }
    return false;
  }

  [[nodiscard]] bool relieve_after_gathering()
  {
    for (int round = 0; round < rounds; ++round) {
      for (std::size_t bag = 0; bag < plan_.bags(); ++bag) {
        for (std::size_t other = 0; other < plan_.bags(); ++other) {
          if (plan_.work().spent()) { return false; }
          if (gather(bag, other) && relieve_by(bag, 11)) { return true; }
        }
      }
    }
    return false;
  }

  // Makes room in one bag by filling another up to the makespan.
  [[nodiscard]] bool gather(std::size_t bag, std::size_t other)
  {
    plan_.work().spend(1);
    cost_units const most = room(other);
    if (bag == other || room(bag) < 0 || most < 1) { return false; }
    bag_exchange const chosen = plan_.find_spread(bag, other, {most, most, most}, 8);
    if (chosen.found.net == 0) { return false; }
    plan_.make(chosen);
    return true;
  }

  bag_exchanges& plan_;
  ratio target_;
  std::size_t worst_ = 0;
  ratio makespan_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_EXCHANGE_RELIEVE_WORST_HPP
