// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/detail/bounds/cheapest_cover.hpp>
#include <ballast/partition/detail/vectors/earliest_vectors.hpp>

namespace ballast::inline v0 {

namespace detail {

/// The least time from `bound` on by which bags of these speeds can hold enough samples.
///
/// Of the t heaviest samples a bag of speed s computes, by the time T, no more than the k whose
/// lightest cost T s together. The k of all bags add up to t, for every t, or no plan ends by T.
/// Samples that are nearly equal make a bag wait for whole samples: there this is what the mean
/// misses. Where there are many samples it looks at t = n and at evenly spaced ones below, and it
/// ends where it has gone from moment to moment for as long.
///
/// Shapes      before[n + 1]: the cost of the heaviest i samples together.
/// Expects     fastest_first has at least one bag.
/// Ensures     (1) no plan has a makespan below the one returned
/// Complexity  O(m + 2^12 log n).
[[nodiscard]] inline ratio counting_bound(std::span<cost_units const> before,
                                          std::span<std::uint32_t const> fastest_first, ratio bound,
                                          workspace& memory)
{
  constexpr std::size_t most_looks = std::size_t{1} << 12;
  struct speed_class {
    std::uint32_t speed;
    std::size_t bags;
    std::size_t first;  // of those t samples, the heaviest that fits with all that follow it
  };
  auto scratch = memory.open();
  std::span<speed_class> all = scratch.take<speed_class>(fastest_first.size());
  std::size_t classes = 0;
  for (std::uint32_t const speed : fastest_first) {
    if (classes == 0 || all[classes - 1].speed != speed) { all[classes++] = {speed, 0, 0}; }
    ++all[classes - 1].bags;
  }
  all = all.first(classes);
  std::size_t const samples = before.size() - 1;
  std::size_t const step = 1 + samples * classes / most_looks;
  // A bag with room for more costs than there are has room for all.
  auto const room_of = [&](std::uint32_t speed) {
    uint128 const room = static_cast<uint128>(static_cast<std::uint64_t>(bound.numerator)) * speed /
                         static_cast<std::uint64_t>(bound.denominator);
    return static_cast<cost_units>(std::min<uint128>(room, static_cast<uint128>(before.back())));
  };

  std::size_t moments = 0;
  for (std::size_t taken = samples; taken > 0; taken -= std::min(taken, step)) {
    cost_units const sum = before[taken];
    std::size_t held = 0;
    for (speed_class& each : all) {
      auto const first =
          std::lower_bound(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(taken),
                           sum - room_of(each.speed));
      each.first = static_cast<std::size_t>(first - before.begin());
      held += each.bags * (taken - each.first);
      if (held >= taken) { break; }
    }
    // The next moment at which a bag has room for one sample more, until all are held.
    while (held < taken) {
      speed_class* next = nullptr;
      ratio soonest;
      for (speed_class& each : all) {
        if (each.first == 0) { continue; }
        ratio const time{sum - before[each.first - 1], each.speed};
        if (next == nullptr || time < soonest) {
          next = &each;
          soonest = time;
        }
      }
      --next->first;
      held += next->bags;
      bound = soonest;
      if (++moments * classes > most_looks) { return bound; }
    }
  }
  return bound;
}

/// What sets of samples cost together, where few costs differ: a bag's load is one of these sums,
/// so a bound between two of them can be raised to the next.
///
/// With many different costs nearly every sum is that of some set, so those steps are left alone.
///
/// Ensures     (1) next(least) >= least, and no set of samples costs as much as a number between
///                 them
///             (2) where the costs are few and few numbers of samples of each are tried, it is the
///                 cost of a set
/// Complexity  the constructor: O(kinds log n). next: at most 4096 numbers of samples of a kind.
class reachable_sums {
 public:
  static constexpr std::size_t most_kinds = 10;

  /// Expects     costs do not increase and are not negative; together they are less than 2^63
  explicit reachable_sums(std::span<priced_sample const> heaviest_first) noexcept
  {
    auto from = heaviest_first.begin();
    while (from != heaviest_first.end() && from->cost > 0) {
      if (count_ == most_kinds) {
        are_few_ = false;
        return;
      }
      auto const to = std::partition_point(
          from, heaviest_first.end(),
          [cost = from->cost](priced_sample each) { return each.cost >= cost; });
      kinds_[count_++] = {from->cost, to - from};
      from = to;
    }
    for (std::size_t kind = count_; kind-- > 0;) {
      all_[kind] = all_[kind + 1] + kinds_[kind].cost * kinds_[kind].samples;
    }
  }

