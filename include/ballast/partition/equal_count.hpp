// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_EQUAL_COUNT_HPP
#define BALLAST_PARTITION_EQUAL_COUNT_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/bounds/work_limits.hpp>
#include <ballast/partition/detail/counts/balanced_counts.hpp>
#include <ballast/partition/detail/counts/counted_bags.hpp>
#include <ballast/partition/detail/counts/counted_exchanges.hpp>
#include <ballast/partition/detail/exchange/nearest_swap.hpp>
#include <ballast/partition/detail/exchange/settle_latest.hpp>
#include <ballast/partition/detail/exchange/swap_extremes.hpp>
#include <ballast/partition/detail/exchange/swap_with_earliest.hpp>
#include <ballast/partition/detail/policy_arrays.hpp>
#include <ballast/partition/makespan.hpp>
#include <ballast/partition/priced_sample.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace ballast::inline v0 {

namespace detail {

/// A makespan that no plan gets below whose bags hold these numbers of samples, in any order.
///
/// Take the t heaviest samples, t = i m + j with 1 <= j <= m. The j bags that hold most of them
/// hold at least j (i + 1) of them, by pigeonhole, and at least as many samples as the j smallest
/// counts together. So they do at least the work of the j (i + 1) lightest of those t samples and
/// of the lightest samples for their other places, and one of them finishes at the mean or later.
/// The bound is the largest over t. For t = 1 it is the heaviest sample together with the lightest
/// ones, for t = n the mean load. And the q slowest bags hold at least as many samples as the q
/// smallest counts together, at best the lightest of all, for every q.
///
/// Shapes      counts[m].
/// Expects     a valid partition_problem; counts add up to n; bags start empty.
/// Ensures     (1) no assignment with these counts has a smaller makespan
/// Complexity  O(n + m log m); 8 n + 16 m bytes of scratch.
[[nodiscard]] inline ratio equal_count_bound(partition_problem const& problem,
                                             std::span<std::uint32_t const> counts,
                                             workspace& memory)
{
  std::size_t const samples = problem.heaviest_first.size();
  std::size_t const bags = counts.size();
  BALLAST_EXPECTS(bags >= 1 && problem.speeds.size() == bags);
  auto scratch = memory.open();
  std::span<std::uint32_t> const fewest_first = scratch.take<std::uint32_t>(bags);
  std::span<std::uint32_t> const fastest_first = scratch.take<std::uint32_t>(bags);
  std::copy(counts.begin(), counts.end(), fewest_first.begin());
  std::copy(problem.speeds.begin(), problem.speeds.end(), fastest_first.begin());
  std::sort(fewest_first.begin(), fewest_first.end());
  std::sort(fastest_first.begin(), fastest_first.end(), std::greater{});
  std::span<cost_units> const before = scratch.take<cost_units>(samples + 1);
  before[0] = 0;
  for (std::size_t place = 0; place < samples; ++place) {
    before[place + 1] = before[place] + problem.heaviest_first[place].cost;
  }

  ratio bound{0, fastest_first.front()};
  for (std::size_t full = 0; full * bags < samples; ++full) {
    std::size_t places = 0;
    std::int64_t speed = 0;
    for (std::size_t used = 1; used <= std::min(bags, samples - full * bags); ++used) {
      std::size_t const heaviest = full * bags + used;
      std::size_t const crowded = used * (full + 1);
      places += fewest_first[used - 1];
      speed += fastest_first[used - 1];
      std::size_t const others = places - std::min(places, crowded);
      // Where the lightest samples reach into the t heaviest, more of these lie there anyway.
      bool const apart = others <= samples - heaviest;
      cost_units const crowd = before[heaviest] - before[heaviest - crowded];
      cost_units const work = apart ? crowd + (before[samples] - before[samples - others])
                                    : before[samples] - before[samples - places];
      bound = std::max(bound, ratio{work, speed});
    }
  }
  bool const one_speed = fastest_first.front() == fastest_first.back();
  std::size_t places = 0;
  std::int64_t speed = 0;
  for (std::size_t slowest = 0; slowest < bags && !one_speed; ++slowest) {
    places += fewest_first[slowest];
    speed += fastest_first[bags - 1 - slowest];
    bound = std::max(bound, ratio{before[samples] - before[samples - places], speed});
  }
  return one_speed ? whole_units_per_bag(bound, fastest_first.front()) : bound;
}

/// Makes an exchange of up to five samples of the latest bag for as many of another after which
/// both finish earlier than it did, with the first bag that has one. Returns whether one has.
inline bool exchange_few(counted_exchanges& plan, ratio limit)
{
  constexpr std::size_t few = 5;
  std::size_t const count = plan.loads().size();
  auto const finish = [&](std::size_t bag) { return ratio{plan.loads()[bag], plan.speed(bag)}; };
  std::size_t late = 0;
  for (std::size_t bag = 1; bag < count; ++bag) {
    if (finish(bag) > finish(late)) { late = bag; }
  }
  for (std::size_t early = 0; early < count && finish(late) > limit; ++early) {
    cost_units const most = work_before(finish(late), plan.speed(early)) - plan.loads()[early];
    if (early == late || most < 1 || plan.work().spent()) { continue; }
    cost_units const least = std::max<cost_units>(even_net(plan, late, early), 1);
    counted_exchange const found = plan.find(late, early, {least, least, most}, few);
    if (found.net > 0 && later_finish(plan, late, early, found.net) < finish(late)) {
      plan.make(found);
      return true;
    }
  }
  return false;
}

/// Descends, by single swaps and where there is none by exchanges of few samples, from what two
/// random swaps make of the best plan, over and over, until no bag finishes after `limit`, so many
/// steps are taken, or 8 (n + 12) descents in a row have not made the makespan smaller.
///
/// Ensures     (1) the makespan does not grow
inline void swap_at_random(counted_exchanges& plan, counted_bags const& bags,
                           std::span<std::uint32_t const> speeds, ratio limit, std::uint64_t steps,
                           workspace& memory)
{
  constexpr int random_swaps = 2;
  work_budget& work = plan.work();
  std::uint64_t const kept = work.left() - std::min(work.left(), steps);
  auto scratch = memory.open();
  std::span<priced_sample> const members = bags.members();
  std::span<priced_sample> const best_members = scratch.take<priced_sample>(members.size());
  std::span<cost_units> const best_loads = scratch.take<cost_units>(speeds.size());
  random_source random(members.size());
  std::size_t const patience = speeds.size() > 1 ? 8 * (members.size() + 12) : 0;
  for (std::size_t failures = 0; failures < patience && work.left() > kept; ++failures) {
    ratio const best = makespan_of(bags.loads(), speeds);
    if (best <= limit) { return; }
    std::copy(members.begin(), members.end(), best_members.begin());
    std::copy(bags.loads().begin(), bags.loads().end(), best_loads.begin());
    work.spend(members.size() + speeds.size());
    for (int swap = 0; swap < random_swaps; ++swap) { plan.make(plan.draw_swap(random)); }
    do {
      auto frame = memory.open();
      swap_with_earliest(plan, limit, frame);
    } while (exchange_few(plan, limit));
    ratio const now = makespan_of(bags.loads(), speeds);
    if (now < best) { failures = 0; }
    if (now > best) {
      std::copy(best_members.begin(), best_members.end(), members.begin());
      std::copy(best_loads.begin(), best_loads.end(), bags.loads().begin());
    }
  }
}

}  // namespace detail

