// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/detail/placement/plan_exchanges.hpp>
#include <ballast/partition/detail/placement/plan_moves.hpp>
#include <ballast/partition/detail/placement/plan_starts.hpp>

namespace ballast::inline v0::detail {

/// What decides among plans of one makespan.
enum class plan_tie : std::uint8_t { none, level, fewest_moves };

/// Searches plans of items at places that keep all limits, for the least makespan over quantities and
/// lanes; then, quantity by quantity, for the least largest load of what does not bind; then for what
/// decides ties.
///
/// Steps of up to 24 items and 12 places are tried whole, as far as work goes. Others begin with a
/// plan that is given, or filled by plan_starts; then the latest lane exchanges items with others. Far
/// from the bound other fillings follow, each as far, and in the end random exchanges.
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
  BALLAST_ONCE limit_search(placement_problem const& problem, std::size_t ranked, ratio bound,
                            std::uint64_t work, workspace& memory, workspace::frame& scratch);

  /// The plan to begin with, for each item its place; what the limits do not admit goes elsewhere.
  /// Where nothing limits it and it `is_lowest`, as a policy's, it is the plan by the first objective.
  void begin_with(std::span<std::uint32_t const> owners, bool is_lowest = false)
  {
    start_ = owners;
    is_lowest_ = is_lowest;
  }

  /// Returns whether it found a plan, which plan() then is.
  BALLAST_ONCE bool operator()(plan_tie tie, std::uint32_t within_per_million);

  [[nodiscard]] plan_state const& plan() const noexcept { return plan_; }
  [[nodiscard]] ratio makespan() const noexcept { return makespan_; }
  [[nodiscard]] bool is_proven() const noexcept { return is_proven_; }
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
    if (!start_.empty() && starts_.fill(goal, filling::given, start_)) {
      is_given_ = std::equal(start_.begin(), start_.end(), plan_.owners().begin());
      keep();
      return true;
    }
    for (filling const way : ways) {
      if (cancel_scope::is_cancelled()) { return false; }
      tried_ |= std::uint64_t{1} << static_cast<unsigned>(way);
      bool const is_last = way == filling::in_groups || way == filling::tightest;
      if ((!is_open_to(way) && !is_last) || !starts_.fill(goal, way)) { continue; }
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
    // Where items push each other out, costs stay about even; where room is level, they do not.
    bool const found = starts_.insist(goal, work_.left() / 4) || level_limits(goal) ||
                       starts_.insist(goal, work_.left() - work_.left() / 3);
    if (found) { keep(); }
    return found;
  }
  /// A plan that is as level as can be in what one limit counts: it may leave places no room at all.
  template <class Goal>
  bool level_limits(Goal const& goal)
  {
    for (placement_problem::limit const& of : problem_.limits) {
      cost_units const all = std::reduce(of.takes.begin(), of.takes.end(), cost_units{0});
      auto const places = static_cast<cost_units>(plan_.places());
      if (of.is_soft || all > no_cost / (places + 1)) { continue; }
      auto frame = memory_.open();
      auto const others = frame.take<placement_problem::limit>(problem_.limits.size());
      auto const rest =
          std::copy_if(problem_.limits.begin(), problem_.limits.end(), others.begin(),
                       [&](placement_problem::limit const& each) { return &each != &of; });
      auto const filled = frame.take<cost_units>(plan_.places());
      auto const speeds = frame.take<std::uint32_t>(plan_.places());
      cost_units const most = std::min(*std::max_element(of.room.begin(), of.room.end()), all);
      std::transform(of.room.begin(), of.room.end(), filled.begin(),
                     [&](std::int64_t room) { return most - std::min(room, most); });
      std::fill(speeds.begin(), speeds.end(), 1U);
      placement_problem const by_limit{
          problem_.items,
          1,
          of.takes,
          filled,
          speeds,
          {},
          others.first(static_cast<std::size_t>(rest - others.begin())),
          problem_.refused,
          problem_.counts,
          problem_.mixes,
          problem_.row};
      std::uint64_t const given = work_.left() / 4;
      ratio const level{most - (most >> narrow), 1};
      limit_search search(by_limit, 1, level, given, memory_, frame);
      search.most_failures_ = 300;  // without a plan the step is refused
      search.work_of_all_ *= 4;     // so that its exchanges get more of it
      std::uint64_t const before = search.work_.left();
      bool const found = search(plan_tie::none, 0);
      work_.spend(before - search.work_.left());
      if (found && starts_.fill(goal, filling::given, search.plan_.owners())) { return true; }
    }
    return false;
  }

