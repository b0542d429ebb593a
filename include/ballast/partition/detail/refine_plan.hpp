// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/detail/exchange/bag_exchanges.hpp>
#include <ballast/partition/detail/placement/plan_exchanges.hpp>
#include <ballast/partition/detail/search/makespan_search.hpp>
#include <ballast/partition/makespan_lower_bound.hpp>
#include <ballast/partition/refine.hpp>

namespace ballast::inline v0::detail {

/// A bag and how far its load is above its limit.
struct surplus_bag {
  cost_units surplus;
  std::uint32_t index;
};

/// A priority queue of bags in the caller's memory: first the one with the largest surplus, or with
/// the smallest; of equal ones the first.
template <bool LargestFirst>
class surplus_queue {
 public:
  explicit surplus_queue(std::span<surplus_bag> memory) noexcept : bags_(memory) {}

  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] surplus_bag top() const noexcept { return bags_.front(); }
  void clear() noexcept { size_ = 0; }
  void push(surplus_bag bag) noexcept
  {
    bags_[size_++] = bag;
    std::push_heap(bags_.data(), bags_.data() + size_, later);
  }
  surplus_bag pop() noexcept
  {
    std::pop_heap(bags_.data(), bags_.data() + size_, later);
    return bags_[--size_];
  }

 private:
  static constexpr bool later(surplus_bag a, surplus_bag b) noexcept
  {
    if (a.surplus == b.surplus) { return a.index > b.index; }
    return LargestFirst ? a.surplus < b.surplus : a.surplus > b.surplus;
  }

  std::span<surplus_bag> bags_;
  std::size_t size_ = 0;
};

/// Brings every bag down to the load with which it finishes by `target`, if exchanges between two
/// bags at a time can.
///
/// The heaviest bag gives its surplus to the lightest, and is done if some exchange moves exactly
/// the surplus, or little more. That takes nothing that other bags need, so about m - 1 such
/// exchanges finish the plan, however little slack there is. A first pass with few candidates
/// brings all bags near their limits at low cost. Later passes look at as many candidates as make
/// exact exchanges likely, if it can search that many, or else at ever more of them.
///
/// Ensures     (1) the makespan never grows
///             (2) it returns whether every bag finishes by `target`
/// Complexity  O(m log m) per pass and the exchanges, until the work of `plan` is spent; 40 m bytes
///             of scratch.
class settle_bags {
 public:
  settle_bags(bag_exchanges& plan, ratio target, workspace::frame& scratch)
      : plan_(plan),
        limits_(scratch.take<cost_units>(plan.bags())),
        heavy_(scratch.take<surplus_bag>(plan.bags())),
        light_(scratch.take<surplus_bag>(plan.bags()))
  {
    uint128 room = 0;
    uint128 work = 0;
    for (std::size_t bag = 0; bag < plan.bags(); ++bag) {
      limits_[bag] = work_until(target, plan.speed(bag));
      room += static_cast<std::uint64_t>(limits_[bag]);
      work += static_cast<std::uint64_t>(plan.load(bag));
    }
    far_surplus_ = static_cast<cost_units>(work >> 16);
    if (room > work) { slack_ = static_cast<cost_units>((room - work) / plan.bags()); }
  }

  /// Once it has done as much work as `patience` says, it goes on only while the limits are near.
  bool operator()(std::uint64_t patience = std::numeric_limits<std::uint64_t>::max())
  {
    std::uint64_t const all_work = plan_.work().left();
    cost_units surplus = queue_all();
    int idle_passes = 0;
    for (std::size_t count = few; surplus > 0 && !light_.empty() && !plan_.work().spent();) {
      bool const started = count > few;
      std::size_t const dense =
          plan_.dense_candidates(heavy_.top().index, light_.top().index, slack_);
      // Every heavy bag gives its surplus to a light one, which often becomes heavy itself.
      bool const exact = started && dense <= affordable &&
                         std::uint64_t{2 * heavy_.size()} << (std::min(dense, many) + 1) <=
                             cheap + all_work - plan_.work().left();
      if (exact) { count = std::max(count, dense); }
      pass(count, exact);
      cost_units const left = queue_all();
      // From a poor plan a first pass brings the limits a little nearer, and so do the next.
      bool const pays = started ? left < surplus - surplus / 4
                                : left > surplus / 2 && left < surplus - surplus / 32;
      // Where costs are nearly equal or of few kinds, more candidates do not help either.
      idle_passes = started && left > surplus - surplus / 8 ? idle_passes + 1 : 0;
      surplus = left;
      bool const far = surplus > far_surplus_;
      if (far && (idle_passes == 2 || all_work - plan_.work().left() > patience)) { break; }
      if (pays) { continue; }
      if (count == subset_sum::most_members) { break; }
      count = std::min(count + (exact ? 1 : 2), subset_sum::most_members);
    }
    return heavy_.empty();
  }

