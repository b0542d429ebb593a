#include <ballast/partition/detail/bounds/cheapest_cover.hpp>  // first: proves it is self-contained

#include "../../../support/direct_problem.hpp"
#include "../../../support/instances.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

using ballast::cost_units;
using ballast::detail::cheapest_cover;
using ballast::detail::crowded_bags;
using testing::ElementsAre;

ballast_test::direct_problem weighing(std::vector<cost_units> costs,
                                      std::vector<std::int64_t> weights,
                                      std::vector<std::int64_t> capacities = {9},
                                      std::vector<std::uint32_t> speeds = {})
{
  std::vector<std::uint32_t> const gpus(capacities.size(), 1);
  std::vector<ballast::tokens> const lengths(costs.size(), 1);
  return ballast_test::direct_problem({lengths, std::move(costs), gpus, std::move(speeds)},
                                      std::move(weights), std::move(capacities));
}

TEST(CheapestCover, TakesTheLeastWorkPerWeightAndTheLastInPart)
{
  ballast::workspace memory;
  auto frame = memory.open();
  auto const given = weighing({10, 30, 7, 4}, {10, 10, 0, 8});
  cheapest_cover const cover(given.view(), frame);
  EXPECT_THAT(cover.order(), ElementsAre(3, 0, 1));
  EXPECT_EQ(cover.all_weight(), 28);
  EXPECT_EQ(cover.work_of(0), 0);
  EXPECT_EQ(cover.work_of(3), 2);  // 1.5, rounded up
  EXPECT_EQ(cover.work_of(8), 4);
  EXPECT_EQ(cover.work_of(20), 20);  // and 2 of 10 for 30
  EXPECT_EQ(cover.work_of(99), 44);
}

TEST(CheapestCover, IsNeverAboveWhatAnySamplesOfThatWeightCost)  // Ensures (1)
{
  ballast::random_source random(121);
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::vector<cost_units> costs(8);
    std::vector<std::int64_t> weights(8);
    for (auto& cost : costs) { cost = random.between(0, 30); }
    for (auto& weight : weights) { weight = random.between(0, 9); }
    ballast::workspace memory;
    auto frame = memory.open();
    auto const given = weighing(costs, weights);
    cheapest_cover const cover(given.view(), frame);
    for (unsigned subset = 0; subset < 256; ++subset) {
      cost_units cost = 0;
      std::int64_t weight = 0;
      for (std::size_t sample = 0; sample < 8; ++sample) {
        cost += (subset >> sample & 1U) != 0 ? costs[sample] : 0;
        weight += (subset >> sample & 1U) != 0 ? weights[sample] : 0;
      }
      ASSERT_LE(cover.work_of(weight), cost);
    }
  }
}

TEST(CrowdedBags, HoldWhatTheOthersCannot)
{
  ballast::workspace memory;
  auto frame = memory.open();
  // 20 of weight; bags of 8, 8 and 6 with speeds 1, 2 and 1: the first two are 0 and 2.
  auto const given = weighing({10, 20}, {10, 10}, {8, 8, 6}, {1, 2, 1});
  crowded_bags const crowded(given.view(), cheapest_cover(given.view(), frame), frame);
  EXPECT_THAT(crowded.order, ElementsAre(0, 2, 1));
  EXPECT_THAT(crowded.weight, ElementsAre(0, 6, 12, 20));
  EXPECT_THAT(crowded.work, ElementsAre(0, 6, 14, 30));
  EXPECT_THAT(crowded.speed, ElementsAre(0, 1, 2, 4));
}

TEST(CrowdedBags, ManageBagsWithoutLimit)
{
  constexpr auto endless = std::numeric_limits<std::int64_t>::max();
  ballast::workspace memory;
  auto frame = memory.open();
  auto const given = weighing({10, 20}, {10, 10}, {endless, endless});
  crowded_bags const crowded(given.view(), cheapest_cover(given.view(), frame), frame);
  EXPECT_THAT(crowded.work, ElementsAre(0, 0, 30));
}

}  // namespace
