// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/result.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/order_policies.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/simulate.hpp>

bool orders(ballast::result<ballast::compiled_schedule> const& schedule,
            ballast::pipeline_times const& times)
{
#if defined(BY_NO_POLICY)
  // EXPECT: the_policy_must_take_an_order_problem_order_and_workspace
  return ballast::order_microbatches(*schedule, times, [](int) {}).has_value();
#elif defined(OF_A_RESULT)
  // EXPECT: the_schedule_must_be_the_value_of_the_result_not_the_result
  return ballast::order_microbatches(schedule, times, ballast::given_order{}).has_value();
#else
  return ballast::order_microbatches(*schedule, times, ballast::given_order{}).has_value();
#endif
}
