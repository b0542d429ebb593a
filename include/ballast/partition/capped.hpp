// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/detail/capacity/capped_exchanges.hpp>
#include <ballast/partition/detail/rules/plan_by_rules.hpp>
#include <ballast/partition/longest_processing_time.hpp>

namespace ballast::inline v0 {

namespace detail {

/// Branch and bound over all plans of a small step that keep to the capacities, and to numbers of
/// samples where bags have these: the shortest one, or one at all where local search finds none.
///
/// Samples come largest first, by their share of all work and of all weight together; each is tried
/// in every bag, the earliest first, and in one of several bags that are alike. A branch ends where
/// what is left does not fit below the best makespan so far, by work or by weight.
///
/// Shapes      starting_loads[m]; places[m], how many samples each bag takes, or empty.
/// Ensures     (1) where it ends with work left, no plan has a smaller makespan than the one that
///                 it returns, or than `best` where it found none
/// Complexity  O(m^2) for every node, four steps of work each; 8 n + 40 m bytes of scratch.
class capped_branching {
 public:
  static constexpr std::size_t most_samples = 24;
  static constexpr std::size_t most_bags = 12;

  capped_branching(partition_problem const& problem, std::span<cost_units const> starting_loads,
                   std::span<std::uint32_t const> places, work_budget& work,
                   workspace::frame& scratch)
      : problem_(problem),
        work_(work),
        order_(scratch.take<std::uint32_t>(problem.costs.size())),
        owner_(scratch.take<bag_id>(problem.costs.size())),
        found_(scratch.take<bag_id>(problem.costs.size())),
        bags_(scratch.take<open_bag>(starting_loads.size()))
  {
    for (std::size_t bag = 0; bag < bags_.size(); ++bag) {
      std::size_t const taken = places.empty() ? problem.costs.size() : places[bag];
      bags_[bag] = {starting_loads[bag], problem.capacities[bag], 0, taken};
    }
    left_ = std::reduce(problem.costs.begin(), problem.costs.end(), cost_units{0});
    weight_left_ = std::reduce(problem.weights.begin(), problem.weights.end(), std::int64_t{0});
    std::iota(order_.begin(), order_.end(), std::uint32_t{0});
    // Shares in 2^-20, so that their sums fit.
    auto const share = [&](std::uint32_t sample) {
      auto const of = [](std::int64_t part, std::int64_t all) {
        return all == 0
                   ? 0
                   : static_cast<std::int64_t>((uint128{static_cast<std::uint64_t>(part)} << 20U) /
                                               static_cast<std::uint64_t>(all));
      };
      return of(problem.costs[sample], left_) + of(problem.weights[sample], weight_left_);
    };
    std::sort(order_.begin(), order_.end(),
              [&](std::uint32_t a, std::uint32_t b) { return precedes(share(b), share(a), a, b); });
  }

  [[nodiscard]] static constexpr bool is_small(std::size_t samples, std::size_t bags) noexcept
  {
    return samples <= most_samples && bags <= most_bags;
  }

  /// Searches for plans with a makespan below `best`. Returns whether it found one.
  [[nodiscard]] bool operator()(ratio best)
  {
    is_found_ = false;
    lower_limits(best);
    branch(0);
    return is_found_;
  }

  /// The bag of each sample in the plan that it found.
  [[nodiscard]] std::span<bag_id const> owner() const noexcept { return found_; }

 private:
  struct open_bag {
    cost_units load;
    std::int64_t room;
    cost_units limit;    // the most load with which a plan is better than the best one
    std::size_t places;  // left
  };

  void lower_limits(ratio best) noexcept
  {
    for (std::size_t bag = 0; bag < bags_.size(); ++bag) {
      bags_[bag].limit = work_before(best, problem_.speeds[bag]);
    }
  }

  /// Whether a bag ends no earlier than the best plan, or what is left is more than the bags can do
  /// or hold.
  [[nodiscard]] bool is_too_much() const noexcept
  {
    uint128 work = 0;
    uint128 room = 0;
    for (open_bag const& each : bags_) {
      if (each.load > each.limit) { return true; }
      work += static_cast<std::uint64_t>(each.limit - each.load);
      room += static_cast<std::uint64_t>(each.room);
    }
    return work < static_cast<std::uint64_t>(left_) ||
           room < static_cast<std::uint64_t>(weight_left_);
  }

