// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/placement_limits.hpp>
#include <ballast/sharding/detail/shard_moves.hpp>

namespace ballast::inline v0 {

namespace detail {

/// Tries all plans of a step of few sequences, longest first, and leaves out what cannot end below
/// the best plan so far: a load that is not below it, less GPU time left than the rest takes, less
/// memory left than the rest needs. Of groups that are alike and hold the same it tries the first.
class shard_enumeration {
 public:
  [[nodiscard]] static bool takes(shard_problem const& problem) noexcept
  {
    return problem.samples() > 0 && problem.samples() <= 12 && problem.groups.size() <= 64;
  }

  shard_enumeration(shard_problem const& problem, workspace::frame& scratch)
      : problem_(problem),
        tried_(scratch.take<std::uint32_t>(problem.samples() + 1)),
        area_from_(scratch.take<uint128>(problem.samples() + 1)),
        tokens_from_(scratch.take<tokens>(problem.samples() + 1)),
        kind_(scratch.take<std::uint32_t>(problem.groups.size()))
  {
    find_kinds();
    area_from_[problem.samples()] = 0;
    tokens_from_[problem.samples()] = 0;
    for (std::size_t at = problem.samples(); at-- > 0;) {
      std::uint32_t const sample = problem.by_length[at];
      uint128 least = ~uint128{0};
      for (std::size_t own = 0; own < problem.classes.size(); ++own) {
        cost_units const time = problem.time(sample, own);
        if (time == no_cost) { continue; }
        least = std::min(
            least, uint128{static_cast<std::uint64_t>(time)} * problem.classes[own].shape.gpus);
      }
      area_from_[at] = area_from_[at + 1] + least;
      tokens_from_[at] = tokens_from_[at + 1] + problem.lengths[sample];
    }
  }

  /// Calls `keep` with the makespan of each plan whose makespan is below `most`, which it makes the
  /// new `most`; the state is then that plan.
  ///
  /// Returns     whether all plans were tried, so that no other is below `most`
  /// Expects     a state without sequences; it is left in some state.
  template <class Keep>
  [[nodiscard]] bool run(shard_state& state, cost_units most, cost_units bound, work_budget& budget,
                         Keep const& keep)
  {
    std::size_t const samples = problem_.samples();
    std::size_t next = 0;
    tried_[0] = 0;
    for (;;) {
      if (next == samples) {
        most = state.largest_load();
        keep(most);
        if (most <= bound) { return true; }
      } else {
        std::uint32_t const sample = problem_.by_length[next];
        std::uint32_t group = tried_[next];
        for (; group < problem_.groups.size(); ++group) {
          if (may_go(state, sample, group, most)) { break; }
        }
        budget.spend(problem_.gpus + group - tried_[next]);
        if (budget.spent()) { return false; }
        tried_[next] = group + 1;
        if (group < problem_.groups.size()) {
          state.insert(problem_, sample, group);
          if (may_be_better(state, next + 1, most)) {
            tried_[++next] = 0;
            continue;
          }
          state.remove(problem_, sample);
          continue;
        }
      }
      if (next == 0) { return true; }
      state.remove(problem_, problem_.by_length[--next]);
    }
  }

 private:
  [[nodiscard]] bool may_go(shard_state const& state, std::uint32_t sample, std::uint32_t group,
                            cost_units most) const
  {
    if (problem_.class_of[group] == no_shard_group) { return false; }
    cost_units const time = problem_.time_in(sample, group);
    if (time == no_cost) { return false; }
    tokens const share = problem_.share_in(sample, group);
    auto const uses = uses_of(state, group);
    for (shard_use const use : uses) {
      if (use.load >= most - time || use.held > problem_.most_per_gpu - share) { return false; }
    }
    for (std::uint32_t like = kind_[group]; like < group; ++like) {
      if (kind_[like] != kind_[group]) { continue; }
      auto const others = uses_of(state, like);
      if (std::equal(uses.begin(), uses.end(), others.begin())) { return false; }
    }
    return true;
  }

  [[nodiscard]] bool may_be_better(shard_state const& state, std::size_t next,
                                   cost_units most) const
  {
    uint128 area = area_from_[next];
    uint128 room = 0;
    for (shard_use const use : state.of_gpu) {
      area += static_cast<std::uint64_t>(use.load);
      room += static_cast<std::uint64_t>(problem_.most_per_gpu - use.held);
    }
    return area <= uint128{static_cast<std::uint64_t>(most - 1)} * problem_.gpus &&
           room >= static_cast<std::uint64_t>(tokens_from_[next]);
  }