 private:
  static constexpr std::size_t few = 3;
  static constexpr std::size_t affordable = 13;  // candidates per bag, for exact exchanges
  static constexpr std::size_t many = 12;        // of them: then exact_exchanges takes less work
  static constexpr std::size_t partners = 3;     // to try for an exact exchange
  // Steps that a pass of exact exchanges may always take; a longer one has to wait until as many
  // have been spent, so that a large step is near its limits before its work is spent.
  static constexpr std::uint64_t cheap = std::uint64_t{1} << 20;

  cost_units queue_all()
  {
    heavy_.clear();
    light_.clear();
    cost_units surplus = 0;
    for (std::size_t bag = 0; bag < plan_.bags(); ++bag) {
      surplus += std::max(queue(bag), cost_units{0});
    }
    plan_.work().spend(plan_.bags());
    return surplus;
  }

  cost_units queue(std::size_t bag)
  {
    cost_units const surplus = plan_.load(bag) - limits_[bag];
    if (surplus > 0) { heavy_.push({surplus, static_cast<std::uint32_t>(bag)}); }
    if (surplus < 0) { light_.push({surplus, static_cast<std::uint32_t>(bag)}); }
    return surplus;
  }

  // Takes each heavy bag once, and each light one as long as it is light.
  void pass(std::size_t count, bool exact)
  {
    while (!heavy_.empty() && !light_.empty() && !plan_.work().spent()) {
      surplus_bag const heavy = heavy_.pop();
      std::array<surplus_bag, partners> tried{};
      std::size_t count_tried = 0;
      bag_exchange best;
      bool settled = false;
      while (!settled && !light_.empty() && count_tried < (exact ? partners : 1)) {
        surplus_bag const light = tried[count_tried++] = light_.pop();
        bag_exchange const found = find(heavy, light, count, exact);
        if (off(found, heavy) < off(best, heavy)) { best = found; }
        settled = best.found.net >= heavy.surplus && off(best, heavy) <= slack_;
      }
      if (best.found.net > 0) { plan_.make(best); }
      for (surplus_bag const light : span_of(tried, 0, count_tried)) { queue(light.index); }
    }
  }

  // How far an exchange misses the surplus; no exchange misses all of it.
  [[nodiscard]] static cost_units off(bag_exchange const& chosen, surplus_bag heavy) noexcept
  {
    cost_units const net = chosen.found.net;
    return net < heavy.surplus ? heavy.surplus - net : net - heavy.surplus;
  }

  // An exchange after which both bags finish earlier than the heavy one did. Where it need not be
  // exact, it leaves each of them half of what they have above their limits together.
  [[nodiscard]] bag_exchange find(surplus_bag heavy, surplus_bag light, std::size_t count,
                                  bool exact)
  {
    cost_units const most =
        work_before(plan_.finish(heavy.index), plan_.speed(light.index)) - plan_.load(light.index);
    if (most < 1) { return {}; }
    if (exact && count >= many && heavy.surplus <= most) {
      bag_exchange const found = plan_.find_exact(heavy.index, light.index, heavy.surplus);
      if (found.found.net != 0) { return found; }
    }
    cost_units const common = heavy.surplus + light.surplus;
    cost_units const share = exact || common < 0 ? 0 : common / 2;
    cost_units const least = std::min(heavy.surplus - share, most);
    cost_units const enough = least + std::min(slack_, most - least);
    return plan_.find(heavy.index, light.index, {least, enough, most}, count);
  }

