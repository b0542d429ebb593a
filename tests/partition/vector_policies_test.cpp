#include <ballast/partition/makespan_lower_bound.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"
#include "../support/vector_checks.hpp"

#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/refine.hpp>

namespace {

using namespace ballast;
using namespace ballast_test;

struct knows_two_dimensions {
  void operator()(cost_vector_problem<2> const&, std::span<cost_vector<2>>, std::span<bag_id>,
                  workspace&) const
  {}
};

static_assert(cost_vector_policy<all_in_first_bin, 1>);
static_assert(cost_vector_policy<all_in_first_bin, 3>);
static_assert(cost_vector_policy<knows_two_dimensions, 2>);
static_assert(!cost_vector_policy<knows_two_dimensions, 3>);

TEST(VectorPartitionPolicy, IsAllThatTheFrontDoorAsksFor)
{
  expect_valid_vector_plans(all_in_first_bin{}, 3);
}

struct clip {
  cost_vector<3> stages{};
  std::array<double, 2> seconds{};
  std::int64_t tokens = 0;
};
using clips = std::vector<clip>;

static_assert(cost_vector_projection<std::identity, std::vector<cost_vector<2>>&>);
static_assert(cost_vector_projection<cost_vector<3> clip::*, clips&>);
static_assert(!cost_vector_projection<std::array<double, 2> clip::*, clips&>);
static_assert(!cost_vector_projection<std::int64_t clip::*, clips&>);
static_assert(!cost_vector_projection<std::identity, std::vector<std::int64_t>>);
static_assert(!cost_vector_projection<int, clips&>);
static_assert(!cost_vector_projection<std::identity, cost_vector<2> const*>);
static_assert(cost_projection<std::int64_t clip::*, clips&>);
static_assert(!cost_projection<std::array<double, 2> clip::*, clips&>);
static_assert(std::same_as<planned_cost<cost_vector<3> clip::*, clips const&>, cost_vector<3>>);
static_assert(std::same_as<planned_cost<std::int64_t clip::*, clips&>, cost_units>);

TEST(VectorProblem, OfCostsAloneHasEqualBins)
{
  std::vector<cost_vector<1>> const costs{{1}};
  cost_vector_problem<1> const problem{costs};
  EXPECT_EQ(problem.speed(7), 1U);
  EXPECT_TRUE(problem.fits(0, 7));
  EXPECT_TRUE(problem.one_speed());
  EXPECT_TRUE(problem.any_bag_is_open());
}

TEST(VectorProblem, KnowsWhichBinsAreOpen)
{
  std::vector<cost_vector<1>> const costs{{1}, {1}, {1}};
  std::vector<tokens> lengths{4, 3, 0};
  std::vector<std::uint32_t> const gpus{4, 1};
  std::vector<std::uint32_t> const speeds{8, 2};
  cost_vector_problem<1> problem{costs, lengths, gpus, speeds};
  EXPECT_EQ(problem.speed(1), 2U);
  EXPECT_FALSE(problem.one_speed());
  EXPECT_TRUE(problem.fits(0, 0));
  EXPECT_FALSE(problem.fits(1, 0));
  EXPECT_TRUE(problem.fits(1, 1));
  EXPECT_TRUE(problem.fits(2, 0));
  EXPECT_FALSE(problem.any_bag_is_open());
  lengths[1] = 4;
  EXPECT_TRUE(problem.any_bag_is_open());
}

template <std::size_t D>
ratio bound_of(vector_step<D> const& step)
{
  return plan_vectors(step, longest_processing_time{}).value().lower_bound;
}
ratio bound_in_bins(std::vector<cost_vector<2>> const& costs, std::size_t bins)
{
  return bound_of<2>({costs, {}, {}, std::vector<std::uint32_t>(bins, 1)});
}

template <std::size_t D>
void compare_with_the_optimum(std::uint64_t seed, bool bags, int least_tight)
{
  random_source random(seed);
  int tight = 0;
  int found = 0;
  int possible = 0;
  for (int trial = 0; trial < 500; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial << " dimensions " << D);
    auto const step = bags ? random_bag_vectors<D>(random, 7, 4) : random_vectors<D>(random, 8, 4);
    auto const best = step.optimum();
    if (!best) { continue; }
    ++possible;
    ASSERT_LE(bound_of(step), *best);
    tight += bound_of(step) == *best ? 1 : 0;
    auto const plan = plan_vectors(step, refine{});
    ASSERT_TRUE(plan);
    EXPECT_GE(plan->makespan, *best);
    found += plan->makespan == *best ? 1 : 0;
  }
  EXPECT_GE(tight, least_tight);
  EXPECT_GE(100 * found, 99 * possible);
}