  /// Where a plan is far from the bound, others are made and go on from there; the best stays.
  void try_other_starts(std::uint64_t quantities)
  {
    least_makespan const goal(quantities);
    for (filling const way : ways) {
      std::uint64_t const bit = std::uint64_t{1} << static_cast<unsigned>(way);
      bool const is_rare = way == filling::limits_in_groups || way == filling::tightest;
      if ((tried_ & bit) != 0 || is_rare || !is_open_to(way)) { continue; }
      tried_ |= bit;
      for (std::size_t d = 0; d < (way == filling::densely ? ranked_ : 1); ++d) {
        ratio const before = goal.of(plan_);
        if (before <= near(bound_, wide) || work_.spent()) { return; }
        std::copy(best_.begin(), best_.end(), other_.begin());
        go_on_if_better(goal, quantities, before, starts_.fill(goal, way, {}, d));
      }
    }
  }
  /// Whether limits change nothing: what is given is then the plan by the first objective.
  [[nodiscard]] bool is_unlimited() const
  {
    return problem_.limits.empty() && problem_.refused.empty() && !problem_.has_groups() &&
           problem_.counts.is_any(problem_.size()) && ranked_ == problem_.quantities;
  }
  /// Goes on from what would be the plan without caps.
  void try_without_limits(std::uint64_t quantities)
  {
    least_makespan const goal(quantities);
    if (problem_.limits.empty() || goal.of(plan_) <= near(bound_, wide) || work_.spent()) {
      return;
    }
    auto frame = memory_.open();
    placement_problem free = problem_;
    free.limits = {};
    plan_state plan(free, frame);
    plan.restore(best_);
    std::uint64_t const given = work_.left() / 4;
    work_budget steps(given);
    plan_exchanges(plan, quantities, steps, frame, memory_).run(bound_, 0);
    work_.spend(given - steps.left());
    ratio const before = goal.of(plan_);
    std::copy(best_.begin(), best_.end(), other_.begin());
    go_on_if_better(goal, quantities, before, starts_.fill(goal, filling::given, plan.owners()));
  }
  /// Improves another start, if that is a plan, or goes back to the plan before.
  void go_on_if_better(least_makespan const& goal, std::uint64_t quantities, ratio before,
                       bool is_plan)
  {
    if (is_plan) { exchange(quantities, goal_of(bound_), 0); }
    if (!is_plan || !(goal.of(plan_) < before)) { plan_.restore(other_); }
    keep();
  }

  /// Where exchanges end: of many items they come near to the bound at once, and to it late.
  [[nodiscard]] ratio goal_of(ratio bound) const
  {
    return problem_.size() <= most_exact ? bound : near(bound, narrow);
  }
  /// A little later, by a power of 2 of it.
  [[nodiscard]] static ratio near(ratio time, int part)
  {
    return {time.numerator + std::min(time.numerator >> part, no_cost - time.numerator),
            time.denominator};
  }
  /// Whether such a start says anything for this problem.
  [[nodiscard]] bool is_open_to(filling way) const
  {
    bool const has_limits = !problem_.limits.empty();
    bool const has_groups = problem_.has_groups();
    bool const has_bound = bound_.numerator > 0 && bound_.numerator < no_cost;
    switch (way) {
      case filling::evenly:
      case filling::densely: return has_limits && has_bound && problem_.row == 0;
      case filling::by_limit:
      case filling::roomiest:
      case filling::tightest: return has_limits;
      case filling::in_groups: return has_groups || problem_.counts.least > 0;
      case filling::limits_in_groups: return has_groups && has_limits;
      default: return true;
    }
  }

  /// Calls search(exchanges) with a share of the work: half of what is left, or a quarter where others
  /// follow, at most.
  template <class Search>
  void exchange(std::uint64_t quantities, bool is_last, Search const& search)
  {
    auto frame = memory_.open();
    uint128 const most =
        problem_.sums_rows ? uint128{32'000} : static_cast<uint128>(problem_.size() + 4'000);
    uint128 const share = uint128{work_of_all_} * most / 32'000;
    auto const given =
        static_cast<std::uint64_t>(std::min<uint128>(work_.left() / (is_last ? 2 : 4), share));
    work_budget steps(given);
    plan_exchanges exchanges(plan_, quantities, steps, frame, memory_);
    search(exchanges);
    work_.spend(given - steps.left());
    keep();
  }
  void exchange(std::uint64_t quantities, ratio bound, std::uint64_t failures)
  {
    exchange(quantities, failures > 0,
             [&](plan_exchanges& exchanges) { exchanges.run(bound, failures); });
  }

