// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/concepts.hpp>

#include <functional>

namespace ballast::inline v0::detail {

/// The most work with which a bag of this speed finishes by `time`, or the largest load there is.
[[nodiscard]] constexpr cost_units work_until(ratio time, std::uint32_t speed) noexcept
{
  // As where all bags are equally fast: a search asks for every pair of them, and divisions are
  // dear.
  if (time.denominator == speed) { return std::min(time.numerator, no_cost - 1); }
  uint128 const work = static_cast<uint128>(static_cast<std::uint64_t>(time.numerator)) * speed /
                       static_cast<std::uint64_t>(time.denominator);
  return static_cast<cost_units>(std::min(work, static_cast<uint128>(no_cost - 1)));
}

/// The same up to so many millionths later, or no_cost.
[[nodiscard]] constexpr cost_units work_within(ratio time, std::uint32_t per_million,
                                               std::uint32_t speed) noexcept
{
  // Below 2^128: the factors are below 2^63, 2^33 and 2^32.
  uint128 const product = uint128{static_cast<std::uint64_t>(time.numerator)} *
                          (std::uint64_t{1'000'000} + per_million) * speed;
  uint128 const all = product / static_cast<std::uint64_t>(time.denominator) / 1'000'000U;
  return static_cast<cost_units>(std::min(all, static_cast<uint128>(no_cost)));
}

/// The most work with which a bag of this speed finishes before `time`; -1 where it cannot, even
/// without work.
[[nodiscard]] constexpr cost_units work_before(ratio time, std::uint32_t speed) noexcept
{
  cost_units const work = work_until(time, speed);
  return ratio{work, speed} < time ? work : work - 1;
}

/// The mean over some bags of one speed, the denominator, rounded up: one does so many whole units.
[[nodiscard]] constexpr ratio whole_units_per_bag(ratio mean, std::uint32_t speed) noexcept
{
  std::int64_t const bags = mean.denominator / speed;
  return {mean.numerator / bags + (mean.numerator % bags != 0 ? 1 : 0), speed};
}

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
      : order(scratch.take<std::uint32_t>(problem.most.size())),
        work(scratch.take<cost_units>(order.size() + 1)),
        weight(scratch.take<std::int64_t>(order.size() + 1)),
        speed(scratch.take<std::int64_t>(order.size() + 1))
  {
    uint128 elsewhere = 0;
    for (std::size_t bag = 0; bag < order.size(); ++bag) {
      order[bag] = static_cast<std::uint32_t>(bag);
      elsewhere += static_cast<std::uint64_t>(problem.most[bag]);
    }
    std::sort(order.begin(), order.end(), [&problem](std::uint32_t a, std::uint32_t b) {
      auto const cross = [&problem](std::uint32_t x, std::uint32_t y) {
        return uint128{static_cast<std::uint64_t>(problem.most[x])} * problem.speeds[y];
      };
      return precedes(cross(b, a), cross(a, b), a, b);
    });
    work[0] = 0;
    weight[0] = 0;
    speed[0] = 0;
    auto const all = static_cast<std::uint64_t>(cover.all_weight());
    for (std::size_t taken = 0; taken < order.size(); ++taken) {
      elsewhere -= static_cast<std::uint64_t>(problem.most[order[taken]]);
      weight[taken + 1] = elsewhere < all ? static_cast<std::int64_t>(all - elsewhere) : 0;
      work[taken + 1] = cover.work_of(weight[taken + 1]);
      speed[taken + 1] = speed[taken] + problem.speeds[order[taken]];
    }
  }
};

/// What samples cost that are listed with their costs, or as these alone.
[[nodiscard]] constexpr cost_units cost_of(priced_sample each) noexcept
{
  return each.cost;
}
[[nodiscard]] constexpr cost_units cost_of(cost_units each) noexcept
{
  return each;
}