  [[nodiscard]] std::span<shard_use const> uses_of(shard_state const& state,
                                                   std::size_t group) const
  {
    auto const [first, gpus] = problem_.groups[group];
    return state.of_gpu.subspan(to_index(first), gpus);
  }

  /// Numbers groups that lie in one group and have the same groups in them by the first of these.
  void find_kinds()
  {
    for (std::uint32_t group = 0; group < kind_.size(); ++group) {
      kind_[group] = group;
      for (std::uint32_t like = 0; like < group; ++like) {
        if (kind_[like] == like && are_alike(like, group)) {
          kind_[group] = like;
          break;
        }
      }
    }
  }

  [[nodiscard]] bool are_alike(std::uint32_t a, std::uint32_t b) const
  {
    if (problem_.parent[a] != problem_.parent[b] || problem_.class_of[a] != problem_.class_of[b] ||
        problem_.groups[a].gpus != problem_.groups[b].gpus) {
      return false;
    }
    // The groups in both, by the places of their GPUs.
    std::uint32_t const gpus = problem_.groups[a].gpus;
    for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) {
      auto left = static_cast<std::uint32_t>(to_index(problem_.groups[a].first)) + gpu;
      auto right = static_cast<std::uint32_t>(to_index(problem_.groups[b].first)) + gpu;
      while (left != a && right != b) {
        bool const same = problem_.class_of[left] == problem_.class_of[right] &&
                          problem_.groups[left].gpus == problem_.groups[right].gpus;
        if (!same) { return false; }
        left = problem_.parent[left];
        right = problem_.parent[right];
        if (left == no_shard_group || right == no_shard_group) { return false; }
      }
      if (left != a || right != b) { return false; }
    }
    return true;
  }

  shard_problem const& problem_;
  std::span<std::uint32_t> tried_;  ///< of each sequence, the group after the last one tried
  std::span<uint128> area_from_;    ///< least GPU time of the sequences from each on
  std::span<tokens> tokens_from_;
  std::span<std::uint32_t> kind_;
};

/// Searches for the plan of a step: greedy plans for several limits on the time of one sequence and
/// for uniform degrees, each improved by changes of one or two sequences; then the best of them,
/// again and again with a few sequences thrown elsewhere and improved anew. A small step starts
/// with plain local search from the best uniform degree, so that it ends no worse than that. Of a
/// step of few sequences all plans are tried, as far as half of the budget goes.
class shard_search {
 public:
  shard_search(shard_problem const& problem, cost_units bound, workspace::frame& scratch)
      : problem_(problem),
        bound_(bound),
        best_owner_(scratch.take<std::uint32_t>(problem.samples())),
        from_owner_(scratch.take<std::uint32_t>(problem.samples())),
        state_(problem, scratch),
        greedy_(problem, scratch),
        moves_(problem, scratch),
        both_(shard_fullness::of_both(problem, bound)),
        random_(0x5eed)
  {
    if (shard_enumeration::takes(problem)) { enumeration_.emplace(problem, scratch); }
  }

