#include <ballast/pipeline/stage_graph.hpp>  // first: proves it is self-contained

#include "../support/pipelines.hpp"
#include "../support/test.hpp"

#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/schedule_policies.hpp>

namespace {

using namespace ballast;
using ballast_test::link;
using testing::ElementsAre;
using testing::HasSubstr;

static_assert(std::copyable<stage_graph> && std::equality_comparable<stage_graph>);

std::vector<pipeline_stage> on_ranks(std::vector<std::uint32_t> const& ranks)
{
  std::vector<pipeline_stage> stages;
  for (std::uint32_t const rank : ranks) { stages.push_back({pipeline_rank{rank}}); }
  return stages;
}

// Oracle: go through the given links and sort those that have the stage at an end.
TEST(StageGraph, FindsTheLinksOfEveryStage)
{
  ballast::random_source random(20261125);
  for (int trial = 0; trial < 200; ++trial) {
    auto const stages = static_cast<std::uint32_t>(random.between(1, 12));
    std::vector<std::uint32_t> ranks(stages);
    std::iota(ranks.begin(), ranks.end(), 0U);
    std::vector<stage_link> links;
    for (std::uint32_t to = 1; to < stages; ++to) {
      for (std::uint32_t from = 0; from < to; ++from) {
        if (random.below(3) == 0) {
          links.push_back(link(from, to, static_cast<ballast::time_units>(random.below(100))));
        }
      }
    }
    random.shuffle(std::span(links));
    auto const graph = stage_graph::make(on_ranks(ranks), links).value();
    auto const by = [](auto key) {
      return [key](stage_link const& a, stage_link const& b) { return key(a) < key(b); };
    };
    std::ranges::sort(links, by([](auto const& each) { return std::pair(each.from, each.to); }));
    EXPECT_TRUE(std::ranges::equal(graph.links(), links));
    for (std::uint32_t stage = 0; stage < stages; ++stage) {
      std::vector<stage_link> into;
      std::vector<stage_link> out_of;
      for (stage_link const& each : links) {
        if (each.to == stage_id{stage}) { into.push_back(each); }
        if (each.from == stage_id{stage}) { out_of.push_back(each); }
      }
      EXPECT_TRUE(std::ranges::equal(graph.links_into(stage_id{stage}), into));
      EXPECT_TRUE(std::ranges::equal(graph.links_out_of(stage_id{stage}), out_of));
    }
  }
}

TEST(StageGraph, ListsTheStagesOfARankInOrder)  // Ensures (3)
{
  auto const graph = stage_graph::make(on_ranks({1, 0, 1, 1, 0}), {}).value();
  EXPECT_EQ(graph.ranks(), 2U);
  EXPECT_THAT(graph.stages_on(pipeline_rank{0}), ElementsAre(stage_id{1}, stage_id{4}));
  EXPECT_THAT(graph.stages_on(pipeline_rank{1}),
              ElementsAre(stage_id{0}, stage_id{2}, stage_id{3}));
}

void expect_refused(result<stage_graph> const& graph, error_code code, std::size_t position,
                    char const* why)
{
  ASSERT_FALSE(graph) << why;
  EXPECT_EQ(graph.error().code, code) << graph.error().message;
  EXPECT_EQ(graph.error().position, position) << graph.error().message;
  EXPECT_THAT(graph.error().message, HasSubstr(why));
}

void expect_refused(std::vector<pipeline_stage> stages, std::vector<stage_link> const& links,
                    error_code code, std::size_t position, char const* why)
{
  expect_refused(stage_graph::make(std::move(stages), links), code, position, why);
}

TEST(StageGraph, RefusesWhatIsNoPipeline)  // Ensures (1) (2) (3)
{
  constexpr auto infeasible = error_code::infeasible;
  constexpr auto out_of_range = error_code::out_of_range;
  expect_refused({}, {}, out_of_range, 0, "from 1 to 65536 stages, not 0");
  expect_refused(std::vector<pipeline_stage>(65'537), {}, out_of_range, 0, "not 65537");
  auto const four = on_ranks({0, 1, 2, 3});
  expect_refused(four, {link(0, 1), link(1, 4)}, out_of_range, 1,
                 "link 1 from stage 1 to stage 4 names a stage that does not exist; there are 4");
  expect_refused(four, {link(7, 1)}, out_of_range, 0, "from stage 7");
  expect_refused(four, {link(0, 1), link(2, 1)}, infeasible, 1, "does not go up");
  expect_refused(four, {link(2, 2)}, infeasible, 0, "does not go up");
  expect_refused(four, {link(0, 1, -1)}, out_of_range, 0, "transfer time of -1");
  expect_refused(four, {link(0, 1, stage_graph::longest_time + 1)}, out_of_range, 0,
                 "which is not from 0 to 2^53");
  expect_refused(on_ranks({0, 1, 4, 3}), {}, infeasible, 2, "pipeline rank 2 has no stage");
  expect_refused(on_ranks({1}), {}, infeasible, 0, "pipeline rank 0 has no stage");
  expect_refused(on_ranks({0, 0xffff'ffff}), {}, infeasible, 1, "pipeline rank 1 has no stage");
}

TEST(StageGraph, NamesTheFirstLinkThatRepeatsAnother)
{
  expect_refused(on_ranks({0, 1, 2}),
                 {link(1, 2), link(0, 1, 4), link(0, 2), link(1, 2), link(0, 1, 5), link(1, 2)},
                 error_code::infeasible, 3, "link 3 from stage 1 to stage 2 repeats another");
}

TEST(StageGraph, LetsOnlyFrozenStagesFeedAFrozenStage)  // Ensures (2)
{
  auto stages = on_ranks({0, 1, 2});
  stages[1].backward = false;
  expect_refused(stages, {link(0, 1), link(1, 2)}, error_code::infeasible, 0,
                 "would need a gradient from a stage that has no backward");
  stages[0].backward = false;
  EXPECT_TRUE(stage_graph::make(stages, {link(0, 1), link(1, 2)}));
}

TEST(StageGraph, TakesTheLongestTransferAndTheMostStages)
{
  EXPECT_TRUE(stage_graph::make(on_ranks({0, 1}), {link(0, 1, stage_graph::longest_time)}));
  auto const chain = chain_of_stages(stage_graph::most_stages, stage_graph::most_stages);
  EXPECT_EQ(chain.links().size(), stage_graph::most_stages - 1);
}

TEST(ChainOfStages, DealsStagesToRanksInTurn)
{
  auto const chain = chain_of_stages(5, 2, 7);
  EXPECT_EQ(chain.ranks(), 2U);
  EXPECT_THAT(chain.stages_on(pipeline_rank{0}),
              ElementsAre(stage_id{0}, stage_id{2}, stage_id{4}));
  EXPECT_THAT(chain.stages_on(pipeline_rank{1}), ElementsAre(stage_id{1}, stage_id{3}));
  EXPECT_THAT(chain.links(),
              ElementsAre(link(0, 1, 7), link(1, 2, 7), link(2, 3, 7), link(3, 4, 7)));
}

TEST(ChainOfStages, TransfersNothingOnOneRank)
{
  EXPECT_EQ(chain_of_stages(3, 1, 7), chain_of_stages(3, 1, 0));
  EXPECT_EQ(chain_of_stages(1, 1, 7).stages(), 1U);
}

TEST(ChainOfStagesDeathTest, RefusesRanksWithoutStages)
{
  EXPECT_DEATH((void)chain_of_stages(2, 3), "a chain of 2 stages was asked for on 3 ranks");
  EXPECT_DEATH((void)chain_of_stages(0, 0), "a chain of 0 stages");
  EXPECT_DEATH((void)chain_of_stages(2, 2, -1), "a transfer of -1;");
}

TEST(StageGraphDeathTest, RefusesStagesThatDoNotExist)
{
  auto const chain = chain_of_stages(2, 2);
  EXPECT_DEATH((void)chain[stage_id{2}], "stage 2 of a pipeline of 2 stages");
  EXPECT_DEATH((void)chain.links_into(stage_id{2}), "links of stage 2 of a pipeline of 2 stages");
  EXPECT_DEATH((void)chain.links_out_of(stage_id{7}), "links of stage 7");
}

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
    auto const& [rank, backward, part, weights] = stages[stage_id{stage}];
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
  expect_refused(joined_stages(modules), code, position, why);
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
