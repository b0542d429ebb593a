// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/cost_vector_lower_bound.hpp>
#include <ballast/partition/detail/placement/plan_branch.hpp>
#include <ballast/partition/detail/placement/plan_exchanges.hpp>
#include <ballast/partition/detail/vectors/earliest_vectors.hpp>

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

}  // namespace ballast::inline v0::detail
