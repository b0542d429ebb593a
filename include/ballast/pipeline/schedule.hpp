// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_SCHEDULE_HPP
#define BALLAST_PIPELINE_SCHEDULE_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/text/detail/counted.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ballast::inline v0 {

/// The two passes of a microbatch through a stage.
enum class pass : std::uint8_t { forward, backward };

/// One pass of one microbatch through one stage. The schedule only knows the position of the
/// microbatch; an order says which microbatch is there. So one schedule serves all orders.
struct pipeline_task {
  std::uint32_t position = 0;
  stage_id stage{};
  ballast::pass pass = ballast::pass::forward;
  friend bool operator==(pipeline_task const&, pipeline_task const&) = default;
};

/// A task that must be done before another one.
struct task_wait {
  std::uint32_t task = 0;   ///< its number
  time_units transfer = 0;  ///< from its end until the waiting task can start
  friend bool operator==(task_wait const&, task_wait const&) = default;
};

/// What each pipeline rank does, in order: plain data, so that a trainer can write its own.
///
/// compiled_schedule::make checks it.
struct pipeline_schedule {
  std::size_t microbatches = 0;
  std::vector<std::vector<pipeline_task>> ranks;  ///< the tasks of each rank, first to last
  friend bool operator==(pipeline_schedule const&, pipeline_schedule const&) = default;
};

namespace detail {

/// Whether a schedule of so many microbatches has fewer than 2^31 tasks, so that 32 bits are enough
/// to number them.
[[nodiscard]] inline result<void> check_microbatches(stage_graph const& stages,
                                                     std::size_t microbatches)
{
  constexpr std::size_t most_tasks = std::size_t{1} << 31;
  if (microbatches < most_tasks / 2 / stages.stages()) { return {}; }
  return fail(error_code::out_of_range, 0, "a schedule of ", counted(microbatches, "microbatch"),
              " on ", counted(stages.stages(), "stage"),
              " has 2^31 tasks or more; use fewer microbatches");
}

}  // namespace detail

/// Writes the schedule of some number of microbatches for the stages of a model.
///
/// Errors      infeasible: the policy has no schedule for such stages; out_of_range: there would be
///             2^31 tasks or more.
template <class P>
concept schedule_policy = requires(P const policy, stage_graph const& stages, std::size_t count) {
  { policy(stages, count) } -> std::same_as<result<pipeline_schedule>>;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PIPELINE_SCHEDULE_HPP
