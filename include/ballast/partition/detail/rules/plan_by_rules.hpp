// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/detail/rules/ruled_bags.hpp>
#include <ballast/partition/makespan_lower_bound.hpp>
#include <ballast/partition/partition_plan.hpp>

namespace ballast::inline v0::detail {

/// Moves and swaps of samples that the rules of a plan admit. It keeps a reference to the plan.
///
/// Complexity  a step of descend(): O(m log m + k^2) for each partner with bags of k samples; 4 m
///             bytes of scratch.
class ruled_exchanges {
 public:
  ruled_exchanges(ruled_bags& bags, workspace::frame& scratch)
      : bags_(bags), by_finish_(scratch.take<std::uint32_t>(bags.bags()))
  {}

  [[nodiscard]] std::size_t latest() const
  {
    std::size_t late = 0;
    for (std::size_t bag = 1; bag < bags_.bags(); ++bag) {
      if (bags_.finish(bag) > bags_.finish(late)) { late = bag; }
    }
    return late;
  }

  /// Swaps two samples where the rules admit it.
  void swap(std::size_t one, std::size_t other)
  {
    std::size_t const from = bags_.owner(one);
    std::size_t const to = bags_.owner(other);
    if (from == to || !bags_.admits(one, to, other) || !bags_.admits(other, from, one)) { return; }
    move(one, to, other);
  }

  /// Relieves the latest bag until none ends after the bound, nothing helps or the work is spent.
  void descend(ratio bound, work_budget& work)
  {
    std::size_t late = latest();
    while (bags_.finish(late) > bound && !work.spent() && relieve(late, work)) { late = latest(); }
  }

 private:
  void move(std::size_t sample, std::size_t to, std::size_t other)
  {
    std::size_t const from = bags_.owner(sample);
    bags_.take(sample);
    if (other != ruled_bags::none) {
      bags_.take(other);
      bags_.put(other, from);
    }
    bags_.put(sample, to);
  }

  /// Makes the move or the swap after which these two bags finish earliest, if that is earlier.
  bool relieve(std::size_t late, std::size_t early, work_budget& work)
  {
    ratio least = bags_.finish(late);
    std::size_t sample = ruled_bags::none;
    std::size_t other = ruled_bags::none;
    auto const consider = [&](std::size_t one, std::size_t back) {
      work.spend(1);
      cost_units const net = bags_.cost(one) - (back == ruled_bags::none ? 0 : bags_.cost(back));
      ratio const then = std::max(bags_.finish(late, -net), bags_.finish(early, net));
      if (!(then < least) || !bags_.admits(one, early, back) ||
          (back != ruled_bags::none && !bags_.admits(back, late, one))) {
        return;
      }
      least = then;
      sample = one;
      other = back;
    };
    for (std::size_t one = bags_.first(late); one != ruled_bags::none; one = bags_.next(one)) {
      consider(one, ruled_bags::none);
      for (std::size_t back = bags_.first(early); back != ruled_bags::none;
           back = bags_.next(back)) {
        consider(one, back);
      }
    }
    if (sample == ruled_bags::none) { return false; }
    move(sample, early, other);
    return true;
  }

  bool relieve(std::size_t late, work_budget& work)
  {
    for (std::size_t bag = 0; bag < by_finish_.size(); ++bag) {
      by_finish_[bag] = static_cast<std::uint32_t>(bag);
    }
    work.spend(by_finish_.size());
    std::sort(by_finish_.begin(), by_finish_.end(), [this](std::uint32_t a, std::uint32_t b) {
      return precedes(bags_.finish(a), bags_.finish(b), a, b);
    });
    return std::any_of(by_finish_.begin(), by_finish_.end(), [&](std::uint32_t early) {
      return early != late && !work.spent() && relieve(late, early, work);
    });
  }

  ruled_bags& bags_;
  std::span<std::uint32_t> by_finish_;
};

/// Searches plans that keep placement rules and capacities: first all, heaviest sample first, each
/// in the bags that finish it earliest first; of large steps only the first plan on that way. Where
/// that finds none, those that are hardest to place go first, each to the bag with the fewest
/// samples, which always keeps counts and samples that are apart, where bags hold everything. Then
/// the latest bag moves a sample, or swaps it for one, and after random swaps again.
///
/// In, out     loads and owner, as a policy takes them.
/// Ensures     (1) a plan that it finds keeps the rules and the capacities
///             (2) `tried_all`: no plan is shorter than the one found, or none keeps the rules
/// Complexity  O(n m + work); 60 n + 50 m bytes of scratch.
class rule_search {
 public:
  rule_search(partition_problem const& problem, ratio bound, std::span<cost_units> loads,
              std::span<bag_id> owner, std::uint64_t work, workspace::frame& scratch)
      : problem_(problem),
        bound_(bound),
        bags_(problem, loads, owner, scratch),
        exchanges_(bags_, scratch),
        work_(work),
        order_(scratch.take<std::uint32_t>(owner.size())),
        twin_(scratch.take<std::size_t>(loads.size())),
        best_(scratch.take<std::uint32_t>(owner.size()))
  {
    for (std::size_t bag = 0; bag < twin_.size(); ++bag) {
      std::size_t other = bag;
      while (other > 0 && !are_alike(other - 1, bag)) { --other; }
      twin_[bag] = other == 0 ? ruled_bags::none : other - 1;
    }
  }