/// The same number of samples in every bag, and with that a small makespan.
///
/// Trainers ask for it where all ranks take the same number of microbatches or samples, as in
/// reinforcement learning. Samples that stay together count as one.
///
/// Counts differ by at most `multiple`, and all but one are multiples of it. The larger counts go
/// to the faster bags; the rest that is no whole multiple goes to one bag. Bags of several sizes or
/// speeds get equal counts too; where too few samples are long enough for large bags, these get
/// fewer. Samples go heaviest first to the bag with a free place that finishes earliest; then bags
/// exchange samples, as many for as many, and again after random swaps as long as there is work.
///
/// Expects     multiple >= 1
/// Ensures     (1) every sample has one bag, which it fits
///             (2) loads have grown by exactly the costs of the samples each bag now owns
///             (3) where every sample fits every bag, counts differ by at most `multiple`; all but
///                 one are multiples of it
///             (4) no plan with these counts, in any order of bags, has a makespan below the one
///                 returned
///             (5) the makespan does not grow with `work`, which is a number of steps, not time:
///                 all ranks find the same plan
/// Complexity  O(n (sizes + log m)) and O(work), after the sort that the problem brings.
/// Source      the first plan: M. Dell'Amico, S. Martello, "Bounds for the Cardinality Constrained
///             P||Cmax Problem", J. Scheduling 4(3):123-138, 2001; exchanges:
///             `detail::find_exchange`.
struct equal_count {
  std::uint32_t multiple = 1;  ///< every count is a multiple of this
  /// How many samples and sums the exchanges look at.
  std::uint64_t work = std::uint64_t{1} << 17;

  ratio operator()(partition_problem const& problem, std::span<cost_units> loads,
                   std::span<bag_id> owner, workspace& memory) const
  {
    detail::expect_policy_arrays(problem, loads, owner);
    BALLAST_EXPECTS(multiple >= 1, "equal_count was told to make counts multiples of ", multiple);
    auto scratch = memory.open();
    std::span<std::uint32_t> const counts = scratch.take<std::uint32_t>(loads.size());
    detail::balanced_counts_into(counts, problem, loads, multiple, memory);
    ratio const bound = detail::equal_count_bound(problem, counts, memory);
    detail::counted_bags const bags(problem, counts, loads, scratch);
    detail::work_budget left(work);
    detail::counted_exchanges plan(problem, bags, left, memory);
    detail::swap_extremes(plan, bound, memory);
    detail::settle_latest settle(plan, bound, scratch, detail::settle_order::swaps_of_all_first);
    settle(false);
    detail::swap_at_random(plan, bags, problem.speeds, bound, first_swaps, memory);
    settle(true);
    detail::swap_at_random(plan, bags, problem.speeds, bound, left.left(), memory);
    bags.store(owner);
    return bound;
  }

  [[nodiscard]] static constexpr bool restricts() noexcept { return true; }
  /// What it restricts are the numbers of samples alone.
  [[nodiscard]] static constexpr bool keeps_counts() noexcept { return true; }

  friend bool operator==(equal_count, equal_count) = default;

 private:
  // Steps of random swaps before exchanges of many samples with all bags, of which one may cost
  // as much.
  static constexpr std::uint64_t first_swaps = std::uint64_t{1} << 15;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_EQUAL_COUNT_HPP
