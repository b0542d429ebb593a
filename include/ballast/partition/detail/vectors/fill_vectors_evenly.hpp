// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_VECTORS_FILL_VECTORS_EVENLY_HPP
#define BALLAST_PARTITION_DETAIL_VECTORS_FILL_VECTORS_EVENLY_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/cost_vector.hpp>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/detail/bounds/work_limits.hpp>
#include <ballast/partition/detail/vectors/least_finish.hpp>
#include <ballast/partition/priced_sample.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

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

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_VECTORS_FILL_VECTORS_EVENLY_HPP
