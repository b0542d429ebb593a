#include <ballast/partition/detail/padding/finishing_times.hpp>  // first: proves it is self-contained

#include "../../../support/direct_problem.hpp"
#include "../../../support/trials.hpp"

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>
#include <ballast/core/ratio.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

using ballast::cost_units;
using ballast::ratio;
using ballast::uint128;
using ballast::detail::finishing_times;
using ballast_test::direct_problem;
using ballast_test::instance;

TEST(FinishingTimes, AreInverseToTheWorkUntilThem)  // Ensures (1)
{
  ballast::random_source random(2);
  for (int trial = 0; trial < ballast_test::trials_of(2000); ++trial) {
    std::size_t const bags = 1 + random.below(5);
    direct_problem problem(instance{{9}, {random.between(0, 50)}, std::vector(bags, 1U)});
    for (auto& speed : problem.speeds) { speed = static_cast<std::uint32_t>(1 + random.below(9)); }
    std::vector<cost_units> start(bags);
    for (auto& load : start) { load = random.between(0, 20); }
    ballast::workspace memory;
    auto scratch = memory.open();
    finishing_times const times(problem.view(), start, scratch);
    ASSERT_TRUE(times.exact());
    for (std::size_t bag = 0; bag < bags; ++bag) {
      auto const time = static_cast<uint128>(random.below(4000));
      cost_units const work = times.work_until(time, bag);
      ASSERT_GE(work, 0);
      ASSERT_TRUE(work == 0 || times.finish(bag, work) <= time);
      ASSERT_GT(times.finish(bag, work + 1), time);
    }
  }
}

TEST(FinishingTimes, CompareAsLoadsPerSpeedDo)
{
  direct_problem problem(instance{{9, 9}, {7, 5}, {1, 1, 1}});
  problem.speeds = {4, 6, 3};
  ballast::workspace memory;
  auto scratch = memory.open();
  finishing_times const times(problem.view(), std::vector<cost_units>{0, 1, 2}, scratch);
  EXPECT_TRUE(times.finish(0, 7) == 21);  // in twelfths
  EXPECT_TRUE(times.finish(1, 7) == 16);
  EXPECT_TRUE(times.finish(2, 7) == 36);
  EXPECT_TRUE(times.least() == 14);  // 15 of work for 13 of speed, and 7 at 6: both 14 at least
  EXPECT_TRUE(times.enough() == (2 + 2 * 7) * 4);
  EXPECT_TRUE(times.alike(0, 0));
  EXPECT_FALSE(times.alike(0, 1));
}

TEST(FinishingTimes, HaveABoundThatNoPlanIsBelow)  // Ensures (2) (3)
{
  ballast::random_source random(7);
  for (int trial = 0; trial < 300; ++trial) {
    instance step{{}, {}, std::vector(1 + random.below(3), 1U)};
    for (std::size_t sample = random.below(6); sample > 0; --sample) {
      step.lengths.push_back(9);
      step.costs.push_back(random.between(0, 30));
    }
    for (std::size_t bag = 0; bag < step.gpus.size(); ++bag) {
      step.gpu_speeds.push_back(static_cast<std::uint32_t>(1 + random.below(3)));
    }
    direct_problem const problem(step);
    std::vector<cost_units> loads(step.gpus.size(), 0);
    ballast::workspace memory;
    auto scratch = memory.open();
    finishing_times const times(problem.view(), loads, scratch);
    ratio const best = *ballast_test::optimum(step, loads);
    ASSERT_LE(times.least(), 6 * static_cast<uint128>(best.numerator));  // units are sixths at most
    for (std::size_t bag = 0; bag < loads.size(); ++bag) {
      ASSERT_GE(times.work_until(times.enough(), bag),
                static_cast<cost_units>(step.costs.size()) *
                    (step.costs.empty() ? 0 : std::ranges::max(step.costs)));
    }
  }
}

TEST(FinishingTimes, AreRoundedUpWhereSpeedsHaveNoCommonMultiple)
{
  direct_problem problem(instance{{9}, {10}, {1, 1}});
  problem.speeds = {4294967291, 4294967279};
  ballast::workspace memory;
  auto scratch = memory.open();
  finishing_times const times(problem.view(), std::vector<cost_units>{0, 0}, scratch);
  EXPECT_FALSE(times.exact());
  EXPECT_TRUE(times.finish(0, 10) == 10);
  EXPECT_TRUE(times.finish(1, 10) == 11);
  EXPECT_EQ(times.work_until(11, 1), 10);
}

TEST(FinishingTimes, KnowWhenEveryBagIsDoneWithAnyWork)
{
  ballast::random_source random(11);
  for (int trial = 0; trial < 300; ++trial) {
    std::size_t const bags = 1 + random.below(5);
    direct_problem problem(instance{{9}, {random.between(0, 50)}, std::vector(bags, 1U)});
    for (auto& speed : problem.speeds) { speed = static_cast<std::uint32_t>(1 + random.below(9)); }
    std::vector<cost_units> start(bags);
    for (auto& load : start) { load = random.between(0, 20); }
    ballast::workspace memory;
    auto scratch = memory.open();
    finishing_times const times(problem.view(), start, scratch);
    cost_units const work = random.between(0, 1000);
    ratio latest;
    for (std::size_t bag = 0; bag < bags; ++bag) {
      latest = std::max(latest, ratio{start[bag] + work, problem.speeds[bag]});
    }
    ASSERT_EQ(times.makespan(times.finish_anywhere(work)), latest) << "trial " << trial;
  }
}

TEST(FinishingTimes, RoundUpWhatASpeedDoes)
{
  direct_problem problem(instance{{9}, {7}, {1, 1}});
  problem.speeds = {4, 6};
  ballast::workspace memory;
  auto scratch = memory.open();
  finishing_times const times(problem.view(), std::vector<cost_units>{0, 0}, scratch);
  EXPECT_TRUE(times.work_of_speed(12, 4) == 4);  // times are in twelfths
  EXPECT_TRUE(times.work_of_speed(13, 4) == 5);
  EXPECT_TRUE(times.work_of_speed(13, 2) == 3);
  EXPECT_TRUE(times.work_of_speed(0, 6) == 0);
}

TEST(FinishingTimes, StateMakespansThatAreExactAndFit)
{
  direct_problem problem(instance{{9}, {7}, {1, 1}});
  problem.speeds = {4, 6};
  std::vector<cost_units> const idle{0, 0};
  ballast::workspace memory;
  auto scratch = memory.open();
  finishing_times const times(problem.view(), idle, scratch);
  EXPECT_EQ(times.makespan(21), (ratio{7, 4}));
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(times.makespan(static_cast<uint128>(most)), (ratio{most, 12}));
  EXPECT_EQ(times.makespan(static_cast<uint128>(most) + 1), ratio{});

  problem.speeds = {4294967291, 4294967279};
  finishing_times const rounded(problem.view(), idle, scratch);
  EXPECT_EQ(rounded.makespan(11), ratio{});
}

TEST(FinishingTimes, HoldTheLargestLoads)
{
  constexpr auto most = std::numeric_limits<cost_units>::max() - 1;
  direct_problem problem(instance{{9}, {most}, {1, 1}});
  problem.speeds = {1, 4294967295};
  ballast::workspace memory;
  auto scratch = memory.open();
  finishing_times const times(problem.view(), std::vector<cost_units>{0, 0}, scratch);
  EXPECT_EQ(times.work_until(times.enough(), 0), most);
  EXPECT_GE(times.work_until(times.enough(), 1), most);
}

}  // namespace
