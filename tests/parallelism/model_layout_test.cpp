// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/model_layout.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"

namespace {

using ballast::grid_place;
using ballast::module_layout;
using ballast::place_layout;
using testing::ElementsAre;
using testing::HasSubstr;

static_assert(module_layout{2, 9, 9} < module_layout{4, 1, 1});  // Ensures (1)
static_assert(module_layout{2, 1, 9} < module_layout{2, 2, 1});
static_assert(module_layout{2, 2, 1} < module_layout{2, 2, 2});

TEST(ModuleLayout, CountsItsGpus)
{
  EXPECT_EQ((module_layout{8, 4, 3}.gpus()), 96U);
  constexpr std::uint32_t many = 1U << 20;
  EXPECT_EQ((module_layout{many, many, 1}.gpus()), std::uint64_t{1} << 40);
}

TEST(ModelLayout, CountsTheGpusOfAllModules)
{
  ballast::model_layout layout;
  EXPECT_EQ(layout.gpus(), 0U);
  layout.modules = {{8, 4, 3}, {1, 1, 5}};
  EXPECT_EQ(layout.gpus(), 101U);
}

TEST(PlaceLayout, GoesModuleAfterModuleReplicaAfterReplica)
{
  // Two encoders of one GPU, and an LLM of one replica with two stages of two GPUs. The LLM's
  // groups are larger, so they come first, in the node that is fuller from the start.
  std::array<module_layout, 2> const modules{{{1, 1, 2}, {2, 2, 1}}};
  EXPECT_THAT(place_layout(modules, 6, 4).value(),
              ElementsAre(grid_place{1, 0, 1, 0}, grid_place{1, 0, 1, 1}, grid_place{0, 0, 0, 0},
                          grid_place{0, 1, 0, 0}, grid_place{1, 0, 0, 0}, grid_place{1, 0, 0, 1}));
  std::array<module_layout, 1> const pipelines{{{1, 2, 2}}};
  EXPECT_THAT(place_layout(pipelines, 4, 2).value(),
              ElementsAre(grid_place{0, 0, 0, 0}, grid_place{0, 0, 1, 0}, grid_place{0, 1, 0, 0},
                          grid_place{0, 1, 1, 0}));
}

// Of what prices say that it fits, see simulate_layout_test.cpp.
TEST(PlaceLayout, FillsNodesWithGroupsWherePricesSayThatTheyFit)  // Ensures (1) (2)
{
  ballast::random_source random(18);
  std::size_t placed = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    auto const per_node = static_cast<std::uint32_t>(1 + random.below(8));
    std::vector<module_layout> modules(1 + random.below(3));
    std::uint32_t gpus = 0;
    for (module_layout& each : modules) {
      each.tp = static_cast<std::uint32_t>(1 + random.below(per_node));
      each.sp = static_cast<std::uint32_t>(1 + random.below(per_node / each.tp));
      each.ep = static_cast<std::uint32_t>(1 + random.below(per_node / each.tp / each.sp));
      each.pp = static_cast<std::uint32_t>(1 + random.below(3));
      each.dp = static_cast<std::uint32_t>(1 + random.below(3));
      gpus += static_cast<std::uint32_t>(each.gpus());
    }
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const places = place_layout(modules, gpus, per_node);
    if (!places) { continue; }
    ++placed;
    ASSERT_EQ(places->size(), gpus);
    std::set<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>> seen;
    for (std::size_t gpu = 0; gpu < places->size(); ++gpu) {
      auto const [module, replica, stage, rank] = (*places)[gpu];
      EXPECT_TRUE(seen.insert({module, replica, stage, rank}).second);
      EXPECT_LT(replica, modules[module].dp);
      EXPECT_LT(stage, modules[module].pp);
      std::uint32_t const group = modules[module].tp * modules[module].sp * modules[module].ep;
      ASSERT_LT(rank, group);
      ASSERT_GE(gpu, rank);
      EXPECT_EQ((*places)[gpu - rank], (grid_place{module, replica, stage, 0}));
      EXPECT_EQ((gpu - rank) / per_node, (gpu - rank + group - 1) / per_node);
    }
  }
  EXPECT_GT(placed, 500U);
}

TEST(PlaceLayout, RefusesWhatDoesNotFit)
{
  std::array<module_layout, 2> const modules{{{1, 1, 2}, {3, 1, 2}}};
  EXPECT_THAT(place_layout(modules, 9, 4).error().message, HasSubstr("take 8 of 9 GPUs"));
  EXPECT_TRUE(place_layout(modules, 8, 4));
  EXPECT_TRUE(place_layout(modules, 8, 5));  // on a node of 5 and one of 3
  auto const too_large = place_layout(modules, 8, 2);
  ASSERT_FALSE(too_large);
  EXPECT_EQ(too_large.error().position, 1U);
  EXPECT_THAT(too_large.error().message, HasSubstr("no node has room for group 0 of 3 GPUs"));
}

TEST(PlaceLayoutDeathTest, RefusesNodesWithoutGpus)
{
  std::array<module_layout, 1> const modules{{{1, 1, 2}}};
  EXPECT_DEATH((void)place_layout(modules, 2, 0), "nodes of none");
}

}  // namespace
