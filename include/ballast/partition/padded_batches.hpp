// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/detail/padding/finishing_times.hpp>
#include <ballast/partition/partition_plan.hpp>

namespace ballast::inline v0 {

namespace detail {

/// Cuts samples into padded batches, as many as there are bags or samples, that together cost least
/// of those of which none costs more than `most`. A run cut in two costs no more than before.
///
/// Expects     samples descend in cost and can be cut so; at_most(s) is the most samples that a batch
///             which begins with sample s may have besides, and does not fall along them.
/// Ensures     (1) calls place(padded_batch) for each bag that gets samples, heaviest first
///             (2) no plan that keeps to `most` and at_most costs less: batches are runs of samples,
///                 since each is best off in the batch with the least longest that is no shorter
/// Complexity  O(m n log n), as the best beginnings of batches do not fall with where these end: of
///             two, the later one costs less for each further sample; 4 m n bytes of scratch
template <class AtMost, class Place>
void place_with_least_padding(std::span<priced_sample const> samples, std::size_t bags,
                              cost_units most, AtMost const& at_most, workspace::frame& scratch,
                              Place const& place)
{
  std::size_t const count = samples.size();
  std::size_t const batches = std::min(bags, count);
  std::span<std::uint32_t> const first_of = scratch.take<std::uint32_t>(batches * (count + 1));
  std::span<std::size_t> const last_of = scratch.take<std::size_t>(count);
  std::span<cost_units> before = scratch.take<cost_units>(count + 1);  // one batch fewer
  std::span<cost_units> least = scratch.take<cost_units>(count + 1);   // for so many first samples
  for (std::size_t first = 0; first < count; ++first) {
    auto const waiting = samples.subspan(first);
    last_of[first] = first + std::min({padded_batch::most_samples(waiting, most),
                                       at_most(waiting.front()), waiting.size()});
  }
  std::fill(before.begin(), before.end(), no_cost);
  before[0] = 0;
  // Sets where a batch begins that has its end between two places, its beginning between others.
  auto const begin = [&](auto const& again, std::size_t batch, std::size_t from, std::size_t to,
                         std::size_t low, std::size_t high) -> void {
    if (from > to) { return; }
    std::size_t const end = from + (to - from) / 2;
    std::size_t best = high;
    for (std::size_t first = low; first <= std::min(high, end - 1); ++first) {
      if (before[first] == no_cost || last_of[first] < end) { continue; }
      cost_units const in_all =
          before[first] + padded_batch{0, samples.subspan(first, end - first)}.load();
      if (in_all >= least[end]) { continue; }
      least[end] = in_all;
      best = first;
    }
    first_of[batch * (count + 1) + end] = static_cast<std::uint32_t>(best);
    again(again, batch, from, end - 1, low, best);
    if (least[end] != no_cost) { again(again, batch, end + 1, to, best, high); }  // else none
  };
  for (std::size_t batch = 0; batch < batches; ++batch) {
    std::fill(least.begin(), least.end(), no_cost);
    bool const is_last = batch + 1 == batches;
    begin(begin, batch, is_last ? count : batch + 1, count, batch, count - 1);
    std::swap(before, least);
  }
  for (std::size_t end = count, batch = batches; batch-- > 0;) {
    std::size_t const first = first_of[batch * (count + 1) + end];
    place(padded_batch{batch, samples.subspan(first, end - first)});
    end = first;
  }
}

/// Fills bags of a few kinds in the best order, where every sample fits every bag.
///
/// If any plan meets a finishing time, so does one that consists of runs of heaviest_first, one per
/// bag. Of all orders of a set of bags, the one that gets furthest is the best to continue from: a
/// bag that starts later begins with a lighter sample and so gets no less far. Sets differ only in
/// how many bags of each kind they use. So there is a table with an entry for each combination of
/// these numbers: how far such bags get.
///
/// Expects     a valid partition_problem; n times the largest cost is below 2^63. To fill:
///             applies(), every sample fits every bag, and the time is not before times.least().
/// Ensures     (1) everything is placed if some plan meets the time, but for the rounding of times
///             (2) every time from outcome.finish to before outcome.next gives the same batches
/// Complexity  O(m log m) to build; to fill, kinds times the product of (bags of a kind + 1),
///             which is m with one kind. 4 bytes of scratch per entry of the table.
class padded_orders {
 public:
  struct outcome {
    bool all_placed = false;
    uint128 finish = 0;  ///< if so, when the last bag that got samples finishes
    uint128 next = std::numeric_limits<uint128>::max();  ///< when some bag could take one more

    [[nodiscard]] bool placed() const noexcept { return all_placed; }
  };

