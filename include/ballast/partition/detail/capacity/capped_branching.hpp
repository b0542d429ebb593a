// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_CAPACITY_CAPPED_BRANCHING_HPP
#define BALLAST_PARTITION_DETAIL_CAPACITY_CAPPED_BRANCHING_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/bounds/work_limits.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

namespace ballast::inline v0::detail {

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

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_CAPACITY_CAPPED_BRANCHING_HPP
