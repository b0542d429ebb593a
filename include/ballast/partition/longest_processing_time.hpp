// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_LONGEST_PROCESSING_TIME_HPP
#define BALLAST_PARTITION_LONGEST_PROCESSING_TIME_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/cost_vector.hpp>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/detail/greedy/assign_in_rounds.hpp>
#include <ballast/partition/detail/greedy/lightest_bags.hpp>
#include <ballast/partition/detail/policy_arrays.hpp>
#include <ballast/partition/detail/vectors/earliest_vectors.hpp>
#include <ballast/partition/detail/vectors/lightest_vectors.hpp>
#include <ballast/partition/detail/vectors/place_vectors_within_capacity.hpp>
#include <ballast/partition/priced_sample.hpp>

#include <algorithm>
#include <cstddef>
#include <span>

namespace ballast::inline v0 {

namespace detail {

/// What `longest_processing_time` does by several quantities.
template <std::size_t D>
void assign_vectors(cost_vector_problem<D> const& problem, std::span<cost_vector<D>> loads,
                    std::span<bag_id> owner, workspace& memory)
{
  auto scratch = memory.open();
  std::span<cost_units> const largest = scratch.take<cost_units>(owner.size());
  std::transform(
      problem.costs.begin(), problem.costs.end(), largest.begin(),
      [](cost_vector<D> const& cost) { return *std::max_element(cost.begin(), cost.end()); });
  std::span<priced_sample> const order = scratch.take<priced_sample>(owner.size());
  descending_order_into(order, largest, memory);
  auto const put = [&](std::size_t sample, std::size_t bag) {
    owner[sample] = to_id<bag_id>(bag);
    for (std::size_t d = 0; d < D; ++d) { loads[bag][d] += problem.costs[sample][d]; }
  };

  if (problem.one_speed() && problem.any_bag_is_open()) {
    lightest_vectors<D> bags(loads, scratch);
    for (priced_sample const each : order) {
      std::size_t const sample = to_index(each.sample);
      std::size_t const bag = bags.lightest(problem.costs[sample]);
      bags.add(bag, problem.costs[sample]);
      put(sample, bag);
    }
    return;
  }
  std::span<cost_vector<D>> const starts = scratch.take<cost_vector<D>>(problem.capacities.size());
  std::copy_n(loads.begin(), starts.size(), starts.begin());
  earliest_vectors<D> bags(problem, loads, scratch);
  for (priced_sample const each : order) {
    std::size_t const sample = to_index(each.sample);
    std::size_t const bag = bags.earliest(sample);
    if (bag == loads.size()) {
      static_cast<void>(place_vectors_within_capacity<D>(problem, starts, loads, owner, memory));
      return;
    }
    bags.add(sample, bag);
    put(sample, bag);
  }
}

}  // namespace detail

/// Heaviest sample first, each to the bag that would finish it earliest.
///
/// With bags of one kind that is the lightest bag; with several sizes or speeds the one with the
/// least (load + cost) / speed, among the bags that the sample fits.
///
/// Ensures     (1) every sample has one bag, which it fits
///             (2) loads have grown by exactly the costs of the samples each bag now owns
///             (3) from empty bags of one size, makespan <= (4/3 - 1/(3m)) * optimum
///             (4) equal costs go in sample order and equal finishing times to the smaller, then to
///                 the slower, then to the lower-numbered bag
/// Complexity  after the sort that the problem brings O(n) for most steps with bags of one kind,
///             which are assigned in rounds, and otherwise O(n (kinds + log m)).
/// Source      R. L. Graham, "Bounds on Multiprocessing Timing Anomalies", SIAM J. Appl. Math.
///             17(2):416-429, 1969; on bags of several sizes T. Gonzalez, O. H. Ibarra, S. Sahni,
///             "Bounds for LPT Schedules on Uniform Processors", SIAM J. Comput. 6(1), 1977.
///
/// **By several quantities** the sample with the largest single cost goes first, always to the bag,
/// of those with room for it, that then finishes earliest in the dimension in which it is latest.
/// Where a sample finds no room, all are placed anew: `detail::place_vectors_within_capacity`.
///
/// Ensures     (5) every sample that found room has one bag, which it fits; without capacities all
///                 have; (2)
///             (6) equal largest costs go in sample order and equal results to the lowest-numbered
///                 bag, so by one quantity and equal bags without capacities the plan is the one of
///                 that quantity alone
///             (7) no bag weighs more than its capacity
/// Complexity  O(n) to sort; O(n (log m + m^(1 - 1/D))) where the bags' loads are spread evenly,
///             O(n m) at worst.
/// Source      the problem in D dimensions is vector scheduling: C. Chekuri, S. Khanna, "On
///             Multidimensional Packing Problems", SIAM J. Comput. 33(4), 2004.
struct longest_processing_time {
  void operator()(partition_problem const& problem, std::span<cost_units> loads,
                  std::span<bag_id> owner, workspace& memory) const
  {
    detail::expect_policy_arrays(problem, loads, owner);
    if (detail::one_kind_of_bags(problem) &&
        detail::assign_in_rounds(problem.heaviest_first, loads, owner, memory)) {
      return;
    }
    auto scratch = memory.open();
    detail::lightest_bags const bags(problem, loads, scratch);

    for (auto const [cost, sample] : problem.heaviest_first) {
      // The smallest bags take every sample, so lengths are looked up only where sizes differ.
      detail::identical_bags* best = &bags.kinds().front();
      ratio best_finish{best->lightest().load + cost, best->speed};
      for (detail::identical_bags& kind : bags.kinds().subspan(1)) {
        if (!partition_problem::splits(problem.lengths[to_index(sample)], kind.gpus)) { break; }
        ratio const finish{kind.lightest().load + cost, kind.speed};
        if (finish < best_finish) {
          best = &kind;
          best_finish = finish;
        }
      }
      owner[to_index(sample)] = to_id<bag_id>(best->lightest().index);
      best->add_to_lightest(cost);
    }
    bags.store(loads);
  }

  template <std::size_t D>
  void operator()(cost_vector_problem<D> const& problem, std::span<cost_vector<D>> loads,
                  std::span<bag_id> owner, workspace& memory) const
  {
    detail::expect_policy_arrays<D>(problem, loads, owner);
    detail::assign_vectors<D>(problem, loads, owner, memory);
  }

  friend bool operator==(longest_processing_time, longest_processing_time) = default;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_LONGEST_PROCESSING_TIME_HPP