  padded_orders(partition_problem const& problem, finishing_times const& times,
                std::size_t most_entries, workspace::frame& scratch)
      : samples_(problem.heaviest_first),
        times_(times),
        bags_(scratch.take<std::uint32_t>(problem.gpus.size())),
        kinds_(scratch.take<bags_of_kind>(problem.gpus.size()))
  {
    std::iota(bags_.begin(), bags_.end(), std::uint32_t{0});
    std::sort(bags_.begin(), bags_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return precedes(problem.speeds[b], problem.speeds[a], times.finish(a, 0), times.finish(b, 0),
                      a, b);
    });
    std::size_t kinds = 0;
    std::size_t entries = 1;
    for (std::size_t first = 0; first < bags_.size();) {
      std::size_t last = first;
      while (last < bags_.size() && times.alike(bags_[first], bags_[last])) { ++last; }
      kinds_[kinds++] = {bags_.subspan(first, last - first), entries, 0, 0, 0};
      entries *= last - first + 1;
      if (kinds > 1 && entries > most_entries) { return; }
      first = last;
    }
    kinds_ = kinds_.first(kinds);
    reach_ = scratch.take<std::uint32_t>(entries);
  }

  /// Whether bags are of one kind, or of so few that the table is small enough.
  [[nodiscard]] bool applies() const noexcept { return !reach_.empty(); }

  /// Calls place(padded_batch) for each bag that gets samples, if all can be placed in time.
  template <class Place>
  outcome fill(uint128 time, Place const& place)
  {
    outcome filled{.all_placed = samples_.empty()};
    for (bags_of_kind& kind : kinds_) {
      kind.used = 0;
      kind.work = times_.work_until(time, kind.bags.front());
      kind.fuller = no_cost;
    }
    reach_[0] = 0;
    for (std::size_t entry = 1; entry < reach_.size() && !filled.all_placed; ++entry) {
      count_up();
      std::size_t furthest = 0;
      for (bags_of_kind& kind : kinds_) {
        if (kind.used == 0) { continue; }
        std::span<priced_sample const> const waiting =
            samples_.subspan(reach_[entry - kind.stride]);
        std::size_t const taken = padded_batch::most_samples(waiting, kind.work);
        furthest = std::max(furthest, samples_.size() - waiting.size() + taken);
        if (taken < waiting.size()) {
          padded_batch const fuller{0, waiting.first(taken + 1)};
          kind.fuller = std::min(kind.fuller, fuller.load());
        }
      }
      reach_[entry] = static_cast<std::uint32_t>(furthest);
      if (furthest == samples_.size()) {
        filled.all_placed = true;
        filled.finish = place_back_from(entry, place);
      }
    }
    for (bags_of_kind const& kind : kinds_) {
      if (kind.fuller == no_cost) { continue; }
      filled.next = std::min(filled.next, times_.finish(kind.bags.front(), kind.fuller));
    }
    return filled;
  }

 private:
  struct bags_of_kind {
    std::span<std::uint32_t const> bags;
    std::size_t stride;  // from an entry of the table to that with one bag more
    std::size_t used;    // by the present entry
    cost_units work;     // that one of them can do in time
    cost_units fuller;   // the least that one of them would have to do to take one more
  };

  // The numbers of bags used, from those of one entry to those of the next.
  void count_up() noexcept
  {
    for (bags_of_kind& kind : kinds_) {
      if (kind.used < kind.bags.size()) {
        ++kind.used;
        return;
      }
      kind.used = 0;
    }
  }

  // Finds the bags that led here, last to first.
  template <class Place>
  uint128 place_back_from(std::size_t entry, Place const& place)
  {
    uint128 finish = 0;
    while (entry > 0) {
      for (bags_of_kind& kind : kinds_) {
        if (kind.used == 0) { continue; }
        std::size_t const first = reach_[entry - kind.stride];
        std::size_t const taken = padded_batch::most_samples(samples_.subspan(first), kind.work);
        if (first + taken != reach_[entry]) { continue; }
        --kind.used;
        entry -= kind.stride;
        if (taken > 0) {
          padded_batch const batch{kind.bags[kind.used], samples_.subspan(first, taken)};
          finish = std::max(finish, times_.finish(batch.bag, batch.load()));
          place(batch);
        }
        break;
      }
    }
    return finish;
  }

  std::span<priced_sample const> samples_;
  finishing_times const& times_;
  std::span<std::uint32_t> bags_;
  std::span<bags_of_kind> kinds_;
  std::span<std::uint32_t> reach_;
};

}  // namespace detail

