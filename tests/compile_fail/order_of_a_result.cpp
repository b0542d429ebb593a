// EXPECT: the_schedule_must_be_the_value_of_the_result_not_the_result
// TWIN: order_by_no_policy_ok.cpp
#include <ballast/core/result.hpp>
#include <ballast/pipeline/compiled_schedule.hpp>
#include <ballast/pipeline/given_order.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/pipeline_times.hpp>

bool orders(ballast::result<ballast::compiled_schedule> const& schedule,
            ballast::pipeline_times const& times)
{
  return ballast::order_microbatches(schedule, times, ballast::given_order{}).has_value();
}