/// Calls exceeds(sum, unit) for numbers of bags, sum / unit, that no packing of these costs into
/// bags of this room gets below, until it returns true. Returns whether it did.
///
/// A function u of [0, 1] is dual feasible when sizes that add up to at most 1 keep doing so after
/// u, so that the sum of u(cost / room) is a number of bags that no packing gets below. Tried are
///   U^e       sizes above 1 - e count as 1, those below e as 0, for every size e up to 1/2,
///   u^k o U^e for k = 2 to `degree`, where u^k(x) is x if (k + 1) x is an integer, and otherwise
///             floor((k + 1) x) / k: it rounds up what is little above a multiple of 1 / (k + 1),
///             so that of samples heavier than that at most k fit a bag.
/// With degree 1 this is bound L2 of Martello and Toth.
///
/// Expects     costs do not increase, are not negative and at most room, which is above 0 where one
///             is; 1 <= degree <= 16.
/// Complexity  O(n degree), without scratch.
/// Source      S. P. Fekete, J. Schepers, "New Classes of Fast Lower Bounds for Bin Packing
///             Problems", Mathematical Programming 91(1):11-31, 2001; S. Martello, P. Toth, "Lower
///             Bounds and Reduction Procedures for the Bin Packing Problem", Discrete Applied
///             Mathematics 28(1):59-70, 1990.
template <class Sample, class Exceeds>
bool any_dual_feasible_sum(std::span<Sample const> samples, cost_units room, unsigned degree,
                           Exceeds const& exceeds)
{
  auto const cost = [samples](std::size_t at) { return cost_of(samples[at]); };
  std::size_t large = 0;  // above half the room: one to a bag
  while (large < samples.size() && cost(large) > room / 2) { ++large; }
  if (exceeds(uint128{large}, uint128{1})) { return true; }

  auto const whole = static_cast<uint128>(room);
  for (unsigned k = 1; k <= degree; ++k) {
    // Sizes in units of 1 / (k room).
    auto const rounded = [&](cost_units amount) {
      auto const size = static_cast<uint128>(amount);
      if (k == 1) { return size; }
      unsigned multiple = 0;
      while ((multiple + 1) * whole <= (k + 1) * size) { ++multiple; }
      return multiple * whole == (k + 1) * size ? k * size : multiple * whole;
    };
    // As e falls from 1/2, fewer of the large sizes count as 1 and more of the small ones count.
    std::size_t alone = large;
    uint128 others = 0;
    for (std::size_t last = large; last < samples.size() && cost(last) > 0; ++last) {
      cost_units const least = cost(last);
      others += rounded(least);
      if (last + 1 < samples.size() && cost(last + 1) == least) { continue; }
      while (alone > 0 && cost(alone - 1) <= room - least) { others += rounded(cost(--alone)); }
      if (exceeds(k * whole * alone + others, k * whole)) { return true; }
    }
  }
  return false;
}

/// Whether that proves that these samples do not fit into so many bags of this room.
/// Expects     costs do not increase and are not negative; room >= 0; 1 <= degree <= 16.
/// Ensures     (1) true only if no assignment to `bags` bags keeps all loads within `room`
template <class Sample>
[[nodiscard]] bool cannot_pack(std::span<Sample const> samples, cost_units room, std::size_t bags,
                               unsigned degree) noexcept
{
  if (samples.empty() || cost_of(samples.front()) == 0) { return false; }
  if (cost_of(samples.front()) > room) { return true; }
  return any_dual_feasible_sum(samples, room, degree,
                               [bags](uint128 sum, uint128 unit) { return sum > unit * bags; });
}

/// The largest of these numbers, rounded up.
///
/// Expects     those of any_dual_feasible_sum.
/// Ensures     (1) no packing into bags of this room has fewer
[[nodiscard]] inline std::size_t least_bins(std::span<priced_sample const> heaviest_first,
                                            cost_units room, unsigned degree = 1)
{
  std::size_t bound = heaviest_first.empty() ? 0 : 1;
  any_dual_feasible_sum(heaviest_first, room, degree, [&bound](uint128 sum, uint128 unit) {
    if (sum > unit * bound) { bound = static_cast<std::size_t>((sum - 1) / unit) + 1; }
    return false;
  });
  return bound;
}

