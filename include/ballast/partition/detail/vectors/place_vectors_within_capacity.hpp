// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/detail/capacity/capacity_filling.hpp>
#include <ballast/partition/detail/vectors/earliest_vectors.hpp>

#include <bit>

namespace ballast::inline v0::detail {

/// What share of its limit a bin has, as a whole number that compares between bins: 2^30 is all, to
/// within a part of 2^62.
///
/// Shapes      limits[m]; a limit below 1 counts as 1.
/// Expects     values are not negative.
class shares_of_limits {
 public:
  shares_of_limits(std::span<std::int64_t const> limits, workspace::frame& scratch)
      : parts_(scratch.take<part>(limits.size()))
  {
    for (std::size_t bin = 0; bin < limits.size(); ++bin) {
      auto const limit = static_cast<std::uint64_t>(std::max<std::int64_t>(limits[bin], 1));
      auto const bits = static_cast<int>(std::bit_width(limit));
      parts_[bin] = {static_cast<std::uint64_t>((uint128{1} << (bits + precision)) / limit),
                     bits + precision - share_bits};
    }
  }

  [[nodiscard]] uint128 share(std::size_t bin, std::int64_t value) const noexcept
  {
    return uint128{static_cast<std::uint64_t>(value)} * parts_[bin].reciprocal >> parts_[bin].shift;
  }

 private:
  static constexpr int share_bits = 30;
  static constexpr int precision = 62;
  struct part {
    std::uint64_t reciprocal;
    int shift;
  };
  std::span<part> parts_;
};

/// Makes a plan from nothing in which work and weight are even: weight counts as one dimension
/// more, of which a bin's capacity is all that it should have. Samples that have a large share of
/// some limit go first, each to the open bin of which the largest share is then the least.
///
/// Shapes      starts[m]: what bins have at the start, loads[m], owner[n].
/// Expects     a problem with capacities.
/// In, out     where a sample finds no room, it and those after it have no bin.
/// Ensures     (1) no bin gets above its capacity, and equal bins are taken by number
///             (2) it returns whether all samples found room
/// Complexity  O(D n m)
template <std::size_t D>
bool fill_vectors_evenly(cost_vector_problem<D> const& problem,
                         std::span<cost_vector<D> const> starts, std::span<cost_vector<D>> loads,
                         std::span<bag_id> owner, workspace& memory)
{
  std::size_t const bins = loads.size();
  auto scratch = memory.open();
  std::copy(starts.begin(), starts.end(), loads.begin());
  std::fill(owner.begin(), owner.end(), to_id<bag_id>(bins));
  std::span<std::int64_t> const room = scratch.take<std::int64_t>(bins);
  std::copy(problem.capacities.begin(), problem.capacities.end(), room.begin());

  cost_vector<D> total = sum_of<D>(starts);
  cost_vector<D> const work = sum_of<D>(problem.costs);
  for (std::size_t d = 0; d < D; ++d) { total[d] += work[d]; }
  ratio const finish = least_finish<D>(problem, total, bins);
  std::int64_t const weight =
      std::reduce(problem.weights.begin(), problem.weights.end(), std::int64_t{0});
  std::span<std::int64_t> const load_limits = scratch.take<std::int64_t>(bins);
  std::span<std::int64_t> const weight_limits = scratch.take<std::int64_t>(bins);
  uint128 all_load = 0;
  uint128 all_weight = 0;
  for (std::size_t bin = 0; bin < bins; ++bin) {
    load_limits[bin] = work_until(finish, problem.speed(bin));
    weight_limits[bin] = std::min(problem.capacities[bin], weight);
    all_load += static_cast<std::uint64_t>(load_limits[bin]);
    all_weight += static_cast<std::uint64_t>(weight_limits[bin]);
  }

  auto const share_of_mean = [bins](std::int64_t value, uint128 all) {
    auto const part =
        (uint128{static_cast<std::uint64_t>(value)} << 30) / std::max<uint128>(all / bins, 1);
    return static_cast<std::int64_t>(
        std::min(part, static_cast<uint128>(static_cast<std::uint64_t>(no_cost - 1))));
  };
  std::span<cost_units> const largest_share = scratch.take<cost_units>(owner.size());
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    cost_vector<D> const& cost = problem.costs[sample];
    largest_share[sample] =
        std::max(share_of_mean(*std::max_element(cost.begin(), cost.end()), all_load),
                 share_of_mean(problem.weights[sample], all_weight));
  }
  std::span<priced_sample> const order = scratch.take<priced_sample>(owner.size());
  descending_order_into(order, largest_share, memory);

