// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/detail/placement/plan_branch.hpp>
#include <ballast/partition/detail/placement/plan_exchanges.hpp>

namespace ballast::inline v0::detail {

/// What decides among plans of one makespan.
enum class plan_tie : std::uint8_t { none, level, fewest_moves };

/// Searches plans of items at places that keep all limits, for the least makespan over quantities and
/// lanes; then, quantity by quantity, for the least largest load of what does not bind; then for what
/// decides ties.
///
/// Steps of up to 24 items and 12 places are tried whole, as far as work goes. Others begin with
/// plans by cost, by what limits, and by what is hardest to place, each repaired where an item finds
/// no place; then the latest lane exchanges items with others, and after random exchanges again.
///
/// Ensures     (1) a plan that it finds keeps the limits
///             (2) is_proven(): no plan has a smaller makespan, or none keeps the limits
/// Complexity  O(work), and O(n m) for the first plans; scratch of plan_state and plan_exchanges, and
///             4 n m bytes where all plans are tried.
/// Source      H. R. Lourenco, O. C. Martin, T. Stutzle, "Iterated Local Search", Handbook of
///             Metaheuristics, 2003.
class limit_search {
 public:
  static constexpr std::size_t most_items = 24;  // of a step of which all plans are tried
  static constexpr std::size_t most_places = 12;

  /// Whether all plans of such a step are tried.
  [[nodiscard]] static constexpr bool is_small(std::size_t items, std::size_t places) noexcept
  {
    return items <= most_items && places <= most_places;
  }

  /// Quantities from `ranked` on decide ties, in their order, and not the makespan.
  limit_search(placement_problem const& problem, std::size_t ranked, ratio bound,
               std::uint64_t work, workspace& memory, workspace::frame& scratch)
      : problem_(problem),
        ranked_(ranked),
        bound_(bound),
        work_of_all_(work),
        work_(work),
        memory_(memory),
        best_(scratch.take<std::uint32_t>(problem.size())),
        order_(scratch.take<std::uint32_t>(problem.size())),
        plan_(problem, scratch)
  {}

  /// The plan to begin with, for each item its place; what the limits do not admit goes elsewhere.
  void begin_with(std::span<std::uint32_t const> owners) { start_ = owners; }

  /// Returns whether it found a plan, which plan() then is.
  bool operator()(plan_tie tie, std::uint32_t within_per_million)
  {
    std::uint64_t const first_ones = (std::uint64_t{1} << ranked_) - 1;
    bool const is_small = limit_search::is_small(problem_.size(), problem_.places());
    if (!find_first(is_small)) { return false; }
    lower(first_ones, is_small, true);
    makespan_ = least_makespan(first_ones).of(plan_);
    is_proven_ = is_proven_ || makespan_ <= bound_;
    if (within_per_million > 0) {
      plan_.settle(first_ones, makespan_, within_per_million);
    } else {
      lower_others(plan_, first_ones, [&](std::uint64_t open) { lower(open, is_small, false); });
    }
    for (std::size_t d = ranked_; d < problem_.quantities; ++d) {
      std::uint64_t const alone = std::uint64_t{1} << d;
      lower(alone, is_small, false);
      plan_.settle(alone, least_makespan(alone).of(plan_));
    }
    if (tie == plan_tie::level) { level(first_ones, is_small); }
    if (tie == plan_tie::fewest_moves && !problem_.items.home.empty()) { move_less(is_small); }
    return true;
  }

  [[nodiscard]] plan_state const& plan() const noexcept { return plan_; }
  [[nodiscard]] ratio makespan() const noexcept { return makespan_; }
  [[nodiscard]] bool is_proven() const noexcept { return is_proven_; }
  /// Whether the last stage, what decides ties, was tried whole.
  [[nodiscard]] bool is_tie_proven() const noexcept { return is_tie_proven_; }

 private:
  void keep() { std::copy(plan_.owners().begin(), plan_.owners().end(), best_.begin()); }
  template <class Goal>
  bool branch(Goal& goal, std::uint64_t most)
  {
    std::uint64_t const given = std::min(most, work_.left());
    work_budget steps(given);
    bool const ended = try_all_plans(plan_, goal, steps, memory_);
    work_.spend(given - steps.left());
    keep();
    return ended;
  }