/// A makespan that no plan gets below whose bags keep to their capacities.
///
/// Take any q bags that hold the q samples of most work. The others hold no more than the m - q
/// largest capacities, so these q hold at least the weight that is left, W - C(m - q). What the q
/// samples themselves do not weigh of it, other samples do, and those of least work per weight at
/// best. So the q bags do at least the work of the q samples and of these others, and one of them
/// at least the mean. The bound is the largest over q.
///
/// It matters where cost grows faster than length: without capacities, the bag of a long sample
/// could hold nothing else, but within them it has to.
///
/// Any bags, too, hold the weight that the others cannot, at least in the samples of least work per
/// weight, and one of them does at least the mean per speed. The most is asked of bags with large
/// capacities for their speeds, so the bound looks at the first q in that order, for every q. It
/// matters where GPUs differ in speed but not in memory: slow ones have to hold their share.
///
/// Expects     a valid partition_problem with weights and capacities; bags start empty.
/// Ensures     (1) no assignment that keeps to the capacities has a smaller makespan
/// Complexity  O(n log n + m log (n m)); 20 n + 40 m bytes of scratch.
/// Source      the cover is the linear relaxation of a knapsack, see `cheapest_cover`.
[[nodiscard]] inline ratio capacity_bound(partition_problem const& problem, workspace& memory)
{
  std::size_t const samples = problem.costs.size();
  std::size_t const bags = problem.most.size();
  BALLAST_EXPECTS(bags >= 1, "there are no capacities");
  BALLAST_EXPECTS(problem.weights.size() == samples, "there are weights of ",
                  counted(problem.weights.size(), "sample"), " for a problem of ", samples);
  auto scratch = memory.open();
  cheapest_cover const cover(problem, scratch);
  auto const unsigned_of = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };

  std::span<std::int64_t> const smallest_first = scratch.take<std::int64_t>(bags);
  std::span<std::uint32_t> const fastest_first = scratch.take<std::uint32_t>(bags);
  std::copy(problem.most.begin(), problem.most.end(), smallest_first.begin());
  std::copy(problem.speeds.begin(), problem.speeds.end(), fastest_first.begin());
  std::sort(smallest_first.begin(), smallest_first.end());
  std::sort(fastest_first.begin(), fastest_first.end(), std::greater{});
  uint128 elsewhere = 0;  // capacity of the bags that are not among the q
  for (std::int64_t const capacity : smallest_first) { elsewhere += unsigned_of(capacity); }

  ratio bound{0, fastest_first.front()};
  uint128 const all = unsigned_of(cover.all_weight());
  uint128 heaviest_weigh = 0;
  cost_units work = 0;
  std::int64_t speed = 0;
  for (std::size_t taken = 0; taken < std::min(samples, bags); ++taken) {
    auto const [cost, sample] = problem.heaviest_first[taken];
    work += cost;
    heaviest_weigh += unsigned_of(problem.weights[to_index(sample)]);
    speed += fastest_first[taken];
    elsewhere -= unsigned_of(smallest_first[taken]);
    uint128 const placed = elsewhere + heaviest_weigh;
    cost_units const more =
        placed < all ? cover.work_of(static_cast<std::int64_t>(all - placed)) : cost_units{0};
    // All other samples together are a cover too, so this is at most all work and fits.
    bound = std::max(bound, ratio{work + more, speed});
  }
  crowded_bags const crowded(problem, cover, scratch);
  for (std::size_t taken = 1; taken <= bags; ++taken) {
    bound = std::max(bound, ratio{crowded.work[taken], crowded.speed[taken]});
  }
  bool const one_speed = fastest_first.front() == fastest_first.back();
  return one_speed ? whole_units_per_bag(bound, fastest_first.front()) : bound;
}

}  // namespace ballast::inline v0::detail