  [[nodiscard]] cost_units next(cost_units least) const noexcept
  {
    if (!are_few_ || least <= 0 || least > all_[0]) { return least; }
    search now{work_budget(4096), std::numeric_limits<cost_units>::max()};
    add_kinds(0, least, now);
    return now.nodes.spent() ? least : least + now.least_above;
  }

 private:
  struct sample_kind {
    cost_units cost;
    std::int64_t samples;
  };
  struct search {
    work_budget nodes;
    cost_units least_above;
  };

  /// Tries all numbers of samples of this kind and those after it that cost at least `missing`.
  void add_kinds(std::size_t kind, cost_units missing, search& now) const noexcept
  {
    auto const [cost, samples] = kinds_[kind];
    std::int64_t taken = std::min(samples, (missing - 1) / cost + 1);
    if (taken * cost >= missing) {
      now.least_above = std::min(now.least_above, taken * cost - missing);
      --taken;
    }
    for (; taken >= 0 && all_[kind + 1] >= missing - taken * cost; --taken) {
      if (now.least_above == 0 || now.nodes.spent()) { return; }
      now.nodes.spend(1);
      add_kinds(kind + 1, missing - taken * cost, now);
    }
  }

  std::array<sample_kind, most_kinds> kinds_{};   // heaviest first
  std::array<cost_units, most_kinds + 1> all_{};  // [k]: all samples of the kinds from k on
  std::size_t count_ = 0;
  bool are_few_ = true;
};

/// The least time from `bound` on in which bags of these speeds do this much work in whole units.
///
/// By the mean, every bag works until the end. But loads are integers: a bag of speed s does no
/// more than floor(T s) in the time T. The sum of these grows at times k / s only, so the search
/// goes from one such time to the next until the sum is enough.
///
/// Expects     at least one bag; bound >= work / sum of speeds.
/// Ensures     (1) sum of floor(T speeds[b]) >= work at the T returned and at no T from bound to it
/// Complexity  O(m + d log m), where d < m is what the sum lacks at `bound`; 24 m bytes of scratch.
[[nodiscard]] inline ratio whole_units_bound(std::span<std::uint32_t const> speeds, cost_units work,
                                             ratio bound, workspace& memory)
{
  struct next_unit {
    ratio time;
    std::uint32_t speed;
  };
  auto scratch = memory.open();
  std::span<next_unit> const heap = scratch.take<next_unit>(speeds.size());
  uint128 done = 0;
  for (std::size_t bag = 0; bag < speeds.size(); ++bag) {
    uint128 const units = static_cast<uint128>(static_cast<std::uint64_t>(bound.numerator)) *
                          speeds[bag] / static_cast<std::uint64_t>(bound.denominator);
    done += units;
    // A bag that has done more than all of the work needs no next unit.
    auto const next = static_cast<cost_units>(std::min<uint128>(units, static_cast<uint128>(work)));
    heap[bag] = {{next + 1, speeds[bag]}, speeds[bag]};
  }
  // Equal times may have several forms; which is first must not depend on the standard library.
  auto const later = [](next_unit const& a, next_unit const& b) {
    return a.time == b.time ? a.speed > b.speed : a.time > b.time;
  };
  if (done < static_cast<uint128>(work)) { std::make_heap(heap.begin(), heap.end(), later); }
  for (; done < static_cast<uint128>(work); ++done) {
    std::pop_heap(heap.begin(), heap.end(), later);
    bound = heap.back().time;
    ++heap.back().time.numerator;
    std::push_heap(heap.begin(), heap.end(), later);
  }
  return bound;
}

/// Whether there are so few samples per bag that counting and packing bounds can be above the mean.
[[nodiscard]] constexpr bool few_samples(std::size_t samples, std::size_t bags) noexcept
{
  return samples <= 8 * bags;
}

/// The bags of a problem with what they hold from the start, in the orders that bounds look at.
struct started_bags {
  std::span<cost_units> starts;            // by bag
  std::span<cost_units> least_starts;      // [k]: the sum of the k least
  std::span<std::uint32_t> fastest_first;  // speeds