  /// Whether an earlier bag is the same for what is left to place.
  [[nodiscard]] bool is_repeated(std::size_t bag) const noexcept
  {
    for (std::size_t other = 0; other < bag; ++other) {
      open_bag const& a = bags_[other];
      open_bag const& b = bags_[bag];
      if (a.load == b.load && a.room == b.room && a.places == b.places &&
          problem_.speeds[other] == problem_.speeds[bag] &&
          problem_.gpus[other] == problem_.gpus[bag]) {
        return true;
      }
    }
    return false;
  }

  void branch(std::size_t depth)
  {
    work_.spend(4);
    if (work_.spent() || is_too_much()) { return; }
    if (depth == order_.size()) {
      std::copy(owner_.begin(), owner_.end(), found_.begin());
      is_found_ = true;
      ratio latest;
      for (std::size_t bag = 0; bag < bags_.size(); ++bag) {
        latest = std::max(latest, ratio{bags_[bag].load, problem_.speeds[bag]});
      }
      lower_limits(latest);
      return;
    }
    std::uint32_t const sample = order_[depth];
    cost_units const cost = problem_.costs[sample];
    std::int64_t const weight = problem_.weights[sample];
    std::array<std::uint32_t, most_bags> tried{};
    std::size_t count = 0;
    for (std::size_t bag = 0; bag < bags_.size(); ++bag) {
      open_bag const& each = bags_[bag];
      if (each.places > 0 && weight <= each.room && problem_.fits(sample, bag) &&
          !is_repeated(bag)) {
        tried[count++] = static_cast<std::uint32_t>(bag);
      }
    }
    std::sort(tried.data(), tried.data() + count, [&](std::uint32_t a, std::uint32_t b) {
      return precedes(ratio{bags_[a].load + cost, problem_.speeds[a]},
                      ratio{bags_[b].load + cost, problem_.speeds[b]}, a, b);
    });
    for (std::size_t next = 0; next < count && !work_.spent(); ++next) {
      open_bag& each = bags_[tried[next]];
      if (each.limit - each.load < cost) { continue; }
      owner_[sample] = to_id<bag_id>(tried[next]);
      move(each, cost, weight);
      --each.places;
      branch(depth + 1);
      ++each.places;
      move(each, -cost, -weight);
    }
  }

  void move(open_bag& bag, cost_units cost, std::int64_t weight) noexcept
  {
    bag.load += cost;
    bag.room -= weight;
    left_ -= cost;
    weight_left_ -= weight;
  }

