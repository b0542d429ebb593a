// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/detail/placement/plan_state.hpp>

namespace ballast::inline v0::detail {

/// When the last lane finishes, in some of the quantities.
class least_makespan {
 public:
  /// No plan is better than the bound.
  explicit least_makespan(std::uint64_t quantities, ratio bound = {})
      : quantities_(quantities), bound_(bound)
  {}

  [[nodiscard]] ratio finish(plan_state const& plan, std::size_t lane, std::size_t item) const
  {
    cost_units most = 0;
    placement_problem const& problem = plan.problem();
    for (std::size_t d = 0; d < problem.quantities; ++d) {
      if ((quantities_ >> d & 1U) == 0) { continue; }
      most = std::max(most,
                      plan.load(lane, d) + (item == plan_state::none ? 0 : problem.cost(item, d)));
    }
    return {most, problem.speeds[lane]};
  }
  [[nodiscard]] std::size_t latest(plan_state const& plan) const
  {
    std::size_t late = 0;
    for (std::size_t lane = 1; lane < plan.lanes(); ++lane) {
      if (finish(plan, late, plan_state::none) < finish(plan, lane, plan_state::none)) {
        late = lane;
      }
    }
    return late;
  }
  [[nodiscard]] ratio of(plan_state const& plan) const
  {
    return finish(plan, latest(plan), plan_state::none);
  }

  /// The quantity in which the last lane finishes; of equals the first.
  [[nodiscard]] std::uint64_t binding(plan_state const& plan) const
  {
    ratio const last = of(plan);
    std::uint64_t bit = 1;
    while ((quantities_ & bit) == 0 || least_makespan(bit).of(plan) < last) { bit <<= 1U; }
    return bit;
  }

  /// Whether no way to put the items that are left makes the plan better than the best one.
  [[nodiscard]] bool is_hopeless(plan_state const& plan, std::span<cost_units const> left) const
  {
    if (!found_) { return false; }
    if (best_ <= bound_) { return true; }
    placement_problem const& problem = plan.problem();
    for (std::size_t d = 0; d < problem.quantities; ++d) {
      if ((quantities_ >> d & 1U) == 0) { continue; }
      uint128 room = 0;
      for (std::size_t lane = 0; lane < plan.lanes(); ++lane) {
        cost_units const most = work_before(best_, problem.speeds[lane]);
        if (plan.load(lane, d) > most) { return true; }
        room += static_cast<std::uint64_t>(most - plan.load(lane, d));
      }
      if (room < static_cast<std::uint64_t>(left[d])) { return true; }
    }
    return false;
  }
  /// Whether no plan with the item there is better.
  [[nodiscard]] bool is_hopeless(plan_state const& plan, std::size_t item, std::size_t place) const
  {
    return found_ && !(rank(plan, item, place) < best_);
  }
  bool keeps(plan_state const& plan)
  {
    ratio const made = of(plan);
    if (found_ && !(made < best_)) { return false; }
    found_ = true;
    best_ = made;
    return true;
  }
  void look(plan_state const&) const {}
  [[nodiscard]] ratio rank(plan_state const& plan, std::size_t item, std::size_t place) const
  {
    return finish(plan, plan.problem().lane(place), item);
  }
  [[nodiscard]] ratio best() const noexcept { return best_; }
  [[nodiscard]] static bool reads_places() noexcept { return false; }

 private:
  std::uint64_t quantities_;
  ratio bound_;
  ratio best_{no_cost, 1};
  bool found_ = false;
};

/// The sum over rows of their latest, by one quantity: bags that meet in every microbatch.
///
/// Expects     each place is a lane, of problems that sum rows; loads times common_speed() are below
///             2^63.
class least_row_sum {
 public:
  least_row_sum(placement_problem const& problem, workspace::frame& scratch)
      : heights_(scratch.take<cost_units>(problem.places() / problem.bags()))
  {
    if (!problem.sums_rows) { return; }
    auto const speeds = problem.speeds.first(problem.bags());
    common_ = common_speed(speeds);
    for (std::uint32_t const speed : speeds) { speeds_ += speed; }
  }

  [[nodiscard]] cost_units time(plan_state const& plan, std::size_t place,
                                cost_units more = 0) const
  {
    return (plan.load(place, 0) + more) * (common_ / plan.problem().speeds[place]);
  }
  [[nodiscard]] cost_units height(plan_state const& plan, std::size_t row) const
  {
    std::size_t const first = row * plan.problem().bags();
    cost_units most = 0;
    for (std::size_t place = first; place < first + plan.problem().bags(); ++place) {
      most = std::max(most, time(plan, place));
    }
    return most;
  }
  [[nodiscard]] ratio of(plan_state const& plan) const { return {least(plan, 0), common_}; }