  started_bags(partition_problem const& problem, std::span<cost_units const> starting_loads,
               workspace::frame& scratch)
      : starts(scratch.take<cost_units>(problem.gpus.size())),
        least_starts(scratch.take<cost_units>(problem.gpus.size() + 1)),
        fastest_first(scratch.take<std::uint32_t>(problem.gpus.size()))
  {
    std::fill(starts.begin(), starts.end(), 0);
    std::copy(starting_loads.begin(), starting_loads.end(), starts.begin());
    least_starts[0] = 0;
    std::copy(starts.begin(), starts.end(), least_starts.begin() + 1);
    std::span<cost_units> const started = least_starts.subspan(1);
    std::sort(started.begin(), started.end(), std::less{});
    std::partial_sum(least_starts.begin(), least_starts.end(), least_starts.begin());
    std::copy(problem.speeds.begin(), problem.speeds.end(), fastest_first.begin());
    std::sort(fastest_first.begin(), fastest_first.end(), std::greater{});
  }

  [[nodiscard]] bool one_speed() const noexcept
  {
    return fastest_first.front() == fastest_first.back();
  }

  /// Work that `count` bags share, whose speeds add up to `speed`; in whole units where all bags
  /// have one speed.
  [[nodiscard]] ratio share(cost_units work, std::size_t count, std::int64_t speed) const noexcept
  {
    if (!one_speed()) { return {work, speed}; }
    auto const shares = static_cast<cost_units>(count);
    return {work / shares + (work % shares != 0 ? 1 : 0), fastest_first.front()};
  }
};

/// The largest of: work that only smaller bags can take, shared by these; each sample on the
/// fastest bag that it fits; and what bags hold from the start.
[[nodiscard]] inline ratio confined_work_bound(partition_problem const& problem,
                                               started_bags const& bags, workspace::frame& scratch)
{
  std::size_t const count = problem.gpus.size();
  std::span<std::uint32_t> const largest_first = scratch.take<std::uint32_t>(count);
  std::iota(largest_first.begin(), largest_first.end(), std::uint32_t{0});
  std::sort(largest_first.begin(), largest_first.end(), [&](std::uint32_t a, std::uint32_t b) {
    return problem.gpus[a] != problem.gpus[b] ? problem.gpus[a] > problem.gpus[b] : a > b;
  });
  // A sample that is too short for the k largest bags can use `largest_first` from the k-th on:
  // work[k] is the work of all such samples, heaviest[k] the largest cost of one.
  std::span<cost_units> const work = scratch.take<cost_units>(count);
  std::span<cost_units> const heaviest = scratch.take<cost_units>(count);
  std::fill(work.begin(), work.end(), 0);
  std::fill(heaviest.begin(), heaviest.end(), 0);
  bool const one_size = problem.gpus[largest_first.front()] == problem.gpus[largest_first.back()];
  for (std::size_t sample = 0; sample < problem.costs.size(); ++sample) {
    std::size_t place = 0;
    if (!one_size) {
      auto const usable =
          std::partition_point(largest_first.begin(), largest_first.end(),
                               [&](std::uint32_t bag) { return !problem.fits(sample, bag); });
      place = static_cast<std::size_t>(usable - largest_first.begin());
    }
    work[place] += problem.costs[sample];
    heaviest[place] = std::max(heaviest[place], problem.costs[sample]);
  }

  ratio bound;
  cost_units confined = 0;
  std::int64_t speed = 0;
  std::uint32_t fastest = 0;
  cost_units least_start = bags.starts[largest_first.back()];
  for (std::size_t place = count; place-- > 0;) {
    std::uint32_t const bag = largest_first[place];
    confined += work[place] + bags.starts[bag];
    speed += problem.speeds[bag];
    fastest = std::max(fastest, problem.speeds[bag]);
    least_start = std::min(least_start, bags.starts[bag]);
    bound = std::max({bound, bags.share(confined, count - place, speed),
                      ratio{heaviest[place] + least_start, fastest},
                      ratio{bags.starts[bag], problem.speeds[bag]}});
  }
  return bound;
}

/// The q heaviest samples on the q fastest bags, for every q.
[[nodiscard]] inline ratio heaviest_samples_bound(partition_problem const& problem,
                                                  started_bags const& bags) noexcept
{
  ratio bound;
  cost_units work = 0;
  std::int64_t speed = 0;
  std::size_t const most = std::min(problem.costs.size(), problem.gpus.size());
  for (std::size_t taken = 1; taken <= most; ++taken) {
    work += problem.heaviest_first[taken - 1].cost;
    speed += bags.fastest_first[taken - 1];
    bound = std::max(bound, bags.share(work + bags.least_starts[taken], taken, speed));
  }
  return bound;
}

/// What the heaviest i samples cost together, for every i.
[[nodiscard]] inline std::span<cost_units const> sums_of_heaviest(partition_problem const& problem,
                                                                  workspace::frame& scratch)
{
  std::span<cost_units> const before = scratch.take<cost_units>(problem.costs.size() + 1);
  before[0] = 0;
  for (std::size_t place = 0; place < problem.costs.size(); ++place) {
    before[place + 1] = before[place] + problem.heaviest_first[place].cost;
  }
  return before;
}

/// What follows from how many samples the fullest bags hold, where that is above `bound`.
[[nodiscard]] inline ratio fullest_bags_bound(std::span<cost_units const> before,
                                              started_bags const& bags, ratio bound)
{
  std::size_t const samples = before.size() - 1;
  std::size_t const count = bags.starts.size();
  auto const is_above = [&bound](uint128 work, std::int64_t speed) {
    return work * static_cast<std::uint64_t>(bound.denominator) >
           uint128{static_cast<std::uint64_t>(bound.numerator)} * static_cast<std::uint64_t>(speed);
  };
  auto const wide = [](cost_units work) { return uint128{static_cast<std::uint64_t>(work)}; };
  std::int64_t const all_speed =
      std::reduce(bags.fastest_first.begin(), bags.fastest_first.end(), std::int64_t{0});
  for (std::size_t most = 0; most * count < samples; ++most) {
    std::size_t const surely = most * count;
    // Those r (most + 1) samples weigh on average no more than the `surely` heaviest of all, and so
    // r bags with them no more than this over all bags.
    if (most > 0) {
      uint128 const heaviest = wide(before[surely]);
      uint128 const at_most = heaviest + heaviest / most + 1 + wide(bags.least_starts[count]);
      if (!is_above(at_most, all_speed)) { continue; }
    }
    std::int64_t speed = 0;
    for (std::size_t fullest = 1; fullest <= std::min(count, samples - surely); ++fullest) {
      std::size_t const taken = surely + fullest;
      speed += bags.fastest_first[fullest - 1];
      cost_units const work =
          before[taken] - before[taken - fullest * (most + 1)] + bags.least_starts[fullest];
      if (is_above(wide(work), speed)) { bound = bags.share(work, fullest, speed); }
    }
  }
  return bound;
}

/// The least load from `load` on that is not refuted, if refuted loads are followed by none.
template <class Refuted>
[[nodiscard]] cost_units first_not_refuted(cost_units load, Refuted const& refuted)
{
  if (!refuted(load)) { return load; }
  // All work in one bag is never refuted, so the steps end, and what they add fits 63 bits.
  cost_units step = 1;
  while (step < no_cost - load && refuted(load + step)) {
    load += step;
    step *= 2;
  }
  for (step /= 2; step > 0; step /= 2) {
    if (refuted(load + step)) { load += step; }
  }
  return load + 1;
}

/// With bags of one speed, the least load from `bound` on that packing bounds do not refute.
[[nodiscard]] inline cost_units unpackable_bound(partition_problem const& problem,
                                                 started_bags const& bags, cost_units bound)
{
  constexpr unsigned degree = 5;
  return first_not_refuted(bound, [&](cost_units load) {
    return cannot_pack(problem.heaviest_first, load - bags.least_starts[1], bags.starts.size(),
                       degree);
  });
}

/// Refutes makespans of samples of two kinds, heavy and light: how many of each kind a bag has room
/// for are points of a plane, and where no mix of the bags' points has all samples, no plan has.
/// The mixes are a convex set, and so it is enough to look along the edges of the points' hulls.
///
/// Shapes      before[n + 1]: what the k heaviest samples cost; fastest_first[m].
/// Complexity  refutes: O(classes (mixes log n + edges mixes)) for so many classes of speeds.
/// Source      P. C. Gilmore and R. E. Gomory, "A linear programming approach to the cutting stock
///             problem", Operations Research 9, 1961: the relaxation, of two rows.
class two_kinds {
 public:
  two_kinds(std::span<cost_units const> before, std::span<std::uint32_t const> fastest_first,
            workspace::frame& scratch)
      : before_(before), classes_(scratch.take<speed_class>(most_classes))
  {
    samples_ = before.size() - 1;
    while (samples_ > 0 && cost(samples_ - 1) == 0) { --samples_; }
    for (std::size_t place = 1; place < samples_; ++place) {
      if (heavy_ == 0 ||
          wide(cost(place - 1)) * wide(cost(heavy_)) > wide(cost(heavy_ - 1)) * wide(cost(place))) {
        heavy_ = place;
      }
    }
    for (std::uint32_t const speed : fastest_first) {
      if (count_ == 0 || classes_[count_ - 1].speed != speed) {
        if (count_ == most_classes) {
          heavy_ = 0;
          return;
        }
        classes_[count_++] = {speed, 0, 0, {}};
      }
      ++classes_[count_ - 1].bags;
    }
  }

