// EXPECT: the_policy_must_take_an_order_problem_order_and_workspace
#include <ballast/pipeline/compiled_schedule.hpp>
#include <ballast/pipeline/given_order.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/pipeline_times.hpp>

bool orders(ballast::compiled_schedule const& schedule, ballast::pipeline_times const& times)
{
  return ballast::order_microbatches(schedule, times, [](int) {}).has_value();
}