  partition_problem problem_;
  work_budget& work_;
  std::span<std::uint32_t> order_;
  std::span<bag_id> owner_;
  std::span<bag_id> found_;
  std::span<open_bag> bags_;
  cost_units left_ = 0;
  std::int64_t weight_left_ = 0;
  bool is_found_ = false;
};

/// Brings overrun bags within their capacities by exchanges that move weight and hardly any work.
///
/// The bag that is overrun by most exchanges samples with one of those with most room: a few
/// samples for a few that weigh less and cost about as much. At first no bag may finish later than
/// the latest does, or than `limit`; where that is too strict, a little later, and at last at any
/// time.
///
/// Ensures     (1) no bag gets above its capacity that was not, and none that was gets heavier
///             (2) it returns whether all bags keep to their capacities
/// Complexity  O(m log m) and the exchanges searched for each one made, until the work of `plan` is
///             spent.
inline bool relieve_overruns(capped_exchanges& plan, std::span<std::uint32_t const> speeds,
                             ratio limit, workspace::frame& scratch)
{
  constexpr std::size_t few_partners = 8;
  constexpr std::size_t candidates = 10;
  constexpr int looser[] = {62, 10, 7, 4, 1, 0};  // the latest finish grows by a 2^k-th of itself
  std::span<std::uint32_t> const roomiest_first = scratch.take<std::uint32_t>(speeds.size());
  std::iota(roomiest_first.begin(), roomiest_first.end(), std::uint32_t{0});
  auto const more_room = [&plan](std::uint32_t a, std::uint32_t b) {
    return plan.room(a) > plan.room(b) || (plan.room(a) == plan.room(b) && a < b);
  };
  auto const search = [&](std::size_t over, int by, std::size_t size, std::size_t partners) {
    ratio latest = std::max(limit, makespan_of(plan.loads(), speeds));
    latest.numerator += std::min(latest.numerator >> by, no_cost - latest.numerator);
    capped_exchange best;
    for (std::uint32_t const roomy : roomiest_first.first(partners)) {
      if (plan.room(roomy) < 1 || plan.work().spent()) { break; }
      capped_exchange const found = plan.find_relief(over, roomy, latest, size);
      if (found.net_weight > best.net_weight) { best = found; }
      if (best.net_weight >= -plan.room(over)) { break; }
    }
    return best;
  };

  while (!plan.work().spent()) {
    std::sort(roomiest_first.begin(), roomiest_first.end(), more_room);
    plan.work().spend(speeds.size());
    std::size_t const over = roomiest_first.back();
    if (plan.room(over) >= 0) { return true; }
    capped_exchange best;
    for (int const by : looser) {
      best = search(over, by, candidates, std::min(few_partners, speeds.size()));
      // Half of the overrun with even loads is better than all of it with uneven ones.
      if (best.net_weight >= -plan.room(over) / 2) { break; }
    }
    if (best.net_weight == 0) {
      best = search(over, looser[5], subset_sum::most_members, speeds.size());
    }
    if (best.net_weight == 0) { return false; }
    plan.make(best);
  }
  return plan.room(*std::min_element(roomiest_first.begin(), roomiest_first.end(),
                                     [&](auto a, auto b) { return more_room(b, a); })) >= 0;
}

/// Searches plans that keep to the capacities for one with a small makespan: from several starts by
/// exchanges, and then from what a few random swaps make of the best one, over and over.
///
/// In, out     `bags` enters with a plan that may overrun and leaves with the best one found.
/// Expects     no plan that keeps to the capacities has a makespan below `bound`; no bag has a load
///             below its starting load.
/// Ensures     (1) no bag of a plan that it found is above its capacity
///             (2) where the plan that it began with keeps to the capacities, the makespan does not
///                 grow
///             (3) with exchange_counts::equal, every bag keeps its number of samples
///             (4) it ends when no bag finishes after `bound`, or when the work is spent
/// Complexity  O(n m + work); 8 n + 8 m bytes of scratch beside that of the exchanges.
class capacity_search {
 public:
  capacity_search(partition_problem const& problem, bags_with_room const& bags, ratio bound,
                  exchange_counts counts, std::uint64_t work, workspace& memory,
                  workspace::frame& scratch)
      : problem_(problem),
        bags_(bags),
        bound_(bound),
        counts_(counts),
        left_(work),
        memory_(memory),
        scratch_(scratch),
        best_loads_(scratch.take<cost_units>(bags.loads().size())),
        best_owner_(scratch.take<bag_id>(bags.owner().size())),
        first_loads_(scratch.take<cost_units>(bags.loads().size())),
        first_owner_(scratch.take<bag_id>(bags.owner().size()))
  {
    std::copy(bags.loads().begin(), bags.loads().end(), first_loads_.begin());
    std::copy(bags.owner().begin(), bags.owner().end(), first_owner_.begin());
  }

  /// Searches plans in which every bag keeps its number of samples. Returns whether it found one.
  bool search_counts(std::span<cost_units const> starting_loads)
  {
    relieve(left_.left() / 4);
    if (found_) { settle(left_.left() / 2); }
    if (!is_within(wide)) {
      bags_.replace(first_loads_, first_owner_);
      std::uint64_t const work = left_.left() / 2;
      work_budget steps(work);
      bool const fits = fill_by_count(problem_, bags_, starting_loads, steps, memory_);
      left_.spend(work - steps.left());
      if (fits) { even_out(left_.left()); }
    }
    std::span<std::uint32_t> const places = scratch_.take<std::uint32_t>(best_loads_.size());
    std::fill(places.begin(), places.end(), 0);
    for (bag_id const bag : first_owner_) { ++places[to_index(bag)]; }
    branch(starting_loads, places);
    if (found_) { shake(); }
    return found_;
  }

