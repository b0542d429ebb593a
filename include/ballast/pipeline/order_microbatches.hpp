// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/pipeline/order_lower_bound.hpp>
#include <ballast/pipeline/order_policies.hpp>

namespace ballast::inline v0 {

/// In which order a pipeline computes its microbatches, and how good that order is.
///
/// Ensures     (1) order is a permutation
///             (2) lower_bound <= makespan, and no order takes less than lower_bound
struct order_plan : certified<time_units> {
  std::vector<microbatch_id> order;  ///< the microbatch at each position of the schedule
  time_units makespan_given = 0;     ///< of the microbatches as they were numbered

  /// What ranks compare before they start: equal orders of equal makespans give equal values.
  [[nodiscard]] std::uint64_t digest() const
  {
    return ballast::digest()
        .add(detail::span_of(order))
        .add(static_cast<std::uint64_t>(makespan))
        .value();
  }
};

namespace detail {

// What is wrong with a call of `order_microbatches` or `order_microbatches_into` that cannot
// compile.
//
// These types are never defined. A function that returns one cannot be called, and the first line
// that a compiler prints names it; for a `requires` expression there is no such call.
struct the_schedule_must_be_the_value_of_the_result_not_the_result;
struct the_schedule_must_be_a_compiled_schedule;
struct the_times_must_be_the_value_of_the_result_not_the_result;
struct the_times_must_be_pipeline_times;
struct the_policy_must_take_an_order_problem_order_and_workspace;

template <class Schedule, class Times, class Policy>
concept order_arguments =
    std::convertible_to<Schedule const&, compiled_schedule const&> &&
    std::convertible_to<Times const&, pipeline_times const&> && order_policy<Policy>;

template <class Schedule, class Times>
consteval auto what_order_is_refused()
{
  if constexpr (std::same_as<Schedule, result<compiled_schedule>>) {
    return std::type_identity<the_schedule_must_be_the_value_of_the_result_not_the_result>();
  } else if constexpr (!std::convertible_to<Schedule const&, compiled_schedule const&>) {
    return std::type_identity<the_schedule_must_be_a_compiled_schedule>();
  } else if constexpr (std::same_as<Times, result<pipeline_times>>) {
    return std::type_identity<the_times_must_be_the_value_of_the_result_not_the_result>();
  } else if constexpr (!std::convertible_to<Times const&, pipeline_times const&>) {
    return std::type_identity<the_times_must_be_pipeline_times>();
  } else {
    return std::type_identity<the_policy_must_take_an_order_problem_order_and_workspace>();
  }
}

template <class Schedule, class Times>
using refused_order = typename decltype(what_order_is_refused<Schedule, Times>())::type;

/// Ends the program where a policy's order leaves a microbatch out, so that none is left untrained.
inline void expect_every_microbatch(std::span<microbatch_id const> order, workspace& memory)
{
  auto scratch = memory.open();
  std::span<std::uint32_t> const times_there = scratch.take<std::uint32_t>(order.size());
  std::fill(times_there.begin(), times_there.end(), 0);
  for (microbatch_id const microbatch : order) {
    BALLAST_EXPECTS(to_index(microbatch) < order.size(), "the policy ordered microbatch ",
                    microbatch, " of ", order.size());
    ++times_there[to_index(microbatch)];
  }
  for (std::size_t each = 0; each < order.size(); ++each) {
    BALLAST_EXPECTS(times_there[each] == 1, "the policy ordered microbatch ", each, " ",
                    times_there[each], " times; each has one place");
  }
}

/// order_microbatches_into(), which ballast::compiled has for a policy.
template <order_policy Policy>
[[nodiscard]] result<void> order_into(order_plan& plan, workspace& memory,
                                      compiled_schedule const& schedule,
                                      pipeline_times const& times, Policy const& policy)
{
  if (auto checked = check_times(times, schedule); !checked) { return checked; }
  plan.order.resize(schedule.microbatches());
  for (std::size_t at = 0; at < plan.order.size(); ++at) {
    plan.order[at] = to_id<microbatch_id>(at);
  }
  plan.makespan_given = makespan_of(schedule, times, span_of(plan.order), memory);
  plan.lower_bound = order_lower_bound(schedule, times, memory);
  time_units const proven = run_order_policy(policy, {schedule, times, plan.lower_bound},
                                             mutable_span_of(plan.order), memory);
  if (cancel_scope::is_cancelled()) { return cancelled(); }
  expect_every_microbatch(span_of(plan.order), memory);
  plan.lower_bound = std::max(plan.lower_bound, proven);
  plan.makespan = makespan_of(schedule, times, span_of(plan.order), memory);
  BALLAST_EXPECTS(plan.lower_bound <= plan.makespan,
                  "the policy proved that no order takes less than ", plan.lower_bound,
                  ", and its own takes ", plan.makespan);
  return {};
}

}  // namespace detail

/// Orders the microbatches of a step with a policy, and says how good the order is: the main
/// function of this folder, in the form for a training loop.
///
/// The set of microbatches does not change and their gradients are summed, so that losses and
/// gradients stay what they were, except for the order of summation.
///
/// In, out     plan is overwritten, and keeps its memory for the next step.
/// Ensures     (1) those of order_plan
///             (2) the plan depends on nothing but the arguments, so every rank finds the same one
///             (3) with a plan and a workspace that have seen a step as large, nothing is allocated
/// Errors      those of check_times; the plan is then unspecified.
/// Complexity  that of the policy and of order_lower_bound.
template <order_policy Policy>
[[nodiscard]] result<void> order_microbatches_into(order_plan& plan, workspace& memory,
                                                   compiled_schedule const& schedule,
                                                   pipeline_times const& times,
                                                   Policy const& policy)
{
  return detail::order_into(plan, memory, schedule, times, policy);
}

/// The same, once: returns a new plan.
///
///     auto const plan = order_microbatches(schedule, times, local_search{});
template <order_policy Policy>
[[nodiscard]] result<order_plan> order_microbatches(compiled_schedule const& schedule,
                                                    pipeline_times const& times,
                                                    Policy const& policy)
{
  order_plan plan;
  workspace memory;
  auto const done = order_microbatches_into(plan, memory, schedule, times, policy);
  if (!done) { return tl::unexpected(done.error()); }
  return plan;
}

// Calls that cannot compile come here, so that the first error says what is wrong with them.
/// @cond
template <class Schedule, class Times, class Policy,
          class Refused = detail::refused_order<Schedule, Times>>
  requires(!detail::order_arguments<Schedule, Times, Policy>)
Refused order_microbatches(Schedule const& schedule, Times const& times, Policy const& policy);

template <class Schedule, class Times, class Policy,
          class Refused = detail::refused_order<Schedule, Times>>
  requires(!detail::order_arguments<Schedule, Times, Policy>)
Refused order_microbatches_into(order_plan& plan, workspace& memory, Schedule const& schedule,
                                Times const& times, Policy const& policy);
/// @endcond

}  // namespace ballast::inline v0

#ifdef BALLAST_COMPILED
#include <ballast/pipeline/detail/compiled_orders.hpp>
#endif
