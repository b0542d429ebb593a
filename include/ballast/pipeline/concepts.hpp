// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_CONCEPTS_HPP
#define BALLAST_PIPELINE_CONCEPTS_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/compiled_schedule.hpp>
#include <ballast/pipeline/pipeline_times.hpp>

#include <concepts>
#include <span>
#include <type_traits>

namespace ballast::inline v0 {

/// What every order policy is given: l microbatches to put into the l positions of a schedule.
///
/// `order_microbatches()` builds it and checks all of this; a caller that runs a policy itself has
/// to do so too.
///
/// Expects     (a) check_times(times, schedule) finds no fault
///             (b) no order takes less than lower_bound
struct order_problem {
  compiled_schedule const& schedule;
  pipeline_times const& times;
  time_units lower_bound = 0;
};

/// Decides in which order a pipeline rank's microbatches are computed.
///
/// In, out     order[l] enters as a permutation, the order in which the microbatches are given, and
///             leaves as another. memory is scratch that the policy gives back.
/// Returns     nothing, or a time that it has proven no order can get below.
/// A policy is a value, usually without state, with its parameters as public members.
template <class P>
concept order_policy = requires(P const policy, order_problem const& problem,
                                std::span<microbatch_id> order, workspace& memory) {
  requires std::same_as<decltype(policy(problem, order, memory)), void> ||
               std::same_as<decltype(policy(problem, order, memory)), time_units>;
};

namespace detail {

/// Runs a policy. Returns the makespan that it has proven to be the least, or 0 for no proof.
template <order_policy Policy>
[[nodiscard]] time_units run_order_policy(Policy const& policy, order_problem const& problem,
                                          std::span<microbatch_id> order, workspace& memory)
{
  if constexpr (std::is_void_v<decltype(policy(problem, order, memory))>) {
    policy(problem, order, memory);
    return 0;
  } else {
    return policy(problem, order, memory);
  }
}

}  // namespace detail

}  // namespace ballast::inline v0

#endif  // BALLAST_PIPELINE_CONCEPTS_HPP
