#include "../support/steady_state.hpp"
#include "../support/test.hpp"
#include "../support/trials.hpp"
#include "../support/vector_checks.hpp"

#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/topology/bag_layout.hpp>

namespace {

using namespace ballast;
using namespace ballast_test;

/// Plans a step whose samples are their numbers.
template <std::size_t D, class Policy>
result<cost_vector_plan<D>> in_bags(bag_vectors<D> const& step, Policy const& policy)
{
  std::vector<std::size_t> numbers(step.costs.size());
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  return partition(
      numbers, step.bags(), policy, [&](std::size_t sample) { return step.costs[sample]; },
      [&](std::size_t sample) { return step.lengths[sample]; }, step.constraints());
}

TEST(PartitionVectorsInBags, DescribesThePlanItMakes)
{
  // [vectors_in_bags]
  struct sample {
    ballast::tokens text;
    ballast::tokens image;
    std::int64_t prompt;  // of which it is an answer
  };
  std::vector<sample> const samples{{100, 900, 1}, {400, 0, 1},   {300, 500, 2},
                                    {200, 0, 3},   {100, 400, 3}, {600, 0, 4}};
  auto const encoder_and_llm = [](sample const& s) {
    return ballast::cost_vector<2>{6 * s.image, 8 * (s.text + s.image / 4)};
  };
  auto const length = [](sample const& s) { return s.text + s.image / 4; };
  std::vector<std::int64_t> prompts;
  for (sample const& s : samples) { prompts.push_back(s.prompt); }
  // Two GPUs that share their samples, and a slower one; each GPU holds 800 tokens.
  std::vector<ballast::bag> const two_and_one{{ballast::rank_id{0}, 2}, {ballast::rank_id{2}, 1}};
  std::vector<std::uint32_t> const gpu_speeds{100, 100, 80};
  ballast::bag_layout const bags(two_and_one, gpu_speeds);
  auto const plan = ballast::partition(samples, bags, ballast::refine{}, encoder_and_llm, length,
                                       {.together = prompts, .most_per_gpu = 800});
  // [vectors_in_bags]
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->loads, (std::vector<cost_vector<2>>{{10'800, 12'400}, {0, 4'800}}));
  EXPECT_EQ(plan->makespan, (ratio{62, 1}));
  EXPECT_TRUE(plan->proven_optimal());
}

template <std::size_t D>
void expect_what_all_assignments_say(std::uint64_t seed, bool keys, int least_optima)
{
  random_source random(seed);
  int planned = 0;
  int optima = 0;
  for (int trial = 0; trial < trials_of(400) && !testing::Test::HasFailure(); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial << " dimensions " << D);
    auto step = random_bag_vectors<D>(random, 7, 4);
    for (std::size_t sample = 0; keys && sample < step.costs.size(); ++sample) {
      step.together.push_back(random.between(-2, 2));
    }
    auto const best = best_in_bags(step);
    auto const greedy = in_bags(step, longest_processing_time{});
    auto const plan = in_bags(step, refine{});
    ASSERT_EQ(plan.has_value(), best.has_value()) << (plan ? "" : plan.error().message);
    ASSERT_EQ(greedy.has_value(), best.has_value());
    if (!plan) {
      ASSERT_EQ(plan.error().code, error_code::infeasible);
      ASSERT_LT(plan.error().position, step.costs.size());
      continue;
    }
    expect_kept_in_bags(step, *plan);
    expect_kept_in_bags(step, *greedy);
    EXPECT_GE(plan->makespan, *best);
    EXPECT_LE(plan->makespan, greedy->makespan);
    EXPECT_LE(plan->lower_bound, *best);
    ++planned;
    optima += plan->makespan == *best ? 1 : 0;
  }
  if (!is_sanitized) { EXPECT_GE(optima, least_optima) << "of " << planned; }
}

TEST(PartitionVectorsInBags, KeepsToEverythingWhereverThatIsPossible)  // Ensures (1) (2) (5)
{
  expect_what_all_assignments_say<1>(501, false, 250);
  expect_what_all_assignments_say<2>(502, false, 250);
  expect_what_all_assignments_say<3>(503, false, 250);
}

TEST(PartitionVectorsInBags, KeepsSamplesTogether)  // Ensures (5)
{
  expect_what_all_assignments_say<2>(504, true, 200);
}

TEST(PartitionVectorsInBags, KeepsToEverythingInLargerSteps)  // Ensures (1) (2) (5)
{
  random_source random(505);
  int planned = 0;
  for (int trial = 0; trial < trials_of(300) && !testing::Test::HasFailure(); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto step = random_bag_vectors<2>(random, 80, 12);
    if (random.below(3) == 0) {
      for (std::size_t sample = 0; sample < step.costs.size(); ++sample) {
        step.together.push_back(random.between(0, 30));
      }
    }
    for (auto const& plan : {in_bags(step, longest_processing_time{}), in_bags(step, refine{}),
                             in_bags(step, refine<>{.work_per_sample = 0})}) {
      if (!plan) { continue; }
      ++planned;
      expect_kept_in_bags(step, *plan);
      EXPECT_LE(plan->lower_bound, plan->makespan);
    }
  }
  if (!is_sanitized) { EXPECT_GE(planned, 450); }
}

RC_GTEST_PROP(PartitionVectorsInBags, PlansEqualBagsAsEqualBins, ())
{
  auto const costs = *rc::gen::container<std::vector<cost_vector<2>>>(
      rc::gen::container<cost_vector<2>>(rc::gen::inRange<std::int64_t>(0, 1000)));
  auto const bins = *rc::gen::inRange<std::size_t>(1, 9);
  auto const in_bins = plan_in_bins(costs, bins, refine{});
  auto const plan = partition(costs, one_gpu_bags(bins), refine{}, std::identity{},
                              [](cost_vector<2> const&) { return tokens{1}; });
  RC_ASSERT(in_bins.has_value() && plan.has_value());
  RC_ASSERT(plan->loads == in_bins->loads);
  RC_ASSERT(plan->makespan == in_bins->makespan);
  RC_ASSERT(plan->lower_bound == in_bins->lower_bound);
}

RC_GTEST_PROP(PartitionVectorsInBags, IsLptOfOneDimension, ())
{
  auto const costs = *rc::gen::container<std::vector<cost_vector<1>>>(
      rc::gen::container<cost_vector<1>>(rc::gen::inRange<std::int64_t>(0, 50)));
  auto speeds = *rc::gen::nonEmpty(
      rc::gen::container<std::vector<std::uint32_t>>(rc::gen::inRange<std::uint32_t>(1, 4)));
  std::ranges::sort(speeds);  // of equal results the scalar policy takes the slower bag
  auto const bags = one_gpu_bags(speeds.size()).with_speeds(speeds);
  auto const one = [](cost_vector<1> const&) { return tokens{1}; };
  auto const plan = partition(costs, bags, longest_processing_time{}, std::identity{}, one);
  auto const scalar = partition(
      costs, bags, longest_processing_time{}, [](cost_vector<1> const& cost) { return cost[0]; },
      one);
  RC_ASSERT(plan.has_value() && scalar.has_value());
  RC_ASSERT(plan->owner == scalar->owner);
  RC_ASSERT(plan->lower_bound == scalar->lower_bound);
}

TEST(PartitionVectorsInBags, PlansTheEdges)
{
  bag_vectors<2> none{{}, {}, {}, {1, 2}, {3, 1}, 0};
  auto const empty = in_bags(none, refine{}).value();
  EXPECT_EQ(empty.gap(), 0.0);

  // Equal samples of no cost that fill the bags to the last unit.
  bag_vectors<2> const idle{{{}, {}, {}}, {4, 4, 4}, {5, 5, 5}, {1, 2}, {3, 1}, 5};
  auto const full = in_bags(idle, refine{}).value();
  EXPECT_TRUE(full.proven_optimal());
  expect_kept_in_bags(idle, full);

  // One giant, that only the slow bag of two GPUs holds; the fast one takes what is left.
  bag_vectors<2> const giant{{{90, 0}, {0, 3}, {1, 1}}, {9, 9, 9}, {16, 4, 4}, {1, 2}, {9, 1}, 8};
  auto const around = in_bags(giant, refine{}).value();
  EXPECT_EQ(around.owner, (std::vector{bag_id{1}, bag_id{0}, bag_id{0}}));
  EXPECT_EQ(around.makespan, (ratio{45, 1}));

  // All costs equal on bags of speeds 3 and 1: three of four go to the fast one.
  bag_vectors<2> const equal{
      {{2, 2}, {2, 2}, {2, 2}, {2, 2}}, {1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1}, {3, 1}};
  auto const spread = in_bags(equal, refine{}).value();
  EXPECT_EQ(spread.loads, (std::vector<cost_vector<2>>{{6, 6}, {2, 2}}));
  EXPECT_EQ(spread.makespan, (ratio{2, 1}));
  EXPECT_TRUE(spread.proven_optimal());
}

TEST(PartitionVectorsInBags, NamesTheSampleThatCannotBePlanned)
{
  bag_vectors<2> const sound{{{1, 1}, {2, 2}, {3, 3}}, {4, 4, 4}, {5, 5, 5}, {2, 2}, {1, 1}};
  auto const refusal = [](bag_vectors<2> const& step) {
    auto const plan = in_bags(step, refine{});
    EXPECT_FALSE(plan);
    return plan ? error{} : plan.error();
  };
  auto step = sound;
  step.lengths[1] = 1;
  EXPECT_EQ(refusal(step).code, error_code::infeasible);
  EXPECT_EQ(refusal(step).position, 1U);
  step = sound;
  step.lengths[2] = -1;
  EXPECT_EQ(refusal(step).code, error_code::out_of_range);
  step = sound;
  step.costs[1][1] = -1;
  EXPECT_EQ(refusal(step).code, error_code::out_of_range);
  EXPECT_EQ(refusal(step).position, 1U);
  step = sound;
  step.weights[2] = -1;
  step.most_per_gpu = 9;
  EXPECT_EQ(refusal(step).position, 2U);
  step = sound;
  step.most_per_gpu = -1;
  EXPECT_EQ(refusal(step).code, error_code::out_of_range);
  step = sound;
  step.most_per_gpu = 2;  // each bag holds 4, each sample weighs 5
  EXPECT_EQ(refusal(step).code, error_code::infeasible);
  EXPECT_THAT(refusal(step).message, testing::HasSubstr("sample 0 weighs 5, more than any bag"));
  step.most_per_gpu = 3;  // two bags hold one sample each
  EXPECT_EQ(refusal(step).code, error_code::infeasible);
  EXPECT_THAT(refusal(step).message, testing::HasSubstr("found no bag with room"));
  step.most_per_gpu = 6;
  step.together = {7, 8, 7};
  EXPECT_TRUE(in_bags(step, refine{}));
  step.together = {7, 7, 7};
  EXPECT_EQ(refusal(step).position, 0U);
  EXPECT_THAT(refusal(step).message, testing::HasSubstr("and what stays with it weigh 15"));

  auto const nowhere = partition(sound.costs, bag_layout{}, refine{}, std::identity{},
                                 [](auto const&) { return 1; });
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, error_code::infeasible);
}

TEST(PartitionVectorsInBags, PutsShortSamplesIntoTheSmallestBagsWhereThoseAdmitThem)  // Ensures (2)
{
  auto const refusing = *lay_out(*parse_bags("g8n1+g4n2"), 16);
  auto const bags = refusing.with_short_samples(short_samples::admitted);
  auto const costs_of = [](tokens length) { return cost_vector<2>{length, 9 - length}; };
  auto const plan_in = [&](std::vector<tokens> const& lengths, bag_layout const& layout,
                           auto const& policy) {
    return partition(lengths, layout, policy, costs_of);
  };
  random_source random(31);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<tokens> lengths(1 + random.below(20));
    for (tokens& length : lengths) { length = random.between(0, 9); }
    lengths.back() = 3;
    auto const is_short = [&](tokens length) { return bags.is_short(length); };
    auto const short_ones = std::count_if(lengths.begin(), lengths.end(), is_short);
    auto const plan = plan_in(lengths, bags, refine{});
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_EQ(plan->short_samples, static_cast<std::size_t>(short_ones));
    for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
      EXPECT_TRUE(bags.takes(plan->owner[sample], lengths[sample])) << "sample " << sample;
    }
    EXPECT_EQ(plan_in(lengths, refusing, refine{}).error().code, error_code::infeasible);

    // Without such samples the plan is that of bags that refuse them.
    lengths.erase(std::remove_if(lengths.begin(), lengths.end(), is_short), lengths.end());
    auto const same = plan_in(lengths, bags, refine{});
    auto const expected = plan_in(lengths, refusing, refine{});
    ASSERT_TRUE(same && expected);
    EXPECT_EQ(same->owner, expected->owner);
    EXPECT_EQ(same->short_samples, 0U);
  }
}

