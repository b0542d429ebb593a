// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/detail/bounds/cheapest_cover.hpp>
#include <ballast/partition/detail/exchange/subset_sums.hpp>

namespace ballast::inline v0::detail {

/// Evens out bags by single swaps: the latest bag with the earliest, the second latest with the
/// second earliest, and so on, pass after pass.
///
/// Exchanges   as for `settle_latest`.
/// Ensures     (1) the makespan does not grow
///             (2) it ends when no bag finishes after `limit`, when a pass finds nothing to swap,
///                 or when the work is spent
/// Complexity  O(n + m log m) per pass.
template <class Exchanges>
void swap_extremes(Exchanges& plan, ratio limit, workspace& memory)
{
  auto scratch = memory.open();
  std::span<std::uint32_t> const latest_first = scratch.take<std::uint32_t>(plan.loads().size());
  std::iota(latest_first.begin(), latest_first.end(), std::uint32_t{0});
  auto const finish = [&plan](std::size_t bag) {
    return ratio{plan.loads()[bag], plan.speed(bag)};
  };
  for (bool swapped = true; swapped;) {
    std::sort(latest_first.begin(), latest_first.end(), [&](std::uint32_t a, std::uint32_t b) {
      return finish(a) > finish(b) || (finish(a) == finish(b) && a < b);
    });
    swapped = false;
    if (finish(latest_first.front()) <= limit) { return; }
    for (std::size_t place = 0; place < latest_first.size() / 2; ++place) {
      std::size_t const late = latest_first[place];
      std::size_t const early = latest_first[latest_first.size() - 1 - place];
      if (!(finish(late) > finish(early))) { break; }
      if (plan.work().spent()) { return; }
      auto const best = plan.find_swap(late, early);
      if (best.net == 0) { continue; }
      plan.make(best);
      swapped = true;
    }
  }
}

/// When the later of two bags finishes after so much load went from one to the other. The plan has
/// `loads()` and `speed(bag)`.
template <class Plan>
[[nodiscard]] ratio later_finish(Plan const& plan, std::size_t from, std::size_t to,
                                 cost_units net) noexcept
{
  return std::max(ratio{plan.loads()[from] - net, plan.speed(from)},
                  ratio{plan.loads()[to] + net, plan.speed(to)});
}

/// The load that has to go from a late bag to an early one for both to finish at the same time,
/// rounded down: (L s' - L' s) / (s + s').
template <class Plan>
[[nodiscard]] cost_units even_net(Plan const& plan, std::size_t late, std::size_t early) noexcept
{
  auto const product = [](cost_units load, std::uint32_t speed) {
    return uint128{static_cast<std::uint64_t>(load)} * speed;
  };
  return static_cast<cost_units>((product(plan.loads()[late], plan.speed(early)) -
                                  product(plan.loads()[early], plan.speed(late))) /
                                 (std::uint64_t{plan.speed(late)} + plan.speed(early)));
}

/// Local search that makes the latest bag earlier, exchange after exchange.
///
/// Of the latest bag and a partner with room, it brings the one that is nearer to its limit exactly
/// there, if a few samples of the two have such an exchange: that bag is done, and none of its room
/// is wasted. Where all bags together have room to spare, a bag may waste its share of that. It
/// tries partners with most room first. Where none has an exact exchange, it makes the exchange
/// that leaves the later of its two bags earliest, single swaps with any bag among them. While
/// single swaps help they come first, since they consider more samples; with many samples per bag
/// they take longer than the exact exchanges of few, and come second.
///
/// Exchanges   what may change bags: `find(late, early, wanted, candidates)` and
///             `find_swap(late, early)` return an exchange, with `net` 0 for none; `make(exchange)`
///             makes it; `loads()` and `speed(bag)` describe the plan; `work()` is the work_budget.
/// Ensures     (1) the makespan never grows
///             (2) it ends when no bag finishes after `limit`, when nothing that was found makes
///                 the latest bag earlier, or when the work is spent
/// Complexity  O(m log m) and the exchanges searched, per step.
template <class Exchanges>
class settle_latest {
 public:
  settle_latest(Exchanges& plan, ratio limit, workspace::frame& scratch)
      : plan_(plan),
        limit_(limit),
        limits_(scratch.take<cost_units>(plan.loads().size())),
        partners_(scratch.take<std::uint32_t>(plan.loads().size()))
  {
    for (std::size_t bag = 0; bag < limits_.size(); ++bag) {
      limits_[bag] = work_until(limit, plan.speed(bag));
    }
    std::iota(partners_.begin(), partners_.end(), std::uint32_t{0});
    uint128 room = 0;
    uint128 work = 0;
    for (std::size_t bag = 0; bag < limits_.size(); ++bag) {
      room += static_cast<std::uint64_t>(limits_[bag]);
      work += static_cast<std::uint64_t>(plan.loads()[bag]);
    }
    if (room > work) { slack_ = static_cast<cost_units>((room - work) / limits_.size()); }
  }

