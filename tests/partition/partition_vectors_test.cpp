#include <ballast/partition/partition.hpp>  // first: proves it is self-contained

#include "../support/plan_checks.hpp"
#include "../support/steady_state.hpp"
#include "../support/test.hpp"
#include "../support/vector_checks.hpp"

#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/refine.hpp>

namespace {

using namespace ballast;
using namespace ballast_test;
using enum error_code;

static_assert(cost_vector_projection<std::identity, std::vector<cost_vector<2>>>);
static_assert(!cost_vector_projection<std::identity, std::vector<cost_units>>);
static_assert(!cost_vector_projection<std::identity, std::vector<std::array<double, 2>>>);

TEST(PartitionVectors, DescribesThePlanItMakes)  // Ensures (1)
{
  // [vectors]
  struct sample {
    ballast::tokens text;
    ballast::tokens image;
  };
  std::vector<sample> const samples{{100, 900}, {400, 0}, {300, 500}, {200, 0}, {100, 400}};
  auto const encoder_and_llm = [](sample const& s) {
    return ballast::cost_vector<2>{6 * s.image, 8 * (s.text + s.image / 4)};
  };
  auto const plan =
      ballast::partition(samples, ballast::one_gpu_bags(2), encoder_and_llm, ballast::no_length{});
  // [vectors]
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_THAT(plan->costs, testing::ElementsAre(cost_vector<2>{5400, 2600}, cost_vector<2>{0, 3200},
                                                cost_vector<2>{3000, 3400}, cost_vector<2>{0, 1600},
                                                cost_vector<2>{2400, 1600}));
  EXPECT_THAT(plan->loads,
              testing::ElementsAre(cost_vector<2>{5400, 6600}, cost_vector<2>{5400, 5800}));
  EXPECT_THAT(plan->samples[bag_id{1}], testing::ElementsAre(sample_id{0}, sample_id{1}));
  EXPECT_EQ(plan->makespan, ratio{6600});
  EXPECT_GE(plan->lower_bound, ratio{6200});  // the mean of the LLM
}

TEST(PartitionVectors, PlansTheEdges)
{
  std::vector<cost_vector<2>> const none;
  auto const empty = plan_in_bins(none, 3, refine{}).value();
  EXPECT_EQ(empty.gap(), 0.0);
  EXPECT_EQ(empty.samples.size(), 3U);

  std::vector<cost_vector<2>> const zeros(5, cost_vector<2>{});
  auto const idle = plan_in_bins(zeros, 3, refine{}).value();
  EXPECT_TRUE(idle.proven_optimal());

  std::vector<cost_vector<2>> const few{{7, 1}, {1, 7}};
  auto const sparse = plan_in_bins(few, 5, refine{}).value();
  EXPECT_TRUE(sparse.proven_optimal());
  auto const single = plan_in_bins(few, 1, refine{}).value();
  EXPECT_TRUE(single.proven_optimal());
  EXPECT_THAT(single.loads, testing::ElementsAre(cost_vector<2>{8, 8}));
}

TEST(PartitionVectors, NamesTheSampleThatCannotBePlanned)
{
  auto const expect = [](std::vector<cost_vector<2>> const& costs, std::size_t bins,
                         error_code code, std::size_t position, char const* why) {
    expect_refused(plan_in_bins(costs, bins, refine{}), code, position, why);
  };
  expect({{1, 1}, {1, -1}}, 2, out_of_range, 1, "sample 1 has a negative cost in dimension 1");
  expect({{no_cost, 0}}, 2, out_of_range, 0, "sample 0 has no cost in dimension 0");
  expect({{0, no_cost - 1}, {0, 1}}, 2, out_of_range, 1, "63 bits");
  expect({{1, 1}, {1, -1}}, 0, infeasible, 0, "");
  expect_refused(plan_in_bins(std::vector{cost_vector<2>{1, 1}}, 2, refine{}, {.most_per_gpu = 3}),
                 out_of_range, 0, "as limits.also");
}

TEST(PartitionVectors, FindsTheSamePlanAgain)  // Ensures (2)
{
  random_source random(111);
  cost_vector_plan<3> reused;
  workspace memory;
  for (int trial = 0; trial < 50; ++trial) {
    auto const step = random_vectors<3>(random, 300, 20);
    std::size_t const bins = step.gpus.size();
    auto const plan = plan_in_bins(step.costs, bins, refine{});
    ASSERT_TRUE(plan && partition_into(reused, memory, step.costs, one_gpu_bags(bins),
                                       std::identity{}, no_length{}));
    EXPECT_EQ(plan->digest(), reused.digest());
    EXPECT_EQ(plan->lower_bound, reused.lower_bound);
  }
}

// A policy that is wrong in one of two ways.
struct wrong_vector_policy {
  bool forgets_loads = false;
  void operator()(cost_vector_problem<2> const&, std::span<cost_vector<2>>, std::span<bag_id> owner,
                  workspace&) const
  {
    for (bag_id& bin : owner) {
      if (forgets_loads) { bin = bag_id{0}; }
    }
  }
};

TEST(PartitionVectorsDeathTest, EndsTheProgramWhenAPolicyIsWrong)
{
  std::vector<cost_vector<2>> const costs{{1, 1}};
  EXPECT_DEATH((void)plan_in_bins(costs, 2, wrong_vector_policy{true}), "load");
  EXPECT_DEATH((void)plan_in_bins(costs, 2, wrong_vector_policy{false}),
               "left sample 0 without a bag");
}

TEST(PartitionVectorsInBags, DescribesThePlanItMakes)
{
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
  auto const plan = ballast::partition(samples, bags, encoder_and_llm, length,
                                       {.together = prompts, .most_per_gpu = 800});
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
    auto const best = step.optimum();
    auto const greedy = plan_vectors(step, longest_processing_time{});
    auto const plan = plan_vectors(step, refine{});
    ASSERT_EQ(plan.has_value(), best.has_value()) << (plan ? "" : plan.error().message);
    ASSERT_EQ(greedy.has_value(), best.has_value());
    if (!plan) {
      ASSERT_EQ(plan.error().code, infeasible);
      ASSERT_LT(plan.error().position, step.costs.size());
      continue;
    }
    expect_valid_vector_plan(step, *plan);
    expect_valid_vector_plan(step, *greedy);
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
  expect_what_all_assignments_say<2>(504, true, 200);
}

TEST(PartitionVectorsInBags, KeepsToEverythingInLargerSteps)  // Ensures (1) (2) (5)
{
  random_source random(505);
  int planned = 0;
  for (int trial = 0; trial < trials_of(300, 30) && !testing::Test::HasFailure(); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto step = random_bag_vectors<2>(random, 80, 12);
    bool const keys = random.below(3) == 0;
    for (std::size_t sample = 0; keys && sample < step.costs.size(); ++sample) {
      step.together.push_back(random.between(0, 30));
    }
    for (auto const& plan :
         {plan_vectors(step, longest_processing_time{}), plan_vectors(step, refine{}),
          plan_vectors(step, refine<>{.work_per_sample = 0})}) {
      if (!plan) { continue; }
      ++planned;
      expect_valid_vector_plan(step, *plan);
    }
  }
  if (!is_sanitized) { EXPECT_GE(planned, 450); }
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
  auto const plan = partition(costs, bags, std::identity{}, one, {}, longest_processing_time{});
  auto const scalar = partition(
      costs, bags, [](cost_vector<1> const& cost) { return cost[0]; }, one, {},
      longest_processing_time{});
  RC_ASSERT(plan.has_value() && scalar.has_value());
  RC_ASSERT(plan->owner == scalar->owner);
  RC_ASSERT(plan->lower_bound == scalar->lower_bound);
}

TEST(PartitionVectorsInBags, PlansTheEdges)
{
  EXPECT_EQ(plan_vectors(vector_step<2>{{}, {}, {}, {1, 2}, {3, 1}, 0}, refine{})->gap(), 0.0);

  // Equal samples of no cost that fill the bags to the last unit.
  vector_step<2> const idle{{{}, {}, {}}, {4, 4, 4}, {5, 5, 5}, {1, 2}, {3, 1}, 5};
  auto const full = plan_vectors(idle, refine{}).value();
  EXPECT_TRUE(full.proven_optimal());
  expect_valid_vector_plan(idle, full);

  // One giant, that only the slow bag of two GPUs holds; the fast one takes what is left.
  vector_step<2> const giant{{{90, 0}, {0, 3}, {1, 1}}, {9, 9, 9}, {16, 4, 4}, {1, 2}, {9, 1}, 8};
  auto const around = plan_vectors(giant, refine{}).value();
  EXPECT_EQ(around.owner, (std::vector{bag_id{1}, bag_id{0}, bag_id{0}}));
  EXPECT_EQ(around.makespan, (ratio{45, 1}));

  // All costs equal on bags of speeds 3 and 1: three of four go to the fast one.
  vector_step<2> const equal{{{2, 2}, {2, 2}, {2, 2}, {2, 2}}, {}, {}, {1, 1}, {3, 1}};
  auto const spread = plan_vectors(equal, refine{}).value();
  EXPECT_EQ(spread.loads, (std::vector<cost_vector<2>>{{6, 6}, {2, 2}}));
  EXPECT_EQ(spread.makespan, (ratio{2, 1}));
  EXPECT_TRUE(spread.proven_optimal());
}

TEST(PartitionVectorsInBags, NamesTheSampleThatCannotBePlanned)
{
  constexpr auto none = no_limit;
  auto const expect = [](std::int64_t most, std::vector<std::int64_t> const& together,
                         auto const& spoil, error_code code, std::size_t position,
                         char const* why) {
    vector_step<2> step{{{1, 1}, {2, 2}, {3, 3}}, {4, 4, 4}, {5, 5, 5}, {2, 2}, {1, 1}};
    step.most_per_gpu = most;
    step.together = together;
    spoil(step);
    expect_refused(plan_vectors(step, refine{}), code, position, why);
  };
  auto const sound = [](auto&) {};
  expect(none, {}, [](auto& step) { step.lengths[1] = 1; }, infeasible, 1, "");
  expect(none, {}, [](auto& step) { step.lengths[2] = -1; }, out_of_range, 2, "");
  expect(none, {}, [](auto& step) { step.costs[1][1] = -1; }, out_of_range, 1, "");
  expect(9, {}, [](auto& step) { step.weights[2] = -1; }, out_of_range, 2, "");
  expect(-1, {}, sound, out_of_range, 0, "");
  expect(2, {}, sound, infeasible, 0, "sample 0 weighs 5, more than any bag");    // of 4
  expect(3, {}, sound, infeasible, 0, "have no plan that keeps limits.also[0]");  // one in each bag
  expect(6, {7, 7, 7}, sound, infeasible, 0, "and what stays with it weigh 15");
  expect(none, {}, [](auto& step) { step.gpus = step.gpu_speeds = {}; }, infeasible, 0, "");
}

TEST(PartitionVectorsInBags, PutsShortSamplesIntoTheSmallestBagsWhereThoseAdmitThem)  // Ensures (2)
{
  auto const refusing = *lay_out(*parse_bags("g8n1+g4n2"), 16);
  auto const bags = refusing.with_short_samples(short_samples::admitted);
  auto const costs_of = [](tokens length) { return cost_vector<2>{length, 9 - length}; };
  auto const plan_in = [&](std::vector<tokens> const& lengths, bag_layout const& layout,
                           auto const& policy) {
    return partition(lengths, layout, costs_of, {}, policy);
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
  auto const bags =
      lay_out(*parse_bags("g4n2"), 8)->with_short_samples(ballast::short_samples::admitted);
  std::vector<tokens> const lengths{2, 30, 3, 10};
  std::vector<std::int64_t> const together{7, 8, 7, 9};
  std::vector<rank_id> const home(4, rank_id{0});
  auto const plan_within = [&](std::int64_t most_per_gpu) {
    return partition(lengths, bags, [](tokens length) { return cost_vector<2>{length, length}; },
                     {.together = together, .home = home, .most_per_gpu = most_per_gpu});
  };
  auto const plan = plan_within(8);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->owner[0], plan->owner[2]);
  EXPECT_EQ(plan->short_samples, 2U);
  EXPECT_EQ(plan->makespan, (ratio{30, 4}));
  EXPECT_EQ(plan->moved, (plan->owner[1] == bag_id{0} ? ratio{15, 45} : ratio{30, 45}));
  expect_refused(plan_within(7), infeasible, 1, "sample 1 and what stays with it weigh 30");
}

TEST(PartitionVectorsInBags, KeepsCapsAroundAPolicyThatKnowsNone)
{
  vector_step<2> const step{{{1, 1}, {2, 2}}, {1, 1}, {5, 5}, {1, 1}, {1, 1}, 5};
  EXPECT_TRUE(plan_vectors(step, all_in_first_bin{})->proven_optimal());
}

TEST(PartitionVectorsInBags, WorksUpToTheLargestTotal)
{
  constexpr auto most = std::numeric_limits<std::int64_t>::max() - 1;
  vector_step<2> const step{
      {{most / 2, 0}, {most / 2, most}}, {9, 9},  {most / 2, most / 2}, {1, 1},
      {4'000'000'000, 3'999'999'999},    most / 2};
  auto const plan = plan_vectors(step, refine{}).value();
  EXPECT_EQ(plan.owner, (std::vector{bag_id{1}, bag_id{0}}));
  EXPECT_LE(plan.lower_bound, plan.makespan);
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
  auto const expect_no_allocation = [&](auto const& policy) {
    std::uint64_t digest = 0;
    expect_steady_state([&] {
      bool const done = partition_into(plan, memory, lengths, bags, costs,
                                       {.together = prompts, .most_per_gpu = 8000}, policy)
                            .has_value();
      if (digest == 0) { digest = plan.digest(); }
      return done && plan.digest() == digest;
    });
  };
  expect_no_allocation(longest_processing_time{});
  expect_no_allocation(refine{});
}

}  // namespace