  void lower(std::uint64_t quantities, bool is_small, bool is_first)
  {
    ratio const bound = is_first ? bound_ : ratio{};
    if (least_makespan(quantities).of(plan_) <= bound) { return; }
    if (is_first) {
      exchange(quantities, goal_of(bound), 0);
      try_other_starts(quantities);
      try_without_limits(quantities);
    }
    if (is_small) {
      exchange(quantities, bound, 0);
      least_makespan goal(quantities, bound);
      (void)goal.keeps(plan_);
      if (goal.best() <= bound) { return; }
      bool const ended = branch(goal, work_.left() / 2);
      if (is_first) { is_proven_ = ended; }
      if (ended) { return; }
    }
    for (bool goes_on = true; goes_on;) {
      ratio const before = least_makespan(quantities).of(plan_);
      exchange(quantities, goal_of(bound), most_failures_);
      goes_on = is_first && near(least_makespan(quantities).of(plan_), much) < before;
    }
  }

  void lower_rows(bool is_small)
  {
    exchange(1, bound_, 0);
    (void)row_sum_.keeps(plan_);
    if (row_sum_.best() <= bound_) { return; }
    if (is_small) {
      is_proven_ = branch(row_sum_, work_.left() / 2);
      if (is_proven_) { return; }
    }
    exchange(1, bound_, most_failures_);
  }

  void level(std::uint64_t quantities, bool is_small)
  {
    exchange(quantities, true, [](plan_exchanges& exchanges) { exchanges.level(); });
    auto frame = memory_.open();
    level_finish sorted(plan_, quantities, level_finish::times::of_lanes, frame);
    (void)sorted.keeps(plan_);
    if (is_small) { is_tie_proven_ = branch(sorted, work_.left() / 2); }
  }

  void move_less(bool is_small)
  {
    auto frame = memory_.open();
    bool const are_lanes = problem_.row == 0 && problem_.lane_of.empty();
    if (are_lanes) {
      fewest_moves_search(plan_, memory_, frame)(work_of_moves);
    } else {
      go_home();
    }
    keep();
    if (are_lanes && !is_small) { return; }
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
    if (is_tie_proven_ || are_lanes) { return; }
    random_source random(problem_.size());
    for (std::uint64_t failures = 0; failures < most_failures_ && goal.best() > 0 && !work_.spent();
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

  static constexpr std::uint64_t work_of_moves = std::uint64_t{1} << 24;
  static constexpr std::size_t most_exact = 512;
  // How near to the bound a plan is good enough: not to begin anew, and not to go on; and what it has
  // to gain to go on.
  static constexpr int wide = 11;
  static constexpr int narrow = 17;
  static constexpr int much = 6;
  static constexpr std::array ways{filling::by_cost,          filling::evenly,   filling::densely,
                                   filling::roomiest,         filling::by_limit, filling::in_groups,
                                   filling::limits_in_groups, filling::tightest};

  placement_problem const& problem_;
  std::size_t ranked_;
  ratio bound_;
  std::uint64_t work_of_all_;
  work_budget work_;
  workspace& memory_;
  std::span<std::uint32_t const> start_;
  std::span<std::uint32_t> best_;
  std::span<std::uint32_t> other_;
  least_row_sum row_sum_;
  cost_units most_sum_ = no_cost;
  plan_state plan_;
  plan_starts starts_;
  std::uint64_t tried_ = 0;           ///< ways to fill
  std::uint64_t most_failures_ = 60;  ///< of random exchanges in a row
  ratio makespan_;
  bool is_lowest_ = false;
  bool is_given_ = false;  ///< what it begins with keeps the limits
  bool is_proven_ = false;
  bool is_tie_proven_ = false;
};

#ifndef BALLAST_COMPILED

BALLAST_ONCE limit_search::limit_search(placement_problem const& problem, std::size_t ranked,
                                        ratio bound, std::uint64_t work, workspace& memory,
                                        workspace::frame& scratch)
    : problem_(problem),
      ranked_(ranked),
      bound_(bound),
      work_of_all_(work),
      work_(work + 8 * problem.size()),
      memory_(memory),
      best_(scratch.take<std::uint32_t>(problem.size())),
      other_(scratch.take<std::uint32_t>(problem.size())),
      row_sum_(problem, scratch),
      plan_(problem, scratch),
      starts_(plan_, ranked, bound, work_, memory, scratch)
{}

BALLAST_ONCE bool limit_search::operator()(plan_tie tie, std::uint32_t within_per_million)
{
  std::uint64_t const first_ones = (std::uint64_t{1} << ranked_) - 1;
  bool const is_small = problem_.row == 0
                            ? limit_search::is_small(problem_.size(), problem_.places())
                            : is_small_grid(problem_.size(), problem_.places());
  if (problem_.sums_rows) { return sum_rows(tie, within_per_million, is_small); }
  if (!find_first(least_makespan(first_ones), is_small)) { return false; }
  if (is_small || !is_lowest_ || !is_given_ || !is_unlimited()) {
    lower(first_ones, is_small, true);
  }
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

#endif

}  // namespace ballast::inline v0::detail
