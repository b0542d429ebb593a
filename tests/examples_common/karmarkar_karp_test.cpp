#include "../../examples/common/baselines/karmarkar_karp.hpp"  // first: proves it is self-contained
#include "../support/test.hpp"

#include "../support/policy_checks.hpp"
#include "../support/steady_state.hpp"

namespace {

using ballast::bag_id;
using ballast::ratio;
using baselines::karmarkar_karp;

static_assert(ballast::partition_policy<karmarkar_karp>);

TEST(KarmarkarKarp, PlacesEverySampleInABagItFits)  // Ensures (1) (2)
{
  ballast_test::expect_valid_plans(karmarkar_karp{}, 41);
  ballast_test::expect_starting_loads_counted(karmarkar_karp{});
}

TEST(KarmarkarKarp, StaysWithinItsWorstCase)  // Ensures (3)
{
  ballast::random_source random(20240607);
  for (int trial = 0; trial < 600; ++trial) {
    auto step = ballast_test::random_instance(random, 8, 4, 1);
    step.gpu_speeds.clear();
    SCOPED_TRACE(testing::Message() << "trial " << trial << " bags " << step.gpus.size());
    auto const plan = ballast_test::plan_instance(step, karmarkar_karp{});
    ASSERT_TRUE(plan);
    auto const bags = static_cast<std::int64_t>(step.gpus.size());
    ratio const best = *ballast_test::optimum(step);
    EXPECT_LE(3 * bags * plan->makespan.numerator, (4 * bags - 1) * best.numerator);
    if (bags == 2) { EXPECT_LE(6 * plan->makespan.numerator, 7 * best.numerator); }
  }
}

TEST(KarmarkarKarp, MeetsItsWorstCaseOfTwoBags)
{
  // Best is 3 and 3 against 2, 2 and 2; differencing keeps the first two apart.
  ballast_test::instance const step{{1, 1, 1, 1, 1}, {3, 3, 2, 2, 2}, {1, 1}};
  auto const plan = ballast_test::plan_instance(step, karmarkar_karp{}).value();
  EXPECT_EQ(plan.makespan, (ratio{7, 1}));
  EXPECT_EQ(*ballast_test::optimum(step), (ratio{6, 1}));
}

TEST(KarmarkarKarp, IsFarCloserToTheOptimumThanGreedyIs)
{
  ballast::random_source random(3);
  ballast_test::instance step;
  step.gpus.assign(16, 1);
  for (int sample = 0; sample < 400; ++sample) {
    step.lengths.push_back(1);
    step.costs.push_back(random.between(1, 1'000'000));
  }
  auto const differenced = ballast_test::plan_instance(step, karmarkar_karp{});
  auto const greedy = ballast_test::plan_instance(step, ballast::longest_processing_time{});
  ASSERT_TRUE(differenced && greedy);
  EXPECT_LT(10 * differenced->gap(), greedy->gap());
}

TEST(KarmarkarKarp, FillsUpWhatStartsUneven)
{
  std::vector<ballast::cost_units> const costs{30, 20, 10};
  std::vector<ballast::tokens> const lengths{1, 1, 1};
  std::vector<ballast::priced_sample> const order{
      {30, ballast::sample_id{0}}, {20, ballast::sample_id{1}}, {10, ballast::sample_id{2}}};
  std::vector<std::uint32_t> const ones{1, 1, 1, 1};
  std::vector<ballast::cost_units> loads{20, 30, 0, 10};
  std::vector<bag_id> owner(3, bag_id{4});
  ballast::workspace memory;
  karmarkar_karp{}({costs, lengths, order, ones, ones}, loads, owner, memory);
  EXPECT_EQ(loads, (std::vector<ballast::cost_units>{30, 30, 30, 30}));
  EXPECT_EQ(owner, (std::vector{bag_id{2}, bag_id{3}, bag_id{0}}));
}

RC_GTEST_PROP(KarmarkarKarp, IsGreedyWithSeveralKindsOfBags, ())
{
  ballast::random_source random(*rc::gen::arbitrary<std::uint64_t>());
  auto step = ballast_test::random_instance(random, 30, 6, 4);
  step.gpus.push_back(step.gpus.front() + 1);
  if (!step.gpu_speeds.empty()) { step.gpu_speeds.push_back(1); }
  auto const plan = ballast_test::plan_instance(step, karmarkar_karp{});
  auto const greedy = ballast_test::plan_instance(step, ballast::longest_processing_time{});
  RC_ASSERT(plan.value().owner == greedy.value().owner);
}

TEST(KarmarkarKarp, WorksUpToTheLargestTotal)
{
  constexpr auto most = std::numeric_limits<std::int64_t>::max() - 1;
  ballast_test::instance const step{{9, 9}, {most / 2, most / 2}, {1, 1, 1}};
  auto const plan = ballast_test::plan_instance(step, karmarkar_karp{}).value();
  EXPECT_TRUE(plan.proven_optimal());
}

TEST(KarmarkarKarp, PlansTheSameAgainAndAllocatesNothing)
{
  ballast_test::expect_the_same_again_without_allocation(karmarkar_karp{}, 2000);
}

}  // namespace