  /// At last it looks at exchanges of many samples with every bag.
  void operator()()
  {
    while (step()) {}
  }

 private:
  static constexpr std::size_t few_partners = 8;
  static constexpr std::size_t candidates = 11;

  bool step()
  {
    late_ = 0;
    for (std::size_t bag = 1; bag < limits_.size(); ++bag) {
      if (finish(bag) > finish(late_)) { late_ = bag; }
    }
    best_ = {};
    best_finish_ = finish(late_);
    if (best_finish_ <= limit_) { return false; }
    plan_.work().spend(limits_.size());
    if (plan_.work().spent()) { return false; }
    std::sort(partners_.begin(), partners_.end(), [this](std::uint32_t a, std::uint32_t b) {
      return room(a) > room(b) || (room(a) == room(b) && a < b);
    });
    if (swaps_help_ || !search(candidates, few_partners)) {
      search_swaps();
      swaps_help_ = swap_is_best_;
      if (best_.net == 0 && !search(candidates, few_partners)) {
        search(subset_sum::most_members, limits_.size());
      }
    }
    if (best_.net == 0) { return false; }
    plan_.make(best_);
    return true;
  }

  [[nodiscard]] ratio finish(std::size_t bag) const noexcept
  {
    return {plan_.loads()[bag], plan_.speed(bag)};
  }

  [[nodiscard]] cost_units room(std::size_t bag) const noexcept
  {
    return limits_[bag] - plan_.loads()[bag];
  }

  /// Looks for exchanges with the first partners. Returns whether one brings a bag to its limit.
  bool search(std::size_t size, std::size_t partners)
  {
    for (std::size_t const early : partners_.first(std::min(partners, partners_.size()))) {
      // A partner below its limit fills up to it; with one above, the latest bag is evened out.
      bool const fills = room(early) > 0;
      cost_units const most =
          fills ? room(early)
                : work_before(finish(late_), plan_.speed(early)) - plan_.loads()[early];
      if (early == late_ || most < 1) { continue; }
      cost_units const least = fills ? std::min(most, -room(late_))
                                     : std::max<cost_units>(even_net(plan_, late_, early), 1);
      if (plan_.work().spent()) { return false; }
      cost_units const enough = fills ? least + std::min(slack_, most - least) : least;
      auto const found = plan_.find(late_, early, {least, enough, most}, size);
      bool const exact = found.net >= least && found.net <= enough;
      if (improves(found, early) && fills && exact) { return true; }
    }
    return false;
  }

  // No exchange with this bag makes the later of the two finish before that.
  [[nodiscard]] ratio evened_out(std::size_t early) const noexcept
  {
    cost_units const even = even_net(plan_, late_, early);
    return std::min(later_finish(plan_, late_, early, even),
                    later_finish(plan_, late_, early, even + 1));
  }

  /// Looks for swaps with all bags, or only with those of most room if these have one.
  void search_swaps()
  {
    swap_is_best_ = false;
    for (std::size_t const early : partners_) {
      plan_.work().spend(1);
      bool const is_earlier = finish(early) < finish(late_);
      if (!is_earlier || !(evened_out(early) < best_finish_)) { continue; }
      if (plan_.work().spent()) { return; }
      swap_is_best_ = improves(plan_.find_swap(late_, early), early) || swap_is_best_;
    }
  }

  bool improves(auto const& found, std::size_t early)
  {
    if (found.net == 0) { return false; }
    ratio const later = later_finish(plan_, late_, early, found.net);
    if (!(later < best_finish_)) { return false; }
    best_finish_ = later;
    best_ = found;
    return true;
  }

  Exchanges& plan_;
  ratio limit_;
  std::span<cost_units> limits_;
  std::span<std::uint32_t> partners_;
  cost_units slack_ = 0;  // of all bags together, per bag
  std::size_t late_ = 0;
  ratio best_finish_;
  typename Exchanges::exchange_type best_{};
  bool swap_is_best_ = false;
  bool swaps_help_ = true;
};

}  // namespace ballast::inline v0::detail
