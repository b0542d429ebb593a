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
  /// The same of a grid, many of whose places stay empty.
  [[nodiscard]] static constexpr bool is_small_grid(std::size_t items, std::size_t places) noexcept
  {
    return items <= most_items && items * places <= most_items * most_places;
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
        row_sum_(problem, scratch),
        plan_(problem, scratch)
  {}

  /// The plan to begin with, for each item its place; what the limits do not admit goes elsewhere.
  void begin_with(std::span<std::uint32_t const> owners) { start_ = owners; }

  /// Returns whether it found a plan, which plan() then is.
  bool operator()(plan_tie tie, std::uint32_t within_per_million)
  {
    std::uint64_t const first_ones = (std::uint64_t{1} << ranked_) - 1;
    bool const is_small = problem_.row == 0
                              ? limit_search::is_small(problem_.size(), problem_.places())
                              : is_small_grid(problem_.size(), problem_.places());
    if (problem_.sums_rows) { return sum_rows(tie, within_per_million, is_small); }
    if (!find_first(least_makespan(first_ones), is_small)) { return false; }
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
  /// Where bags meet after each row.
  bool sum_rows(plan_tie tie, std::uint32_t within_per_million, bool is_small)
  {
    if (!find_first(row_sum_, is_small)) { return false; }
    lower_rows(is_small);
    makespan_ = row_sum_.of(plan_);
    is_proven_ = is_proven_ || makespan_ <= bound_;
    if (tie == plan_tie::fewest_moves && !problem_.items.home.empty()) {
      most_sum_ = work_within({makespan_.numerator, 1}, within_per_million, 1);
      settle_rows();
      move_less(is_small);
    }
    return true;
  }
  /// No row takes longer from now on than it does, and its share of what all may.
  void settle_rows()
  {
    std::size_t const bags = problem_.bags();
    auto const rows = static_cast<cost_units>(plan_.places() / bags);
    cost_units const more = std::max<cost_units>(most_sum_ - row_sum_.least(plan_, 0), 0) / rows;
    row_sum_.look(plan_);
    for (std::size_t place = 0; place < plan_.places(); ++place) {
      plan_.settle(place, 0,
                   (row_sum_.height_at_look(place / bags) + more) /
                       (row_sum_.common() / problem_.speeds[place]));
    }
  }

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
  template <class Goal>
  bool find_first(Goal const& goal, bool is_small)
  {
    is_proven_ = problem_.is_impossible();
    if (is_proven_) { return false; }
    bool found = false;
    for (int way = start_.empty() ? 0 : -1; way < 5 && !found; ++way) {
      plan_.clear();
      order_by(way == 4 ? 1 : way);
      found = fill(goal,
                   way < 2   ? first_place::by_rank
                   : way < 4 ? first_place::fewest
                             : first_place::tightest,
                   way < 0);
    }
    if (found) {
      keep();
      return true;
    }
    if (is_small) {
      plan_.clear();
      Goal any = goal;
      is_proven_ = branch(any, work_.left() - work_.left() / 4);
      if (problem_.size() > 0 && plan_.owner(0) != plan_.places()) {
        is_proven_ = false;
        return true;
      }
      if (is_proven_) { return false; }
    }
    return insist(goal);
  }

  /// Where an item goes first: as the goal ranks places, to one with the fewest items, or to the one
  /// with the least room for it.
  enum class first_place : std::uint8_t { by_rank, fewest, tightest };

  /// The 2^20th parts that an item takes of the largest room of a limit, of the one it takes most of.
  [[nodiscard]] std::uint64_t limit_share(std::size_t item) const
  {
    std::uint64_t most = 0;
    for (placement_problem::limit const& limit : problem_.limits) {
      std::int64_t const room = *std::max_element(limit.room.begin(), limit.room.end());
      most = std::max(most, static_cast<std::uint64_t>(
                                (uint128{static_cast<std::uint64_t>(limit.takes[item])} << 20U) /
                                static_cast<std::uint64_t>(std::max<std::int64_t>(room, 1))));
    }
    return most;
  }

  void order_by(int way)
  {
    auto const cost_share = [this](std::uint32_t item) {
      cost_units most = 0;
      for (std::size_t d = 0; d < ranked_; ++d) { most = std::max(most, problem_.cost(item, d)); }
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

  /// Puts the items in that order, if asked for where the plan to begin with has them. Places that
  /// lack items come first when only as many are left. Returns whether all have a place.
  template <class Goal>
  bool fill(Goal const& goal, first_place by, bool has_start = false)
  {
    bool all = true;
    count_limits const& wanted = problem_.counts;
    bool const is_counted = wanted.least > 0 || wanted.step > 1;
    std::int64_t samples = 0;
    for (std::size_t item = 0; item < plan_.items(); ++item) {
      samples += problem_.samples_of(item);
    }
    for (std::size_t at = 0; at < order_.size(); ++at) {
      if (cancel_scope::is_cancelled()) { return false; }
      std::uint32_t const item = order_[at];
      std::int64_t missing = 0;
      std::int64_t lacking = 0;
      for (std::size_t place = 0; place < plan_.places() && is_counted; ++place) {
        missing += std::max<std::int64_t>(wanted.least - plan_.count(place), 0);
        lacking += plan_.lacks(place);
      }
      bool const must_fill = missing >= static_cast<std::int64_t>(order_.size() - at) ||
                             (wanted.step > 1 && lacking + wanted.step > samples);
      samples -= problem_.samples_of(item);
      std::size_t place = plan_state::none;
      if (has_start) { place = choose(goal, item, by, must_fill, start_[item]); }
      if (place == plan_state::none) { place = choose(goal, item, by, must_fill); }
      if (place == plan_state::none) {
        all = false;
        continue;
      }
      plan_.put(item, place);
    }
    return all && plan_.is_whole();
  }

  /// The millionth parts of its room that the tightest limit of a place leaves.
  [[nodiscard]] std::int64_t room_left(std::size_t place) const
  {
    std::int64_t least = no_cost;
    for (std::size_t at = 0; at < problem_.limits.size(); ++at) {
      std::int64_t const room = problem_.limits[at].room[place];
      std::int64_t const left = std::max<std::int64_t>(room - plan_.held(at, place), 0);
      uint128 const part = uint128{static_cast<std::uint64_t>(left)} * 1'000'000U /
                           static_cast<std::uint64_t>(std::max<std::int64_t>(room, 1));
      least = std::min(least, static_cast<std::int64_t>(part));
    }
    return least;
  }

  template <class Goal>
  [[nodiscard]] std::size_t choose(Goal const& goal, std::uint32_t item, first_place by,
                                   bool must_fill, std::size_t only = plan_state::none)
  {
    goal.look(plan_);
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
      if (must_fill && count >= wanted.least && plan_.lacks(place) == 0) { continue; }
      if (wanted.is_equal && count == wanted.least && fuller >= wanted.fuller && rest_taken) {
        continue;
      }
      if (!plan_.admits(item, place)) { continue; }
      auto const key = [&](std::size_t of) {
        return by == first_place::fewest     ? plan_.count(of)
               : by == first_place::tightest ? room_left(of)
                                             : 0;
      };
      if (chosen == plan_state::none ||
          precedes(key(place), key(chosen), goal.rank(plan_, item, place),
                   goal.rank(plan_, item, chosen), place, chosen)) {
        chosen = place;
      }
    }
    return chosen;
  }

  /// Items without a place push others out, which then look for one: as long as there is work.
  template <class Goal>
  bool insist(Goal const& goal)
  {
    random_source random(problem_.size());
    order_by(1);
    plan_.clear();
    (void)fill(goal, first_place::by_rank);
    constexpr std::array ways{first_place::by_rank, first_place::fewest, first_place::tightest};
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
          if (plan_.first(place) != plan_state::none &&
              (problem_.counts.step > 1 ? plan_.lacks(place) > 0
                                        : plan_.count(place) > problem_.counts.least)) {
            plan_.take(plan_.first(place));
          }
        }
        continue;
      }
      auto const item = static_cast<std::uint32_t>(homeless);
      std::size_t place = choose(goal, item, ways[random.below(ways.size())], false);
      std::size_t const lighter = place == plan_state::none ? lighter_one(item, random) : 0;
      if (place == plan_state::none && lighter != plan_state::none) {
        place = plan_.owner(lighter);
        plan_.take(lighter);
      } else if (place == plan_state::none) {
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

  /// An item that takes less of what limits, any of those whose place admits this one instead.
  [[nodiscard]] std::size_t lighter_one(std::size_t item, random_source& random)
  {
    std::size_t chosen = plan_state::none;
    std::size_t found = 0;
    std::uint64_t const share = limit_share(item);
    work_.spend(plan_.items());
    auto const own = static_cast<std::uint32_t>(item);
    for (std::uint32_t other = 0; other < plan_.items(); ++other) {
      std::size_t const place = plan_.owner(other);
      if (place == plan_.places() || limit_share(other) >= share ||
          !plan_.admits({&own, 1}, place, {&other, 1})) {
        continue;
      }
      if (random.below(++found) == 0) { chosen = other; }
    }
    return chosen;
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

  /// Makes the rows take less time together.
  void lower_rows(bool is_small)
  {
    descend();
    keep();
    (void)row_sum_.keeps(plan_);
    if (row_sum_.best() <= bound_) { return; }
    if (is_small) {
      is_proven_ = branch(row_sum_, work_.left() / 2);
      if (is_proven_) { return; }
    }
    random_source random(problem_.size());
    std::uint64_t const kept = work_.left() / 3;
    for (std::uint64_t failures = 0;
         failures < most_failures && row_sum_.best() > bound_ && work_.left() > kept; ++failures) {
      shake(random);
      descend();
      if (row_sum_.keeps(plan_)) {
        keep();
        failures = 0;
      } else {
        plan_.restore(best_);
      }
      work_.spend(plan_.items());
    }
    plan_.restore(best_);
  }

  /// Shortens a row by a move or a swap of its latest place, until nothing helps.
  void descend()
  {
    least_row_sum const& goal = row_sum_;
    std::size_t const bags = problem_.bags();
    std::size_t failed = 0;  // rows in turn
    for (std::size_t row = 0; failed < plan_.places() / bags && !work_.spent();
         row = (row + 1) % (plan_.places() / bags)) {
      if (goal.of(plan_) <= bound_) { return; }
      work_.spend(plan_.places());
      std::size_t late = row * bags;
      for (std::size_t place = late; place < (row + 1) * bags; ++place) {
        if (goal.time(plan_, late) < goal.time(plan_, place)) { late = place; }
      }
      bool helped = false;
      for (std::size_t to = 0; to < plan_.places() && !helped && !work_.spent(); ++to) {
        helped = to != late && shorten(goal, late, to);
      }
      failed = helped ? 0 : failed + 1;
    }
  }

  /// Makes the move or the swap after which all rows together take least, if that is less.
  bool shorten(least_row_sum const& goal, std::size_t late, std::size_t to)
  {
    std::size_t const bags = problem_.bags();
    bool const is_one_row = late / bags == to / bags;
    cost_units const beside_late = goal.height(plan_, late / bags, late, to);
    cost_units const beside_to = goal.height(plan_, to / bags, late, to);
    auto const rows = [&](cost_units net) {
      cost_units const first = std::max(beside_late, goal.time(plan_, late, -net));
      cost_units const second = std::max(beside_to, goal.time(plan_, to, net));
      return is_one_row ? std::max(first, second) : first + second;
    };
    work_.spend(bags);
    cost_units least = rows(0);
    std::size_t item = plan_state::none;
    std::size_t with = plan_state::none;
    auto const consider = [&](std::size_t one, std::size_t back) {
      work_.spend(1);
      cost_units const then =
          rows(problem_.cost(one, 0) - (back == plan_state::none ? 0 : problem_.cost(back, 0)));
      if (then >= least || !plan_.admits_exchange(one, back, to)) { return; }
      least = then;
      item = one;
      with = back;
    };
    for (auto one = plan_.first(late); one != plan_state::none; one = plan_.next(one)) {
      consider(one, plan_state::none);
      for (auto back = plan_.first(to); back != plan_state::none; back = plan_.next(back)) {
        consider(one, back);
      }
    }
    if (item == plan_state::none) { return false; }
    plan_.exchange(item, with, to);
    return true;
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
    if (is_small && problem_.sums_rows) {
      plan_.lift_loads();
      within_row_sum<least_moved> short_enough{goal, row_sum_, most_sum_};
      is_tie_proven_ = branch(short_enough, work_.left() / 2);
      settle_rows();
    } else if (is_small) {
      is_tie_proven_ = branch(goal, work_.left() / 2);
    }
    if (is_tie_proven_) { return; }
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
  least_row_sum row_sum_;
  cost_units most_sum_ = no_cost;
  plan_state plan_;
  ratio makespan_;
  bool is_proven_ = false;
  bool is_tie_proven_ = false;
};

}  // namespace ballast::inline v0::detail