TEST(VectorLowerBound, IsNeverAboveTheOptimumWhichRefineFinds)  // Ensures (1)
{
  compare_with_the_optimum<1>(51, false, 300);
  compare_with_the_optimum<2>(52, false, 250);
  compare_with_the_optimum<3>(53, false, 200);
  compare_with_the_optimum<2>(54, true, 120);
}

TEST(VectorLowerBound, SeesSamplesThatHaveToMeet)
{
  // Two of three samples share a bin, and any two together have 24 units of work in two dimensions.
  // Each dimension by itself would allow 9: its mean.
  EXPECT_EQ(bound_in_bins({{10, 2}, {2, 10}, {6, 6}}, 2), ratio{12});
  EXPECT_EQ(bound_in_bins({{10, 0}, {0, 10}}, 1), ratio{10});
  EXPECT_EQ(bound_in_bins({{7, 1}, {1, 1}}, 9), ratio{7});
  EXPECT_EQ(bound_in_bins({}, 2), ratio{0});
}

TEST(VectorLowerBound, LeavesOutSumsThatDoNotFit)
{
  constexpr cost_units most = no_cost - 1;
  EXPECT_EQ(bound_in_bins({{most, most}}, 1), ratio{most});
  EXPECT_EQ(bound_in_bins({{most - 1, 1}, {1, most - 1}}, 1), ratio{most});
}

TEST(VectorLowerBound, KnowsWhatSlowBagsHaveToHold)
{
  // Speeds 9 and 1 share 40 units of work by 4 per unit of speed, but each bag has to hold two
  // samples, and the slow one two of 10.
  vector_step<2> step{{{10, 0}, {10, 0}, {10, 0}, {10, 0}}, {}, {5, 5, 5, 5}, {1, 1}, {9, 1}};
  EXPECT_LE(bound_of(step), (ratio{10, 1}));
  step.most_per_gpu = 10;
  EXPECT_EQ(bound_of(step), (ratio{20, 1}));
}

static_assert(cost_vector_policy<longest_processing_time, 1>);
static_assert(cost_vector_policy<longest_processing_time, 4>);

TEST(VectorLongestProcessingTime, PlacesEverySample)  // Ensures (1) (2)
{
  expect_valid_vector_plans(longest_processing_time{}, 61);
}

// Oracle: looks at every bin for every sample, as the definition says.
template <std::size_t D>
std::vector<bag_id> scan_all_bins(vector_step<D> const& step)
{
  std::vector<cost_units> largest;
  for (auto const& cost : step.costs) { largest.push_back(std::ranges::max(cost)); }
  std::vector<cost_vector<D>> loads(step.gpus.size(), cost_vector<D>{});
  std::vector<bag_id> owner(step.costs.size());
  for (std::size_t const sample : heaviest_first(largest)) {
    auto const with_sample = [&](cost_vector<D> load) {
      for (std::size_t d = 0; d < D; ++d) { load[d] += step.costs[sample][d]; }
      return std::ranges::max(load);
    };
    auto const best = std::ranges::min_element(loads, {}, with_sample);  // of equals the first
    for (std::size_t d = 0; d < D; ++d) { (*best)[d] += step.costs[sample][d]; }
    owner[sample] = to_id<bag_id>(static_cast<std::size_t>(best - loads.begin()));
  }
  return owner;
}

RC_GTEST_PROP(VectorLongestProcessingTime, AgreesWithAScanOfAllBins, ())  // Ensures (3)
{
  vector_step<3> step;
  step.gpus.assign(*rc::gen::inRange<std::size_t>(1, 12), 1);
  step.costs = *rc::gen::container<std::vector<cost_vector<3>>>(
      rc::gen::container<cost_vector<3>>(rc::gen::inRange<std::int64_t>(0, 50)));
  auto const plan = plan_vectors(step, longest_processing_time{});
  RC_ASSERT(plan.has_value());
  RC_ASSERT(plan->owner == scan_all_bins(step));
}