  /// Returns whether it found a plan.
  bool operator()()
  {
    if (is_too_heavy()) {
      tried_all_ = true;
      return false;
    }
    bool const is_small = bags_.samples() <= most_samples;
    std::transform(
        problem_.heaviest_first.begin(), problem_.heaviest_first.end(), order_.begin(),
        [](priced_sample each) { return static_cast<std::uint32_t>(to_index(each.sample)); });
    fill(is_small, false);
    if (!found_ && !tried_all_) {
      order_by_difficulty();
      fill(false, true);
    }
    if (!found_) { return false; }
    go_back();
    if (!tried_all_) { settle(); }
    return true;
  }

  /// Whether the samples weigh more than the bags hold, all together or one by itself.
  [[nodiscard]] bool is_too_heavy() const
  {
    if (problem_.rules->cap_is_soft) { return false; }
    auto left = std::reduce(problem_.weights.begin(), problem_.weights.end(), std::int64_t{0});
    for (std::int64_t const capacity : problem_.capacities) { left -= std::min(left, capacity); }
    if (left > 0) { return true; }
    for (std::size_t sample = 0; sample < bags_.samples(); ++sample) {
      if (!bags_.finds_room(sample)) { return true; }
    }
    return false;
  }

  [[nodiscard]] bool tried_all() const noexcept { return tried_all_; }

 private:
  static constexpr std::size_t most_samples = 24;  // of a step of which all plans are tried
  static constexpr int most_failures = 16;         // of random swaps in a row

  [[nodiscard]] bool are_alike(std::size_t a, std::size_t b) const
  {
    return problem_.gpus[a] == problem_.gpus[b] && problem_.speeds[a] == problem_.speeds[b] &&
           bags_.finish(a) == bags_.finish(b) &&
           (problem_.capacities.empty() || problem_.capacities[a] == problem_.capacities[b]);
  }