  shares_of_limits const load_shares(load_limits, scratch);
  shares_of_limits const weight_shares(weight_limits, scratch);
  for (priced_sample const each : order) {
    std::size_t const sample = to_index(each.sample);
    cost_vector<D> const& cost = problem.costs[sample];
    std::int64_t const weighs = problem.weights[sample];
    std::size_t best = bins;
    uint128 best_share = 0;
    for (std::size_t bin = 0; bin < bins; ++bin) {
      if (room[bin] < weighs || !problem.fits(sample, bin)) { continue; }
      cost_units load = 0;
      for (std::size_t d = 0; d < D; ++d) { load = std::max(load, loads[bin][d] + cost[d]); }
      uint128 const share =
          std::max(load_shares.share(bin, load),
                   weight_shares.share(bin, problem.capacities[bin] - room[bin] + weighs));
      if (best == bins || share < best_share) {
        best = bin;
        best_share = share;
      }
    }
    if (best == bins) { return false; }
    owner[sample] = to_id<bag_id>(best);
    room[best] -= weighs;
    for (std::size_t d = 0; d < D; ++d) { loads[best][d] += cost[d]; }
  }
  return true;
}

/// Makes a plan from nothing, heaviest weight first, each sample in the bin with room that then
/// finishes earliest. Returns whether all samples found room.
///
/// Shapes      starts[m], loads[m], owner[n]; by_weight[n]: `descending_order_into` of the weights.
template <std::size_t D>
bool fill_vectors_by_weight(cost_vector_problem<D> const& problem,
                            std::span<cost_vector<D> const> starts,
                            std::span<priced_sample const> by_weight,
                            std::span<cost_vector<D>> loads, std::span<bag_id> owner,
                            workspace& memory)
{
  auto scratch = memory.open();
  std::copy(starts.begin(), starts.end(), loads.begin());
  earliest_vectors<D> open(problem, loads, scratch);
  return std::all_of(by_weight.begin(), by_weight.end(), [&](priced_sample each) {
    std::size_t const sample = to_index(each.sample);
    std::size_t const bin = open.earliest(sample);
    if (bin == loads.size()) { return false; }
    open.add(sample, bin);
    owner[sample] = to_id<bag_id>(bin);
    for (std::size_t d = 0; d < D; ++d) { loads[bin][d] += problem.costs[sample][d]; }
    return true;
  });
}

/// Makes a plan from nothing that keeps to the capacities: with work and weight even, by weight to
/// the bin that finishes earliest, by weight to the fullest bin with room, and at last by a search
/// of all fillings. Returns whether it did.
///
/// Shapes      starts[m]: what bins have at the start, loads[m], owner[n].
/// Expects     a problem with capacities.
/// In, out     where it found no plan, samples without room have no bin.
/// Ensures     (1) no bin is above its capacity, and loads and owners belong together
///             (2) where a plan exists and the search ends within its 300,000 steps, it finds one
/// Complexity  O(D n m + n log n) and the steps of the search
template <std::size_t D>
bool place_vectors_within_capacity(cost_vector_problem<D> const& problem,
                                   std::span<cost_vector<D> const> starts,
                                   std::span<cost_vector<D>> loads, std::span<bag_id> owner,
                                   workspace& memory)
{
  if (fill_vectors_evenly<D>(problem, starts, loads, owner, memory)) { return true; }

  std::size_t const bins = loads.size();
  auto scratch = memory.open();
  auto const add = [&](std::size_t sample, std::size_t bin) {
    owner[sample] = to_id<bag_id>(bin);
    for (std::size_t d = 0; d < D; ++d) { loads[bin][d] += problem.costs[sample][d]; }
  };
  std::span<priced_sample> const by_weight = scratch.take<priced_sample>(owner.size());
  descending_order_into(by_weight, problem.weights, memory);
  if (fill_vectors_by_weight<D>(problem, starts, by_weight, loads, owner, memory)) { return true; }

  constexpr std::uint64_t steps = 300'000;
  work_budget nodes(steps);
  partition_problem const alone = weights_alone(problem, bins, scratch);
  std::span<cost_units> const no_loads = scratch.take<cost_units>(bins);
  std::span<cost_units> const no_starts = scratch.take<cost_units>(bins);
  std::span<bag_id> const bag_of = scratch.take<bag_id>(owner.size());
  std::fill(no_loads.begin(), no_loads.end(), 0);
  std::fill(no_starts.begin(), no_starts.end(), 0);
  std::fill(bag_of.begin(), bag_of.end(), to_id<bag_id>(bins));
  bags_with_room const bags(alone, no_loads, bag_of, scratch);
  bool const found = bags.fill(by_weight, room_choice::tightest) ||
                     search_all_fillings(alone, bags, no_starts, by_weight, nodes, memory);
  std::copy(starts.begin(), starts.end(), loads.begin());
  std::fill(owner.begin(), owner.end(), to_id<bag_id>(bins));
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    if (to_index(bag_of[sample]) < bins) { add(sample, to_index(bag_of[sample])); }
  }
  return found;
}