TEST(VectorLongestProcessingTime, GivesTiesToLowestSampleThenLowestBin)  // Ensures (3)
{
  std::vector<cost_vector<2>> const costs{{5, 0}, {0, 5}, {5, 5}, {5, 1}};
  auto const plan = plan_in_bins(costs, 2, longest_processing_time{}).value();
  // The second sample adds nothing to what the first bin's largest load is.
  EXPECT_EQ(plan.owner, (std::vector{bag_id{0}, bag_id{0}, bag_id{1}, bag_id{0}}));
}

TEST(VectorLongestProcessingTime, WorksUpToTheLargestTotal)
{
  constexpr auto most = std::numeric_limits<std::int64_t>::max() - 1;
  std::vector<cost_vector<2>> const costs{{most / 2, most / 2}, {most / 2, most / 2}};
  auto const one = plan_in_bins(costs, 1, longest_processing_time{}).value();
  EXPECT_EQ(one.makespan, ratio{most / 2 * 2});
  auto const two = plan_in_bins(costs, 2, longest_processing_time{}).value();
  EXPECT_TRUE(two.proven_optimal());
}

TEST(VectorPoliciesDeathTest, RefuseMismatchedSpans)
{
  std::vector<cost_vector<2>> const costs{{1, 1}};
  std::vector<cost_vector<2>> loads;
  std::vector<bag_id> owner(1);
  workspace memory;
  cost_vector_problem<2> const problem{costs};
  auto const run = [&](auto const& policy) {
    policy(problem, std::span(loads), std::span(owner), memory);
  };
  EXPECT_DEATH(run(longest_processing_time{}), "without bags");
  EXPECT_DEATH(run(refine{}), "without bags");
}

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
}

TEST(VectorRefine, LeavesPlansThatNoExchangeOfTwoBinsMakesShorter)
{
  std::vector<cost_vector<2>> const costs{{2, 0}, {9, 4}, {5, 9}, {9, 4}};
  auto const bags = one_gpu_bags(3).with_speeds(std::vector<std::uint32_t>{7, 5, 10});
  auto const plan = partition(costs, bags, std::identity{}, no_length{});
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->makespan, (ratio{7, 5}));
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
    placement_limits const limit{.most_per_gpu = all / 32 * 105 / 100};
    auto const plan = partition(lengths, bags, costs, limit);
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_LE(plan->gap(), 0.001);
  }
}

refine<> const tries_all{.nodes = std::uint64_t{1} << 16};

TEST(VectorExact, PlacesEverySample)  // Ensures (1) (2)
{
  expect_valid_vector_plans(refine<>{.nodes = 200}, 201);
}

