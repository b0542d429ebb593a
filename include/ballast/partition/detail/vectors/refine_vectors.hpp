// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/cost_vector_lower_bound.hpp>
#include <ballast/partition/detail/placement/plan_branch.hpp>
#include <ballast/partition/detail/placement/plan_exchanges.hpp>
#include <ballast/partition/detail/vectors/place_vectors_within_capacity.hpp>

namespace ballast::inline v0::detail {

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
        items_(weights_alone(problem, starts.size(), scratch)),
        limit_{problem.weights, problem.capacities},
        problem_{items_,
                 D,
                 all_numbers_of<D>(problem.costs),
                 all_numbers_of<D>(starts),
                 items_.speeds,
                 {},
                 {&limit_, problem.capacities.empty() ? 0U : 1U},
                 {},
                 count_limits::any(problem.costs.size())},
        plan_(problem_, scratch)
  {
    cost_vector<D> total = sum_of<D>(problem.costs);
    cost_vector<D> const before = sum_of<D>(starts);
    for (std::size_t d = 0; d < D; ++d) { total[d] += before[d]; }
    least_ = least_finishes<D>(problem, total, starts.size());
  }
  vector_plan(vector_plan const&) = delete;
  vector_plan& operator=(vector_plan const&) = delete;

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
  placement_problem::limit limit_;
  placement_problem problem_;
  plan_state plan_;
  finishes<D> least_{};  ///< before which no plan finishes in a quantity
};

/// Searches also from plans in which slow bins hold what is little work for its weight, and keeps
/// the best plan. That work is what a sample costs in one dimension, and a little of what it costs
/// in others: without that the slow bins would get what is heavy there. Where that ends far from
/// the bound, work may not follow from weight at all: at last it begins with the plan that is made
/// by weight alone, with as much work as all these starts had.
template <std::size_t D>
void try_dense_starts(cost_vector_problem<D> const& problem, std::span<cost_vector<D> const> starts,
                      vector_plan<D>& plan, std::uint64_t work_per_sample, workspace& memory)
{
  std::size_t const samples = problem.costs.size();
  ratio const bound = cost_vector_lower_bound<D>(problem, starts.size(), memory, starts);
  ratio best = plan.makespan();
  auto const is_near = [&](int part) {  // of the bound, as a power of 2: no further above it
    return best <=
           ratio{bound.numerator + std::min(bound.numerator >> part, no_cost - bound.numerator),
                 bound.denominator};
  };
  auto scratch = memory.open();
  std::span<cost_units> const work = scratch.take<cost_units>(samples);
  std::span<cost_vector<D>> const loads = scratch.take<cost_vector<D>>(starts.size());
  std::span<bag_id> const owner = scratch.take<bag_id>(samples);
  std::span<bag_id> const best_owner = scratch.take<bag_id>(samples);
  std::span<priced_sample> const by_weight = scratch.take<priced_sample>(samples);
  plan.write(loads, best_owner);
  auto const search_on = [&](std::uint64_t work_of_each) {
    if (!plan.put(owner)) { return; }
    plan.search(plan.all, work_of_each, /*randomly=*/true, memory);
    if (!(plan.makespan() < best)) { return; }
    best = plan.makespan();
    plan.write(loads, best_owner);
  };
  for (std::size_t start = 0; start < 4 * D && !is_near(11); ++start) {
    std::size_t const dimension = start / 4;
    int const others = start % 2 == 0 ? 4 : 3;  // as a power of 2: what other dimensions count
    auto const choice = start % 4 < 2 ? dense_choice::speed : dense_choice::slack;
    std::transform(problem.costs.begin(), problem.costs.end(), work.begin(),
                   [dimension, others](cost_vector<D> const& cost) {
                     cost_units sum = cost[dimension] / 2;  // so that the sums below fit
                     for (std::size_t d = 0; d < D; ++d) {
                       if (d != dimension) { sum += cost[d] / cost_units{2 * D} >> others; }
                     }
                     return sum;
                   });
    if (fill_vectors_by_density<D>(problem, work, choice, bound, starts, loads, owner, memory)) {
      search_on(work_per_sample);
    }
  }
  if (!is_near(4)) {
    descending_order_into(by_weight, problem.weights, memory);
    if (fill_vectors_by_weight<D>(problem, starts, by_weight, loads, owner, memory)) {
      search_on(4 * D * work_per_sample);
    }
  }
  (void)plan.put(best_owner);
}

/// Improves a plan by several quantities until its last bag finishes at the mean or the work is
/// spent; then lowers, one after the other, what does not bind. Returns a time before which no plan
/// finishes, or 0 where it has proven none.
///
/// Where the plan overruns capacities, or leaves samples without a bag, the search begins with one
/// that does not: `place_vectors_within_capacity`. Where capacities leave what it finds more than
/// 1/2048 above the bound, it begins anew up to 4 D times, with plans in which slow bags hold what
/// is little work for its weight: `fill_vectors_by_density`; 1/16 above it, also with one that is
/// made by weight alone. With few samples it tries all plans at last, until it has looked at about
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
  if (!plan.put(owner) &&
      (!place_vectors_within_capacity<D>(problem, starts, loads, owner, memory) ||
       !plan.put(owner))) {
    return {};
  }
  if (work_per_sample == 0) { return {}; }
  plan.search(plan.all, work_per_sample, /*randomly=*/true, memory);
  if (!problem.capacities.empty()) {
    try_dense_starts<D>(problem, starts, plan, work_per_sample, memory);
  }
  bool const is_small = !owner.empty() && owner.size() <= few;
  ratio const proven = is_small ? plan.try_all(256 * work_per_sample, memory) : ratio{};
  plan.lower_others(work_per_sample, memory);
  plan.write(loads, owner);
  return proven;
}

}  // namespace ballast::inline v0::detail