  /// Ensures     (1) owner() has a group for every sequence, and no GPU more tokens than it may;
  ///                 otherwise it returns a sequence for which it found none
  ///             (2) where all_tried(), no other plan is better, or there is none
  [[nodiscard]] std::optional<std::uint32_t> run(work_budget budget)
  {
    std::optional<std::uint32_t> stranded;
    std::uint64_t const all = budget.left();
    start_plainly(budget);
    try_all(budget);
    if (all_tried_) { return has_plan_ ? std::nullopt : std::optional(problem_.by_length.front()); }
    // Returns whether `plan` found one.
    auto const start = [&](auto plan) {
      state_.clear();
      if (auto const without = plan()) {
        stranded = without;
        return false;
      }
      work_budget slice(budget.left() < all / 4 ? 0 : all / 32);
      std::uint64_t const given = slice.left();
      cost_units const most = moves_.descend(state_, slice);
      budget.spend(given - slice.left());
      keep(most);
      return true;
    };
    work_budget packing(packing_steps + 4 * all);
    auto const start_greedy = [&](shard_rule const& rule) {
      return start([&] { return greedy_.plan(state_, rule, packing); });
    };
    bool const is_cheap = problem_.samples() <= 4096;
    for (int const share : std::span(shares).first(is_cheap ? shares.size() : few_shares)) {
      if (has_plan_ && most_ == bound_) { break; }
      // By load alone; where memory is short or it costs little, by tokens too.
      bool const is_planned = start_greedy({scaled(share), {}});
      bool const may_help = is_cheap && both_.weight > 0;
      if (may_help || !is_planned) { (void)start_greedy({scaled(share), both_}); }
    }
    for (int const share : {0, 50, 250, 1000}) {
      if (!has_plan_) { (void)start_greedy({scaled(share), {.by_tokens = true}}); }
    }
    for_each_degree([&](std::uint32_t degree) {
      work_budget& payer = has_plan_ ? budget : packing;
      bool const is_too_much = payer.left() < (has_plan_ ? all / 4 : 0) + uniform_steps();
      if (has_plan_ && most_ == bound_) { return; }
      if (is_too_much) {  // nearly the same plan by heaps, unless the best is near the bound anyway
        if (!has_plan_ || most_ - bound_ > bound_ / 256) {
          (void)start_greedy({.fullness = both_, .degree = degree});
        }
        return;
      }
      payer.spend(uniform_steps());
      (void)start([&] { return greedy_.plan_uniform(state_, degree, both_); });
    });
    if (!has_plan_) { return stranded; }
    perturb(budget);
    return std::nullopt;
  }

  [[nodiscard]] std::span<std::uint32_t const> owner() const noexcept { return best_owner_; }
  [[nodiscard]] bool all_tried() const noexcept { return all_tried_; }

 private:
  static constexpr std::uint64_t greedy_steps = 24;          ///< for a sequence
  static constexpr std::uint64_t packing_steps = 1'000'000;  ///< for steps that hardly fit
  /// Limits on the time of one sequence, in thousandths of the bound, for greedy plans.
  static constexpr std::array shares = {500, 1000, 250, 750, 350, 150, 100, 50,
                                        25,  8,    667, 333, 125, 167, 62};
  static constexpr std::size_t few_shares = 10;       ///< of large steps
  static constexpr std::uint64_t in_turn_every = 16;  ///< improvements of a small step

  /// So many thousandths of the bound.
  [[nodiscard]] cost_units scaled(int share) const
  {
    return bound_ / 1000 * share + bound_ % 1000 * share / 1000;
  }

  [[nodiscard]] std::uint64_t uniform_steps() const
  {
    return 2 * static_cast<std::uint64_t>(problem_.samples()) * problem_.groups.size();
  }

  template <class Visit>
  void for_each_degree(Visit visit) const
  {
    std::uint32_t degree = 0;
    for (shard_class const& each : problem_.classes) {
      if (each.shape.gpus != degree) { visit(degree = each.shape.gpus); }
    }
  }

  /// Plain local search from the best uniform degree, where that is cheap: what anybody would write
  /// first, so that no plan is worse.
  void start_plainly(work_budget& budget)
  {
    std::uint64_t const all = budget.left();
    std::uint64_t degrees = 0;
    for_each_degree([&](std::uint32_t) { ++degrees; });
    is_small_ = degrees * uniform_steps() <= all / 4;
    if (!is_small_) { return; }
    cost_units least = no_cost;
    for_each_degree([&](std::uint32_t degree) {
      state_.clear();
      budget.spend(uniform_steps());
      if (greedy_.plan_uniform(state_, degree, {})) { return; }
      cost_units const most = state_.largest_load();
      if (most >= least) { return; }
      least = most;
      std::copy(state_.owner.begin(), state_.owner.end(), from_owner_.begin());
    });
    if (least == no_cost) { return; }
    for (bool const in_turn : {true, false}) {
      state_.assign(problem_, from_owner_);
      work_budget slice(all / 4);
      std::uint64_t const given = slice.left();
      cost_units const most =
          in_turn ? moves_.descend_in_turn(state_, slice) : moves_.descend(state_, slice);
      budget.spend(given - slice.left());
      keep(most);
    }
  }