TEST(VectorExact, MakesTheQuantityThatDoesNotBindSmallToo)  // Ensures (6)
{
  // All tokens of eight samples, and those that count in the loss.
  std::vector<ballast::cost_vector<2>> const samples = {{8000, 200}, {8000, 7900}, {4000, 3900},
                                                        {4000, 100}, {6000, 3000}, {2000, 1900},
                                                        {7000, 300}, {1000, 900}};
  auto const plan =
      ballast::partition(samples, ballast::one_gpu_bags(4), std::identity{}, ballast::no_length{},
                         {}, ballast::refine<>{.nodes = 100'000});
  // The largest total is 11,000, and no plan is below it; of these plans, this one has the least
  // number of tokens that count, 7,900.
  ASSERT_TRUE(plan) << plan.error().message;
  std::int64_t most = 0;
  for (auto const& load : plan->loads) { most = std::max(most, load[1]); }
  EXPECT_EQ(plan->makespan, (ratio{11'000, 1}));
  EXPECT_TRUE(plan->proven_optimal());
  EXPECT_EQ(most, 7900);
}

// The largest load in each dimension, the largest first.
template <std::size_t D>
cost_vector<D> largest_first(std::vector<cost_vector<D>> const& loads)
{
  cost_vector<D> largest{};
  for (auto const& load : loads) {
    for (std::size_t d = 0; d < D; ++d) { largest[d] = std::max(largest[d], load[d]); }
  }
  std::ranges::sort(largest, std::greater{});
  return largest;
}

// How often refine finds the best of all plans, which a search of all plans always has to.
template <std::size_t D>
int expect_best_of_all(std::uint64_t seed, std::size_t samples)
{
  random_source random(seed);
  int refined = 0;
  for (int trial = 0; trial < trials_of(150); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial << " dimensions " << D);
    auto const step = random_vectors<D>(random, samples, 3);
    std::vector<std::int64_t> weights(step.costs.size());
    for (auto& weight : weights) { weight = random.between(1, 9); }
    auto loads = idle<D>(step.gpus.size());
    std::vector<std::int64_t> before;
    placement_limits given;
    if (trial % 3 == 1) {
      for (auto& load : loads) {
        for (auto& part : load) { before.push_back(part = random.between(0, 400)); }
      }
      given.starting_loads = before;
    }
    std::int64_t const most = trial % 2 == 0 ? random.between(9, 30) : no_limit;
    if (trial % 2 == 0) { given.also = {{.of = weights, .most_per_gpu = most}}; }
    auto const plan = plan_in_bins(step.costs, step.gpus.size(), tries_all, given);
    auto const held_by = [&](assignment const& owner) {
      return sums_of(owner, weights, std::vector<std::int64_t>(step.gpus.size(), 0));
    };
    // Oracle: all plans in which no bin weighs too much; the least of their largest loads.
    auto const best = least_of_all(step.costs.size(), step.gpus.size(),
                                   [&](assignment const& owner) -> std::optional<cost_vector<D>> {
                                     if (std::ranges::max(held_by(owner)) > most) {
                                       return std::nullopt;
                                     }
                                     return largest_first(loads_of(step.costs, owner, loads));
                                   });
    EXPECT_EQ(plan.has_value(), best.has_value());
    if (!plan) { continue; }
    EXPECT_EQ(largest_first(plan->loads), best);
    EXPECT_TRUE(plan->proven_optimal());
    EXPECT_LE(std::ranges::max(held_by(assignment_of(plan->owner))), most);
    auto const nearly = plan_in_bins(step.costs, step.gpus.size(), refine{}, given);
    refined += largest_first(nearly.value().loads) == best ? 1 : 0;
  }
  return refined;
}

TEST(VectorExact, FindsTheBestOfAllQuantitiesInSmallSteps)  // Ensures (6)
{
  EXPECT_GE(expect_best_of_all<2>(206, 7), trials_of(100));
  EXPECT_GE(expect_best_of_all<3>(207, 6), trials_of(100));
  EXPECT_GE(expect_best_of_all<4>(208, 6), trials_of(100));
}

TEST(VectorExact, IsNotWorseThanTheInnerPolicyNorThanWithFewerNodes)  // Ensures (3)
{
  random_source random(203);
  for (int trial = 0; trial < 50; ++trial) {
    auto const step = random_vectors<2>(random, 30, 6);
    ratio last{no_cost};
    for (std::uint64_t const nodes : {0U, 100U, 1'000U, 20'000U}) {
      auto const plan = plan_vectors(step, refine<>{.nodes = nodes});
      ASSERT_TRUE(plan);
      EXPECT_LE(plan->makespan, last);
      last = plan->makespan;
    }
  }
}

TEST(VectorExact, ProvesPlansOfSeveralSpeeds)  // Ensures (4)
{
  random_source random(205);
  std::size_t better = 0;
  for (int trial = 0; trial < trials_of(100); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto step = random_vectors<2>(random, 7, 3);
    step.gpu_speeds.resize(step.gpus.size());
    for (auto& speed : step.gpu_speeds) {
      speed = 1 + static_cast<std::uint32_t>(random.below(10));
    }
    auto const plan = plan_vectors(step, tries_all).value();
    expect_valid_vector_plan(step, plan);
    EXPECT_TRUE(plan.proven_optimal());
    EXPECT_EQ(plan.makespan, step.optimum());
    better += plan.makespan < plan_vectors(step, longest_processing_time{})->makespan ? 1U : 0U;
  }
  EXPECT_GE(better, 1U);
}

}  // namespace