/// Batches that are padded to their longest sample, with the least makespan: each sample of a bag
/// costs as much as the heaviest of them.
///
/// The cost model says what one padded sample costs, so `quadratic_cost{1}` balances count x
/// longest and `quadratic_cost{1, lambda}` count x longest x (1 + lambda longest). Samples go in
/// descending order, bag after bag, each as full as a finishing time allows; bisection finds the
/// least time by which all of them have a bag.
///
/// Ensures     (1) every sample has one bag, which it fits
///             (2) loads have grown by the number of samples that each bag now owns times the
///                 largest of their costs
///             (3) where every sample fits every bag and bags have one speed and one load to start
///                 with, the plan is an optimum, and the makespan is returned as proven
///             (4) the same holds with several kinds of bags, as long as the product of (bags of a
///                 kind + 1) is at most `orders` and the least common multiple of speeds below 2^32
///             (5) other bags are filled from those with the most GPUs to those with the fewest,
///                 the fastest of a size first, or in the best order that random swaps of two bags
///                 find where every sample fits every bag; `detail::cheapest_chain` is the bound
///             (6) a plan above what bags hold, in padded weight, is made anew within them, where a
///                 sample that weighs more costs more; where all bags are alike, none is shorter,
///                 and where that finds no plan, none exists
///             (7) where all bags are alike, samples times bags at most 2^14 and weights within
///                 most as in (6), no plan of that makespan costs less in all; what is proven
///                 is the makespan
/// Complexity  O(n + m log m) after the sort that the problem brings, and for every time tried O(m)
///             with bags of one kind, O(kinds x product) in (4), and in (5) O(m + sizes x n); times
///             are bisected until no two that differ are left. In (5) swaps fill up to 2^18 bags, and
///             the bound takes up to 2^21 steps; (7) takes O(m n log n).
/// Source      corrects and generalises Algorithm 2 of B. Xiao, Y. Zheng et al., "OrchMLLM:
///             Orchestrate Multimodal Data with Batch Post-Balancing to Accelerate Multimodal Large
///             Language Model Training", arXiv 2503.23830, 2025.
struct padded_batches {
  std::size_t orders = 8192;  ///< entries of the largest table to search for the order of filling

  ratio operator()(partition_problem const& problem, std::span<cost_units> loads,
                   std::span<bag_id> owner, workspace& memory) const
  {
    detail::expect_policy_arrays(problem, loads, owner);
    auto const place = [&](detail::padded_batch const& batch) {
      for (auto const [cost, sample] : batch.samples) {
        owner[to_index(sample)] = to_id<bag_id>(batch.bag);
      }
      loads[batch.bag] += batch.load();
    };
    auto scratch = memory.open();
    std::span<cost_units> const starts = scratch.take<cost_units>(loads.size());
    std::copy(loads.begin(), loads.end(), starts.begin());
    detail::finishing_times const times(problem, loads, scratch);
    detail::padded_filling by_size(problem, times, scratch);
    detail::padded_orders by_best_order(problem, times, orders, scratch);
    bool const is_best = by_best_order.applies() && by_size.all_fit();
    uint128 time = 0;
    if (is_best) {
      time = shortest_time(by_best_order, times);
      by_best_order.fill(time, place);
    } else {
      time = shortest_time(by_size, times);
      if (by_size.all_fit()) { time = swap_bags(by_size, times, time); }
      by_size.fill(time, place);
    }
    bool is_proven = is_best && times.exact();
    if (overruns(problem, owner, scratch) && weighs_as_it_costs(problem)) {
      by_size.keep_most(problem);
      time = shortest_time(by_size, times);
      if (time == never) { return {}; }  // the front door says that the plan is above
      std::copy(starts.begin(), starts.end(), loads.begin());
      by_size.fill(time, place);
      is_proven = times.exact() && are_alike(problem, times);
    }
    if (can_save_padding(problem, times, owner, scratch)) {
      cost_units const most = *std::max_element(loads.begin(), loads.end()) - starts[0];
      std::copy(starts.begin(), starts.end(), loads.begin());
      auto const most_held = [&problem](priced_sample first) {
        std::int64_t const weight =
            problem.most.empty() ? 0 : problem.weights[to_index(first.sample)];
        return weight == 0 ? problem.costs.size()
                           : static_cast<std::size_t>(problem.most[0] / weight);
      };
      detail::place_with_least_padding(problem.heaviest_first, loads.size(), most, most_held,
                                       scratch, place);
    }
    if (is_proven) { return makespan_of(loads, problem.speeds); }
    // From a place, a bag takes as many samples as it has time for, padded to the heaviest.
    auto const reach = [&problem](std::size_t first, std::size_t end, cost_units work) {
      auto const cost = static_cast<std::uint64_t>(problem.heaviest_first[first].cost);
      auto const most = static_cast<std::uint64_t>(work);
      return (end - first) * cost > most ? first + static_cast<std::size_t>(most / cost) : end;
    };
    detail::cheapest_chain chain(problem, times, scratch);
    return times.makespan_of_rounded(
        chain.least_time(times.least(), time, problem.heaviest_first.size(), reach, scratch));
  }