  void try_all(work_budget& budget)
  {
    if (!enumeration_ || (has_plan_ && most_ == bound_)) { return; }
    state_.clear();
    work_budget slice(budget.left() / 2);
    std::uint64_t const given = slice.left();
    all_tried_ =
        enumeration_->run(state_, most_, bound_, slice, [this](cost_units most) { keep(most); });
    budget.spend(given - slice.left());
  }

  void keep(cost_units most)
  {
    if (has_plan_ && most >= most_) { return; }
    has_plan_ = true;
    most_ = most;
    std::copy(state_.owner.begin(), state_.owner.end(), best_owner_.begin());
  }

  /// Iterated local search from the best plan: throws a few sequences elsewhere and improves anew,
  /// from plans that are little worse too, so that it wanders. Where that finds nothing for long,
  /// it goes on from another greedy plan.
  void perturb(work_budget& budget)
  {
    if (most_ == bound_ || problem_.samples() == 0) { return; }
    state_.assign(problem_, best_owner_);
    begin_from(most_);
    std::uint64_t const patience = 50 + 2 * problem_.samples();
    for (std::uint64_t idle = 0; !budget.spent() && most_ > bound_; ++idle) {
      if (idle > patience) {
        idle = 0;
        restart(budget);
      }
      for (std::uint64_t thrown = 1 + random_.below(3); thrown > 0; --thrown) {
        throw_some(problem_, state_, random_);
      }
      budget.spend(problem_.gpus + problem_.groups.size());
      state_.refresh(problem_);
      cost_units const most = improve(budget);
      keep(most);
      bool const is_much_worse = most > from_most_ && most - from_most_ > from_most_ / 64;
      if (most < from_most_) {
        begin_from(most);
        idle = 0;
      } else if (most == from_most_) {
        begin_from(most);
      } else if (is_much_worse || random_.below(8) == 0) {
        budget.spend(problem_.samples());
        state_.assign(problem_, from_owner_);
      }
    }
  }

  /// Improves the state by one of the two descents, which end at different plans.
  [[nodiscard]] cost_units improve(work_budget& budget)
  {
    bool const is_in_turn = is_small_ && random_.below(in_turn_every) == 0;
    return is_in_turn ? moves_.descend_in_turn(state_, budget) : moves_.descend(state_, budget);
  }

  void restart(work_budget& budget)
  {
    state_.clear();
    budget.spend(greedy_steps * problem_.samples() + problem_.groups.size());
    auto const part = static_cast<std::int64_t>(2 + random_.below(30));
    cost_units const share = bound_ / part * 4 + bound_ % part * 4 / part;
    auto const at = static_cast<std::size_t>(random_.below(problem_.classes.size()));
    bool const is_uniform = random_.below(2) == 0 && uniform_steps() < budget.left() / 16;
    if (is_uniform) { budget.spend(uniform_steps()); }
    auto const stranded = is_uniform
                              ? greedy_.plan_uniform(state_, problem_.classes[at].shape.gpus, both_)
                              : greedy_.plan(state_, {share, both_}, budget);
    if (stranded) {
      state_.assign(problem_, best_owner_);
      begin_from(most_);
      return;
    }
    cost_units const most = improve(budget);
    keep(most);
    begin_from(most);
  }

  /// The state is the plan that perturb() comes back to.
  void begin_from(cost_units most)
  {
    from_most_ = most;
    std::copy(state_.owner.begin(), state_.owner.end(), from_owner_.begin());
  }

  shard_problem const& problem_;
  cost_units bound_;
  std::span<std::uint32_t> best_owner_;
  std::span<std::uint32_t> from_owner_;
  shard_state state_;
  shard_greedy greedy_;
  shard_moves moves_;
  shard_fullness both_;
  random_source random_;
  cost_units most_ = no_cost;       ///< of best_owner_
  cost_units from_most_ = no_cost;  ///< of from_owner_
  bool has_plan_ = false;
  std::optional<shard_enumeration> enumeration_;
  bool all_tried_ = false;
  bool is_small_ = false;  ///< so that plain local search is cheap
};

/// Why a step cannot be planned, whatever its costs are, if so.
[[nodiscard]] inline result<void> check_shard_lengths(std::span<tokens const> lengths,
                                                      device_groups const& groups,
                                                      tokens most_per_gpu)
{
  if (groups.gpus() == 0) {
    return fail(error_code::infeasible, 0, "there are no GPUs to split sequences over; add some");
  }
  if (lengths.size() >= no_shard_group) {
    return fail(error_code::out_of_range, 0, "a step has more than 2^32 - 2 sequences; split it");
  }
  if (most_per_gpu < 0) {
    return fail(error_code::out_of_range, 0, "a GPU may hold ", counted(most_per_gpu, "token"),
                "; give how many fit its memory");
  }
  for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
    if (lengths[sample] < 0 || lengths[sample] > longest_sample) {
      return fail(error_code::out_of_range, sample, "sequence ", sample, " of ",
                  counted(lengths[sample], "token"), " has a length that is not from 0 to ",
                  longest_sample, "; correct its length");
    }
  }
  return {};
}

