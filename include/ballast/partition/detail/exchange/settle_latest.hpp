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

/// Positions in the lists of two bags whose samples change bags, and how much load goes with them;
/// 0 means no swap.
struct swapped_places {
  std::size_t given = 0;
  std::size_t taken = 0;
  cost_units net = 0;
};

/// The swap of one sample for one after which the later of two bags finishes earliest, if that is
/// earlier than before.
///
/// The further the load that changes bags is from the even one, the later the later bag finishes,
/// so the best swap is the nearest below or the nearest above. Both lists are sorted, so two
/// pointers find them.
///
/// Shapes      giving[k], taking[l]: samples of bags `late` and `early` with a `cost`, heaviest
///             first.
/// Expects     bag `late` finishes after bag `early`; may_swap(given, taken) says whether the
///             samples at these two positions may change bags.
/// Complexity  O(k + l) where all of them may.
template <class Plan, class Item, class MaySwap>
[[nodiscard]] swapped_places nearest_swap(Plan const& plan, std::size_t late, std::size_t early,
                                          std::span<Item const> giving,
                                          std::span<Item const> taking, MaySwap const& may_swap)
{
  cost_units const even = even_net(plan, late, early);
  swapped_places below;
  swapped_places above;
  std::size_t first_above = 0;
  for (std::size_t given = 0; given < giving.size(); ++given) {
    cost_units const cost = giving[given].cost;
    while (first_above < taking.size() && cost - taking[first_above].cost <= even) {
      ++first_above;
    }
    for (std::size_t taken = first_above; taken-- > 0;) {
      cost_units const net = cost - taking[taken].cost;
      if (net <= below.net) { break; }
      if (may_swap(given, taken)) { below = {given, taken, net}; }
    }
    for (std::size_t taken = first_above; taken < taking.size(); ++taken) {
      cost_units const net = cost - taking[taken].cost;
      if (above.net != 0 && net >= above.net) { break; }
      if (may_swap(given, taken)) { above = {given, taken, net}; }
    }
  }
  auto const finish_after = [&](swapped_places swap) {
    return later_finish(plan, late, early, swap.net);
  };
  bool const over = above.net != 0 && (below.net == 0 || finish_after(above) < finish_after(below));
  swapped_places const best = over ? above : below;
  return finish_after(best) < ratio{plan.loads()[late], plan.speed(late)} ? best : swapped_places{};
}

/// Plain descent: the latest bag makes the best move or swap of one sample with one of the few
/// earliest bags, or else with the first bag after them that has one, until it has none.
///
/// Exchanges   as settle_latest has them.
/// Ensures     (1) the makespan never grows
///             (2) it ends when no bag finishes after `limit`, or when the work is spent
/// Complexity  O(m log m) and the swaps searched, per step.
template <class Exchanges>
void swap_with_earliest(Exchanges& plan, ratio limit, workspace::frame& scratch)
{
  constexpr std::size_t few_partners = 8;
  std::size_t const count = plan.loads().size();
  std::span<std::uint32_t> const earliest_first = scratch.take<std::uint32_t>(count);
  std::iota(earliest_first.begin(), earliest_first.end(), std::uint32_t{0});
  auto const finish = [&](std::size_t bag) { return ratio{plan.loads()[bag], plan.speed(bag)}; };
  while (!plan.work().spent()) {
    plan.work().spend(count);
    std::sort(earliest_first.begin(), earliest_first.end(), [&](std::uint32_t a, std::uint32_t b) {
      return finish(a) < finish(b) || (finish(a) == finish(b) && a < b);
    });
    std::size_t const late = earliest_first.back();
    ratio best_finish = finish(late);
    if (best_finish <= limit) { return; }
    typename Exchanges::exchange_type best{};
    for (std::size_t place = 0; place + 1 < count; ++place) {
      std::size_t const early = earliest_first[place];
      bool const is_enough = place >= few_partners && best.net > 0;
      if (is_enough || finish(early) >= finish(late) || plan.work().spent()) { break; }
      auto const found = plan.find_swap(late, early);
      if (found.net == 0) { continue; }
      ratio const later = later_finish(plan, late, early, found.net);
      if (later < best_finish) {
        best_finish = later;
        best = found;
      }
    }
    if (best.net == 0) { return; }
    plan.make(best);
  }
}

/// What a search looks for first.
enum class settle_order : std::uint8_t { swaps_first, swaps_of_all_first, exchanges_first };