TEST(PartitionVectorsInBags, KeepsShortSamplesTogetherAndWeighsTheirOwnTokens)  // Ensures (2) (5)
{
  auto const bags = lay_out(*parse_bags("g4n2"), 8)->with_short_samples(short_samples::admitted);
  std::vector<tokens> const lengths{2, 30, 3, 10};
  std::vector<std::int64_t> const together{7, 8, 7, 9};
  std::vector<rank_id> const home(4, rank_id{0});
  auto const plan = partition(
      lengths, bags, refine{}, [](tokens length) { return cost_vector<2>{length, length}; },
      std::identity{}, {.together = together, .home = home, .most_per_gpu = 8});
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->owner[0], plan->owner[2]);
  EXPECT_EQ(plan->short_samples, 2U);
  EXPECT_EQ(plan->makespan, (ratio{30, 4}));
  EXPECT_EQ(plan->moved, (plan->owner[1] == bag_id{0} ? ratio{15, 45} : ratio{30, 45}));
  auto const tight = partition(lengths, bags, refine{},
                               [](tokens length) { return cost_vector<2>{length, length}; },
                               std::identity{}, {.together = together, .most_per_gpu = 7});
  ASSERT_FALSE(tight);
  EXPECT_THAT(tight.error().message,
              testing::HasSubstr("sample 1 and what stays with it weigh 30"));
}

