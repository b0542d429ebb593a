// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_CHECK_TIMES_HPP
#define BALLAST_RUNTIME_DETAIL_CHECK_TIMES_HPP

#include <ballast/comm/communicator.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/runtime/scheduled_step.hpp>
#include <ballast/core/contract.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// Calls visit(shape bucket, what was predicted) for each sample that a rank computes in a
/// microbatch: time `index` of [ranks x microbatches].
template <std::size_t D, class Visit>
void for_each_part(scheduled_step<D> const& step, std::size_t index, Visit visit)
{
  std::size_t const rank = index / step.microbatches;
  auto const& [module, of_group, layers, of_layers] = step.stages[rank % step.stages.size()];
  std::size_t const group = rank / step.stages.size();
  std::size_t const replica = group * (step.replicas[module] / step.pipelines()) + of_group;
  for (sample_id const sample : step.microbatch(module, replica, index % step.microbatches)) {
    auto const [forward, backward] = step.predicted[to_index(sample)][module];
    uint128 const work = (static_cast<uint128>(forward) + static_cast<uint128>(backward)) * layers;
    visit(step.shapes[to_index(sample)][module], work / of_layers);
  }
}

/// Why the times of a step cannot be learned from, if so: others than there are, a negative one, or
/// one above `longest`, of those that were measured, planned, or predicted of a call.
template <std::size_t D>
[[nodiscard]] result<void> check_times(scheduled_step<D> const& step, std::size_t ranks,
                                       time_units step_time, std::span<time_units const> measured,
                                       time_units longest)
{
  if (step.ranks() != ranks) {
    return fail(error_code::out_of_range, 0, "a step of ", counted(step.ranks(), "rank"),
                " was given to a correction of ", ranks);
  }
  if (!measured.empty() && measured.size() != ranks * step.microbatches) {
    return fail(error_code::out_of_range, measured.size(), "measured has ",
                counted(measured.size(), "time"), " for ", counted(ranks, "rank"), " with ",
                counted(step.microbatches, "microbatch"), " each; give one of each, or none");
  }
  if (step_time <= 0) {
    return fail(error_code::out_of_range, 0, "a step took ", step_time,
                "; give the time of the slowest rank");
  }
  auto most = static_cast<uint128>(std::max({step_time, step.makespan, step.uncorrected}));
  for (std::size_t index = 0; index < measured.size(); ++index) {
    if (measured[index] < 0) {
      std::size_t const rank = index / step.microbatches;
      return comm_failure::of_rank(
          to_id<rank_id>(rank),
          fail(error_code::out_of_range, index, "rank ", rank, " measured ", measured[index],
               " for microbatch ", index % step.microbatches, "; give times from 0 on"));
    }
    uint128 predicted = 0;
    if (measured[index] > 0) {
      for_each_part(step, index, [&](std::uint32_t, uint128 part) { predicted += part; });
    }
    most = std::max({most, static_cast<uint128>(measured[index]), predicted});
  }
  if (most <= static_cast<uint128>(longest)) { return {}; }
  return fail(error_code::out_of_range, 0, "a time that was measured or planned is longer than ",
              longest,
              ", so that sums of it may not fit 63 bits; use a coarser unit or shorter intervals");
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_CHECK_TIMES_HPP
