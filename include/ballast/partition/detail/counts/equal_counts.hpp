// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/detail/counts/counted_exchanges.hpp>
#include <ballast/partition/partition_plan.hpp>

#include <functional>

namespace ballast::inline v0::detail {

/// How many samples each bag gets, where all bags should get the same number.
///
/// Counts are multiples of `multiple`, as even as that allows; what is left of n goes to one bag.
/// The fastest bags get the larger counts, then the least loaded, then the first, as far as samples
/// are long enough for them. Where too few samples are long enough for the larger bags to get as
/// many as the others, the larger bags share these evenly and the smaller bags share the rest: the
/// most even counts that a plan can have. With bags in decreasing size, the sums of such counts are
/// the lower convex hull of the numbers of samples that fit the first bags.
///
/// Shapes      loads[m], counts[m].
/// Expects     a valid partition_problem; multiple >= 1.
/// Ensures     (1) the counts add up to n, and some assignment of samples to bags that they fit has
///                 them
///             (2) all counts but one are multiples of `multiple`
///             (3) counts of bags of one size differ by at most `multiple`, and those of all bags
///                 do where every sample fits every bag
/// Complexity  O((n + m) log m + m sizes); 32 m bytes of scratch.
inline void balanced_counts_into(std::span<std::uint32_t> counts, partition_problem const& problem,
                                 std::span<cost_units const> loads, std::uint32_t multiple,
                                 workspace& memory)
{
  std::size_t const bags = counts.size();
  BALLAST_EXPECTS(bags >= 1 && loads.size() == bags && problem.gpus.size() == bags);
  BALLAST_EXPECTS(multiple >= 1);
  auto scratch = memory.open();

  std::span<std::uint32_t> const largest_first = scratch.take<std::uint32_t>(bags);
  std::iota(largest_first.begin(), largest_first.end(), std::uint32_t{0});
  std::sort(largest_first.begin(), largest_first.end(), [&](std::uint32_t a, std::uint32_t b) {
    return precedes(problem.gpus[b], problem.gpus[a], a, b);
  });
  // fitting[p]: the samples that fit the first p bags, for every p at which a size ends.
  std::span<std::uint64_t> const fitting = scratch.take<std::uint64_t>(bags + 1);
  std::fill(fitting.begin(), fitting.end(), 0);
  if (problem.gpus[largest_first.front()] == problem.gpus[largest_first.back()]) {
    fitting[bags] = problem.lengths.size();
  } else {
    for (tokens const length : problem.lengths) {
      auto const usable = std::partition_point(
          largest_first.begin(), largest_first.end(),
          [&](std::uint32_t bag) { return !partition_problem::splits(length, problem.gpus[bag]); });
      ++fitting[static_cast<std::size_t>(usable - largest_first.begin()) + 1];
    }
    for (std::size_t place = 0; place < bags; ++place) { fitting[place + 1] += fitting[place]; }
  }
  // The places after the last bag of each size. Bags before them have so many samples at most.
  std::span<std::uint32_t> const all_ends = scratch.take<std::uint32_t>(bags);
  std::size_t sizes = 0;
  for (std::uint32_t place = 1; place <= bags; ++place) {
    if (place == bags ||
        problem.gpus[largest_first[place]] != problem.gpus[largest_first[place - 1]]) {
      all_ends[sizes++] = place;
    }
  }
  std::span<std::uint32_t const> const ends = all_ends.first(sizes);
  // room[k]: samples that the bags before ends[k] could still have.
  std::span<std::uint64_t> const room = scratch.take<std::uint64_t>(sizes);
  for (std::size_t end = 0; end < sizes; ++end) { room[end] = fitting[ends[end]]; }
  std::fill(counts.begin(), counts.end(), 0);
  auto const give = [&](std::uint32_t place, std::uint64_t samples) {
    auto const end = std::upper_bound(ends.begin(), ends.end(), place) - ends.begin();
    auto const from_here = room.subspan(static_cast<std::size_t>(end));
    if (*std::min_element(from_here.begin(), from_here.end()) < samples) { return false; }
    for (std::uint64_t& each : from_here) { each -= samples; }
    counts[largest_first[place]] += static_cast<std::uint32_t>(samples);
    return true;
  };

  std::span<std::uint32_t> const places = scratch.take<std::uint32_t>(bags);
  std::iota(places.begin(), places.end(), std::uint32_t{0});
  for (std::size_t first = 0; first < bags;) {
    std::uint64_t const before = first == 0 ? 0 : fitting[first] / multiple;
    std::size_t last = bags;
    for (std::size_t end = sizes; end > 0 && ends[end - 1] > first; --end) {
      std::size_t const place = ends[end - 1];
      bool const flatter = (fitting[place] / multiple - before) * (last - first) <
                           (fitting[last] / multiple - before) * (place - first);
      if (flatter) { last = place; }
    }
    std::uint64_t const share = fitting[last] / multiple - before;
    std::span<std::uint32_t> const fastest_first = places.subspan(first, last - first);
    for (std::uint32_t const place : fastest_first) {
      (void)give(place, share / fastest_first.size() * multiple);
    }
    std::sort(fastest_first.begin(), fastest_first.end(), [&](std::uint32_t p, std::uint32_t q) {
      std::uint32_t const a = largest_first[p];
      std::uint32_t const b = largest_first[q];
      return precedes(problem.speeds[b], problem.speeds[a], loads[a], loads[b], a, b);
    });
    std::uint64_t more = share % fastest_first.size();
    std::uint64_t rest = last == bags ? fitting[bags] % multiple : 0;
    for (std::uint32_t const place : fastest_first) {
      if (more > 0 && give(place, multiple)) {
        --more;
      } else if (more == 0 && rest > 0 && give(place, rest)) {
        rest = 0;
      }
    }
    if (rest > 0) { (void)give(static_cast<std::uint32_t>(bags - 1), rest); }
    first = last;
  }
}

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

/// The same number of samples in every bag, and with that a small makespan: equal counts alone.
///
/// Counts differ by at most `multiple`, and all but one are multiples of it. The larger counts go
/// to the faster bags; the rest that is no whole multiple goes to one bag. Samples go heaviest first
/// to the bag with a free place that finishes earliest; then bags exchange samples, as many for as
/// many, and again after random swaps as long as there is work.
///
/// Expects     multiple >= 1
/// Ensures     (1) every sample has one bag, which it fits
///             (2) loads have grown by exactly the costs of the samples each bag now owns
///             (3) where every sample fits every bag, counts differ by at most `multiple`; all but
///                 one are multiples of it
///             (4) no plan with these counts, in any order of bags, has a makespan below the one
///                 returned
///             (5) the makespan does not grow with `work`, which is a number of steps, not time
/// Complexity  O(n (sizes + log m)) and O(work), after the sort that the problem brings.
/// Source      the first plan: M. Dell'Amico, S. Martello, "Bounds for the Cardinality Constrained
///             P||Cmax Problem", J. Scheduling 4(3):123-138, 2001.
struct equal_counts {
  std::uint32_t multiple = 1;
  std::uint64_t work = std::uint64_t{1} << 17;  ///< samples and sums that exchanges look at

  ratio operator()(partition_problem const& problem, std::span<cost_units> loads,
                   std::span<bag_id> owner, workspace& memory) const
  {
    // Steps of random swaps before exchanges of many samples with all bags, of which one may cost
    // as much.
    constexpr std::uint64_t first_swaps = std::uint64_t{1} << 15;
    expect_policy_arrays(problem, loads, owner);
    auto scratch = memory.open();
    std::span<std::uint32_t> const counts = scratch.take<std::uint32_t>(loads.size());
    balanced_counts_into(counts, problem, loads, multiple, memory);
    ratio const bound = equal_count_bound(problem, counts, memory);
    counted_bags const bags(problem, counts, loads, scratch);
    work_budget left(work);
    counted_exchanges plan(problem, bags, left, memory);
    swap_extremes(plan, bound, memory);
    settle_latest settle(plan, bound, scratch, settle_order::swaps_of_all_first);
    settle(false);
    swap_at_random(plan, bags, problem.speeds, bound, first_swaps, memory);
    settle(true);
    swap_at_random(plan, bags, problem.speeds, bound, left.left(), memory);
    bags.store(owner);
    return bound;
  }
};

}  // namespace ballast::inline v0::detail
