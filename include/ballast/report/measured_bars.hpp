// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_REPORT_MEASURED_BARS_HPP
#define BALLAST_REPORT_MEASURED_BARS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/detail/concat.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/report/gantt_bar.hpp>
#include <ballast/report/number_text.hpp>
#include <ballast/runtime/scheduled_step.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ballast::inline v0::report {

/// Returns how long each rank of a scheduled step computed each microbatch, for a timeline on which slow
/// ranks have longer rows and slow shapes longer bars.
///
/// Shapes      measured[ranks x microbatches], as adaptive_correction takes them.
/// Units       time_per_unit is that of the bars per unit of the times.
/// Ensures     (1) a bar per microbatch with time, which names its samples and how much longer it took
///                 than planned; the bars of a rank follow each other without gaps, without the waits
///                 between them
/// Complexity  O(ranks x microbatches).
template <std::size_t D>
[[nodiscard]] std::vector<gantt_bar> measured_bars(scheduled_step<D> const& step,
                                                   std::span<time_units const> measured,
                                                   double time_per_unit)
{
  BALLAST_EXPECTS(measured.size() == step.ranks() * step.microbatches, "there are times of ",
                  measured.size(), " microbatches for a step of ",
                  step.ranks() * step.microbatches);
  std::vector<gantt_bar> bars;
  double end = 0;
  for (std::size_t index = 0; index < measured.size(); ++index) {
    std::size_t const rank = index / step.microbatches;
    std::size_t const position = index % step.microbatches;
    if (position == 0) { end = 0; }
    if (measured[index] <= 0) { continue; }
    std::size_t const column = rank % step.stages.size();
    std::size_t const group = rank / step.stages.size();
    auto const& stage = step.stages[column];
    std::size_t const of_group = step.replicas[stage.module] / step.pipelines();
    std::size_t const samples =
        step.microbatch(stage.module, group * of_group + stage.replica, position).size();
    auto const [forward, backward] = step.times[group][to_id<microbatch_id>(position)][column];
    auto const planned = static_cast<double>(forward + backward);
    auto const taken = static_cast<double>(measured[index]);
    std::string label =
        detail::concat("microbatch ", position, " of ", samples, " samples, ",
                       decimal_text(planned > 0 ? taken / planned : 0, 2), " x planned");
    double const duration = taken * time_per_unit;
    bars.push_back({to_id<rank_id>(rank), end, duration, std::move(label)});
    end += duration;
  }
  return bars;
}

}  // namespace ballast::inline v0::report

#endif  // BALLAST_REPORT_MEASURED_BARS_HPP