  /// Whether there are two kinds at all: within each, costs differ by at most a quarter.
  [[nodiscard]] bool are_two() const noexcept
  {
    auto const alike = [this](std::size_t from, std::size_t to) {
      return 4 * wide(cost(from)) <= 5 * wide(cost(to - 1));
    };
    return heavy_ > 0 && alike(0, heavy_) && alike(heavy_, samples_);
  }

  /// The least makespan from `bound` on that is not refuted.
  [[nodiscard]] ratio raise(ratio bound)
  {
    ratio least{no_cost - 1, 1};
    for (std::size_t at = 0; at < count_; ++at) {
      std::uint32_t const speed = classes_[at].speed;
      cost_units const from = work_until(bound, speed);
      cost_units const load =
          first_not_refuted(from, [&](cost_units each) { return refutes({each, speed}); });
      if (load == from) { return bound; }
      least = std::min(least, ratio{load, speed});
    }
    return std::max(bound, least);
  }

 private:
  static constexpr std::size_t most_classes = 8;
  static constexpr std::size_t most_points = 64;

  struct mix {
    std::int64_t heavy;
    std::int64_t light;
  };
  struct speed_class {
    std::uint32_t speed;
    std::int64_t bags;
    std::size_t points;
    std::array<mix, most_points> hull;  // by heavy samples, rising
  };