/// Why the sequences cannot be planned, each by itself, if so.
[[nodiscard]] inline result<void> check_shard_times(shard_problem const& problem,
                                                    device_groups const& groups,
                                                    sharding_cost const& cost)
{
  constexpr cost_units most = no_cost / 4;  // a change adds two times to a load
  cost_units total = 0;
  for (std::size_t sample = 0; sample < problem.samples(); ++sample) {
    cost_units longest = -1;
    for (std::size_t at = 0; at < problem.classes.size(); ++at) {
      cost_units const time = problem.time(sample, at);
      if (time != no_cost) { longest = std::max(longest, time); }
    }
    auto const name = [&] {
      return concat("sequence ", sample, " of ", counted(problem.lengths[sample], "token"), " ");
    };
    if (longest < 0) {
      // Memory and splitting depend on the length alone, so the cost is tried where they allow it.
      for (shard_class const& each : problem.classes) {
        tokens const k = each.shape.gpus;
        tokens const length = problem.lengths[sample];
        if ((length + k - 1) / k <= problem.most_per_gpu && (k == 1 || length >= k)) {
          return fail(error_code::out_of_range, sample,
                      name() +
                          "has no cost: it does not fit 63 bits; use a cost model with a coarser "
                          "unit");
        }
      }
      std::uint32_t const largest = problem.classes.back().shape.gpus;
      return fail(error_code::infeasible, sample, name(),
                  "needs more memory than any group has: split over ", counted(largest, "GPU"),
                  ", the most that ", counted(cost.heads, "head"), " and groups of up to ",
                  counted(groups.degrees().back(), "GPU"), " allow, each may hold ",
                  counted(problem.most_per_gpu, "token"),
                  "; allow more tokens per GPU or larger groups, or leave it out");
    }
    if (longest > most - total) {
      return fail(error_code::out_of_range, sample,
                  name() +
                      "brings the total time above 61 bits; use a cost model with a coarser unit "
                      "or plan fewer sequences at once");
    }
    total += longest;
  }
  return {};
}

/// Why the GPUs have no room for all sequences together, if a division says so.
[[nodiscard]] inline result<void> check_shard_room(shard_problem const& problem)
{
  tokens total = 0;
  for (tokens const length : problem.lengths) { total += length; }
  auto const gpus = static_cast<tokens>(problem.gpus);
  if (problem.most_per_gpu >= total / gpus + (total % gpus == 0 ? 0 : 1)) { return {}; }
  return fail(error_code::infeasible, 0, "the sequences have ", counted(total, "token"),
              " together, more than ", counted(gpus, "GPU"), " of ",
              counted(problem.most_per_gpu, "token"),
              " can hold; allow more tokens per GPU, or compute fewer sequences in a step");
}

/// Why sequences cannot stay together as they are to, if so.
[[nodiscard]] inline result<void> check_units(shard_problem const& each,
                                              std::span<std::uint32_t const> unit,
                                              workspace::frame& scratch)
{
  std::span<tokens> const lengths = scratch.take<tokens>(unit.size());
  std::fill(lengths.begin(), lengths.end(), tokens{0});
  for (std::size_t sample = 0; sample < unit.size(); ++sample) {
    lengths[unit[sample]] += each.lengths[sample];
    if (lengths[unit[sample]] <= longest_sample) { continue; }
    return fail(error_code::out_of_range, sample, "sequence ", sample,
                " brings those that stay together with it above ", counted(longest_sample, "token"),
                "; let fewer of them");
  }
  return {};
}