  /// A plan that keeps the limits; of small steps by trying all, if need be.
  bool find_first(bool is_small)
  {
    is_proven_ = problem_.is_impossible();
    if (is_proven_) { return false; }
    least_makespan const goal((std::uint64_t{1} << ranked_) - 1);
    bool found = false;
    for (int way = start_.empty() ? 0 : -1; way < 4 && !found; ++way) {
      plan_.clear();
      order_by(way);
      found = fill(goal, way >= 2, way < 0);
    }
    if (found) {
      keep();
      return true;
    }
    if (is_small) {
      plan_.clear();
      least_makespan any = goal;
      is_proven_ = branch(any, work_.left() - work_.left() / 4);
      if (problem_.size() > 0 && plan_.owner(0) != plan_.places()) {
        is_proven_ = false;
        return true;
      }
      if (is_proven_) { return false; }
    }
    return insist(goal);
  }

  void order_by(int way)
  {
    auto const cost_share = [this](std::uint32_t item) {
      cost_units most = 0;
      for (std::size_t d = 0; d < ranked_; ++d) { most = std::max(most, problem_.cost(item, d)); }
      return most;
    };
    auto const limit_share = [this](std::uint32_t item) {
      std::uint64_t most = 0;
      for (placement_problem::limit const& limit : problem_.limits) {
        std::int64_t const room = *std::max_element(limit.room.begin(), limit.room.end());
        most = std::max(most, static_cast<std::uint64_t>(
                                  (uint128{static_cast<std::uint64_t>(limit.takes[item])} << 20U) /
                                  static_cast<std::uint64_t>(std::max<std::int64_t>(room, 1))));
      }
      return most;
    };
    std::iota(order_.begin(), order_.end(), std::uint32_t{0});
    std::sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
      auto const group = [this](std::uint32_t item) {
        auto const* rules = problem_.items.rules;
        bool const has = rules != nullptr && !rules->first_group.empty() &&
                         rules->first_group[item] < rules->first_group[item + 1];
        if (!has) { return std::uint32_t{0}; }
        std::uint32_t const at = rules->groups[rules->first_group[item]];
        return rules->first_member[at + 1] - rules->first_member[at];
      };
      bool const by_group = way >= 2;
      bool const by_limit = way == 1 || way == 3;
      return precedes(plan_.stands_alone(b), plan_.stands_alone(a), by_group ? group(b) : 0,
                      by_group ? group(a) : 0, by_limit ? limit_share(b) : 0,
                      by_limit ? limit_share(a) : 0, cost_share(b), cost_share(a), a, b);
    });
  }

  /// Puts the items in that order, each where the goal ranks it first, or where there are fewest, or
  /// if possible where the plan to begin with has it. Places that lack items come first when only as
  /// many are left. Returns whether all have a place.
  bool fill(least_makespan const& goal, bool fewest_first, bool has_start = false)
  {
    bool all = true;
    for (std::size_t at = 0; at < order_.size(); ++at) {
      std::uint32_t const item = order_[at];
      std::int64_t missing = 0;
      for (std::size_t place = 0; place < plan_.places() && problem_.counts.least > 0; ++place) {
        missing += std::max<std::int64_t>(problem_.counts.least - plan_.count(place), 0);
      }
      bool const must_fill = missing >= static_cast<std::int64_t>(order_.size() - at);
      std::size_t place = plan_state::none;
      if (has_start) { place = choose(goal, item, fewest_first, must_fill, start_[item]); }
      if (place == plan_state::none) { place = choose(goal, item, fewest_first, must_fill); }
      if (place == plan_state::none) {
        all = false;
        continue;
      }
      plan_.put(item, place);
    }
    return all && plan_.is_whole();
  }

  [[nodiscard]] std::size_t choose(least_makespan const& goal, std::uint32_t item,
                                   bool fewest_first, bool must_fill,
                                   std::size_t only = plan_state::none)
  {
    work_.spend(plan_.places());
    count_limits const& wanted = problem_.counts;
    std::int64_t fuller = 0;
    bool rest_taken = wanted.rest == 0;
    if (wanted.is_equal) {
      for (std::size_t place = 0; place < plan_.places(); ++place) {
        std::int64_t const more = plan_.count(place) - wanted.least;
        fuller += more > wanted.rest || (more > 0 && rest_taken) ? 1 : 0;
        rest_taken = rest_taken || (more > 0 && more <= wanted.rest);
      }
    }
    std::size_t chosen = plan_state::none;
    for (std::size_t place = 0; place < plan_.places(); ++place) {
      std::int64_t const count = plan_.count(place);
      if (only != plan_state::none && place != only) { continue; }
      if (must_fill && count >= wanted.least) { continue; }
      if (wanted.is_equal && count == wanted.least && fuller >= wanted.fuller && rest_taken) {
        continue;
      }
      if (!plan_.admits(item, place)) { continue; }
      auto const key = [&](std::size_t of) { return fewest_first ? plan_.count(of) : 0; };
      if (chosen == plan_state::none ||
          precedes(key(place), key(chosen), goal.rank(plan_, item, place),
                   goal.rank(plan_, item, chosen), place, chosen)) {
        chosen = place;
      }
    }
    return chosen;
  }

  /// Items without a place push others out, which then look for one: as long as there is work.
  bool insist(least_makespan const& goal)
  {
    random_source random(problem_.size());
    order_by(1);
    plan_.clear();
    (void)fill(goal, false);
    std::uint64_t const kept = work_.left() / 3;
    while (work_.left() > kept) {
      std::size_t homeless = plan_state::none;
      std::size_t without = 0;
      for (std::uint32_t const item : order_) {
        if (plan_.owner(item) != plan_.places()) { continue; }
        ++without;
        if (homeless == plan_state::none || random.below(without) == 0) { homeless = item; }
      }
      work_.spend(order_.size() + 1);
      if (homeless == plan_state::none) {
        if (plan_.is_whole()) {
          keep();
          return true;
        }
        // Counts are wrong: items of places with too many look for another.
        for (std::size_t place = 0; place < plan_.places(); ++place) {
          if (plan_.count(place) > problem_.counts.least &&
              plan_.first(place) != plan_state::none) {
            plan_.take(plan_.first(place));
          }
        }
        continue;
      }
      auto const item = static_cast<std::uint32_t>(homeless);
      std::size_t place = choose(goal, item, random.below(2) == 0, false);
      if (place == plan_state::none) {
        place = random.below(plan_.places());
        if (!problem_.fits(item, place)) { continue; }
        while (plan_.first(place) != plan_state::none && !plan_.admits(item, place)) {
          // The one in the way: any of the place.
          std::size_t leaving = plan_.first(place);
          for (std::uint64_t skip = random.below(static_cast<std::uint64_t>(plan_.count(place)));
               skip > 0; --skip) {
            leaving = plan_.next(leaving);
          }
          plan_.take(leaving);
          work_.spend(4);
        }
        if (!plan_.admits(item, place)) { continue; }
      }
      plan_.put(item, place);
    }
    return false;
  }

  /// Calls search(exchanges) with a share of the work.
  template <class Search>
  void exchange(std::uint64_t quantities, Search const& search)
  {
    auto frame = memory_.open();
    uint128 const share = uint128{work_of_all_} * (problem_.size() + 100) / 8'000;
    auto const given =
        static_cast<std::uint64_t>(std::min<uint128>(work_.left() - work_.left() / 3, share));
    work_budget steps(given);
    plan_exchanges exchanges(plan_, quantities, steps, frame, memory_);
    search(exchanges);
    work_.spend(given - steps.left());
    keep();
  }
  void exchange(std::uint64_t quantities, ratio bound, std::uint64_t failures)
  {
    exchange(quantities, [&](plan_exchanges& exchanges) { exchanges.run(bound, failures); });
  }

  /// Makes the plan finish earlier in these quantities.
  void lower(std::uint64_t quantities, bool is_small, bool is_first)
  {
    ratio const bound = is_first ? bound_ : ratio{};
    if (is_small) {
      exchange(quantities, bound, 0);
      least_makespan goal(quantities, bound);
      (void)goal.keeps(plan_);
      if (goal.best() <= bound) { return; }
      bool const ended = branch(goal, work_.left() / 2);
      if (is_first) { is_proven_ = ended; }
      if (ended) { return; }
    }
    exchange(quantities, bound, most_failures);
  }

  void level(std::uint64_t quantities, bool is_small)
  {
    exchange(quantities, [](plan_exchanges& exchanges) { exchanges.level(); });
    auto frame = memory_.open();
    level_finish sorted(plan_, quantities, level_finish::times::of_lanes, frame);
    (void)sorted.keeps(plan_);
    if (is_small) { is_tie_proven_ = branch(sorted, work_.left() / 2); }
  }

  void move_less(bool is_small)
  {
    auto frame = memory_.open();
    go_home();
    keep();
    least_moved goal(plan_, frame);
    (void)goal.keeps(plan_);
    if (is_small) {
      is_tie_proven_ = branch(goal, work_.left() / 2);
      if (is_tie_proven_) { return; }
    }
    random_source random(problem_.size());
    for (std::uint64_t failures = 0; failures < most_failures && goal.best() > 0 && !work_.spent();
         ++failures) {
      shake(random);
      go_home();
      work_.spend(plan_.items());
      if (goal.keeps(plan_)) {
        keep();
        failures = 0;
      } else {
        plan_.restore(best_);
      }
    }
    plan_.restore(best_);
  }

  /// Moves and swaps items so that fewer tokens lie away from home, until nothing helps.
  void go_home()
  {
    for (bool changed = true; changed && !work_.spent();) {
      changed = false;
      for (std::size_t item = 0; item < plan_.items() && !work_.spent(); ++item) {
        tokens const away = problem_.moved(item, plan_.owner(item));
        if (away == 0) { continue; }
        std::size_t const from = plan_.owner(item);
        tokens most = 0;
        std::size_t to = plan_state::none;
        std::size_t with = plan_state::none;
        for (std::size_t place = 0; place < plan_.places(); ++place) {
          tokens const gain = away - problem_.moved(item, place);
          work_.spend(1);
          if (place == from || gain <= 0) { continue; }
          auto const consider = [&](std::size_t back, tokens net) {
            work_.spend(1);
            if (net <= most || !plan_.admits_exchange(item, back, place)) { return; }
            most = net;
            to = place;
            with = back;
          };
          consider(plan_state::none, gain);
          for (auto back = plan_.first(place); back != plan_state::none; back = plan_.next(back)) {
            consider(back, gain + problem_.moved(back, place) - problem_.moved(back, from));
          }
        }
        if (to == plan_state::none) { continue; }
        plan_.exchange(item, with, to);
        changed = true;
      }
    }
  }

  /// A few random exchanges that keep the limits.
  void shake(random_source& random)
  {
    if (plan_.items() == 0) { return; }
    for (int change = 0; change < 3; ++change) {
      std::size_t const item = random.below(plan_.items());
      bool const swaps = random.below(3) != 0;
      std::size_t const back = swaps ? random.below(plan_.items()) : plan_state::none;
      std::size_t const to = swaps ? plan_.owner(back) : random.below(plan_.places());
      if (to == plan_.owner(item) || !plan_.admits_exchange(item, back, to)) { continue; }
      plan_.exchange(item, back, to);
    }
  }

  static constexpr std::uint64_t most_failures = 24;  // of random exchanges in a row

  placement_problem const& problem_;
  std::size_t ranked_;
  ratio bound_;
  std::uint64_t work_of_all_;
  work_budget work_;
  workspace& memory_;
  std::span<std::uint32_t const> start_;
  std::span<std::uint32_t> best_;
  std::span<std::uint32_t> order_;
  plan_state plan_;
  ratio makespan_;
  bool is_proven_ = false;
  bool is_tie_proven_ = false;
};

}  // namespace ballast::inline v0::detail