/// Local search that makes the latest bag earlier, exchange after exchange, where plans are
/// restricted to those of equal counts, or within capacities.
///
/// Of the latest bag and a partner with room, it brings the one that is nearer to its limit exactly
/// there, if a few samples of the two have such an exchange: that bag is done, and none of its room
/// is wasted. Where all bags together have room to spare, a bag may waste its share of that. It
/// tries partners with most room first. Where none has an exact exchange, it makes the exchange
/// that leaves the later of its two bags earliest, single swaps with any bag among them. While
/// single swaps help they come first, since they consider more samples; with many samples per bag
/// they take longer than the exact exchanges of few, and come second. Where the latest bag has
/// neither, as with giants in several bags of which one alone has room, `swaps_of_all_first` lets
/// the next bags above the limit swap before exchanges of many samples are tried.
///
/// Exchanges   what may change bags: `find(late, early, wanted, candidates)` and
///             `find_swap(late, early)` return an exchange, with `net` 0 for none; `make(exchange)`
///             makes it; `loads()` and `speed(bag)` describe the plan; `work()` is the work_budget.
/// Ensures     (1) the makespan never grows
///             (2) it ends when no bag finishes after `limit`, when nothing that was found makes
///                 the latest bag or one after it earlier, or when the work is spent
/// Complexity  O(m log m) and the exchanges searched, per step.
template <class Exchanges>
class settle_latest {
 public:
  settle_latest(Exchanges& plan, ratio limit, workspace::frame& scratch,
                settle_order order = settle_order::swaps_first)
      : plan_(plan),
        order_(order),
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

  /// At last it looks at exchanges of many samples with every bag, unless it is told not to.
  void operator()(bool with_all = true)
  {
    with_all_ = with_all;
    while (step()) {}
  }

 private:
  static constexpr std::size_t few_partners = 8;
  static constexpr std::size_t candidates = 11;
  static constexpr std::size_t few_candidates = 7;
  static constexpr std::size_t swap_partners = 16;

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
    bool const swaps_first = order_ != settle_order::exchanges_first;
    std::size_t const few = swaps_first ? candidates : few_candidates;
    if ((swaps_first && swaps_help_) || !search(few, few_partners)) {
      search_swaps();
      swaps_help_ = swap_is_best_;
      if (order_ == settle_order::swaps_of_all_first) {
        if (best_.net == 0) { search(few_candidates, few_partners); }
        if (best_.net == 0) { search_swaps_of_others(); }
      }
      if (best_.net == 0 && !search(candidates, few_partners) && with_all_) {
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
    std::size_t tried = 0;
    for (std::size_t const early : partners_) {
      plan_.work().spend(1);
      bool const is_earlier = finish(early) < finish(late_);
      if (!is_earlier || !(evened_out(early) < best_finish_)) { continue; }
      if (plan_.work().spent()) { return; }
      if (order_ == settle_order::exchanges_first && tried++ >= swap_partners && best_.net > 0) {
        return;
      }
      swap_is_best_ = improves(plan_.find_swap(late_, early), early) || swap_is_best_;
    }
  }

  /// Looks for swaps of the next bags that finish after the limit, the latest first: they make room
  /// for the latest of all, where it has a swap with them only.
  void search_swaps_of_others()
  {
    std::size_t const latest = late_;
    for (std::size_t place = partners_.size(); place-- > 0 && best_.net == 0;) {
      late_ = partners_[place];
      if (late_ == latest) { continue; }
      if (finish(late_) <= limit_ || plan_.work().spent()) { break; }
      best_finish_ = finish(late_);
      search_swaps();
    }
    if (best_.net == 0) {
      late_ = latest;
      best_finish_ = finish(latest);
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
  settle_order order_;
  ratio limit_;
  std::span<cost_units> limits_;
  std::span<std::uint32_t> partners_;
  cost_units slack_ = 0;  // of all bags together, per bag
  std::size_t late_ = 0;
  ratio best_finish_;
  typename Exchanges::exchange_type best_{};
  bool swap_is_best_ = false;
  bool swaps_help_ = true;
  bool with_all_ = true;
};

/// The same towards limits that come closer to `limit`, from a 256th above it to a millionth. With
/// room to spare bags reach them by exchanges of few samples, and have less to do for the next.
///
/// Ensures     (1) those of settle_latest
template <class Exchanges>
void settle_in_stages(Exchanges& plan, ratio limit, workspace::frame& scratch)
{
  cost_units const exact = limit.numerator;
  for (int const closeness : {8, 11, 14, 17, 20}) {
    limit.numerator = exact + std::min(exact >> closeness, no_cost - exact);
    settle_latest(plan, limit, scratch, settle_order::exchanges_first)();
  }
}

}  // namespace ballast::inline v0::detail