  /// Searches all plans, but where samples have homes, first those that are near to the one at
  /// hand. The search of all fillings takes up to `nodes` steps. Returns whether it found a plan.
  bool search(std::span<cost_units const> starting_loads, cheapest_cover const& cover,
              std::uint64_t nodes)
  {
    if (!problem_.home.empty()) {
      relieve(left_.left() / 4);
      settle(left_.left());
      if (found_) { return true; }
    } else if (bags_.any_overrun()) {
      left_.spend(bags_.owner().size());
      if (fill_by_density(problem_, bags_, starting_loads, bound_, cover, memory_)) {
        // Where it is far from even, cost does not follow from weight, and the next start is
        // better.
        ratio const made = makespan_of(bags_.loads(), problem_.speeds);
        ratio const near{bound_.numerator + (bound_.numerator >> 4), bound_.denominator};
        settle(made <= near ? left_.left() : left_.left() / 4);
      }
      if (!is_within(wide)) {
        auto frame = memory_.open();
        auto const by_weight = frame.take<priced_sample>(problem_.weights.size());
        descending_order_into(by_weight, problem_.weights, memory_);
        left_.spend(bags_.owner().size());
        if (fill_by_weight(problem_, bags_, starting_loads, by_weight, memory_)) {
          even_out(left_.left());
        }
      }
      bags_.replace(first_loads_, first_owner_);
    }
    if (problem_.home.empty() && !is_within(wide)) {
      relieve(left_.left() / 4);
      settle(left_.left());
    }
    if (!found_) {
      bags_.replace(first_loads_, first_owner_);
      work_budget steps(nodes);
      if (!place_within_capacity(problem_, bags_, starting_loads, bags_.owner(), steps, memory_)) {
        return false;
      }
      settle(left_.left());
    }
    if (problem_.home.empty()) { branch(starting_loads, {}); }
    shake();
    return true;
  }

  /// Whether no plan has a smaller makespan than the one that search() found.
  [[nodiscard]] bool is_optimal() const noexcept { return is_optimal_; }

 private:
  // Tries all plans of a small step, as long as there is work.
  void branch(std::span<cost_units const> starting_loads, std::span<std::uint32_t const> places)
  {
    if (!capped_branching::is_small(best_owner_.size(), best_loads_.size()) || is_within(narrow)) {
      return;
    }
    auto frame = memory_.open();
    std::uint64_t const work = left_.left() / 2;
    work_budget steps(work);
    capped_branching all(problem_, starting_loads, places, steps, frame);
    ratio const best = found_ ? makespan_of(best_loads_, problem_.speeds) : ratio{no_cost, 1};
    if (all(best)) {
      bags_.clear(starting_loads);
      for (std::size_t sample = 0; sample < best_owner_.size(); ++sample) {
        bags_.put(sample, to_index(all.owner()[sample]));
      }
      keep_best();
    }
    is_optimal_ = found_ && !steps.spent();
    left_.spend(work - steps.left());
  }

  // Settles what a few random swaps make of the best plan, as long as there is work.
  void shake()
  {
    constexpr std::uint64_t seed = 1;
    constexpr int swaps = 2;
    random_source random(seed);
    std::size_t const count = bags_.loads().size();
    while (count > 1 && !is_optimal_ && !is_within(narrow) && !left_.spent()) {
      auto frame = memory_.open();
      bags_.replace(best_loads_, best_owner_);
      left_.spend(bags_.owner().size() + count);
      capped_exchanges plan(problem_, bags_.loads(), bags_.owner(), bags_.held(), left_, memory_,
                            frame, counts_);
      std::size_t bag = latest();
      for (int swap = 0; swap < swaps; ++swap) {
        std::size_t const other = (bag + 1 + random.below(count - 1)) % count;
        plan.make(plan.draw_swap(bag, other, random));
        bag = random.below(count);
      }
      settle_latest(plan, bound_, frame)();
      keep_best();
    }
    bags_.replace(best_loads_, best_owner_);
  }