TEST(PartitionVectorsInBags, SaysWhatAPolicyWithoutWeightsOverruns)
{
  bag_vectors<2> const step{{{1, 1}, {2, 2}}, {1, 1}, {5, 5}, {1, 1}, {1, 1}, 5};
  auto const plan = in_bags(step, all_in_first_bin{});
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, error_code::infeasible);
  EXPECT_THAT(plan.error().message, testing::EndsWith("as refine{}"));
  auto const healed = in_bags(step, refine{all_in_first_bin{}}).value();
  EXPECT_TRUE(healed.proven_optimal());
}

TEST(PartitionVectorsInBags, WorksUpToTheLargestTotal)
{
  constexpr auto most = std::numeric_limits<std::int64_t>::max() - 1;
  bag_vectors<2> const step{
      {{most / 2, 0}, {most / 2, most}}, {9, 9},  {most / 2, most / 2}, {1, 1},
      {4'000'000'000, 3'999'999'999},    most / 2};
  auto const plan = in_bags(step, refine{}).value();
  EXPECT_EQ(plan.owner, (std::vector{bag_id{1}, bag_id{0}}));
  EXPECT_LE(plan.lower_bound, plan.makespan);
}

TEST(PartitionVectorsInBags, SaysHowMuchMoves)
{
  std::vector<tokens> const lengths{6, 2, 2};
  std::vector<rank_id> const home{rank_id{0}, rank_id{0}, rank_id{0}};
  auto const plan = partition(lengths, one_gpu_bags(2), refine{},
                              [](tokens length) { return cost_vector<2>{length, 1}; },
                              std::identity{}, {.home = home});
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->loads, (std::vector<cost_vector<2>>{{6, 1}, {4, 2}}));
  EXPECT_EQ(plan->moved, (ratio{4, 10}));
}