  void order_by_difficulty()
  {
    auto const& rules = *problem_.rules;
    auto const group_of = [&rules](std::size_t sample) -> std::size_t {
      bool const has =
          !rules.first_group.empty() && rules.first_group[sample] < rules.first_group[sample + 1];
      return has ? rules.groups[rules.first_group[sample]] : ruled_bags::none;
    };
    auto const members = [&rules](std::size_t group) {
      return group == ruled_bags::none ? std::uint32_t{0}
                                       : rules.first_member[group + 1] - rules.first_member[group];
    };
    auto const weight = [this](std::size_t sample) {
      return problem_.weights.empty() ? 0 : problem_.weights[sample];
    };
    std::sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
      std::size_t const left = group_of(a);
      std::size_t const right = group_of(b);
      return precedes(bags_.stands_alone(b), bags_.stands_alone(a), bags_.size_of(b),
                      bags_.size_of(a), members(right), members(left), left, right, weight(b),
                      weight(a), a, b);
    });
  }

  /// The bag to try after this one, or none.
  [[nodiscard]] std::size_t bag_after(std::size_t after, std::size_t sample, bool fewest_first)
  {
    work_.spend(bags_.bags());
    cost_units const cost = bags_.cost(sample);
    auto const is_before = [&](std::size_t a, std::size_t b) {
      std::int64_t const in_a = fewest_first ? bags_.samples_in(a) : 0;
      std::int64_t const in_b = fewest_first ? bags_.samples_in(b) : 0;
      return precedes(in_a, in_b, bags_.finish(a, cost), bags_.finish(b, cost), a, b);
    };
    std::size_t chosen = ruled_bags::none;
    for (std::size_t bag = 0; bag < bags_.bags(); ++bag) {
      bool const is_repeated =
          bags_.is_empty(bag) && twin_[bag] != ruled_bags::none && bags_.is_empty(twin_[bag]);
      if (is_repeated || (after != ruled_bags::none && !is_before(after, bag)) ||
          (chosen != ruled_bags::none && !is_before(bag, chosen)) ||
          (found_ && bags_.finish(bag, cost) >= makespan_) || !bags_.admits(sample, bag)) {
        continue;
      }
      chosen = bag;
    }
    return chosen;
  }

  /// Tries all plans in the order of samples, or those up to the first that is one. It leaves the
  /// bags empty.
  void fill(bool all, bool fewest_first)
  {
    std::uint64_t const kept = work_.left() / 2;  // for what comes after
    work_ = work_budget(work_.left() + bags_.samples() * bags_.bags());
    std::size_t depth = 0;
    std::size_t after = ruled_bags::none;
    for (;;) {
      bool const is_plan = depth == bags_.samples();
      if (is_plan) { keep(); }
      bool const is_end = is_plan && (!all || makespan_ <= bound_);
      std::size_t const bag = is_plan || work_.left() <= kept
                                  ? ruled_bags::none
                                  : bag_after(after, order_[depth], fewest_first);
      if (bag != ruled_bags::none) {
        bags_.put(order_[depth++], bag);
        after = ruled_bags::none;
        continue;
      }
      if (is_end || work_.left() <= kept) {
        while (depth > 0) { bags_.take(order_[--depth]); }
        tried_all_ = found_ && makespan_ <= bound_;
        return;
      }
      if (depth == 0) {
        tried_all_ = true;
        return;
      }
      after = bags_.owner(order_[--depth]);
      bags_.take(order_[depth]);
    }
  }

  void keep()
  {
    ratio const made = bags_.finish(exchanges_.latest());
    if (found_ && made >= makespan_) { return; }
    found_ = true;
    makespan_ = made;
    for (std::size_t sample = 0; sample < best_.size(); ++sample) {
      best_[sample] = static_cast<std::uint32_t>(bags_.owner(sample));
    }
  }

  void go_back()
  {
    for (std::size_t sample = 0; sample < best_.size(); ++sample) {
      if (bags_.owner(sample) == best_[sample]) { continue; }
      if (bags_.owner(sample) != bags_.bags()) { bags_.take(sample); }
      bags_.put(sample, best_[sample]);
    }
  }

  void descend()
  {
    exchanges_.descend(bound_, work_);
    keep();
  }

  void settle()
  {
    descend();
    random_source random(bags_.samples());
    for (int failures = 0; failures < most_failures && makespan_ > bound_ && !work_.spent();
         ++failures) {
      go_back();
      ratio const before = makespan_;
      work_.spend(bags_.samples());
      for (int swaps = 0; swaps < 3; ++swaps) {
        std::size_t const one = random.below(bags_.samples());
        std::size_t const other = random.below(bags_.samples());
        exchanges_.swap(one, other);
      }
      descend();
      if (makespan_ < before) { failures = 0; }
    }
    go_back();
  }

  partition_problem const& problem_;
  ratio bound_;
  ruled_bags bags_;
  ruled_exchanges exchanges_;
  work_budget work_;
  std::span<std::uint32_t> order_;
  std::span<std::size_t> twin_;  // an earlier bag that is the same while both are empty, or none
  std::span<std::uint32_t> best_;
  ratio makespan_;
  bool found_ = false;
  bool tried_all_ = false;
};

/// A makespan that no plan with at most so many samples a bag gets below. The other bags hold at
/// most their number each, so the j bags with the j heaviest samples hold at least the rest, at best
/// the lightest, and one of them ends at the mean or later. 0 where samples are joined. O(n + m)
[[nodiscard]] inline ratio bound_by_counts(partition_problem const& problem)
{
  auto const samples = static_cast<std::int64_t>(problem.heaviest_first.size());
  auto const bags = static_cast<std::int64_t>(problem.speeds.size());
  std::int64_t const most = problem.rules->most_samples;
  if (!problem.rules->sample_counts.empty() || most > samples) { return {}; }
  std::int64_t const fastest = *std::max_element(problem.speeds.begin(), problem.speeds.end());
  auto const cost = [&problem](std::int64_t place) {
    return problem.heaviest_first[static_cast<std::size_t>(place)].cost;
  };
  ratio bound;
  cost_units work = 0;
  std::int64_t lightest = 0;
  for (std::int64_t used = 1; used <= std::min(bags, samples); ++used) {
    work += cost(used - 1);
    while (lightest < samples - (bags - used) * most - used) { work += cost(samples - ++lightest); }
    bound = std::max(bound, ratio{work, used * fastest});
  }
  return bound;
}

/// What `refine` and `capped` do where there are rules. A step without a plan keeps bag m as the
/// owner of all samples.
inline ratio plan_by_rules(partition_problem const& problem, std::span<cost_units> loads,
                           std::span<bag_id> owner, std::uint64_t work, workspace& memory)
{
  ratio const bound =
      std::max(with_lower_bound(problem, loads, memory).lower_bound, bound_by_counts(problem));
  auto scratch = memory.open();
  rule_search search(problem, bound, loads, owner, work, scratch);
  bool const found = search();
  return found && search.tried_all() ? makespan_of(loads, problem.speeds) : bound;
}

}  // namespace ballast::inline v0::detail