  [[nodiscard]] std::size_t latest() const noexcept
  {
    std::size_t late = 0;
    auto const finish = [this](std::size_t bag) {
      return ratio{bags_.loads()[bag], problem_.speeds[bag]};
    };
    for (std::size_t bag = 1; bag < bags_.loads().size(); ++bag) {
      if (finish(bag) > finish(late)) { late = bag; }
    }
    return late;
  }

  // How near to the bound a plan is good enough, as a power of 2 by which that is divided: for not
  // looking at other starts, and for not looking at all.
  static constexpr int wide = 11;
  static constexpr int narrow = 17;

  [[nodiscard]] bool is_within(int nearness) const
  {
    cost_units const exact = bound_.numerator;
    ratio const near{exact + std::min(exact >> nearness, no_cost - exact), bound_.denominator};
    return found_ && makespan_of(best_loads_, problem_.speeds) <= near;
  }

  void keep_best()
  {
    if (found_ &&
        makespan_of(best_loads_, problem_.speeds) <= makespan_of(bags_.loads(), problem_.speeds)) {
      return;
    }
    found_ = true;
    std::copy(bags_.loads().begin(), bags_.loads().end(), best_loads_.begin());
    std::copy(bags_.owner().begin(), bags_.owner().end(), best_owner_.begin());
  }

  void relieve(std::uint64_t work)
  {
    if (bags_.any_overrun()) {
      auto frame = memory_.open();
      work_budget steps(work);
      capped_exchanges plan(problem_, bags_.loads(), bags_.owner(), bags_.held(), steps, memory_,
                            frame, counts_);
      bool const relieved = relieve_overruns(plan, problem_.speeds, bound_, frame);
      left_.spend(work - steps.left());
      if (!relieved) { return; }
    }
    keep_best();
  }

  void settle(std::uint64_t work)
  {
    if (bags_.any_overrun()) { return; }
    auto frame = memory_.open();
    work_budget steps(work);
    capped_exchanges plan(problem_, bags_.loads(), bags_.owner(), bags_.held(), steps, memory_,
                          frame, counts_);
    settle_in_stages(plan, bound_, frame);
    left_.spend(work - steps.left());
    keep_best();
    bags_.replace(best_loads_, best_owner_);
  }

  // Settles a plan that was made by weight, and whose work is far from even: first by single swaps
  // of the latest bag with one of the earliest, of which a hundred cost as much as an exchange of
  // many samples.
  void even_out(std::uint64_t work)
  {
    {
      auto frame = memory_.open();
      work_budget steps(work);
      capped_exchanges plan(problem_, bags_.loads(), bags_.owner(), bags_.held(), steps, memory_,
                            frame, counts_);
      swap_with_earliest(plan, bound_, frame);
      left_.spend(work - steps.left());
    }
    settle(left_.left());
  }

  partition_problem problem_;
  bags_with_room bags_;
  ratio bound_;
  exchange_counts counts_;
  work_budget left_;
  workspace& memory_;
  workspace::frame& scratch_;
  std::span<cost_units> best_loads_;
  std::span<bag_id> best_owner_;
  std::span<cost_units> first_loads_;  // the plan at hand, or what was relieved of it
  std::span<bag_id> first_owner_;
  bool found_ = false;
  bool is_optimal_ = false;
};

}  // namespace detail

/// A plan in which no bag gets more than its memory holds.
///
/// The inner policy plans without capacities. Where that overruns bags, a new plan gives every bag
/// work and weight evenly, another weight alone, and a third relieves the overrun bags of the inner
/// policy's plan by exchanges that move weight and hardly any work. Where none works out, plans are
/// made by work, by weight, and at last by a search of all fillings. Then exchanges within the
/// capacities even out the work, also where the inner policy's plan kept to them; small steps are
/// searched whole. Where samples have homes, only a plan that overruns is changed.
///
/// Around a policy of fixed counts, such as equal_count, every bag keeps its number of samples:
/// only swaps of as many samples for as many bring it within its capacity, and a plan that keeps to
/// the capacities is not changed. The plan of another inner policy that restricts plans, or pads,
/// is never changed, since moves would break what that policy promises: the front door refuses it
/// where it overruns. Without capacities this is the inner policy. Where there are placement rules
/// and the inner policy restricts no plans and keeps no homes, `detail::rule_search` plans instead.
///
/// Ensures     (1) every sample that found room has one bag, which it fits
///             (2) loads have grown by exactly the costs of the samples each bag now owns
///             (3) no bag weighs more than its capacity, if the inner policy restricts no plans
///             (4) if a plan that keeps to the capacities exists, the inner policy restricts none,
///                 and the search of all fillings ends within `work`, all samples have a bag;
///                 otherwise some may have none, and the front door says why. Of steps in which a
///                 plan from nothing looks at bags 2^30 times, a second or two, it gives up
///             (5) no plan has a makespan below the one returned
///             (6) where the inner policy's plan keeps to the capacities, the makespan is not above
///                 that plan's
/// Complexity  the inner policy; where it overruns, O(n (m + log n) + work); n m as far as (4)
/// Source      `detail::fill_by_density`, `detail::relieve_overruns`, `detail::capacity_search`.
template <partition_policy Inner = longest_processing_time>
struct capped {
  static_assert(
      packed_policy<Inner>,
      "capped moves samples between packed bags, and its inner policy pads them: use that "
      "policy by itself");