/// How many steps the search for a plan may take, of some nanoseconds each.
[[nodiscard]] constexpr std::uint64_t shard_steps(std::size_t samples, std::size_t groups)
{
  // Where plain search comes near, it takes longer; 10 ms are enough for few sequences and GPUs.
  std::uint64_t const most = samples * groups <= 512    ? 800'000
                             : samples * groups <= 4096 ? 2'000'000
                                                        : 1'000'000;
  return most + 16 * (static_cast<std::uint64_t>(samples) + groups);
}

inline void describe_shards(sharding_plan& plan, shard_problem const& problem,
                            device_groups const& groups)
{
  std::size_t const count = problem.samples();
  plan.costs.resize(count);
  plan.loads.assign(problem.gpus, 0);
  plan.tokens_of.assign(problem.gpus, 0);
  for (std::size_t sample = 0; sample < count; ++sample) {
    std::size_t const group = to_index(plan.owner[sample]);
    plan.costs[sample] = problem.time_in(sample, group);
    auto const [first, gpus] = problem.groups[group];
    // As chunk_of does it: the first ones have one token more.
    tokens const each = problem.lengths[sample] / gpus;
    tokens const longer = problem.lengths[sample] % gpus;
    for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) {
      plan.loads[to_index(first) + gpu] += plan.costs[sample];
      plan.tokens_of[to_index(first) + gpu] += each + (gpu < longer ? 1 : 0);
    }
  }
  plan.samples.collect(detail::span_of(plan.owner), groups.size());
  plan.makespan = *std::max_element(plan.loads.begin(), plan.loads.end());
  plan.groups_digest = groups.digest();
}

}  // namespace detail

