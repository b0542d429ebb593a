// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/layout_pipeline.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"

#include <ballast/pipeline/stage_graph.hpp>

namespace {

using namespace ballast;

using link = std::pair<std::uint32_t, std::uint32_t>;

std::vector<link> links_of(ballast::stage_graph const& stages)
{
  std::vector<link> links;
  for (auto const& each : stages.links()) {
    links.emplace_back(to_index(each.from), to_index(each.to));
  }
  return links;
}

TEST(LayoutPipeline, LinksReplicasByBrokers)
{
  std::array<ballast::module_profile, 2> modules{};
  for (auto& module : modules) {
    module = {.name = "m", .layers = 4, .flops = {.linear = 1}, .degrees = {{.tp = 1}}};
  }
  ballast::layout_problem problem;
  problem.modules = modules;
  // dp of 4 and 6: two groups, in each of which two replicas of the first feed three of the second.
  layout_pipeline const pipeline(problem, {{{1, 2, 4}, {1, 1, 6}}, 1});
  EXPECT_EQ(pipeline.groups(), 2U);
  auto const stages = pipeline.stages().value();
  EXPECT_EQ(stages.stages(), 2U * 2 + 3);
  EXPECT_THAT(links_of(stages),
              testing::ElementsAre(link{0, 1}, link{1, 4}, link{1, 5}, link{1, 6}, link{2, 3},
                                   link{3, 4}, link{3, 5}, link{3, 6}));

  // dp of 4 and 2, then 3: one group, in which a sample may be at any replica of each module.
  std::array<ballast::module_profile, 3> const three{modules[0], modules[0], modules[0]};
  problem.modules = three;
  layout_pipeline const chain(problem, {{{1, 1, 4}, {1, 1, 2}, {1, 1, 3}}, 1});
  EXPECT_EQ(chain.groups(), 1U);
  EXPECT_THAT(links_of(chain.stages().value()),
              testing::ElementsAre(link{0, 4}, link{0, 5}, link{1, 4}, link{1, 5}, link{2, 4},
                                   link{2, 5}, link{3, 4}, link{3, 5}, link{4, 6}, link{4, 7},
                                   link{4, 8}, link{5, 6}, link{5, 7}, link{5, 8}));
}

TEST(LayoutPipeline, HasTwoTransfersBetweenModules)
{
  std::array<ballast::module_profile, 2> modules{};
  for (auto& module : modules) {
    module = {.name = "m",
              .layers = 4,
              .flops = {.linear = 1},
              .degrees = {{.tp = 1}, {.tp = 2}},
              .boundary_bytes = 10};
  }
  ballast::layout_problem problem{
      .modules = modules, .sizes = {}, .kinds = {{.bytes_per_second = 1'000'000'000'000}}};
  // Two replicas of one stage, of two GPUs, feed one of two stages.
  layout_pipeline const pipeline(problem, {{{2, 1, 2}, {1, 2, 1}}, 1});
  auto const stages = pipeline.stages().value();
  EXPECT_THAT(links_of(stages), testing::ElementsAre(link{0, 2}, link{0, 3}, link{1, 2}, link{1, 3},
                                                     link{2, 4}, link{3, 4}, link{4, 5}));
  std::vector<bool> backward;
  for (std::uint32_t const stage : {2U, 3U}) {
    EXPECT_EQ(stages[ballast::stage_id{stage}].part, ballast::model_part::transfer);
    backward.push_back(stages[ballast::stage_id{stage}].backward);
  }
  EXPECT_THAT(backward, testing::ElementsAre(false, true));
  // 20 and 70 bytes are sent by two GPUs each, and all of them received by one.
  std::array<tokens, 4> const batch{2, 1, 7, 1};
  auto const times = pipeline.times(batch, 0);
  EXPECT_THAT(times[microbatch_id{0}].subspan(2, 2),
              testing::ElementsAre(stage_time{90, 0}, stage_time{0, 90}));
}

TEST(LayoutPipeline, GivesEveryStageItsLayersAndEveryReplicaItsSamples)
{
  ballast::module_profile const module{.name = "m",
                                       .layers = 5,
                                       .flops = {.linear = 30, .quadratic = 15},
                                       .degrees = {{.tp = 1}, {.tp = 2}}};
  ballast::layout_problem problem;
  problem.modules = {&module, 1};
  layout_pipeline const pipeline(problem, {{{2, 2, 2}}, 2});
  EXPECT_EQ(pipeline.groups(), 2U);
  std::array<tokens, 8> const batch{1, 2, 3, 4, 5, 6, 0, 2};
  // The second group's turns: samples 2 and 3, then 6 and 7. On each of two GPUs 15 (3 + 4), and
  // 7.5 (9 + 16), each rounded up; three fifths of it on the first stage.
  auto const times = pipeline.times(batch, 1);
  ASSERT_EQ(times.stages, 2U);
  std::int64_t const all = 105 + 68 + 120;
  std::int64_t const first = (3 * all + 4) / 5;
  std::int64_t const second = (2 * all + 4) / 5;
  EXPECT_THAT(times[microbatch_id{0}],
              testing::ElementsAre(stage_time{first / 3, first - first / 3},
                                   stage_time{second / 3, second - second / 3}));
  EXPECT_THAT(times[microbatch_id{1}], testing::ElementsAre(stage_time{12, 24}, stage_time{8, 16}));
}

TEST(LayoutPipeline, JoinsEncodersSideBySide)
{
  std::array<ballast::module_profile, 3> modules{};
  for (auto& module : modules) {
    module = {.name = "m", .layers = 6, .flops = {.linear = 1}, .degrees = {{.tp = 1}}};
  }
  std::array<std::size_t, 2> const both_feed_the_llm{2, 2};
  ballast::layout_problem problem{.modules = modules, .sizes = {}, .feeds = both_feed_the_llm};
  layout_pipeline const pipeline(problem, {{{1, 2, 1}, {1, 3, 1}, {1, 4, 1}}, 1});
  auto const expected =
      ballast::joined_stages({.encoders = {{2}, {3}}, .llm = {.stages = 4}}).value();
  auto const stages = pipeline.stages().value();
  EXPECT_TRUE(std::ranges::equal(stages.links(), expected.links()));
  EXPECT_EQ(stages.ranks(), expected.ranks());
}

TEST(LayoutTimes, DivideTheWorkOfASampleByTheGpusOfAGroup)
{
  // One unit of work a picosecond: 30 l + 15 l^2, on two GPUs.
  ballast::module_profile const module{.name = "m",
                                       .layers = 5,
                                       .flops = {.linear = 30, .quadratic = 15},
                                       .degrees = {{.tp = 1}, {.tp = 2}}};
  std::array<tokens, 2> const drawn{1, 5};
  ballast::layout_problem problem{.modules = {&module, 1}, .sizes = drawn};
  ballast::layout_times<1> const times(problem, {{{2, 1, 1}}, 1});
  EXPECT_THAT(times(std::array<tokens, 1>{4}), testing::ElementsAre(stage_time{60, 120}));
  EXPECT_THAT(times(std::array<tokens, 1>{0}), testing::ElementsAre(stage_time{0, 0}));
}

}  // namespace
