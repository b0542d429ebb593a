// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_BOUNDS_CHEAPEST_COVER_HPP
#define BALLAST_PARTITION_DETAIL_BOUNDS_CHEAPEST_COVER_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// The least work that samples of some total weight can have: of those with the least work per
/// weight, the last one in part.
///
/// Expects     weights; arrays live as long as the frame.
/// Ensures     (1) samples of at least `weight` have together no less work than `work_of(weight)`
/// Complexity  construction O(n log n), `work_of` O(log n); 20 n bytes of scratch.
/// Source      the linear relaxation of a knapsack, G. B. Dantzig, "Discrete-Variable Extremum
///             Problems", Operations Research 5(2):266-288, 1957.
class cheapest_cover {
 public:
  cheapest_cover(partition_problem const& problem, workspace::frame& scratch)
      : problem_(problem), order_(scratch.take<std::uint32_t>(problem.weights.size()))
  {
    std::size_t weighty = 0;
    for (std::size_t sample = 0; sample < order_.size(); ++sample) {
      if (problem.weights[sample] > 0) { order_[weighty++] = static_cast<std::uint32_t>(sample); }
    }
    order_ = order_.first(weighty);
    std::sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
      auto const cross = [&](std::uint32_t x, std::uint32_t y) {
        return uint128{unsigned_of(problem.costs[x])} * unsigned_of(problem.weights[y]);
      };
      return precedes(cross(a, b), cross(b, a), a, b);
    });
    weight_before_ = scratch.take<std::int64_t>(weighty + 1);
    cost_before_ = scratch.take<cost_units>(weighty + 1);
    weight_before_[0] = 0;
    cost_before_[0] = 0;
    for (std::size_t place = 0; place < weighty; ++place) {
      weight_before_[place + 1] = weight_before_[place] + problem.weights[order_[place]];
      cost_before_[place + 1] = cost_before_[place] + problem.costs[order_[place]];
    }
  }

  /// The samples that weigh anything, by work per weight, the cheapest first.
  [[nodiscard]] std::span<std::uint32_t const> order() const noexcept { return order_; }

  [[nodiscard]] std::int64_t all_weight() const noexcept { return weight_before_.back(); }

  /// Expects weight >= 0; of more weight than there is, it is the work of all.
  [[nodiscard]] cost_units work_of(std::int64_t weight) const noexcept
  {
    BALLAST_EXPECTS(weight >= 0);
    auto const first = std::upper_bound(weight_before_.begin(), weight_before_.end(), weight) - 1;
    auto const whole = static_cast<std::size_t>(first - weight_before_.begin());
    if (whole == order_.size()) { return cost_before_[whole]; }
    std::uint32_t const last = order_[whole];
    uint128 const part =
        uint128{unsigned_of(weight - weight_before_[whole])} * unsigned_of(problem_.costs[last]);
    std::uint64_t const by = unsigned_of(problem_.weights[last]);
    return cost_before_[whole] + static_cast<cost_units>((part + by - 1) / by);
  }

 private:
  [[nodiscard]] static constexpr std::uint64_t unsigned_of(std::int64_t value) noexcept
  {
    return static_cast<std::uint64_t>(value);
  }

  partition_problem problem_;
  std::span<std::uint32_t> order_;
  std::span<std::int64_t> weight_before_;  // of the first k in order
  std::span<cost_units> cost_before_;
};

/// The bags by capacity per speed, those first that hold much for how fast they are, and for every
/// number of them the least work that they do: the others hold their capacities at most.
///
/// Expects     weights and capacities; arrays live as long as the frame.
/// Ensures     (1) the first k bags of `order` do at least work[k] in every plan that keeps to the
///                 capacities, and their speeds add up to speed[k]
/// Complexity  O(m log m + m log n); 20 m bytes of scratch.
struct crowded_bags {
  std::span<std::uint32_t> order;
  std::span<cost_units> work;      // [m + 1]
  std::span<std::int64_t> weight;  // [m + 1]: what they hold at least
  std::span<std::int64_t> speed;   // [m + 1]

  crowded_bags(partition_problem const& problem, cheapest_cover const& cover,
               workspace::frame& scratch)
      : order(scratch.take<std::uint32_t>(problem.capacities.size())),
        work(scratch.take<cost_units>(order.size() + 1)),
        weight(scratch.take<std::int64_t>(order.size() + 1)),
        speed(scratch.take<std::int64_t>(order.size() + 1))
  {
    uint128 elsewhere = 0;
    for (std::size_t bag = 0; bag < order.size(); ++bag) {
      order[bag] = static_cast<std::uint32_t>(bag);
      elsewhere += static_cast<std::uint64_t>(problem.capacities[bag]);
    }
    std::sort(order.begin(), order.end(), [&problem](std::uint32_t a, std::uint32_t b) {
      auto const cross = [&problem](std::uint32_t x, std::uint32_t y) {
        return uint128{static_cast<std::uint64_t>(problem.capacities[x])} * problem.speeds[y];
      };
      return precedes(cross(b, a), cross(a, b), a, b);
    });
    work[0] = 0;
    weight[0] = 0;
    speed[0] = 0;
    auto const all = static_cast<std::uint64_t>(cover.all_weight());
    for (std::size_t taken = 0; taken < order.size(); ++taken) {
      elsewhere -= static_cast<std::uint64_t>(problem.capacities[order[taken]]);
      weight[taken + 1] = elsewhere < all ? static_cast<std::int64_t>(all - elsewhere) : 0;
      work[taken + 1] = cover.work_of(weight[taken + 1]);
      speed[taken + 1] = speed[taken] + problem.speeds[order[taken]];
    }
  }
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_BOUNDS_CHEAPEST_COVER_HPP