  bag_exchanges& plan_;
  std::span<cost_units> limits_;
  surplus_queue<true> heavy_;
  surplus_queue<false> light_;
  cost_units slack_ = 0;        // of all bags together, per bag
  cost_units far_surplus_ = 0;  // of all bags together: more of it is far from the limits
};

/// Exchanges samples between bags until the makespan is `target`, nothing more helps, or the work
/// is spent.
///
/// `settle_bags` takes the lightest samples, whose sums are dense where costs have a long tail, and
/// needs few exchanges for large steps. Where costs are nearly equal it stands still, and is left
/// out. What reaches no target goes on by plan_exchanges: moves, swaps and exchanges of two for two
/// of the latest bag and, where none helps, random ones, which are undone where the makespan grew,
/// until so many in a row have not made it smaller or a share of work that depends on the step
/// alone is spent.
///
/// A search with more work does the same and then more.
///
/// Expects     at least one sample; starts are what bags have at the start.
/// In, out     loads and owner are a plan and become the best one found; work pays for all.
/// Ensures     (1) the makespan does not grow, neither with time nor with more work
/// Complexity  O(work); the scratch of bag_exchanges and plan_exchanges.
inline void exchange_samples(partition_problem const& problem, std::span<cost_units const> starts,
                             ratio target, std::span<cost_units> loads, std::span<bag_id> owner,
                             work_budget& work, workspace& memory)
{
  constexpr std::uint64_t patience = std::uint64_t{1} << 18;
  constexpr std::uint64_t steps_of_pair = 6;        // of settle_bags, for a pair that is looked at
  constexpr std::uint64_t pairs_of_step = 100'000;  // to look at, and
  constexpr std::uint64_t pairs_of_sample = 700;
  auto const order = problem.heaviest_first;
  std::size_t const tenth = order.size() / 10;
  bool const is_nearly_equal = order[tenth].cost / 2 < order[order.size() - 1 - tenth].cost;
  std::uint64_t const most_failures = std::clamp<std::uint64_t>((1U << 14) / owner.size(), 50, 400);
  if (!is_nearly_equal) {
    auto scratch = memory.open();
    bag_exchanges plan(problem, loads, owner, work, memory, scratch);
    if (settle_bags(plan, target, scratch)(patience + 8 * owner.size())) { return; }
  }
  std::uint64_t const most =
      std::min(work.left() / steps_of_pair, pairs_of_step + pairs_of_sample * owner.size());
  if (most == 0) { return; }
  auto scratch = memory.open();
  placement_problem const places{problem,
                                 1,
                                 problem.costs,
                                 starts,
                                 problem.speeds,
                                 {},
                                 {},
                                 {},
                                 count_limits::any(owner.size())};
  plan_state plan(places, scratch);
  (void)plan.put_all(std::span<bag_id const>(owner));
  work_budget left(most);
  plan_exchanges(plan, 1, left, scratch, memory).run(target, most_failures);
  work.spend(steps_of_pair * (most - left.left()));
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    owner[sample] = to_id<bag_id>(plan.owner(sample));
  }
  for (std::size_t bag = 0; bag < loads.size(); ++bag) { loads[bag] = plan.load(bag, 0); }
}

/// Puts the plan of longest_processing_time in place of one that ends later.
inline void take_greedy_plan(partition_problem const& problem, std::span<cost_units const> starts,
                             std::span<cost_units> loads, std::span<bag_id> owner,
                             workspace& memory)
{
  auto scratch = memory.open();
  std::span<cost_units> const greedy_loads = scratch.take<cost_units>(loads.size());
  std::span<bag_id> const greedy_owner = scratch.take<bag_id>(owner.size());
  std::copy(starts.begin(), starts.end(), greedy_loads.begin());
  std::fill(greedy_owner.begin(), greedy_owner.end(), to_id<bag_id>(loads.size()));
  (void)run_policy(longest_processing_time{}, problem, greedy_loads, greedy_owner, memory);
  if (makespan_of(greedy_loads, problem.speeds) < makespan_of(loads, problem.speeds)) {
    std::copy(greedy_loads.begin(), greedy_loads.end(), loads.begin());
    std::copy(greedy_owner.begin(), greedy_owner.end(), owner.begin());
  }
}

