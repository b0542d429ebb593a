#include <ballast/partition/longest_processing_time.hpp>  // first: proves it is self-contained

#include "../support/policy_checks.hpp"
#include "../support/test.hpp"

namespace {

using namespace ballast;
using namespace ballast_test;

static_assert(partition_policy<longest_processing_time>);

TEST(LongestProcessingTime, PlacesEverySampleInABagItFits)  // Ensures (1) (2)
{
  expect_valid_plans(longest_processing_time{}, 2);
  expect_starting_loads_counted(longest_processing_time{});
}

TEST(LongestProcessingTime, StaysWithinGrahamsBound)  // Ensures (3)
{
  random_source random(20240607);
  for (int trial = 0; trial < 300; ++trial) {
    auto step = random_instance(random, 7, 4, 1);
    step.gpu_speeds.clear();
    SCOPED_TRACE(testing::Message() << "trial " << trial << " bags " << step.gpus.size());
    auto const plan = plan_instance(step, longest_processing_time{});
    ASSERT_TRUE(plan);
    auto const bags = static_cast<std::int64_t>(step.gpus.size());
    ratio const best = *optimum(step);
    EXPECT_LE(3 * bags * plan->makespan.numerator, (4 * bags - 1) * best.numerator);
  }
}

// Oracle: scans every bag for every sample, as the definition says.
std::vector<bag_id> scan_all_bags(instance const& step)
{
  std::vector<cost_units> loads(step.gpus.size(), 0);
  std::vector<bag_id> owner(step.costs.size());
  for (std::size_t const sample : heaviest_first(step.costs)) {
    std::size_t best = step.gpus.size();
    for (std::size_t bag = 0; bag < step.gpus.size(); ++bag) {
      if (step.lengths[sample] != 0 && step.lengths[sample] < std::int64_t{step.gpus[bag]}) {
        continue;
      }
      if (best == step.gpus.size()) { best = bag; }
      ratio const finish{loads[bag] + step.costs[sample], step.speed_of(bag)};
      ratio const other{loads[best] + step.costs[sample], step.speed_of(best)};
      std::pair const kind(step.gpus[bag], step.speed_of(bag));
      std::pair const other_kind(step.gpus[best], step.speed_of(best));
      if (finish < other || (finish == other && kind < other_kind)) { best = bag; }
    }
    loads[best] += step.costs[sample];
    owner[sample] = to_id<bag_id>(best);
  }
  return owner;
}

TEST(LongestProcessingTime, AgreesWithAScanOfAllBags)  // Ensures (4)
{
  random_source random(5);
  for (int trial = 0; trial < trials_of(2000); ++trial) {
    auto const step = random_instance(random, 30, 8, 8);
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const plan = plan_instance(step, longest_processing_time{});
    ASSERT_TRUE(plan);
    ASSERT_EQ(plan->owner, scan_all_bags(step));
  }
}

TEST(LongestProcessingTime, GivesTiesToLowestSampleThenLowestBag)  // Ensures (4)
{
  instance const step{{1, 1, 1, 1}, {5, 5, 5, 5}, {1, 1, 1}};
  auto const plan = plan_instance(step, longest_processing_time{}).value();
  EXPECT_EQ(plan.owner, (std::vector{bag_id{0}, bag_id{1}, bag_id{2}, bag_id{0}}));
}

TEST(LongestProcessingTime, WorksUpToTheLargestTotal)
{
  constexpr auto most = std::numeric_limits<std::int64_t>::max() - 1;
  instance const step{{9, 9}, {most / 2, most / 2}, {8, 3}};
  auto const plan = plan_instance(step, longest_processing_time{}).value();
  EXPECT_EQ(plan.owner, (std::vector{bag_id{0}, bag_id{0}}));
}

// Loads so large that bags of one kind are kept in a heap, too.
TEST(LongestProcessingTime, PlansHugeCostsAsItDoesSmallOnes)
{
  random_source random(9);
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto step = random_instance(random, 30, 8, 1);
    step.gpu_speeds.clear();
    auto const small = plan_instance(step, longest_processing_time{});
    for (auto& cost : step.costs) { cost <<= 48; }
    auto const huge = plan_instance(step, longest_processing_time{});
    ASSERT_TRUE(small && huge);
    ASSERT_EQ(huge->owner, small->owner);
  }
}

TEST(LongestProcessingTimeDeathTest, RefusesMismatchedSpans)
{
  direct_problem const problem({{1}, {1}, {1}});
  EXPECT_DEATH((void)plan_directly(problem.view(), longest_processing_time{}, {}),
               "`loads` is empty");
}

}  // namespace
