#include <ballast/pipeline/joined_stages.hpp>  // first: proves it is self-contained

#include "../support/named_chain.hpp"
#include "../support/stage_links.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/pipeline/compiled_schedule.hpp>
#include <ballast/pipeline/one_forward_one_backward.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>

namespace {

using ballast::error_code;
using ballast::joined_modules;
using ballast::joined_stages;
using ballast::pipeline_rank;
using ballast::stage_id;
using ballast_test::link;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(JoinedStages, JoinsEncodersInTheLlmAndFeedsGenerators)
{
  auto const stages = joined_stages({.encoders = {{2, false}, {1, true}},
                                     .llm = {2},
                                     .generators = {{1}, {2}},
                                     .transfer = 5})
                          .value();
  EXPECT_EQ(stages.stages(), 8U);
  EXPECT_EQ(stages.ranks(), 8U);
  EXPECT_THAT(stages.links(),
              ElementsAre(link(0, 1, 5), link(1, 3, 5), link(2, 3, 5), link(3, 4, 5), link(4, 5, 5),
                          link(4, 6, 5), link(6, 7, 5)));
  for (std::uint32_t stage = 0; stage < 8; ++stage) {
    auto const& [rank, backward, part] = stages[stage_id{stage}];
    EXPECT_EQ(rank, pipeline_rank{stage});
    EXPECT_EQ(backward, stage >= 2) << stage;
  }
}

TEST(JoinedStages, IsAChainWithoutEncodersAndGenerators)
{
  auto const stages = joined_stages({.llm = {4}, .transfer = 3}).value();
  EXPECT_EQ(stages, ballast::chain_of_stages(4, 4, 3));
  EXPECT_EQ(joined_stages({}).value(), ballast::chain_of_stages(1, 1));
  EXPECT_EQ(joined_stages({.encoders = {{2}}, .llm = {1}, .generators = {{1}}}).value(),
            ballast_test::named_chain(4, 4, 2, 1));
}

TEST(JoinedStages, MakesAPipelineOfSeveralModules)
{
  // [joined_stages]
  // A frozen vision encoder and an audio encoder that is trained feed an LLM of four stages.
  auto const stages = ballast::joined_stages({
      .encoders = {{.stages = 2, .backward = false}, {.stages = 1}},
      .llm = {.stages = 4},
      .generators = {{.stages = 1}},
      .transfer = 50,
  });
  auto const compiled =
      ballast::compiled_schedule::make(*stages, ballast::one_forward_one_backward{}, 16);
  // [joined_stages]
  ASSERT_TRUE(compiled) << compiled.error().message;
  EXPECT_EQ(compiled->tasks().size(), (8U + 6U) * 16U);
}

void expect_refused(joined_modules const& modules, error_code code, std::size_t position,
                    char const* why)
{
  auto const stages = joined_stages(modules);
  ASSERT_FALSE(stages) << why;
  EXPECT_EQ(stages.error().code, code) << stages.error().message;
  EXPECT_EQ(stages.error().position, position) << stages.error().message;
  EXPECT_THAT(stages.error().message, HasSubstr(why));
}

TEST(JoinedStages, RefusesWhatIsNoPipeline)
{
  constexpr auto out_of_range = error_code::out_of_range;
  expect_refused({.encoders = {{1}, {0}}}, out_of_range, 1, "module 1 has 0 stages");
  expect_refused({.encoders = {{1}}, .llm = {0}}, out_of_range, 1, "module 1 has 0 stages");
  expect_refused({.encoders = {{1}}, .llm = {65'535}, .generators = {{1}}}, out_of_range, 2,
                 "module 2 has 1 stage; give every module at least one, and 65536 to all");
  expect_refused({.llm = {std::numeric_limits<std::size_t>::max()}}, out_of_range, 0, "module 0");
  expect_refused({.llm = {2}, .transfer = -1}, out_of_range, 0, "transfer time of -1");
  expect_refused({.encoders = {{2, true}}, .llm = {1, false}}, error_code::infeasible, 1,
                 "would need a gradient from a stage that has no backward");
}

}  // namespace