/// Decides for every sequence of a step which group of GPUs computes it, and so to which degree it
/// is split: long sequences over many GPUs, short ones on one, so that all GPUs end at about the
/// same time and none holds more tokens than its memory has room for.
///
/// A GPU works for all groups that contain it, one after the other: its load is the sum over their
/// sequences of what each takes a GPU of the group (sharding_cost::at). A group has at most as many
/// GPUs as the model has heads and the sequence tokens; a sequence without tokens is on one GPU.
///
/// With `together`, sequences of equal numbers are on one group of GPUs, as the answers to one prompt:
/// split to one degree, on the same GPUs. Those of numbers below 0 are alone.
///
/// Shapes      lengths[n], n < 2^32 - 1; together[n], or none.
/// Units       makespan, loads and costs in the unit of `cost`. most_per_gpu: of all sequences of
///             a step together; of one of l tokens over k GPUs each holds l / k, rounded up.
/// In, out     plan is overwritten, and keeps its memory for the next step.
/// Expects     what sharding_cost expects.
/// Ensures     (1) those of sharding_plan
///             (2) no GPU holds more than most_per_gpu tokens
///             (3) the plan depends on nothing but the arguments: integers, ties by index, no clock
///             (4) with a plan and a workspace that have seen a step as large, nothing is allocated
/// Errors      infeasible: there are no GPUs, or the sequences have more tokens than all GPUs may
///             hold, or sequence `position` needs more memory than any group has, or no plan has
///             room for all, or the search gave up before it found one (the sentence says which); out_of_range:
///             sequence `position` has a length outside [0, longest_sample], or no cost, or the
///             costs do not fit 61 bits, or most_per_gpu is negative, or groups of attention are
///             to stay whole and heads are no multiple of kv_heads, or what stays together has
///             more than longest_sample tokens. The plan is then unspecified.
/// Complexity  O(n (degrees + log groups) + GPUs log GPUs) for each of ten to thirty greedy
///             plans, and a search of a limited number of steps.
/// Source      hybrid sharding is that of "FlexRL", whose own method, sequences in descending order
///             to the least loaded GPU, is longest_processing_time with lengths as costs; the
///             search is ours.
[[nodiscard]] inline result<void> hybrid_sharding_into(sharding_plan& plan, workspace& memory,
                                                       std::span<tokens const> lengths,
                                                       device_groups const& groups,
                                                       sharding_cost const& cost,
                                                       tokens most_per_gpu = no_limit,
                                                       std::span<std::int64_t const> together = {})
{
  BALLAST_EXPECTS(together.empty() || together.size() == lengths.size(), "numbers of ",
                  detail::counted(together.size(), "sequence"), " that stay together for ",
                  detail::counted(lengths.size(), "sequence"));
  BALLAST_EXPECTS(cost.heads >= 1, "sequences were to be split by 0 heads");
  if (cost.whole_groups && (cost.kv_heads == 0 || cost.heads % cost.kv_heads != 0)) {
    return fail(error_code::out_of_range, 0, "groups of ",
                detail::counted(cost.heads, "query head"), " and ",
                detail::counted(cost.kv_heads, "key-value head"),
                " cannot stay whole, since the first are no multiple of the second; "
                "correct the heads, or do without whole_groups");
  }
  if (auto checked = detail::check_shard_lengths(lengths, groups, most_per_gpu); !checked) {
    return checked;
  }
  auto scratch = memory.open();
  detail::shard_problem const each =
      detail::make_shard_problem(lengths, groups, cost, most_per_gpu, scratch);
  if (auto checked = detail::check_shard_times(each, groups, cost); !checked) { return checked; }
  std::span<std::uint32_t> const unit = scratch.take<std::uint32_t>(together.size());
  std::size_t const units = detail::number_units(together, unit, scratch);
  if (auto checked = detail::check_units(each, unit, scratch); !checked) { return checked; }
  detail::shard_problem const problem =
      together.empty() ? each : detail::join_sequences(each, unit, units, scratch);
  // The first sequence of what the search numbers.
  auto const sequence_of = [&](std::uint32_t found) {
    auto const first = std::find(unit.begin(), unit.end(), found);
    return together.empty() ? found : static_cast<std::uint32_t>(first - unit.begin());
  };
  for (std::uint32_t own = 0; own < units; ++own) {
    std::size_t at = 0;
    while (at < problem.classes.size() && problem.time(own, at) == no_cost) { ++at; }
    if (at < problem.classes.size()) { continue; }
    return fail(error_code::infeasible, sequence_of(own), "sequence ", sequence_of(own),
                " and those that stay together with it, of ",
                detail::counted(problem.lengths[own], "token"),
                ", fit no group of GPUs of which each may hold ",
                detail::counted(most_per_gpu, "token"),
                "; allow more tokens per GPU or larger groups, or let fewer of them");
  }
  if (auto checked = detail::check_shard_room(problem); !checked) { return checked; }
  plan.lower_bound = detail::shard_lower_bound(problem, scratch);
  detail::shard_search search(problem, plan.lower_bound, scratch);
  auto const stranded =
      search.run(detail::work_budget(detail::shard_steps(lengths.size(), groups.size())));
  if (detail::cancel_scope::is_cancelled()) { return detail::cancelled(); }
  if (stranded && search.all_tried()) {
    return fail(error_code::infeasible, sequence_of(*stranded), "no plan of ",
                detail::counted(lengths.size(), "sequence"),
                " has room for all where each GPU may hold ",
                detail::counted(most_per_gpu, "token"),
                "; allow more tokens per GPU, or compute fewer sequences in a step");
  }
  if (stranded) {
    return fail(error_code::infeasible, sequence_of(*stranded), "sequence ", sequence_of(*stranded),
                " of ", detail::counted(problem.lengths[*stranded], "token"),
                " found no group with room beside the others, where each GPU may hold ",
                detail::counted(most_per_gpu, "token"),
                ", and the search gave up; allow more tokens per GPU, or compute fewer sequences "
                "in a step");
  }
  plan.lengths.assign(lengths.begin(), lengths.end());
  plan.owner.resize(lengths.size());
  for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
    std::size_t const own = together.empty() ? sample : unit[sample];
    plan.owner[sample] = to_id<group_id>(search.owner()[own]);
  }
  detail::describe_shards(plan, each, groups);
  return {};
}

/// The same, once: returns a new plan.
[[nodiscard]] inline result<sharding_plan> hybrid_sharding(
    std::span<tokens const> lengths, device_groups const& groups, sharding_cost const& cost,
    tokens most_per_gpu = no_limit, std::span<std::int64_t const> together = {})
{
  sharding_plan plan;
  workspace memory;
  auto const done =
      hybrid_sharding_into(plan, memory, lengths, groups, cost, most_per_gpu, together);
  if (!done) { return tl::unexpected(done.error()); }
  return plan;
}

}  // namespace ballast::inline v0
