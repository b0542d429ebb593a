// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_SCHEDULE_HPP
#define BALLAST_PIPELINE_SCHEDULE_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/result.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ballast::inline v0 {

enum class pass : std::uint8_t { forward, backward };

/// One pass of one microbatch through one stage. Which microbatch it is an order says: the schedule
/// only knows that it comes at `position`, so that one schedule serves all orders.
struct pipeline_task {
  std::uint32_t position = 0;
  stage_id stage{};
  ballast::pass pass = ballast::pass::forward;
  friend bool operator==(pipeline_task const&, pipeline_task const&) = default;
};

/// What each pipeline rank does, in order: plain data, so that a trainer can write its own.
///
/// It is checked where it is compiled: see compiled_schedule.
struct pipeline_schedule {
  std::size_t microbatches = 0;
  std::vector<std::vector<pipeline_task>> ranks;  ///< the tasks of each rank, first to last
  friend bool operator==(pipeline_schedule const&, pipeline_schedule const&) = default;
};

namespace detail {

/// Whether a schedule of so many microbatches has fewer than 2^31 tasks, so that 32 bits number
/// them.
[[nodiscard]] inline result<void> check_microbatches(stage_graph const& stages,
                                                     std::size_t microbatches)
{
  constexpr std::size_t most_tasks = std::size_t{1} << 31;
  if (microbatches < most_tasks / 2 / stages.stages()) { return {}; }
  return fail(error_code::out_of_range, 0,
              "a schedule of " + std::to_string(microbatches) + " microbatches on " +
                  std::to_string(stages.stages()) +
                  " stages has 2^31 tasks or more; use fewer microbatches");
}

}  // namespace detail

/// Writes the schedule of some number of microbatches for the stages of a model.
///
/// Errors      infeasible, where it has none for such stages; out_of_range, where it would have
///             2^31 tasks or more.
template <class P>
concept schedule_policy =
    std::regular<P> && requires(P const policy, stage_graph const& stages, std::size_t count) {
      { policy(stages, count) } -> std::same_as<result<pipeline_schedule>>;
    };

}  // namespace ballast::inline v0

#endif  // BALLAST_PIPELINE_SCHEDULE_HPP
