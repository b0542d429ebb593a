// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_RULES_RULED_EXCHANGES_HPP
#define BALLAST_PARTITION_DETAIL_RULES_RULED_EXCHANGES_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/detail/rules/ruled_bags.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// Moves and swaps of samples that the rules of a plan admit. It keeps a reference to the plan.
///
/// Complexity  a step of descend(): O(m log m + k^2) for each partner with bags of k samples; 4 m
///             bytes of scratch.
class ruled_exchanges {
 public:
  ruled_exchanges(ruled_bags& bags, workspace::frame& scratch)
      : bags_(bags), by_finish_(scratch.take<std::uint32_t>(bags.bags()))
  {}

  [[nodiscard]] std::size_t latest() const
  {
    std::size_t late = 0;
    for (std::size_t bag = 1; bag < bags_.bags(); ++bag) {
      if (bags_.finish(bag) > bags_.finish(late)) { late = bag; }
    }
    return late;
  }

  /// Swaps two samples where the rules admit it.
  void swap(std::size_t one, std::size_t other)
  {
    std::size_t const from = bags_.owner(one);
    std::size_t const to = bags_.owner(other);
    if (from == to || !bags_.admits(one, to, other) || !bags_.admits(other, from, one)) { return; }
    move(one, to, other);
  }

  /// Relieves the latest bag until none ends after the bound, nothing helps or the work is spent.
  void descend(ratio bound, work_budget& work)
  {
    std::size_t late = latest();
    while (bags_.finish(late) > bound && !work.spent() && relieve(late, work)) { late = latest(); }
  }

 private:
  void move(std::size_t sample, std::size_t to, std::size_t other)
  {
    std::size_t const from = bags_.owner(sample);
    bags_.take(sample);
    if (other != ruled_bags::none) {
      bags_.take(other);
      bags_.put(other, from);
    }
    bags_.put(sample, to);
  }

  /// Makes the move or the swap after which these two bags finish earliest, if that is earlier.
  bool relieve(std::size_t late, std::size_t early, work_budget& work)
  {
    ratio least = bags_.finish(late);
    std::size_t sample = ruled_bags::none;
    std::size_t other = ruled_bags::none;
    auto const consider = [&](std::size_t one, std::size_t back) {
      work.spend(1);
      cost_units const net = bags_.cost(one) - (back == ruled_bags::none ? 0 : bags_.cost(back));
      ratio const then = std::max(bags_.finish(late, -net), bags_.finish(early, net));
      if (!(then < least) || !bags_.admits(one, early, back) ||
          (back != ruled_bags::none && !bags_.admits(back, late, one))) {
        return;
      }
      least = then;
      sample = one;
      other = back;
    };
    for (std::size_t one = bags_.first(late); one != ruled_bags::none; one = bags_.next(one)) {
      consider(one, ruled_bags::none);
      for (std::size_t back = bags_.first(early); back != ruled_bags::none;
           back = bags_.next(back)) {
        consider(one, back);
      }
    }
    if (sample == ruled_bags::none) { return false; }
    move(sample, early, other);
    return true;
  }

  bool relieve(std::size_t late, work_budget& work)
  {
    for (std::size_t bag = 0; bag < by_finish_.size(); ++bag) {
      by_finish_[bag] = static_cast<std::uint32_t>(bag);
    }
    work.spend(by_finish_.size());
    std::sort(by_finish_.begin(), by_finish_.end(), [this](std::uint32_t a, std::uint32_t b) {
      return precedes(bags_.finish(a), bags_.finish(b), a, b);
    });
    return std::any_of(by_finish_.begin(), by_finish_.end(), [&](std::uint32_t early) {
      return early != late && !work.spent() && relieve(late, early, work);
    });
  }

  ruled_bags& bags_;
  std::span<std::uint32_t> by_finish_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_RULES_RULED_EXCHANGES_HPP