  /// A sum that no plan gets below that adds so much work to this one.
  [[nodiscard]] cost_units least(plan_state const& plan, cost_units left) const
  {
    std::size_t const bags = plan.problem().bags();
    cost_units sum = 0;
    // What places can do until their rows end is no whole number of units: rows may end later.
    uint128 work = uint128{static_cast<std::uint64_t>(left)} * static_cast<std::uint64_t>(common_);
    for (std::size_t row = 0; row < heights_.size(); ++row) {
      cost_units const until = height(plan, row);
      sum += until;
      for (std::size_t place = row * bags; place < (row + 1) * bags && work > 0; ++place) {
        uint128 const idle = static_cast<std::uint64_t>(until - time(plan, place));
        work -= std::min(work, idle * plan.problem().speeds[place]);
      }
    }
    return sum + static_cast<cost_units>((work + speeds_ - 1) / speeds_);
  }

  [[nodiscard]] bool is_hopeless(plan_state const& plan, std::span<cost_units const> left) const
  {
    return least(plan, left[0]) >= best_;
  }
  [[nodiscard]] static bool is_hopeless(plan_state const&, std::size_t, std::size_t)
  {
    return false;
  }
  bool keeps(plan_state const& plan)
  {
    cost_units const made = least(plan, 0);
    if (made >= best_) { return false; }
    best_ = made;
    return true;
  }
  void look(plan_state const& plan) const
  {
    for (std::size_t row = 0; row < heights_.size(); ++row) { heights_[row] = height(plan, row); }
  }
  [[nodiscard]] cost_units height_at_look(std::size_t row) const { return heights_[row]; }
  /// By how much the row gets longer than it was at the last look(), and when the place then ends.
  [[nodiscard]] std::pair<cost_units, cost_units> rank(plan_state const& plan, std::size_t item,
                                                       std::size_t place) const
  {
    cost_units const then = time(plan, place, plan.problem().cost(item, 0));
    cost_units const until = heights_[place / plan.problem().bags()];
    return {std::max<cost_units>(then - until, 0), then};
  }
  [[nodiscard]] ratio best() const noexcept { return {best_, common_}; }
  [[nodiscard]] std::int64_t common() const noexcept { return common_; }
  [[nodiscard]] static bool reads_places() noexcept { return false; }

 private:
  std::int64_t common_ = 1;
  std::span<cost_units> heights_;
  std::uint64_t speeds_ = 0;
  cost_units best_ = no_cost;
};

/// Another goal, among plans whose rows take no longer than `most` together.
template <class Goal>
struct within_row_sum {
  Goal& goal;
  least_row_sum const& rows;
  cost_units most;

  [[nodiscard]] bool is_hopeless(plan_state const& plan, std::span<cost_units const> left)
  {
    return rows.least(plan, left[0]) > most || goal.is_hopeless(plan, left);
  }
  [[nodiscard]] bool is_hopeless(plan_state const& plan, std::size_t item, std::size_t place) const
  {
    return goal.is_hopeless(plan, item, place);
  }
  bool keeps(plan_state const& plan) { return goal.keeps(plan); }
  void look(plan_state const& plan) const { goal.look(plan); }
  [[nodiscard]] auto rank(plan_state const& plan, std::size_t item, std::size_t place) const
  {
    return goal.rank(plan, item, place);
  }
  [[nodiscard]] static bool reads_places() noexcept { return Goal::reads_places(); }
};

/// Tokens that leave the place where they lie.
class least_moved {
 public:
  explicit least_moved(plan_state const& plan, workspace::frame& scratch)
      : least_(scratch.take<tokens>(plan.items()))
  {
    for (std::size_t item = 0; item < least_.size(); ++item) {
      least_[item] = std::numeric_limits<tokens>::max();
      for (std::size_t place = 0; place < plan.places(); ++place) {
        if (!plan.problem().fits(item, place)) { continue; }
        least_[item] = std::min(least_[item], plan.problem().moved(item, place));
      }
    }
  }