  [[nodiscard]] static constexpr uint128 wide(cost_units work) noexcept
  {
    return uint128{static_cast<std::uint64_t>(work)};
  }

  [[nodiscard]] cost_units cost(std::size_t place) const noexcept
  {
    return before_[place + 1] - before_[place];
  }

  [[nodiscard]] bool refutes(ratio makespan)
  {
    for (std::size_t at = 0; at < count_; ++at) {
      if (!add_points(classes_[at], work_until(makespan, classes_[at].speed))) { return false; }
    }
    for (std::size_t at = 0; at < count_; ++at) {
      speed_class const& each = classes_[at];
      if (is_too_much({1, 0}) || is_too_much({0, 1})) { return true; }
      for (std::size_t point = 1; point < each.points; ++point) {
        mix const from = each.hull[point - 1];
        mix const to = each.hull[point];
        if (is_too_much({from.light - to.light, to.heavy - from.heavy})) { return true; }
      }
    }
    return false;
  }

  /// The hull of what a bag has room for; false where these are too many mixes to look at.
  [[nodiscard]] bool add_points(speed_class& of, cost_units room) const
  {
    of.points = 0;
    for (std::size_t heavy = 0; heavy <= heavy_; ++heavy) {
      cost_units const taken = before_[heavy_] - before_[heavy_ - heavy];
      if (taken > room) { break; }
      if (heavy == most_points) { return false; }
      // The lightest samples from `first` on fit into what is left.
      auto const lights = before_.subspan(heavy_, samples_ - heavy_ + 1);
      auto const first =
          std::lower_bound(lights.begin(), lights.end(), before_[samples_] - (room - taken));
      mix const next{static_cast<std::int64_t>(heavy), lights.end() - 1 - first};
      while (of.points > 1 && !bends(of.hull[of.points - 2], of.hull[of.points - 1], next)) {
        --of.points;
      }
      of.hull[of.points++] = next;
    }
    return true;
  }

  [[nodiscard]] static constexpr bool bends(mix a, mix b, mix c) noexcept
  {
    return (b.heavy - a.heavy) * (c.light - a.light) < (c.heavy - a.heavy) * (b.light - a.light);
  }