  [[no_unique_address]] Inner inner{};
  std::uint64_t work = 300'000;  ///< how many samples and sums each search looks at

  ratio operator()(partition_problem const& problem, std::span<cost_units> loads,
                   std::span<bag_id> owner, workspace& memory) const
  {
    if (problem.rules != nullptr && keeps_rules()) {
      return detail::plan_by_rules(problem, loads, owner, work, memory);
    }
    auto scratch = memory.open();
    std::span<cost_units> const starts = scratch.take<cost_units>(loads.size());
    std::copy(loads.begin(), loads.end(), starts.begin());
    partition_problem without_limits = problem;
    without_limits.weights = {};
    without_limits.capacities = {};
    ratio const proven = run_policy(inner, without_limits, loads, owner, memory);
    bool const free = !restricts() && batches() == batching::packed;
    if (problem.capacities.empty() || (!free && !keeps_counts())) { return proven; }
    detail::bags_with_room const bags(problem, loads, owner, scratch);
    bool const overrun = bags.any_overrun();
    if (!overrun && (!free || !problem.home.empty())) { return proven; }
    detail::cheapest_cover const cover(problem, scratch);
    ratio const bound = std::max({proven, with_lower_bound(problem, starts, memory).lower_bound,
                                  detail::capacity_bound(problem, cover, memory)});
    if (!overrun && makespan_of(loads, problem.speeds) <= bound) { return bound; }
    auto const counts = free ? detail::exchange_counts::free : detail::exchange_counts::equal;
    detail::capacity_search find(problem, bags, bound, counts, work, memory, scratch);
    static_cast<void>(free ? find.search(starts, cover, work) : find.search_counts(starts));
    // Plans with these counts in another order of bags were not tried.
    return free && find.is_optimal() ? makespan_of(loads, problem.speeds) : bound;
  }

  [[nodiscard]] static constexpr bool restricts()
    requires(detail::plan_kind_of<Inner>.restricted)
  {
    return true;
  }
  [[nodiscard]] constexpr bool restricts() const { return restricts_plans(inner); }
  [[nodiscard]] constexpr bool keeps_counts() const { return plans_keep_counts(inner); }
  [[nodiscard]] static constexpr bool keeps_homes()
    requires(detail::plan_kind_of<Inner>.homed)
  {
    return true;
  }
  [[nodiscard]] constexpr bool keeps_homes() const { return detail::plans_keep_homes(inner); }
  [[nodiscard]] constexpr batching batches() const { return batching_of(inner); }
  [[nodiscard]] static constexpr bool keeps_rules()
    requires(detail::plan_kind_of<Inner>.free && detail::plan_kind_of<Inner>.packed)
  {
    return true;
  }
  [[nodiscard]] constexpr bool keeps_rules() const { return detail::plans_are_free(inner); }

  friend bool operator==(capped const&, capped const&) = default;
};

template <class Inner>
capped(capped<Inner>) -> capped<capped<Inner>>;  // without it, a copy of the inner one
template <class Inner>
capped(Inner) -> capped<Inner>;
template <class Inner>
capped(Inner, std::uint64_t) -> capped<Inner>;
capped() -> capped<>;

}  // namespace ballast::inline v0