  [[nodiscard]] bool is_hopeless(plan_state const& plan, std::span<cost_units const>) const
  {
    tokens least = 0;
    for (std::size_t item = 0; item < plan.items(); ++item) {
      std::size_t const place = plan.owner(item);
      least += place == plan.places() ? least_[item] : plan.problem().moved(item, place);
    }
    return least >= best_;
  }
  [[nodiscard]] static bool is_hopeless(plan_state const&, std::size_t, std::size_t)
  {
    return false;
  }
  bool keeps(plan_state const& plan)
  {
    tokens const moved = plan.moved();
    if (moved >= best_) { return false; }
    best_ = moved;
    return true;
  }
  void look(plan_state const&) const {}
  [[nodiscard]] ratio rank(plan_state const& plan, std::size_t item, std::size_t place) const
  {
    return {plan.problem().moved(item, place), 1};
  }
  [[nodiscard]] tokens best() const noexcept { return best_; }
  [[nodiscard]] static bool reads_places() noexcept { return true; }

 private:
  std::span<tokens> least_;
  tokens best_ = std::numeric_limits<tokens>::max();
};

/// The finishing times of all lanes, or of all quantities, from the latest on: the least latest,
/// then the next.
class level_finish {
 public:
  enum class times : std::uint8_t { of_lanes, of_quantities };

  level_finish(plan_state const& plan, std::uint64_t quantities, times what,
               workspace::frame& scratch)
      : finish_(quantities),
        what_(what),
        best_(scratch.take<ratio>(what == times::of_lanes ? plan.lanes()
                                                          : plan.problem().quantities)),
        now_(scratch.take<ratio>(best_.size()))
  {}

  [[nodiscard]] bool is_hopeless(plan_state const& plan, std::span<cost_units const>)
  {
    return found_ && !is_below(plan);
  }
  [[nodiscard]] bool is_hopeless(plan_state const& plan, std::size_t item, std::size_t place) const
  {
    return found_ && best_[0] < rank(plan, item, place);
  }
  bool keeps(plan_state const& plan)
  {
    bool const is_better = is_below(plan) || !found_;
    if (is_better) { std::copy(now_.begin(), now_.end(), best_.begin()); }
    found_ = true;
    return is_better;
  }
  void look(plan_state const&) const {}
  [[nodiscard]] ratio rank(plan_state const& plan, std::size_t item, std::size_t place) const
  {
    return finish_.rank(plan, item, place);
  }
  [[nodiscard]] static bool reads_places() noexcept { return false; }

 private:
  [[nodiscard]] bool is_below(plan_state const& plan)
  {
    for (std::size_t at = 0; at < now_.size(); ++at) {
      now_[at] = what_ == times::of_lanes ? finish_.finish(plan, at, plan_state::none)
                                          : least_makespan(std::uint64_t{1} << at).of(plan);
    }
    std::sort(now_.begin(), now_.end(), [](ratio a, ratio b) { return b < a; });
    return std::lexicographical_compare(now_.begin(), now_.end(), best_.begin(), best_.end());
  }