/// A plan by D quantities as one of items at places, for what searches those.
///
/// Shapes      starts[m]: what bags have at the start, which outlives it as the problem does.
template <std::size_t D>
class vector_plan {
 public:
  vector_plan(cost_vector_problem<D> const& problem, std::span<cost_vector<D> const> starts,
              workspace::frame& scratch)
      : given_(problem),
        starts_(starts),
        items_(one_quantity_of(problem, starts.size(), scratch)),
        problem_{items_,
                 D,
                 all_numbers_of<D>(problem.costs),
                 all_numbers_of<D>(starts),
                 items_.speeds,
                 {},
                 {},
                 {},
                 count_limits::any(problem.costs.size())},
        plan_(problem_, scratch)
  {
    cost_vector<D> total = sum_of<D>(problem.costs);
    cost_vector<D> const before = sum_of<D>(starts);
    for (std::size_t d = 0; d < D; ++d) { total[d] += before[d]; }
    least_ = least_finishes<D>(problem, total, starts.size());
  }
  vector_plan& operator=(vector_plan&&) = delete;

  /// Makes it the plan of these owners, if that keeps the limits, and returns whether it does.
  bool put(std::span<bag_id const> owner)
  {
    plan_.clear();
    return plan_.put_all(owner);
  }
  void write(std::span<cost_vector<D>> loads, std::span<bag_id> owner) const
  {
    for (std::size_t item = 0; item < owner.size(); ++item) {
      owner[item] = to_id<bag_id>(plan_.owner(item));
    }
    for (std::size_t bag = 0; bag < loads.size(); ++bag) {
      for (std::size_t d = 0; d < D; ++d) { loads[bag][d] = plan_.load(bag, d); }
    }
  }
  [[nodiscard]] ratio makespan() const { return least_makespan(all).of(plan_); }

  /// Exchanges samples, with work_per_sample pairs to look at per sample and as if there were 100
  /// samples more; from random exchanges on as well, if told to.
  void search(std::uint64_t quantities, std::uint64_t work_per_sample, bool randomly,
              workspace& memory)
  {
    auto frame = memory.open();
    ratio target;
    for (std::size_t d = 0; d < D; ++d) {
      if ((quantities >> d & 1U) != 0) { target = std::max(target, least_[d]); }
    }
    work_budget work(work_per_sample * (plan_.items() + 100));
    plan_exchanges(plan_, quantities, work, frame, memory)
        .run(target, randomly ? std::numeric_limits<std::uint64_t>::max() : 0);
  }

  /// Lowers, one after the other, what does not bind.
  void lower_others(std::uint64_t work_per_sample, workspace& memory)
  {
    detail::lower_others(plan_, all, [&](std::uint64_t quantities) {
      search(quantities, work_per_sample, /*randomly=*/false, memory);
    });
  }

  /// Tries all plans for a smaller makespan, until there is none, it is at the bound, or the work is
  /// spent; then, as long, those of that makespan for one whose other quantities finish earliest, the
  /// latest of them first. Returns a time before which no plan finishes.
  ratio try_all(std::uint64_t work_of_each, workspace& memory)
  {
    auto frame = memory.open();
    ratio const bound = cost_vector_lower_bound<D>(given_, starts_.size(), memory, starts_);
    least_makespan goal(all, bound);
    (void)goal.keeps(plan_);
    work_budget work(work_of_each);
    bool const ended = try_all_plans(plan_, goal, work, memory);
    if constexpr (D > 1) {
      level_finish sorted(plan_, all, level_finish::times::of_quantities, frame);
      (void)sorted.keeps(plan_);
      work_budget again(work_of_each);
      (void)try_all_plans(plan_, sorted, again, memory);
    }
    return ended ? makespan() : bound;
  }

  static constexpr std::uint64_t all = (std::uint64_t{1} << D) - 1;