  /// Whether all samples, at these prices, are worth more than the bags have room for.
  [[nodiscard]] bool is_too_much(mix prices) const noexcept
  {
    auto const worth = [prices](mix of) {
      return prices.heavy * of.heavy + prices.light * of.light;
    };
    std::int64_t missing =
        worth({static_cast<std::int64_t>(heavy_), static_cast<std::int64_t>(samples_ - heavy_)});
    for (std::size_t at = 0; at < count_ && missing > 0; ++at) {
      speed_class const& each = classes_[at];
      std::int64_t most = 0;
      for (mix const& of : span_of(each.hull, 0, each.points)) { most = std::max(most, worth(of)); }
      missing -= each.bags * most;
    }
    return missing > 0;
  }

  std::span<cost_units const> before_;
  std::span<speed_class> classes_;
  std::size_t count_ = 0;
  std::size_t samples_ = 0;  ///< that cost something
  std::size_t heavy_ = 0;    ///< how many of these are heavy
};

}  // namespace detail

/// A makespan that no plan gets below, since samples are not cut: what every plan is compared with.
///
/// The largest of
///   (a) the mean: for every size of bag, the work of the samples that only smaller bags can take,
///       spread over all of those bags; and all work over all bags;
///   (b) the heaviest q samples spread over the q fastest bags, for every q <= m, since q samples
///       lie in at most q bags; and each sample alone on the fastest bag that it fits;
///   (c) with bags of several speeds, the least T in which whole units suffice, the sum of
///       floor(T speed) being at least all work, and whole samples: `counting_bound`;
///   (d) for q m + r samples with 1 <= r <= m: the r fullest bags hold at least r (q + 1) of them,
///       hence the lightest so many of the q m + r heaviest spread over the r fastest bags are a
///       bound. With r = 1 it is the pigeonhole: some bag holds q + 1;
///   (e) with bags of one speed and at most 8 samples per bag, the least load that the packing
///       bounds of dual feasible functions do not refute;
///   (f) with bags of one speed that start with equal loads and samples of at most ten costs, the
///       next load from these bounds on that some set of samples makes;
///   (g) with samples of two kinds, each of nearly one cost, and bags that start empty, the least
///       makespan in which mixes of both kinds that bags have room for hold all: `two_kinds`.
/// What bags hold from the start counts as work that stays where it is. Bags of one speed hold
/// whole units, so there the bounds are rounded up.
///
/// Shapes      starting_loads[m], or empty where bags start empty.
/// Expects     a valid partition_problem.
/// Ensures     (1) no assignment of samples to bags they fit has a smaller makespan
/// Complexity  O((n + m) log m), with (e) times the bits of a cost; 16 n + 64 m bytes of scratch.
/// Source      (a) (b) folklore; (d) for q = r = 1 bound L2 of M. Dell'Amico, S. Martello, "Optimal
///             Scheduling of Tasks on Identical Parallel Processors", ORSA J. Computing
///             7(2):191-200, 1995, and for all q and r the mean lifted as in M. Haouari, A. Gharbi,
///             M. Jemmali, "Tight Bounds for the Identical Parallel Machine Scheduling Problem",
///             Int. Trans. in Operational Research 13(6):529-548, 2006; (e) `cannot_pack`.
[[nodiscard]] BALLAST_ONCE ratio
makespan_lower_bound(partition_problem const& problem, workspace& memory,
                     std::span<cost_units const> starting_loads = {});

/// The problem with its lower bound: the one that it has, or else makespan_lower_bound's. Policies
/// that need the bound and run others begin with it, so that one step computes it once.
///
/// Shapes      starting_loads[m].
[[nodiscard]] inline partition_problem with_lower_bound(partition_problem problem,
                                                        std::span<cost_units const> starting_loads,
                                                        workspace& memory)
{
  if (problem.lower_bound.numerator == 0) {
    problem.lower_bound = makespan_lower_bound(problem, memory, starting_loads);
  }
  return problem;
}

/// A makespan that no plan gets below.
///
/// It is the larger of two: what `makespan_lower_bound` says of each dimension by itself; and what
/// it says of the sums over all dimensions, divided by their number, since some dimension of a bag
/// carries at least the mean of all. The second is stronger where samples that are heavy in
/// different dimensions have to share a bag.
///
/// Shapes      starting_loads[bags], or empty where bags start empty.
/// Expects     a valid cost_vector_problem of so many bags, at least 1.
/// Ensures     (1) no plan in which samples fit their bags has a smaller makespan
/// Complexity  O((D n + m) log m); 60 n + 84 m bytes of scratch.
template <std::size_t D>
[[nodiscard]] ratio cost_vector_lower_bound(cost_vector_problem<D> const& problem, std::size_t bags,
                                            workspace& memory,
                                            std::span<cost_vector<D> const> starting_loads = {})
{
  BALLAST_EXPECTS(bags >= 1);
  std::size_t const samples = problem.costs.size();
  auto scratch = memory.open();
  std::span<cost_units> const costs = scratch.take<cost_units>(samples);
  std::span<priced_sample> const heaviest_first = scratch.take<priced_sample>(samples);
  std::span<cost_units> const starts = scratch.take<cost_units>(starting_loads.size());
  partition_problem one = detail::one_quantity_of(problem, bags, scratch);
  one.costs = costs;
  one.heaviest_first = heaviest_first;
  auto const take_each = [&](auto const& part) {
    std::transform(problem.costs.begin(), problem.costs.end(), costs.begin(), part);
    std::transform(starting_loads.begin(), starting_loads.end(), starts.begin(), part);
  };
  auto const bound_of_costs = [&] {
    descending_order_into(heaviest_first, costs, memory);
    return makespan_lower_bound(one, memory, starts);
  };

  ratio bound{0, one.speeds.front()};
  cost_units room = no_cost - 1;  // for the sum of everything
  for (std::size_t d = 0; d < D; ++d) {
    take_each([d](cost_vector<D> const& each) { return each[d]; });
    bound = std::max(bound, bound_of_costs());
    for (cost_units const cost : costs) { room -= std::min(room, cost); }
    for (cost_units const start : starts) { room -= std::min(room, start); }
  }
  if constexpr (D > 1) {
    if (room == 0) { return bound; }  // the sums might overflow
    take_each([](cost_vector<D> const& each) {
      return std::accumulate(each.begin(), each.end(), cost_units{0});
    });
    constexpr auto dimensions = static_cast<cost_units>(D);
    ratio mean = bound_of_costs();
    // With bags of one speed, some dimension of a bag carries a whole number of units.
    bool const rounds_up = problem.one_speed() && mean.numerator % dimensions != 0;
    mean.numerator = mean.numerator / dimensions + (rounds_up ? 1 : 0);
    bound = std::max(bound, mean);
  }
  return bound;
}

#ifndef BALLAST_COMPILED

BALLAST_ONCE ratio makespan_lower_bound(partition_problem const& problem, workspace& memory,
                                        std::span<cost_units const> starting_loads)
{
  std::size_t const count = problem.gpus.size();
  BALLAST_EXPECTS(count >= 1 && problem.speeds.size() == count, "the problem has ",
                  detail::counted(count, "bag"), " and the speeds of ", problem.speeds.size());
  BALLAST_EXPECTS(starting_loads.empty() || starting_loads.size() == count,
                  "there are starting loads of ", detail::counted(starting_loads.size(), "bag"),
                  " for a problem of ", count);
  auto scratch = memory.open();
  detail::started_bags const bags(problem, starting_loads, scratch);

  ratio bound = std::max(detail::confined_work_bound(problem, bags, scratch),
                         detail::heaviest_samples_bound(problem, bags));
  std::span<cost_units const> const before = detail::sums_of_heaviest(problem, scratch);
  bound = detail::fullest_bags_bound(before, bags, bound);
  if (!bags.one_speed()) {
    cost_units const work = before.back() + bags.least_starts[count];
    bound = detail::whole_units_bound(problem.speeds, work, bound, memory);
    bound = detail::counting_bound(before, bags.fastest_first, bound, memory);
  } else if (detail::few_samples(problem.costs.size(), count)) {
    // One speed makes every bound a whole load over that speed.
    bound.numerator = detail::unpackable_bound(problem, bags, bound.numerator);
  }
  if (bags.least_starts[count] == 0) {
    detail::two_kinds kinds(before, bags.fastest_first, scratch);
    if (kinds.are_two()) { bound = kinds.raise(bound); }
  }
  if (!bags.one_speed()) { return bound; }
  cost_units const start = bags.starts[0];
  if (std::all_of(bags.starts.begin(), bags.starts.end(),
                  [start](cost_units each) { return each == start; })) {
    detail::reachable_sums const sums(problem.heaviest_first);
    bound.numerator = start + sums.next(bound.numerator - start);
  }
  return bound;
}

#endif

}  // namespace ballast::inline v0