  least_makespan finish_;
  times what_;
  std::span<ratio> best_;
  std::span<ratio> now_;
  bool found_ = false;
};

/// The items of a small step in the order in which a search through all plans places them, and what is
/// left of them, whatever the goal.
class items_to_branch {
 public:
  /// reads_places: whether the goal tells bags of one kind apart.
  items_to_branch(plan_state& plan, bool reads_places, workspace::frame& scratch)
      : plan_(plan),
        reads_places_(reads_places),
        order_(scratch.take<std::uint32_t>(plan.items())),
        left_(scratch.take<cost_units>(plan.problem().quantities)),
        takes_left_(scratch.take<std::int64_t>(plan.problem().limits.size()))
  {
    placement_problem const& problem = plan.problem();
    std::fill(left_.begin(), left_.end(), 0);
    std::fill(takes_left_.begin(), takes_left_.end(), 0);
    for (std::size_t item = 0; item < plan.items(); ++item) { leave(item, 1); }
    auto const share = [&](std::uint32_t item) {
      std::uint64_t all = 0;
      auto const of = [&all](std::int64_t part, std::int64_t whole) {
        if (whole == 0) { return; }
        all += static_cast<std::uint64_t>((uint128{static_cast<std::uint64_t>(part)} << 20U) /
                                          static_cast<std::uint64_t>(whole));
      };
      for (std::size_t d = 0; d < left_.size(); ++d) { of(problem.cost(item, d), left_[d]); }
      for (std::size_t at = 0; at < takes_left_.size(); ++at) {
        of(problem.limits[at].takes[item], takes_left_[at]);
      }
      return all;
    };
    std::iota(order_.begin(), order_.end(), std::uint32_t{0});
    std::sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return precedes(plan.stands_alone(b), plan.stands_alone(a), share(b), share(a), a, b);
    });
  }

  [[nodiscard]] std::span<std::uint32_t const> order() const noexcept { return order_; }
  [[nodiscard]] std::span<cost_units const> costs_left() const noexcept { return left_; }

  void leave(std::size_t item, int sign)
  {
    placement_problem const& problem = plan_.problem();
    for (std::size_t d = 0; d < left_.size(); ++d) { left_[d] += sign * problem.cost(item, d); }
    for (std::size_t at = 0; at < takes_left_.size(); ++at) {
      if (problem.limits[at].is_soft && plan_.stands_alone(item)) { continue; }
      takes_left_[at] += sign * problem.limits[at].takes[item];
    }
    samples_left_ += sign * problem.samples_of(item);
  }

  /// Whether what is left cannot go into what places have left.
  [[nodiscard]] bool is_too_much(std::size_t depth)
  {
    placement_problem const& problem = plan_.problem();
    for (std::size_t at = 0; at < takes_left_.size(); ++at) {
      uint128 room = 0;
      for (std::size_t place = 0; place < plan_.places(); ++place) {
        std::int64_t const free = problem.limits[at].room[place] - plan_.held(at, place);
        room += static_cast<std::uint64_t>(std::max<std::int64_t>(free, 0));
      }
      if (room < static_cast<std::uint64_t>(takes_left_[at])) { return true; }
    }
    std::int64_t missing = 0;
    std::int64_t above = 0;
    std::int64_t lacking = 0;
    for (std::size_t place = 0; place < plan_.places(); ++place) {
      lacking += plan_.lacks(place);
      missing += std::max<std::int64_t>(problem.counts.least - plan_.count(place), 0);
      above += std::max<std::int64_t>(plan_.count(place) - problem.counts.least, 0);
    }
    if (missing > static_cast<std::int64_t>(order_.size() - depth) || lacking > samples_left_) {
      return true;
    }
    if (problem.counts.is_equal) {
      auto const all = static_cast<std::int64_t>(order_.size());
      if (above > all - problem.counts.least * static_cast<std::int64_t>(plan_.places())) {
        return true;
      }
    }
    return false;
  }

  /// Whether an earlier place is empty as this one, and the same.
  [[nodiscard]] bool is_repeated(std::size_t place) const
  {
    if (plan_.first(place) != plan_state::none) { return false; }
    for (std::size_t other = 0; other < place; ++other) {
      if (plan_.first(other) == plan_state::none && is_same(place, other)) { return true; }
    }
    return false;
  }

 private:
  /// Whether plans stay as good when what two empty places get is exchanged; places of different
  /// rows or lanes only with all of these, which have to be empty.
  [[nodiscard]] bool is_same(std::size_t place, std::size_t other) const
  {
    placement_problem const& problem = plan_.problem();
    bool const reads_bags = reads_places_ || !problem.refused.empty();
    if ((reads_bags && problem.bag(place) != problem.bag(other)) ||
        problem.items.gpus[other] != problem.items.gpus[place]) {
      return false;
    }
    for (placement_problem::limit const& limit : problem.limits) {
      if (limit.room[place] != limit.room[other]) { return false; }
    }
    std::size_t const lane = problem.lane(place);
    std::size_t const twin = problem.lane(other);
    if (problem.speeds[lane] != problem.speeds[twin]) { return false; }
    for (std::size_t d = 0; d < left_.size() && lane != twin; ++d) {
      if (plan_.load(lane, d) != plan_.load(twin, d) ||
          plan_.most_load(lane, d) != plan_.most_load(twin, d)) {
        return false;
      }
    }
    std::size_t const bags = problem.bags();
    if (problem.sums_rows) {
      return place / bags == other / bags ||
             (is_empty_row(place) && is_empty_row(other) && have_same_loads(place, other));
    }
    return lane == twin || problem.lane_of.empty() ||
           (problem.row != 0 && is_empty_lane(lane) && is_empty_lane(twin));
  }
  [[nodiscard]] bool is_empty_row(std::size_t place) const
  {
    std::size_t const bags = plan_.problem().bags();
    std::size_t const first = place - place % bags;
    for (std::size_t at = first; at < first + bags; ++at) {
      if (plan_.first(at) != plan_state::none) { return false; }
    }
    return true;
  }
  [[nodiscard]] bool have_same_loads(std::size_t place, std::size_t other) const
  {
    std::size_t const bags = plan_.problem().bags();
    for (std::size_t bag = 0; bag < bags; ++bag) {
      if (plan_.load(place - place % bags + bag, 0) != plan_.load(other - other % bags + bag, 0)) {
        return false;
      }
    }
    return true;
  }
  [[nodiscard]] bool is_empty_lane(std::size_t lane) const
  {
    for (std::size_t at = lane; at < plan_.places(); at += plan_.problem().bags()) {
      if (plan_.first(at) != plan_state::none) { return false; }
    }
    return true;
  }

  plan_state& plan_;
  bool reads_places_;
  std::span<std::uint32_t> order_;
  std::span<cost_units> left_;
  std::span<std::int64_t> takes_left_;
  std::int64_t samples_left_ = 0;
};