/// Which bin gets the samples of most work per weight: the one that can still do most work per
/// weight that it can still hold, or the one that is fastest for what it holds, as long as it has
/// time.
enum class dense_choice : std::uint8_t { slack, speed };

/// Makes a plan from nothing in which slow bins hold much that is little work: samples of most work
/// per weight first, each to the bin of this choice. By slack it is `fill_by_density` in several
/// dimensions: a bin can do what it can in the fullest of them. By speed, slow bins get nothing but
/// what fast ones cannot hold, which is best where fast bins then have time left.
///
/// Where bins hold the same but are not equally fast, or cost grows faster than weight, this is
/// what exchanges do not find: a slow bin would have to give one long sample for many short ones.
///
/// Shapes      work[n]: what counts as the work of each sample; starts[m]: what bins have at the
///             start, loads[m], owner[n].
/// Expects     a problem with capacities; `finish` is when bins should be done.
/// In, out     where a sample finds no room, it and those after it have no bin.
/// Ensures     (1) no bin gets above its capacity, and equal bins are taken by number
///             (2) it returns whether all samples found room
/// Complexity  O(n log n + D n m)
template <std::size_t D>
bool fill_vectors_by_density(cost_vector_problem<D> const& problem,
                             std::span<cost_units const> work, dense_choice choice, ratio finish,
                             std::span<cost_vector<D> const> starts,
                             std::span<cost_vector<D>> loads, std::span<bag_id> owner,
                             workspace& memory)
{
  std::size_t const bins = loads.size();
  auto scratch = memory.open();
  std::copy(starts.begin(), starts.end(), loads.begin());
  std::fill(owner.begin(), owner.end(), to_id<bag_id>(bins));
  partition_problem alone = weights_alone(problem, bins, scratch);
  alone.costs = work;
  cheapest_cover const cover(alone, scratch);
  std::span<cost_units> const limits = scratch.take<cost_units>(bins);
  std::span<cost_units> const left = scratch.take<cost_units>(bins);  // in the fullest dimension
  std::span<std::int64_t> const room = scratch.take<std::int64_t>(bins);
  std::copy(problem.capacities.begin(), problem.capacities.end(), room.begin());
  auto const add = [&](std::size_t sample, std::size_t bin) {
    owner[sample] = to_id<bag_id>(bin);
    for (std::size_t d = 0; d < D; ++d) { loads[bin][d] += problem.costs[sample][d]; }
    left[bin] = limits[bin] - *std::max_element(loads[bin].begin(), loads[bin].end());
    room[bin] -= problem.weights[sample];
  };
  for (std::size_t bin = 0; bin < bins; ++bin) {
    limits[bin] = work_until(finish, problem.speed(bin));
    left[bin] = limits[bin] - *std::max_element(loads[bin].begin(), loads[bin].end());
  }

  earliest_vectors<D> open(problem, loads, scratch);
  auto const place_earliest = [&](std::size_t sample) {
    std::size_t const bin = open.earliest(sample);
    if (bin == bins) { return false; }
    open.add(sample, bin);
    add(sample, bin);
    return true;
  };
  auto const is_in_time = [&](std::size_t sample, std::size_t bin) {
    for (std::size_t d = 0; d < D; ++d) {
      if (loads[bin][d] + problem.costs[sample][d] > limits[bin]) { return false; }
    }
    return true;
  };
  auto const keeps_pace = [&](std::size_t a, std::size_t b) {  // the speed of a, the capacity of b
    return choice == dense_choice::slack
               ? uint128{0}
               : uint128{problem.speed(a)} * static_cast<std::uint64_t>(problem.capacities[b]);
  };
  auto const rooms = [&](std::size_t a, std::size_t b) {  // the work of a, the weight of b
    return uint128{static_cast<std::uint64_t>(left[a])} * static_cast<std::uint64_t>(room[b]);
  };
  for (std::size_t place = cover.order().size(); place-- > 0;) {
    std::size_t const sample = cover.order()[place];
    std::size_t best = bins;
    for (std::size_t bin = 0; bin < bins; ++bin) {
      if (room[bin] < problem.weights[sample] || !is_in_time(sample, bin)) { continue; }
      if (best < bins && !precedes(keeps_pace(best, bin), keeps_pace(bin, best), rooms(best, bin),
                                   rooms(bin, best))) {
        continue;
      }
      if (problem.fits(sample, bin)) { best = bin; }
    }
    if (best < bins) {
      open.add(sample, best);
      add(sample, best);
    } else if (!place_earliest(sample)) {
      return false;
    }
  }
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    if (problem.weights[sample] == 0 && !place_earliest(sample)) { return false; }
  }
  return true;
}

}  // namespace ballast::inline v0::detail