TEST(PartitionVectorsInBags, AllocatesNothingInTheSteadyState)  // Ensures (3) (4)
{
  std::vector<tokens> lengths(1000);
  std::vector<std::int64_t> prompts(1000);
  for (std::size_t sample = 0; sample < 1000; ++sample) {
    lengths[sample] = 1 + static_cast<tokens>(sample * 7919 % 500);
    prompts[sample] = static_cast<std::int64_t>(sample / 2);
  }
  std::vector<std::uint32_t> speeds(32, 3);
  speeds[5] = 2;
  auto const bags = one_gpu_bags(32).with_speeds(speeds);
  cost_vector_plan<2> plan;
  workspace memory;
  auto const costs = [](tokens length) { return cost_vector<2>{length * length, 7}; };
  std::uint64_t digest = 0;
  expect_steady_state([&] {
    bool const done = partition_into(plan, memory, lengths, bags, refine{}, costs, std::identity{},
                                     {.together = prompts, .most_per_gpu = 8000})
                          .has_value();
    if (digest == 0) { digest = plan.digest(); }
    return done && plan.digest() == digest;
  });
}

TEST(PartitionVectorsInBins, AsksForWeights)
{
  std::vector<cost_vector<2>> const costs{{1, 1}};
  auto const plan = plan_in_bins(costs, 2, refine{}, std::identity{}, {.most_per_gpu = 3});
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, error_code::out_of_range);
  EXPECT_THAT(plan.error().message, testing::HasSubstr("give constraints.weights"));
}

}  // namespace
