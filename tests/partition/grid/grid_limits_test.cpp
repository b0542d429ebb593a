// SPDX-License-Identifier: Apache-2.0
// Limits of cells: small grids whose plans are known, and every pair of limits against all plans.
#include <ballast/partition/grid/partition_grid.hpp>

#include "../../support/limited_step.hpp"

namespace grid_limits {

using namespace ballast;
using namespace ballast_test;
using numbers = std::vector<std::int64_t>;

void check_grids(grid_meeting meet, std::uint64_t seed)
{
  auto const draw = [meet](random_source& random, std::size_t one, std::size_t other) {
    std::size_t const bags = 2 + random.below(2);
    std::size_t const samples = random.below(bags == 2 ? 7 : 6);
    auto step = limited_steps::draw<1>(random, one, other, samples, one_gpu_bags(bags), 2);
    step.meets = meet == grid_meeting::microbatch;
    return step;
  };
  auto const make = [meet](auto const& samples, bag_layout const& bags, auto const& cost,
                           auto const& length, placement_limits const& limits) {
    return partition_grid(samples, bags, {.number = 2, .meet = meet}, cost, length, limits);
  };
  limited_steps::check_all_pairs<1>(seed, trials_of(4), draw, make);
  limited_steps::check_subsets<1>(seed, trials_of(300), draw, make);
}

TEST(GridLimits, HoldInPairsWhereBagsMeetOnce)
{
  check_grids(grid_meeting::step, 3);
}

TEST(GridLimits, HoldInPairsWhereBagsMeetInEveryMicrobatch)
{
  check_grids(grid_meeting::microbatch, 4);
}

TEST(GridLimits, LeaveTheShortestPlansOfSmallGrids)
{
  auto const takes = [](numbers const& costs, grid_meeting meet,
                        placement_limits const& limits = {}) {
    auto const plan =
        partition_grid(costs, one_gpu_bags(2), {.number = 2, .meet = meet}, std::identity{}, limits)
            .value();
    EXPECT_TRUE(plan.proven_optimal());
    return plan.makespan.value();
  };
  auto const meet = grid_meeting::microbatch;
  EXPECT_EQ(takes({23, 12, 2, 13}, meet), 25);  // {23 2} {12 13}, and an empty slot
  EXPECT_EQ(takes({56, 30, 28}, meet), 58);
  EXPECT_EQ(takes({17, 17, 12, 30}, meet), 42);
  EXPECT_EQ(takes({7, 5, 2, 16, 6, 3, 30, 19}, meet, {.samples = counts::equal()}), 44);
  EXPECT_EQ(takes({2, 1, 7, 1, 6, 28, 4, 9}, meet, {.samples = counts::multiple_of(2)}), 29);
  std::array const keys{2, 1, 3, 1, 2};
  EXPECT_EQ(takes({22, 16, 14, 24, 6}, meet, {.together = keys, .most_per_gpu = 57}), 42);
  EXPECT_EQ(takes({58, 47, 45, 44, 32, 16, 10, 6}, grid_meeting::step, {.most_per_gpu = 100}), 129);
}

TEST(GridLimits, GiveFasterBagsMore)
{
  std::vector<std::uint32_t> const speeds{3, 3, 2, 2};
  bag_layout const bags = one_gpu_bags(4).with_speeds(speeds);
  for (auto const meet : {grid_meeting::step, grid_meeting::microbatch}) {
    auto const plan = partition_grid(numbers(1000, 1), bags, {.number = 2, .meet = meet},
                                     std::identity{}, {.most_per_gpu = 150})
                          .value();
    EXPECT_EQ(plan.makespan, (ratio{100, 1}));
    EXPECT_TRUE(plan.proven_optimal());
    for (std::size_t bag = 0; bag < 4; ++bag) {
      auto const id = to_id<rank_id>(bag);
      EXPECT_EQ(plan.load(id, 0) + plan.load(id, 1), bag < 2 ? 300 : 200);
    }
  }
}

TEST(GridLimits, ProveWhatNoGridOnTwoSpeedsGetsBelow)
{
  auto const in_sixths = [](numbers const& costs, std::array<std::uint32_t, 2> speeds,
                            placement_limits const& limits) {
    auto const plan =
        partition_grid(costs, one_gpu_bags(2).with_speeds(speeds),
                       {.number = 2, .meet = grid_meeting::microbatch}, std::identity{}, limits)
            .value();
    EXPECT_TRUE(plan.proven_optimal());
    return 6 * plan.makespan.value();
  };
  // {12 20 14} on speed 3 ends at 92 / 6, where {18 5 8} ends at 93 / 6, and nothing is in the other
  // slot: until 68 / 6, where 34 do, the second bag has room for 22 and two thirds.
  EXPECT_EQ(in_sixths({12, 18, 5, 8, 20, 14}, {3, 2}, {}), 93);
  // Slots are not alike, since bags work before the first.
  EXPECT_EQ(in_sixths({6, 5, 5, 8, 16}, {1, 2}, {.starting_loads = numbers{5, 9}}), 108);
  EXPECT_EQ(in_sixths({9, 3, 10}, {1, 1},
                      {.starting_loads = numbers{0, 3}, .samples = counts::at_most(1)}),
            78);  // {3 -} {9 10}
}

TEST(GridLimits, ListCellsAboveASoftCapAndCountGpus)
{
  placement_limits const softly{.also = {{.most_per_gpu = 5, .is_soft = true}}};
  auto const plan =
      partition_grid(numbers{9, 3, 2, 2}, one_gpu_bags(2), {.number = 2}, std::identity{}, softly)
          .value();
  EXPECT_THAT(plan.above_cap, testing::ElementsAre(plan.owner[0]));
  EXPECT_EQ(plan.makespan, (ratio{9, 1}));
  // A bag of two GPUs has twice the cap, and here twice the speed.
  auto const bags = lay_out("g2n1 + g1n1"_bags, 3).value();
  auto const pair =
      partition_grid(numbers{8, 8, 4, 4}, bags, {}, std::identity{}, {.most_per_gpu = 4}).value();
  EXPECT_EQ(pair.microbatches, 2U);
  EXPECT_EQ(to_index(pair.owner[0]) % 2, 0U);
  EXPECT_EQ(pair.makespan, (ratio{8, 1}));
}

TEST(GridLimits, MoveFewestTokensWithinATolerance)
{
  std::array const home{rank_id{0}, rank_id{0}, rank_id{0}, rank_id{1}};
  numbers const costs{6, 5, 5, 6};
  auto const moved = [&](std::uint32_t within) {
    auto const plan =
        partition_grid(costs, one_gpu_bags(2), {.number = 2}, std::identity{},
                       {.home = home, .then = fewest_moves, .within_per_million = within})
            .value();
    EXPECT_TRUE(plan.then_is_proven);
    return plan.moved;
  };
  EXPECT_EQ(moved(0), (ratio{5, 22}));
  EXPECT_EQ(moved(500'000), (ratio{0, 1}));
}

// Steps too large for a search of all plans, with what the greedy grid does not know.
TEST(GridLimits, HoldInLargeGrids)
{
  random_source random(9);
  numbers lengths(300);
  numbers images(300);
  std::vector<int> keys(300);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    lengths[i] = random.between(1, 900);
    images[i] = random.between(0, 3);
    keys[i] = static_cast<int>(i / 3);
  }
  auto const fits = [](sample_id sample, bag_id bag) {
    return to_index(sample) % 10 != 0 || to_index(bag) < 4;
  };
  for (auto const meet : {grid_meeting::step, grid_meeting::microbatch}) {
    auto const plan = partition_grid(lengths, one_gpu_bags(8), {.meet = meet}, std::identity{},
                                     {.most_per_gpu = 6'000,
                                      .also = {{.of = images, .most_per_gpu = 20}},
                                      .apart = keys,
                                      .fits = fits});
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_LT(plan->gap(), 0.02);
    for (std::size_t cell = 0; cell < plan->loads.size(); ++cell) {
      std::int64_t held = 0;
      std::set<int> seen;
      for (sample_id const sample : plan->samples[to_id<cell_id>(cell)]) {
        held += images[to_index(sample)];
        EXPECT_TRUE(seen.insert(keys[to_index(sample)]).second);
        EXPECT_TRUE(fits(sample, to_id<bag_id>(cell % 8)));
      }
      EXPECT_LE(plan->loads[cell], 6'000);
      EXPECT_LE(held, 20);
    }
  }
}

}  // namespace grid_limits
