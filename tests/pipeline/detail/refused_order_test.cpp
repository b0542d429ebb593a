// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/detail/refused_order.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/pipeline/given_order.hpp>
#include <ballast/pipeline/order_microbatches.hpp>

#include <concepts>
#include <utility>

namespace {

namespace refused_of_orders {

using namespace ballast::detail;
using ballast::compiled_schedule;
using ballast::given_order;
using ballast::pipeline_times;
using ballast::result;
struct no_order {};

template <class... Arguments>
concept can_be_ordered = requires(Arguments&&... arguments) {
  ballast::order_microbatches(std::forward<Arguments>(arguments)...);
};

// What does not compile is no call either, though an overload takes it.
static_assert(can_be_ordered<compiled_schedule&, pipeline_times, given_order>);
static_assert(!can_be_ordered<compiled_schedule&, pipeline_times, no_order>);
static_assert(!can_be_ordered<result<compiled_schedule>, pipeline_times, given_order>);
static_assert(!can_be_ordered<compiled_schedule, result<pipeline_times>, given_order>);
static_assert(!can_be_ordered<compiled_schedule, int, given_order>);

template <class Expected, class Schedule, class Times>
constexpr bool refused_as = std::same_as<refused_order<Schedule, Times>, Expected>;

TEST(RefusedOrder, SaysWhatIsWrongFirst)
{
  EXPECT_TRUE((refused_as<the_schedule_must_be_the_value_of_the_result_not_the_result,
                          result<compiled_schedule>, int>));
  EXPECT_TRUE((refused_as<the_schedule_must_be_a_compiled_schedule, int, int>));
  EXPECT_TRUE((refused_as<the_times_must_be_the_value_of_the_result_not_the_result,
                          compiled_schedule, result<pipeline_times>>));
  EXPECT_TRUE((refused_as<the_times_must_be_pipeline_times, compiled_schedule, int>));
  EXPECT_TRUE((refused_as<the_policy_must_take_an_order_problem_order_and_workspace,
                          compiled_schedule, pipeline_times>));
}

}  // namespace refused_of_orders

}  // namespace