 private:
  cost_vector_problem<D> given_;
  std::span<cost_vector<D> const> starts_;
  partition_problem items_;
  placement_problem problem_;
  plan_state plan_;
  finishes<D> least_{};  ///< before which no plan finishes in a quantity
};

/// Improves a plan by several quantities until its last bag finishes at the mean or the work is
/// spent; then lowers, one after the other, what does not bind. Returns a time before which no plan
/// finishes, or 0 where it has proven none.
///
/// With few samples it tries all plans at last, until it has looked at about
/// 256 work_per_sample bags.
///
/// Shapes      starts[m]: what bags have at the start; loads[m], owner[n].
/// Ensures     (1) those of `refine` for several quantities
template <std::size_t D>
ratio refine_vectors(cost_vector_problem<D> const& problem, std::span<cost_vector<D> const> starts,
                     std::span<cost_vector<D>> loads, std::span<bag_id> owner,
                     std::uint64_t work_per_sample, workspace& memory)
{
  constexpr std::size_t few = 16;
  auto scratch = memory.open();
  vector_plan<D> plan(problem, starts, scratch);
  if (!plan.put(owner) || work_per_sample == 0) { return {}; }
  plan.search(plan.all, work_per_sample, /*randomly=*/true, memory);
  bool const is_small = !owner.empty() && owner.size() <= few;
  ratio const proven = is_small ? plan.try_all(256 * work_per_sample, memory) : ratio{};
  plan.lower_others(work_per_sample, memory);
  plan.write(loads, owner);
  return proven;
}

BALLAST_ONCE ratio refine_plan(policy_ref<cost_units> const& inner, bool is_greedy,
                               std::uint64_t work, std::uint64_t nodes,
                               partition_problem const& problem, std::span<cost_units> loads,
                               std::span<bag_id> owner, workspace& memory)
{
  BALLAST_EXPECTS(inner.batches() == batching::packed,
                  "refine exchanges samples of packed bags, and its inner policy pads them");
  auto scratch = memory.open();
  std::span<cost_units> const starts = scratch.take<cost_units>(loads.size());
  std::copy(loads.begin(), loads.end(), starts.begin());
  partition_problem const bounded = with_lower_bound(problem, starts, memory);
  ratio const bound = std::max(inner(bounded, loads, owner, memory), bounded.lower_bound);
  auto const is_done = [&] { return makespan_of(loads, problem.speeds) <= bound; };
  if ((work == 0 && nodes == 0) || is_done()) { return bound; }
  if (!is_greedy) { take_greedy_plan(problem, starts, loads, owner, memory); }
  if (work > 0 && !is_done()) {
    work_budget left(work);
    exchange_samples(problem, starts, bound, loads, owner, left, memory);
  }
  if (nodes == 0 || is_done()) { return bound; }
  work_budget left(nodes);
  return makespan_search(problem, starts, scratch)(bound, left, loads, owner);
}

template <std::size_t D>
ratio refine_plan(policy_ref<cost_vector<D>> const& inner, std::uint64_t work_per_sample,
                  std::uint64_t nodes, cost_vector_problem<D> const& problem,
                  std::span<cost_vector<D>> loads, std::span<bag_id> owner, workspace& memory)
{
  constexpr std::size_t most_choices = std::size_t{1} << 14;
  expect_policy_arrays<D>(problem, loads, owner);
  auto scratch = memory.open();
  std::span<cost_vector<D>> const starts = scratch.take<cost_vector<D>>(loads.size());
  std::copy(loads.begin(), loads.end(), starts.begin());
  ratio const proven = inner(problem, loads, owner, memory);
  ratio const found = refine_vectors<D>(problem, starts, loads, owner, work_per_sample, memory);
  ratio const bound = std::max(proven, found);
  if (nodes == 0 || owner.empty() || owner.size() > most_choices / loads.size()) { return bound; }
  vector_plan<D> plan(problem, starts, scratch);
  if (!plan.put(owner)) { return bound; }
  ratio const of_all = plan.try_all(nodes, memory);
  plan.write(loads, owner);
  return std::max(bound, of_all);
}

}  // namespace ballast::inline v0::detail