  [[nodiscard]] static constexpr batching batches() noexcept { return batching::padded; }

  friend bool operator==(padded_batches, padded_batches) = default;

 private:
  static constexpr uint128 never = std::numeric_limits<uint128>::max();

  [[nodiscard]] static bool can_save_padding(partition_problem const& problem,
                                             detail::finishing_times const& times,
                                             std::span<bag_id const> owner,
                                             workspace::frame& scratch)
  {
    constexpr std::size_t most_ends = std::size_t{1} << 14;
    return owner.size() <= most_ends / problem.gpus.size() && are_alike(problem, times) &&
           (problem.most.empty() ||
            (weighs_as_it_costs(problem) && !overruns(problem, owner, scratch)));
  }

  [[nodiscard]] static bool overruns(partition_problem const& problem,
                                     std::span<bag_id const> owner, workspace::frame& scratch)
  {
    std::span<detail::padded_sum> const held =
        scratch.take<detail::padded_sum>(problem.most.size());
    std::fill(held.begin(), held.end(), detail::padded_sum{});
    for (std::size_t sample = 0; sample < problem.weights.size(); ++sample) {
      held[to_index(owner[sample])].add(0, problem.weights[sample]);
    }
    for (std::size_t bag = 0; bag < held.size(); ++bag) {
      if (held[bag].exceeds(problem.most[bag])) { return true; }
    }
    return false;
  }

  [[nodiscard]] static bool weighs_as_it_costs(partition_problem const& problem)
  {
    return std::is_sorted(problem.heaviest_first.begin(), problem.heaviest_first.end(),
                          [&problem](priced_sample a, priced_sample b) {
                            return problem.weights[to_index(a.sample)] >
                                   problem.weights[to_index(b.sample)];
                          });
  }

  [[nodiscard]] static bool are_alike(partition_problem const& problem,
                                      detail::finishing_times const& times)
  {
    for (std::size_t bag = 1; bag < problem.gpus.size(); ++bag) {
      if (!times.alike(0, bag) || problem.gpus[0] != problem.gpus[bag] ||
          (!problem.most.empty() && problem.most[0] != problem.most[bag])) {
        return false;
      }
    }
    return true;
  }

  // Which order of several speeds is best depends on the samples: random swaps of two bags, kept
  // where all samples still have a bag by the time that is the least so far.
  [[nodiscard]] static uint128 swap_bags(detail::padded_filling& bags,
                                         detail::finishing_times const& times, uint128 time)
  {
    constexpr std::size_t most_bags = std::size_t{1} << 18;  // to fill, for all swaps together
    auto const nowhere = [](detail::padded_batch const&) {};
    std::span<std::uint32_t> const order = bags.order();
    random_source random(1);
    std::size_t left = std::min(most_bags / order.size(), 256 * order.size());
    for (; left > 0 && time > times.least(); --left) {
      std::size_t const one = random.below(order.size());
      std::size_t const other = random.below(order.size());
      if (times.alike(order[one], order[other])) { continue; }
      std::swap(order[one], order[other]);
      auto filled = bags.fill(time, nowhere);
      if (!filled.placed()) {
        std::swap(order[one], order[other]);
        continue;
      }
      time = std::max(filled.finish, times.least());
      for (uint128 step = (time - times.least()) / 16; step > 0 && left > 1; --left) {
        filled = bags.fill(time - step, nowhere);
        if (filled.placed()) { time = std::max(filled.finish, times.least()); }
        step = std::min(filled.placed() ? step : step / 4, time - times.least());
      }
    }
    return time;
  }

  // A filling is the same at all times from its `finish` to before its `next`, so every probe moves
  // an end of the interval not just to the time probed but to where the filling changes.
  template <class Filling>
  [[nodiscard]] static uint128 shortest_time(Filling& bags, detail::finishing_times const& times)
  {
    auto const nowhere = [](detail::padded_batch const&) {};
    uint128 low = times.least();
    uint128 high = low;
    auto filled = bags.fill(high, nowhere);
    // The bound is mostly near the optimum and enough() seldom is: look upwards from the bound.
    for (uint128 step = low / 64 + 1; !filled.placed(); step *= 2) {
      if (filled.next == never) { return never; }  // bags hold no more
      low = filled.next;
      high = std::max(low, std::min(high + step, times.enough()));
      filled = bags.fill(high, nowhere);
    }
    high = std::max(filled.finish, low);
    while (low < high) {
      filled = bags.fill(low + (high - low) / 2, nowhere);
      if (filled.placed()) {
        high = std::max(filled.finish, low);
      } else {
        low = filled.next;
      }
    }
    return high;
  }
};

}  // namespace ballast::inline v0
