// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/detail/padding/finishing_times.hpp>

namespace ballast::inline v0::detail {

/// How early bags of any speeds could finish if a bag could be used more than once for a price, as
/// long as all uses together cost no more than every bag once: no plan finishes before.
///
/// Sorted samples are cut into places. It is for problems in which, where some plan meets a time, a
/// chain of runs of places does, one run per bag and each no longer than its bag has time for. The
/// cheapest chain then costs no more than all bags. From the last place back, it is found place by
/// place. Any prices prove something; they begin as speeds, and where a time is not refuted, those of
/// bags that the chain has too often rise and those of others fall.
///
/// Expects     a valid partition_problem.
/// Complexity  O(m log m) to build and O(kinds x places) for every time tried, 48 m + 16 places
///             bytes of scratch. Bags of one speed and one load to start with are of one kind.
/// Source      prices follow B. T. Polyak, "Minimization of unsmooth functionals", USSR
///             Computational Mathematics and Mathematical Physics 9(3), 1969.
class cheapest_chain {
 public:
  cheapest_chain(partition_problem const& problem, finishing_times const& times,
                 workspace::frame& scratch)
      : times_(times), kinds_(scratch.take<kind>(problem.speeds.size()))
  {
    std::span<std::uint32_t> const bags = scratch.take<std::uint32_t>(problem.speeds.size());
    std::iota(bags.begin(), bags.end(), std::uint32_t{0});
    std::sort(bags.begin(), bags.end(), [&](std::uint32_t a, std::uint32_t b) {
      return precedes(problem.speeds[b], problem.speeds[a], times.finish(a, 0), times.finish(b, 0),
                      a, b);
    });
    std::uint64_t all_speed = 0;
    for (std::uint32_t const speed : problem.speeds) { all_speed += speed; }
    std::size_t kinds = 0;
    for (std::size_t place = 0; place < bags.size(); ++place) {
      std::uint32_t const bag = bags[place];
      if (place == 0 || !times.alike(bags[place - 1], bag)) {
        auto const price =
            static_cast<std::int64_t>(uint128{problem.speeds[bag]} * most_price / all_speed);
        kinds_[kinds++] = {bag, 0, price, 0, 0, 0};
      }
      ++kinds_[kinds - 1].bags;
    }
    kinds_ = kinds_.first(kinds);
  }

  [[nodiscard]] std::size_t kinds() const noexcept { return kinds_.size(); }

  /// A time before which no plan finishes, from `low`, of which that is known, up to the time of a
  /// plan; low where places and kinds are too many to try five times.
  ///
  /// `reach(first, end, work)` is where a run from place `first` ends at most that takes this work,
  /// if one from the place behind ends at `end` at most.
  template <class Reach>
  [[nodiscard]] uint128 least_time(uint128 low, uint128 plan, std::size_t places,
                                   Reach const& reach, workspace::frame& scratch)
  {
    constexpr std::size_t most_looks = std::size_t{1} << 21;
    std::size_t const looks = kinds_.size() * places + 1;
    if (looks * 5 > most_looks) { return low; }
    runs_ = scratch.take<run>(places + 1);
    std::size_t const tries = std::min<std::size_t>(most_looks / looks, 32);
    std::size_t const most_failures = kinds_.size() > 1 ? std::min<std::size_t>(tries / 8, 4) : 0;
    uint128 step = (plan - low + 1) / 2;
    std::size_t failures = 0;
    for (std::size_t tried = 0; tried < tries && low < plan; ++tried) {
      step = std::min(step, plan - low);
      if (!holds_all(low + step - 1, reach)) {
        low += step;
        failures = 0;
      } else if (failures < most_failures) {
        ++failures;
        move_prices();
      } else {
        if (step == 1 || step < low >> 13) { break; }
        step = (step + 1) / 2;
        failures = 0;
      }
    }
    return low;
  }

 private:
  struct kind {
    std::uint32_t bag;  // one of them
    std::uint32_t bags;
    std::int64_t price;
    std::int64_t used;  // how often by the cheapest chain
    cost_units work;    // that one can do in time
    std::size_t end;    // of a run that one can take
  };
  /// The first of the cheapest chain from a place on.
  struct run {
    std::int64_t price;  // of the whole chain
    std::uint32_t end;
    std::uint32_t kind;
  };

  static constexpr std::int64_t most_price = std::int64_t{1} << 40;

  [[nodiscard]] std::int64_t price_of_all() const
  {
    std::int64_t price = 0;
    for (kind const& each : kinds_) { price += each.bags * each.price; }
    return price;
  }

  template <class Reach>
  [[nodiscard]] bool holds_all(uint128 time, Reach const& reach)
  {
    constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
    std::size_t const places = runs_.size() - 1;
    for (kind& each : kinds_) {
      each.work = times_.work_until(time, each.bag);
      each.end = places;
    }
    runs_[places] = {};
    for (std::size_t first = places; first-- > 0;) {
      run best{never, 0, 0};
      for (std::size_t number = 0; number < kinds_.size(); ++number) {
        kind& each = kinds_[number];
        each.end = reach(first, each.end, each.work);
        if (each.end == first) { continue; }
        std::int64_t const price = each.price + runs_[each.end].price;
        if (price < best.price) {
          best = {price, static_cast<std::uint32_t>(each.end), static_cast<std::uint32_t>(number)};
        }
      }
      if (best.price == never) { return false; }
      runs_[first] = best;
    }
    return runs_[0].price <= price_of_all();
  }

  void move_prices()
  {
    for (kind& each : kinds_) { each.used = 0; }
    for (std::size_t at = 0; at + 1 < runs_.size(); at = runs_[at].end) {
      ++kinds_[runs_[at].kind].used;
    }
    std::int64_t squares = 0;
    for (kind const& each : kinds_) {
      std::int64_t const over = each.used - each.bags;
      squares += over * over;
    }
    if (squares == 0) { return; }  // the chain is a plan
    std::int64_t const all = price_of_all();
    std::int64_t const change = (all - runs_[0].price + all / 1024) / squares;
    for (kind& each : kinds_) {
      std::int64_t const moved = each.price + change * (each.used - each.bags);
      each.price = std::clamp<std::int64_t>(moved, 0, most_price);
    }
  }

  finishing_times const& times_;
  std::span<kind> kinds_;
  std::span<run> runs_;
};

}  // namespace ballast::inline v0::detail
