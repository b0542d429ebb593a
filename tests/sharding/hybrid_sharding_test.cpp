// SPDX-License-Identifier: Apache-2.0
#include <ballast/sharding/hybrid_sharding.hpp>  // first: proves it is self-contained

#include "../support/counted_allocations.hpp"
#include "../support/plan_checks.hpp"
#include "../support/random_shardings.hpp"
#include "../support/test.hpp"

#include <ballast/cost/known_models.hpp>
#include <ballast/sharding/sharding_plan.hpp>
#include <ballast/topology/cluster.hpp>
#include <ballast/workload/synthetic_lengths.hpp>

#include <cstdio>

namespace {

using namespace ballast;
using namespace ballast_test;
using testing::HasSubstr;

result<sharding_plan> plan_of(sharding_step const& step)
{
  return hybrid_sharding(step.lengths, step.groups, step.cost, step.limit, step.together);
}

tokens total_of(sharding_step const& step)
{
  return std::reduce(step.lengths.begin(), step.lengths.end());
}

// Against all plans, groups^samples of them. At least one in `least_planned` of the steps has one.
template <class Draw>
void expect_optima(std::uint64_t seed, int trials, int least_planned, Draw const& draw)
{
  random_source random(seed);
  int planned = 0;
  for (int trial = 0; trial < trials; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    sharding_step const step = draw(random);
    if (step.groups.size() > 14) { continue; }
    auto const optimum = best_sharding(step);
    auto const plan = plan_of(step);
    ASSERT_EQ(plan.has_value(), optimum.has_value());
    if (!plan) {
      EXPECT_EQ(plan.error().code, error_code::infeasible);
      EXPECT_THAT(plan.error().message, testing::Not(HasSubstr("gave up")));
      continue;
    }
    ASSERT_NO_FATAL_FAILURE(expect_true_plan(*plan, step));
    ASSERT_TRUE(step.keeps_together(assignment_of(plan->owner)));
    EXPECT_LE(plan->lower_bound, *optimum);
    EXPECT_EQ(plan->makespan, *optimum);
    ++planned;
  }
  EXPECT_GE(planned, trials / least_planned);
}

TEST(HybridSharding, FindsTheOptimumOfSmallSteps)  // Ensures (1) (2)
{
  expect_optima(11, trials_of(100), 4,
                [](random_source& random) { return draw_sharding(5, 4, random); });
}

// Memory that is full but for some tokens forces degrees: one change after the other finds no way.
TEST(HybridSharding, FindsTheOptimumWhereMemoryIsAlmostFull)  // Ensures (1) (2)
{
  constexpr std::array<std::array<std::uint32_t, 2>, 3> node_pairs = {{{2, 2}, {3, 2}, {4, 1}}};
  expect_optima(13, trials_of(300), 3, [&](random_source& random) {
    sharding_step step = draw_sharding(5, 4, random);
    step.groups = device_groups(node_sizes(node_pairs[random.below(3)]), 4);
    for (tokens& length : step.lengths) { length = random.between(1, 2500); }
    tokens const mean = total_of(step) / static_cast<tokens>(step.groups.gpus());
    step.limit = mean + 1 + random.between(0, mean / 20);
    return step;
  });
}

// As the answers to a prompt; some sequences are alone.
TEST(HybridSharding, FindsTheOptimumWhereSequencesStayTogether)  // Ensures (1) (2)
{
  expect_optima(15, trials_of(150), 4, [](random_source& random) {
    sharding_step step = draw_sharding(6, 4, random);
    for (std::size_t each = 0; each < step.lengths.size(); ++each) {
      step.together.push_back(random.between(-1, 2));
    }
    return step;
  });
}

TEST(HybridSharding, GivesThePlanOfAllAloneWhereNoneStaysWithAnother)
{
  random_source random(16);
  for (int trial = 0; trial < trials_of(20); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    sharding_step step = draw_sharding(40, 8, random);
    auto const alone = plan_of(step);
    step.together.assign(step.lengths.size(), -1);
    for (std::int64_t each = 0; auto& number : step.together) {
      number = each++ % 2 == 0 ? -1 : each;
    }
    auto const told = plan_of(step);
    ASSERT_EQ(alone.has_value(), told.has_value());
    if (alone) { EXPECT_EQ(alone->digest(), told->digest()); }
  }
}

TEST(HybridSharding, RefusesWhatCannotStayTogether)  // Errors
{
  device_groups const pair(node_sizes::equal(1, 2), 2);
  sharding_cost const cost{.work = {.linear = 1, .quadratic = 0}, .heads = 2};
  std::vector<std::int64_t> const one(3, 7);
  expect_refused(hybrid_sharding(std::vector<tokens>{1, 10, 10}, pair, cost, 20, one),
                 error_code::infeasible, 0,
                 "sequence 0 and those that stay together with it, of 21");
  EXPECT_TRUE(hybrid_sharding(std::vector<tokens>{1, 10, 10}, pair, cost, 21, one));
  expect_refused(
      hybrid_sharding(std::vector<tokens>{9, longest_sample - 9, 1}, pair, cost, no_limit, one),
      error_code::out_of_range, 2, "brings those that stay together with it above");
}

TEST(HybridSharding, IsNotBeatenByPlainLocalSearch)
{
  random_source random(12);
  for (int trial = 0; trial < trials_of(20); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    sharding_step const step = draw_sharding(30, 8, random);
    auto const plain = search_from_best_uniform(step);
    auto const plan = plan_of(step);
    ASSERT_TRUE(plan.has_value() || !plain.has_value());
    if (!plan) { continue; }
    ASSERT_NO_FATAL_FAILURE(expect_true_plan(*plan, step));
    if (plain) { EXPECT_LE(plan->makespan, *plain); }
  }
}

// One degree for all, the longest first on the least loaded group: what users have today.
TEST(HybridSharding, IsNotAboveAnyUniformDegree)
{
  random_source random(14);
  for (int trial = 0; trial < trials_of(5); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    sharding_step step = draw_sharding(1, 8, random);
    step.groups = device_groups(node_sizes(std::vector<std::uint32_t>(2 + random.below(7), 8)), 64);
    step.lengths = draw_sharded_lengths(static_cast<sharded_lengths>(random.below(7)), 350, random);
    step.limit = total_of(step) / static_cast<tokens>(step.groups.gpus()) * 11 / 10 + 10;
    auto const plan = plan_of(step);
    for (std::uint32_t const degree : step.groups.degrees()) {
      auto const owner = uniform_sharding(step, degree);
      if (!owner) { continue; }
      ASSERT_TRUE(plan) << plan.error().message;
      EXPECT_LE(plan->makespan, sharding_loads(step, *owner).makespan()) << "degree " << degree;
    }
  }
}

sharding_step large_step(std::size_t gpus, std::size_t samples, std::uint64_t seed)
{
  auto const machines = cluster_of(gpus).value();
  sharding_step step;
  for (auto const& model : known_models) {
    if (model.name != "llama3-8b") { continue; }
    gamma_fit const fit{.seconds_per_flop = 1 / 400e12, .gamma = 1};
    step.cost = sharding_cost_of(model.shape, fit, machines).value();
  }
  step.groups = device_groups(machines.nodes, 32);
  random_source random(seed);
  step.lengths = draw_lengths(
      clamped_lengths{lognormal_lengths{.median = 2048, .sigma = 1.5}, 1, 131072}, samples, random);
  step.limit = 65536;
  return step;
}

TEST(HybridSharding, IsNearTheBoundOnManyGpus)
{
  sharding_step const step = large_step(1024, 8192, 3);
  auto const plan = plan_of(step).value();
  expect_true_plan(plan, step);
  EXPECT_LE(plan.gap(), 0.05);
}

TEST(HybridSharding, IsNotBeatenByAPlainGreedyPlanOnThousandsOfGpus)
{
  for (std::size_t const gpus : {64U, 512U, 4096U}) {
    sharding_step step = large_step(gpus, 8 * gpus, 22);
    step.cost.between_nodes_bytes_per_second /= 8;
    auto const plan = plan_of(step).value();
    auto const plain = plain_greedy_sharding(step, plan.lower_bound).value();
    EXPECT_LE(plan.makespan, plain) << gpus << " GPUs";
    EXPECT_LE(plan.gap(), 0.002) << gpus << " GPUs";
  }
}

TEST(HybridSharding, KeepsToTheMemoryOfUnevenNodesThatIsAlmostFull)
{
  random_source random(31);
  sharding_step step = large_step(64, 400, 31);
  std::vector<std::uint32_t> nodes(12);
  for (auto& node : nodes) { node = 3 + static_cast<std::uint32_t>(random.below(6)); }
  step.groups = device_groups(node_sizes(nodes), 32);
  tokens const total = total_of(step);
  auto const gpus = static_cast<tokens>(step.groups.gpus());
  for (tokens const thousandths : {1200, 1050, 1010, 1003}) {
    step.limit = total / gpus * thousandths / 1000;
    auto const plan = plan_of(step);
    ASSERT_TRUE(plan) << plan.error().message;
    ASSERT_NO_FATAL_FAILURE(expect_true_plan(*plan, step));
  }
}

TEST(HybridSharding, RefusesMoreTokensThanThereArePlaces)  // Errors
{
  sharding_step step = large_step(1024, 8192, 5);
  step.limit = (total_of(step) - 1) / 1024;
  expect_refused(plan_of(step), error_code::infeasible, 0, "more than 1024 GPUs of");
}

TEST(HybridSharding, ReturnsTheSamePlanAgainAndAllocatesNothing)  // Ensures (3) (4)
{
  sharding_step const step = large_step(64, 300, 4);
  sharding_plan plan;
  workspace memory;
  ASSERT_TRUE(hybrid_sharding_into(plan, memory, step.lengths, step.groups, step.cost, 65536));
  std::uint64_t const first = plan.digest();
  auto const before = allocations();
  ASSERT_TRUE(hybrid_sharding_into(plan, memory, step.lengths, step.groups, step.cost, 65536));
  EXPECT_EQ(allocations(), before);
  EXPECT_EQ(plan.digest(), first);
  EXPECT_EQ(plan_of(step)->digest(), first);

  std::vector<std::int64_t> together(step.lengths.size());
  for (std::size_t each = 0; each < together.size(); ++each) {
    together[each] = static_cast<std::int64_t>(each / 4);
  }
  auto const plan_groups = [&] {
    return hybrid_sharding_into(plan, memory, step.lengths, step.groups, step.cost, 65536, together)
        .has_value();
  };
  ASSERT_TRUE(plan_groups());
  auto const then = allocations();
  ASSERT_TRUE(plan_groups());
  EXPECT_EQ(allocations(), then);
}

TEST(HybridSharding, PlansStepsWithoutWorkAndOnOneGpu)
{
  device_groups const one(node_sizes::equal(1, 1), 8);
  sharding_cost const cost{.work = {.linear = 2}, .heads = 8};
  auto const none = hybrid_sharding({}, one, cost).value();
  EXPECT_EQ(none.makespan, 0);
  EXPECT_EQ(none.gap(), 0);
  std::vector<tokens> const lengths{0, 5, 0, 3};
  auto const alone = hybrid_sharding(lengths, one, cost).value();
  EXPECT_EQ(alone.makespan, 16);
  EXPECT_TRUE(alone.proven_optimal());
  std::vector<tokens> const zeros{0, 0, 0};
  auto const empty =
      hybrid_sharding(zeros, device_groups(node_sizes::equal(1, 4), 4), cost, 0).value();
  EXPECT_EQ(empty.makespan, 0);
  for (auto const owner : empty.owner) { EXPECT_LT(to_index(owner), 4U); }  // degree 1
}

TEST(HybridSharding, PlansAStepOnNodesOfDifferentSizes)
{
  // [shard]
  std::vector<ballast::tokens> const lengths{60'000, 9000, 4000, 2500, 2500, 1800, 700, 300};
  auto const machines = ballast::cluster_of({8, 6}).value();
  auto const model = ballast::find_known_model("llama3-8b").value().shape;
  ballast::gamma_fit const measured{.seconds_per_flop = 1 / 400e12, .gamma = 1};  // or fit_latency
  auto const cost = ballast::sharding_cost_of(model, measured, machines).value();
  ballast::device_groups const groups(machines.nodes, cost.heads);  // 1, 2, 4, 6, 8 and 14 GPUs

  ballast::sharding_plan plan;
  ballast::workspace memory;  // keep both for the next step
  or_throw(hybrid_sharding_into(plan, memory, lengths, groups, cost, 16'384));
  for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
    auto const [first, gpus] = groups[plan.owner[sample]];
    std::printf("%6ld tokens on %2u GPUs from rank %zu on\n", lengths[sample], gpus,
                to_index(first));
  }
  std::printf("at most %.1f %% above the best plan there is\n", 100 * plan.gap());
  // [shard]
  EXPECT_EQ(plan.owner.size(), lengths.size());
  EXPECT_LE(plan.gap(), 0.05);
  EXPECT_LE(*std::ranges::max_element(plan.tokens_of), 16'384);
}

TEST(HybridSharding, IsNotLimitedByHeadsWhereRowsAreSplit)
{
  device_groups const groups(node_sizes::equal(1, 8), 8);
  sharding_cost const cost{.work = {.linear = 1, .quadratic = 1}, .by_rows = true};
  auto const plan = hybrid_sharding(std::vector<tokens>{800}, groups, cost).value();
  EXPECT_EQ(plan.makespan, (800 + 800 * 800) / 8);
}

TEST(HybridSharding, SplitsFewSequencesOverAllGpus)
{
  // Two sequences on eight GPUs, whose parts are exactly even: no plan on one GPU each is close.
  device_groups const groups(node_sizes::equal(1, 8), 8);
  sharding_cost const cost{.work = {.linear = 1, .quadratic = 1}, .heads = 8};
  auto const plan = hybrid_sharding(std::vector<tokens>{800, 800}, groups, cost).value();
  EXPECT_TRUE(plan.proven_optimal());
  EXPECT_EQ(plan.makespan, 2 * (800 + 800 * 800) / 8);
}

TEST(HybridSharding, PlansAtTheLargestShareOfWholeGroups)
{
  std::vector<tokens> const one{1'000};
  device_groups const groups(node_sizes::equal(1, 2), 2);
  sharding_cost cost{.work = {.quadratic = 28}, .heads = 28, .kv_heads = 7};
  EXPECT_EQ(hybrid_sharding(one, groups, cost).value().makespan, 14'000'000);
  cost.whole_groups = true;  // 16 of 28 query heads on the first GPU
  EXPECT_NEAR(static_cast<double>(hybrid_sharding(one, groups, cost).value().makespan), 16e6, 1);
  cost.kv_heads = 8;
  expect_refused(
      hybrid_sharding(one, groups, cost), error_code::out_of_range, 0,
      "groups of 28 query heads and 8 key-value heads cannot stay whole, since the first are "
      "no multiple of the second; correct the heads, or do without whole_groups");
}

TEST(HybridSharding, FindsTheOnlyGroupThatHasTheMemory)
{
  // Most groups across GPUs of a node have three; only the node of four holds a sequence of 400.
  device_groups const groups(node_sizes(std::vector<std::uint32_t>{3, 3, 4}), 4);
  sharding_cost const cost{.work = {.linear = 10}, .heads = 4, .latency = 20};
  sharding_step const step{
      {54, 30, 21, 64, 26, 55, 400, 88, 80, 48, 89, 48, 80, 37}, groups, cost, 120};
  auto const plan = hybrid_sharding(step.lengths, groups, cost, step.limit).value();
  expect_true_plan(plan, step);
  EXPECT_EQ(groups[plan.owner[6]].gpus, 4U);
  auto const plain = search_from_best_uniform(step);
  if (plain) { EXPECT_LE(plan.makespan, *plain); }
  EXPECT_LE(plan.gap(), 0.05);
}

TEST(HybridSharding, NamesTheSequenceThatItCannotPlan)  // Errors
{
  device_groups const groups(node_sizes::equal(1, 4), 4);
  sharding_cost const cost{.work = {.linear = 1}, .heads = 2};
  auto const expect = [&](std::vector<tokens> const& lengths, tokens limit, error_code code,
                          std::size_t position, char const* why) {
    expect_refused(hybrid_sharding(lengths, groups, cost, limit), code, position, why);
  };
  using enum error_code;
  expect({10, 300, 20}, 100, infeasible, 1, "sequence 1 of 300 tokens needs more memory");
  expect({10, 300, 20}, 100, infeasible, 1, "allow more tokens per GPU");
  expect({100, 100, 100, 100, 100}, 100, infeasible, 0,
         "500 tokens together, more than 4 GPUs of 100 tokens");
  // 351 of 400, but two of 70 in one GPU
  expect({70, 70, 70, 70, 1, 70}, 100, infeasible, 0, "no plan of 6 sequences has room for all");
  expect({10, -1}, 100, out_of_range, 1, "");
  expect({longest_sample + 1}, 100, out_of_range, 0, "");
  expect({10}, -1, out_of_range, 0, "a GPU may hold -1 tokens");
  expect_refused(hybrid_sharding(std::vector<tokens>{1}, device_groups{}, cost), infeasible, 0,
                 "there are no GPUs");
}

TEST(HybridSharding, RefusesCostsThatDoNotFit)  // Errors
{
  device_groups const groups(node_sizes::equal(1, 2), 2);
  sharding_cost const cost{.work = {.linear = 1, .quadratic = std::uint64_t{1} << 20}, .heads = 2};
  std::vector<tokens> const one{3, tokens{1} << 30};
  expect_refused(hybrid_sharding(one, groups, cost), error_code::out_of_range, 1, "has no cost");
  std::vector<tokens> const many(9, 1'500'000);
  expect_refused(hybrid_sharding(many, groups, cost), error_code::out_of_range, 0,
                 "brings the total time above 61 bits");
  // One cost fits, and two do not: 5.1e18 units on one GPU, 6e18 on two.
  sharding_cost const huge{.work = {.linear = 5'100'000'000'000'000},
                           .heads = 2,
                           .kv_heads = 2,
                           .bytes_per_head = 1,
                           .units_per_second = 1'700'000'000'000'000};
  EXPECT_FALSE(hybrid_sharding(std::vector<tokens>{1000}, groups, huge));
  // The largest that is taken.
  sharding_cost const fits{.work = {.linear = (std::uint64_t{1} << 61) / 8 - 1}, .heads = 1};
  auto const plan = hybrid_sharding(std::vector<tokens>{4, 3, 1}, groups, fits).value();
  EXPECT_EQ(plan.makespan, 4 * ((std::int64_t{1} << 58) - 1));
}

}  // namespace
