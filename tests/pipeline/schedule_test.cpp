#include <ballast/pipeline/schedule.hpp>  // first: proves it is self-contained

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <concepts>
#include <cstddef>

namespace {

using ballast::chain_of_stages;
using ballast::pass;
using ballast::pipeline_schedule;
using ballast::pipeline_task;
using ballast::stage_graph;
using ballast::stage_id;

// The least that a schedule policy is.
struct archetype {
  ballast::result<pipeline_schedule> operator()(stage_graph const&, std::size_t) const
  {
    return pipeline_schedule{};
  }
  friend constexpr bool operator==(archetype const&, archetype const&) = default;
};
static_assert(ballast::schedule_policy<archetype> && archetype{} == archetype{});

struct answers_without_result : archetype {
  pipeline_schedule operator()(stage_graph const&, std::size_t) const { return {}; }
};
static_assert(!ballast::schedule_policy<answers_without_result>);

static_assert(std::regular<pipeline_task> && std::regular<pipeline_schedule>);

TEST(PipelineTask, DiffersInEachOfItsParts)
{
  pipeline_task const task{1, stage_id{2}, pass::forward};
  EXPECT_EQ(task, (pipeline_task{1, stage_id{2}}));
  EXPECT_NE(task, (pipeline_task{0, stage_id{2}, pass::forward}));
  EXPECT_NE(task, (pipeline_task{1, stage_id{1}, pass::forward}));
  EXPECT_NE(task, (pipeline_task{1, stage_id{2}, pass::backward}));
}

TEST(CheckMicrobatches, LeavesRoomForTwoTasksPerStage)
{
  std::size_t const most = (std::size_t{1} << 28) - 1;
  auto const four = chain_of_stages(4, 4);
  EXPECT_TRUE(ballast::detail::check_microbatches(four, 0));
  EXPECT_TRUE(ballast::detail::check_microbatches(four, most));
  auto const refused = ballast::detail::check_microbatches(four, most + 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ballast::error_code::out_of_range);
  EXPECT_THAT(refused.error().message,
              testing::HasSubstr("268435456 microbatches on 4 stages has 2^31 tasks or more"));
}

}  // namespace
