// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_DETAIL_REFUSED_ORDER_HPP
#define BALLAST_PIPELINE_DETAIL_REFUSED_ORDER_HPP

#include <ballast/core/result.hpp>
#include <ballast/pipeline/compiled_schedule.hpp>
#include <ballast/pipeline/concepts.hpp>
#include <ballast/pipeline/pipeline_times.hpp>

#include <concepts>
#include <type_traits>

/// What is wrong with a call of `order_microbatches` or `order_microbatches_into` that cannot compile.
///
/// These types are never defined. A function that returns one cannot be called, and the first line
/// that a compiler prints names it; for a `requires` expression there is no such call.
namespace ballast::inline v0::detail {

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

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PIPELINE_DETAIL_REFUSED_ORDER_HPP
