#include <ballast/pipeline/detail/evaluation/order_program.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>

#include <type_traits>

namespace {

namespace detail = ballast::detail;

// They live in a workspace.
static_assert(std::is_trivially_copyable_v<detail::order_step>);
static_assert(std::is_trivially_copyable_v<detail::order_load>);
static_assert(std::is_trivially_copyable_v<detail::order_beat>);

TEST(OrderProgram, TakesNoTimeWhereThereIsNothingToDo)
{
  detail::order_program const nothing;
  EXPECT_TRUE(nothing.beats.empty() && nothing.loads.empty() && nothing.steps.empty());
  EXPECT_EQ(nothing.makespan, detail::no_time);
  EXPECT_EQ(nothing.slots, detail::fewest_lanes);  // that of no_time
}

}  // namespace
