// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_PIPELINE_TIMES_HPP
#define BALLAST_PIPELINE_PIPELINE_TIMES_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/detail/span_of.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/text/detail/counted.hpp>

#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

namespace ballast::inline v0 {

/// How long one microbatch takes on one stage.
struct stage_time {
  time_units forward = 0;
  time_units backward = 0;  ///< each 0 where the stage has no such pass
  friend bool operator==(stage_time const&, stage_time const&) = default;
};

/// How long every microbatch takes on every stage: what a schedule is simulated with.
///
/// Shapes      a row per microbatch, a column per stage.
/// Units       whole units of time, the same as of the links between the stages.
/// Expects     no time is negative or above stage_graph::longest_time; check_times() checks it.
struct pipeline_times {
  std::size_t stages = 0;
  std::vector<stage_time> rows;  ///< microbatches x stages, microbatch by microbatch

  pipeline_times() = default;
  pipeline_times(std::size_t microbatch_count, std::size_t stage_count)
      : stages(stage_count), rows(microbatch_count * stage_count)
  {
    BALLAST_EXPECTS(stage_count >= 1, "times were asked for on ",
                    detail::counted(stage_count, "stage"));
  }

  /// The times that `time_of(microbatch, stage)`, asked for each of both, returns.
  template <class TimeOf>
    requires std::is_invocable_r_v<stage_time, TimeOf const&, std::size_t, std::size_t>
  pipeline_times(std::size_t microbatch_count, std::size_t stage_count, TimeOf const& time_of)
      : pipeline_times(microbatch_count, stage_count)
  {
    for (std::size_t row = 0; row < rows.size(); ++row) {
      rows[row] = time_of(row / stages, row % stages);
    }
  }

  [[nodiscard]] std::size_t microbatches() const noexcept
  {
    return stages == 0 ? 0 : rows.size() / stages;
  }

  [[nodiscard]] std::span<stage_time const> operator[](microbatch_id microbatch) const
  {
    BALLAST_EXPECTS(to_index(microbatch) < microbatches(), "microbatch ", microbatch,
                    " of times of ", detail::counted(microbatches(), "microbatch"));
    return detail::span_of(rows, to_index(microbatch) * stages, stages);
  }
  [[nodiscard]] std::span<stage_time> operator[](microbatch_id microbatch)
  {
    BALLAST_EXPECTS(to_index(microbatch) < microbatches(), "microbatch ", microbatch,
                    " of times of ", detail::counted(microbatches(), "microbatch"));
    return detail::mutable_span_of(rows, to_index(microbatch) * stages, stages);
  }

  friend bool operator==(pipeline_times const&, pipeline_times const&) = default;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PIPELINE_PIPELINE_TIMES_HPP