/// Tries all plans of a small step, those first in which items go to the places of lowest rank.
///
/// Ensures     (1) `owners` is the best plan of those that the goal keeps, if one was found
///             (2) ended(): no plan within the limits is better, or there is none
/// Complexity  O(work); 16 n + 8 n m bytes of scratch.
template <class Goal>
class plan_branch {
 public:
  plan_branch(plan_state& plan, Goal& goal, work_budget& work, std::span<std::uint32_t> owners,
              workspace::frame& scratch)
      : plan_(plan),
        goal_(goal),
        work_(work),
        best_(owners),
        items_(plan, Goal::reads_places(), scratch),
        tried_(scratch.take<std::uint32_t>(plan.items() * plan.places()))
  {}

  /// Expects that no item has a place; leaves it so. Returns whether it found a plan to keep.
  bool operator()()
  {
    branch(0);
    return found_;
  }
  [[nodiscard]] bool ended() const noexcept { return !work_.spent(); }

 private:
  void branch(std::size_t depth)
  {
    work_.spend(4 + plan_.places());
    if (work_.spent() || goal_.is_hopeless(plan_, items_.costs_left()) ||
        items_.is_too_much(depth)) {
      return;
    }
    if (depth == items_.order().size()) {
      if (plan_.is_whole() && goal_.keeps(plan_)) {
        found_ = true;
        std::copy(plan_.owners().begin(), plan_.owners().end(), best_.begin());
      }
      return;
    }
    std::uint32_t const item = items_.order()[depth];
    std::span<std::uint32_t> const tried = tried_.subspan(depth * plan_.places(), plan_.places());
    std::size_t count = 0;
    for (std::uint32_t place = 0; place < plan_.places(); ++place) {
      if (goal_.is_hopeless(plan_, item, place) || items_.is_repeated(place)) { continue; }
      if (plan_.admits(item, place)) { tried[count++] = place; }
    }
    goal_.look(plan_);
    std::sort(tried.data(), tried.data() + count, [&](std::uint32_t a, std::uint32_t b) {
      return precedes(goal_.rank(plan_, item, a), goal_.rank(plan_, item, b), a, b);
    });
    items_.leave(item, -1);
    for (std::size_t at = 0; at < count && !work_.spent(); ++at) {
      plan_.put(item, tried[at]);
      branch(depth + 1);
      plan_.take(item);
    }
    items_.leave(item, 1);
  }

  plan_state& plan_;
  Goal& goal_;
  work_budget& work_;
  std::span<std::uint32_t> best_;
  items_to_branch items_;
  std::span<std::uint32_t> tried_;
  bool found_ = false;
};

/// Makes the plan the best one by the goal, if one is better. Returns whether all plans were tried.
///
/// In, out     the goal knows the plan, unless that has no items placed.
template <class Goal>
bool try_all_plans(plan_state& plan, Goal& goal, work_budget& work, workspace& memory)
{
  auto frame = memory.open();
  auto const best = frame.take<std::uint32_t>(plan.items());
  std::copy(plan.owners().begin(), plan.owners().end(), best.begin());
  plan.clear();
  plan_branch<Goal> all(plan, goal, work, best, frame);
  (void)all();
  plan.restore(best);
  return all.ended();
}

#ifdef BALLAST_COMPILED
extern template bool try_all_plans(plan_state&, least_makespan&, work_budget&, workspace&);
extern template bool try_all_plans(plan_state&, level_finish&, work_budget&, workspace&);
#endif

/// Makes small, one after the other, the largest finishes of the quantities that do not bind. What
/// binds, in which the plan ends last, is settled: lanes keep to when it ends. `lower(quantities)`
/// lowers the others until the latest of these binds, which is settled too, and so on.
template <class Lower>
void lower_others(plan_state& plan, std::uint64_t quantities, Lower const& lower)
{
  while ((quantities & (quantities - 1)) != 0) {
    least_makespan const goal(quantities);
    plan.settle(quantities, goal.of(plan));
    quantities &= ~goal.binding(plan);
    lower(quantities);
  }
  plan.settle(quantities, least_makespan(quantities).of(plan));
}

}  // namespace ballast::inline v0::detail
