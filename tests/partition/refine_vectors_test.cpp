#include <ballast/partition/refine.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"
#include "../support/vector_checks.hpp"

namespace {

using namespace ballast;
using namespace ballast_test;

static_assert(cost_vector_policy<refine<>, 2>);
static_assert(cost_vector_policy<refine<refine<>>, 3>);

TEST(VectorRefine, PlacesEverySample)  // Ensures (1)
{
  expect_valid_vector_plans(refine<>{}, 101);
}

RC_GTEST_PROP(VectorRefine, IsNotWorseThanTheInnerPolicy, ())  // Ensures (2)
{
  vector_step<2> step;
  step.gpus.assign(*rc::gen::inRange<std::size_t>(1, 9), 1);
  step.costs = *rc::gen::container<std::vector<cost_vector<2>>>(
      rc::gen::container<cost_vector<2>>(rc::gen::inRange<std::int64_t>(0, 1000)));
  auto const inner = plan_vectors(step, longest_processing_time{});
  auto const plan = plan_vectors(step, refine{});
  RC_ASSERT(inner.has_value() && plan.has_value());
  RC_ASSERT(plan->makespan <= inner->makespan);
}

TEST(VectorRefine, KeepsThePlanWithoutWorkToSpend)  // Ensures (3)
{
  random_source random(102);
  for (int trial = 0; trial < 100; ++trial) {
    auto const step = random_vectors<2>(random, 60, 9);
    auto const inner = plan_vectors(step, longest_processing_time{});
    auto const plan = plan_vectors(step, refine<>{.work_per_sample = 0});
    ASSERT_TRUE(inner && plan);
    EXPECT_EQ(plan->owner, inner->owner);
  }
}

TEST(VectorRefine, MovesSamplesIntoEmptyBins)
{
  std::vector<cost_vector<2>> const costs{{3, 0}, {0, 3}, {3, 3}, {0, 0}};
  auto const plan = plan_in_bins(costs, 3, refine{all_in_first_bin{}}).value();
  EXPECT_EQ(plan.makespan, ratio{3});
  EXPECT_EQ(all_in_first_bin{}, all_in_first_bin{});
}

TEST(VectorRefine, LeavesPlansThatNoExchangeOfTwoBinsMakesShorter)
{
  std::vector<cost_vector<2>> const costs{{2, 0}, {9, 4}, {5, 9}, {9, 4}};
  auto const bags = one_gpu_bags(3).with_speeds(std::vector<std::uint32_t>{7, 5, 10});
  auto const plan = partition(costs, bags, refine{}, std::identity{}, no_length{});
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->makespan, (ratio{7, 5}));
}

template <std::size_t D>
int optima_found(std::uint64_t seed)
{
  random_source random(seed);
  int found = 0;
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = random_vectors<D>(random, 8, 4);
    auto const plan = plan_vectors(step, refine{});
    EXPECT_TRUE(plan);
    auto const best = step.optimum();
    EXPECT_GE(plan->makespan, best);
    found += plan->makespan == best ? 1 : 0;
  }
  return found;
}

TEST(VectorRefine, FindsMostOptimaOfSmallSteps)
{
  EXPECT_GE(optima_found<1>(103), 297);
  EXPECT_GE(optima_found<2>(104), 297);
  EXPECT_GE(optima_found<3>(105), 297);
}

// A step of training: most samples have images and text, some have no image. Work in both
// dimensions is about as much.
vector_step<2> encoder_and_llm(std::size_t samples, std::size_t bins, std::uint64_t seed)
{
  random_source random(seed);
  vector_step<2> step;
  step.gpus.assign(bins, 1);
  for (std::size_t sample = 0; sample < samples; ++sample) {
    std::int64_t const text = random.between(100, 1000) * random.between(1, 8);
    std::int64_t const image = random.below(3) == 0 ? 0 : random.between(256, 4096);
    std::int64_t const all = text + image / 4;
    step.costs.push_back({10'000 * image + 2 * image * image, 4'000 * all + all * all / 4});
  }
  return step;
}

TEST(VectorRefine, BringsAStepWithinOneInAThousand)
{
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    auto const step = encoder_and_llm(2048, 64, seed);
    auto const plan = plan_vectors(step, refine{});
    ASSERT_TRUE(plan);
    EXPECT_TRUE(plan->proven_within(0.001));
  }
}

TEST(VectorRefine, GivesSlowBagsWhatIsLittleWorkForItsWeight)
{
  // Every other GPU is 60 % as fast, and all hold hardly more than the mean.
  std::vector<std::uint32_t> speeds(32, 100);
  for (std::size_t gpu = 1; gpu < speeds.size(); gpu += 2) { speeds[gpu] = 60; }
  auto const bags = one_gpu_bags(speeds.size()).with_speeds(speeds);
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    random_source random(seed);
    std::vector<tokens> lengths;
    std::int64_t all = 0;
    for (int sample = 0; sample < 1024; ++sample) {
      lengths.push_back(random.between(100, 1000) * random.between(1, 8));
      all += lengths.back();
    }
    auto const costs = [](tokens length) {
      return cost_vector<2>{4'000 * length + length * length, length % 7 * 1'000'000};
    };
    partition_constraints const limit{.most_per_gpu = all / 32 * 105 / 100};
    auto const greedy =
        partition(lengths, bags, longest_processing_time{}, costs, std::identity{}, limit);
    auto const plan = partition(lengths, bags, refine{}, costs, std::identity{}, limit);
    ASSERT_TRUE(greedy && plan);
    EXPECT_LE(plan->gap(), 0.02);
    EXPECT_GE(greedy->gap(), 2 * plan->gap());
  }
}

TEST(VectorRefineDeathTest, RefusesMismatchedSpans)
{
  std::vector<cost_vector<2>> const costs{{1, 1}};
  std::vector<cost_vector<2>> loads;
  std::vector<bag_id> owner(1);
  workspace memory;
  cost_vector_problem<2> const problem{costs};
  EXPECT_DEATH(refine<>{}(problem, std::span(loads), std::span(owner), memory), "without bags");
}

}  // namespace
