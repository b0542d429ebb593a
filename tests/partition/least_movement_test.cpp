#include <ballast/partition/least_movement.hpp>  // first: proves it is self-contained

#include "../support/homed_steps.hpp"
#include "../support/movement_lower_bound.hpp"
#include "../support/policy_checks.hpp"
#include "../support/steady_state.hpp"
#include "../support/test.hpp"
#include "../support/trials.hpp"

#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/partition/equal_count.hpp>
#include <ballast/partition/greedy_knapsack.hpp>
#include <ballast/partition/round_robin.hpp>
#include <ballast/workload/sample_batch.hpp>

namespace {

using namespace ballast;
using namespace ballast_test;

static_assert(partition_policy<least_movement<>>);
static_assert(partition_policy<least_movement<round_robin>>);

direct_plan plan_homed(homed_step const& homed, policy_ref const& policy)
{
  return plan_directly(homed.problem(), policy, homed.starting_loads);
}

template <class Policy>
std::vector<cost_units> limits_of(homed_step const& homed, Policy const& policy)
{
  ratio const makespan = homed.step.makespan_of(plan_homed(homed, policy.inner).loads);
  std::vector<cost_units> limits;
  for (std::uint32_t const speed : homed.speeds) {
    limits.push_back(policy.limit(makespan, speed));
  }
  return limits;
}

TEST(LeastMovement, PlacesEverySampleInABagItFits)  // Ensures (1) (2)
{
  expect_valid_plans(least_movement{}, 31);
  expect_starting_loads_counted(least_movement{});
}

template <class Policy>
void expect_promises_kept(homed_step const& homed, Policy const& policy)
{
  auto const inner = plan_homed(homed, policy.inner);
  auto const plan = plan_homed(homed, policy);
  for (std::size_t sample = 0; sample < plan.owner.size(); ++sample) {
    ASSERT_LT(to_index(plan.owner[sample]), plan.loads.size());
    ASSERT_TRUE(homed.step.fits(sample, to_index(plan.owner[sample])));
  }
  ASSERT_EQ(plan.loads, homed.loads(plan.owner));
  std::vector<cost_units> const limits = limits_of(homed, policy);
  for (std::size_t bag = 0; bag < limits.size(); ++bag) { ASSERT_LE(plan.loads[bag], limits[bag]); }
  ASSERT_LE(homed.moved(plan.owner), homed.moved(inner.owner));
  workspace memory;
  ASSERT_GE(homed.moved(plan.owner),
            movement_lower_bound(homed.problem(), homed.starting_loads, limits, memory));
  ASSERT_EQ(plan.owner, plan_homed(homed, policy).owner);
}

TEST(LeastMovement, StaysWithinItsLimitsAndMovesNoMoreThanTheInnerPolicy)  // Ensures (1) to (4)
{
  random_source random(32);
  for (int trial = 0; trial < (is_sanitized ? 35 : 1300) && !HasFailure(); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const homed = random_homed_step(random, 40, 9, 8, trial % 5 == 0 ? 40 : 0);
    expect_promises_kept(homed, least_movement{});
    expect_promises_kept(homed, least_movement{longest_processing_time{}, 0});
    expect_promises_kept(homed, least_movement{round_robin{}, 100'000});
    expect_promises_kept(homed, least_movement{longest_processing_time{}, 5'000, 50});
    expect_promises_kept(homed, least_movement{longest_processing_time{}, 5'000, 0});
  }
}

struct against_best {
  tokens moved = 0;
  tokens least = 0;
  int exact = 0;

  void add(homed_step const& homed, std::uint32_t tolerance_per_million)
  {
    least_movement const policy{longest_processing_time{}, tolerance_per_million};
    tokens const best = *least_moved(homed, limits_of(homed, policy));
    tokens const ours = homed.moved(plan_homed(homed, policy).owner);
    EXPECT_GE(ours, best);
    moved += ours;
    least += best;
    exact += ours == best ? 1 : 0;
  }
};

TEST(LeastMovement, MovesLittleMoreThanTheBestPlanOfAll)
{
  random_source random(33);
  constexpr int trials = 200;
  against_best coarse;
  for (int trial = 0; trial < trials; ++trial) {
    coarse.add(random_homed_step(random, 7, 3, 2), 50'000);
  }
  EXPECT_LE(100 * coarse.moved, 102 * coarse.least);
  EXPECT_GE(coarse.exact, trials * 9 / 10);

  // Work that grows faster than lengths, as attention does.
  against_best quadratic;
  for (int trial = 0; trial < trials; ++trial) {
    std::size_t const bags = 2 + random.below(2);
    std::vector<tokens> lengths;
    std::vector<cost_units> costs;
    std::vector<std::uint32_t> homes;
    for (std::size_t sample = 0; sample < 8; ++sample) {
      lengths.push_back(random.between(1, 1000));
      costs.push_back(lengths.back() * (1000 + lengths.back()));
      homes.push_back(static_cast<std::uint32_t>(random.below(bags)));
    }
    quadratic.add({{lengths, costs, std::vector<std::uint32_t>(bags, 1)}, homes}, 20'000);
  }
  EXPECT_LE(100 * quadratic.moved, 110 * quadratic.least);
  EXPECT_GE(quadratic.exact, trials * 3 / 4);
}

TEST(LeastMovement, LeavesAPlanAloneThatIsShortEnough)
{
  homed_step const homed({{9, 9, 9, 9}, {50, 50, 51, 49}, {1, 1}}, {1, 0, 0, 1});
  EXPECT_EQ(plan_homed(homed, least_movement{longest_processing_time{}, 20'000}).owner, homed.home);
  // 100 each is best, and 101 is not within half a percent of it.
  EXPECT_NE(plan_homed(homed, least_movement{}).owner, homed.home);
}

TEST(LeastMovement, SwapsTwoSamplesOfTheLeastTokens)
{
  // [least_movement]
  std::vector<ballast::tokens> const lengths{60, 30, 14, 56, 30, 10};
  std::vector<ballast::rank_id> home(6, ballast::rank_id{0});    // 104 tokens on rank 0
  std::fill(home.begin() + 3, home.end(), ballast::rank_id{1});  // and 96 on rank 1
  auto const cost = [](ballast::tokens length) { return length; };
  auto const plan = ballast::partition(lengths, ballast::one_gpu_bags(2), ballast::least_movement{},
                                       cost, {}, {.home = home});
  // [least_movement]
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->loads, (std::vector<cost_units>{100, 100}));
  EXPECT_EQ(plan->moved, (ratio{14 + 10, 200}));
}

TEST(LeastMovement, MovesSamplesWithoutTokensForNothing)
{
  homed_step const homed({{0, 7, 7, 7}, {30, 30, 30, 30}, {1, 1}}, {0, 0, 0, 1});
  auto const plan = plan_homed(homed, least_movement{});
  EXPECT_EQ(plan.loads, (std::vector<cost_units>{60, 60}));
  EXPECT_EQ(homed.moved(plan.owner), 0);
}

TEST(LeastMovement, KeepsAnyHomeThatItMayKeepWhenTheToleranceIsLarge)
{
  random_source random(34);
  for (int trial = 0; trial < 100; ++trial) {
    auto const homed = random_homed_step(random, 30, 5, 4);
    constexpr auto endless = std::numeric_limits<std::uint32_t>::max();
    auto const plan = plan_homed(homed, least_movement{longest_processing_time{}, endless});
    for (std::size_t sample = 0; sample < plan.owner.size(); ++sample) {
      if (homed.step.fits(sample, to_index(homed.home[sample]))) {
        auto const kept = [&](bag_id bag) { return homed.problem().tokens_at(sample, bag); };
        ASSERT_EQ(kept(plan.owner[sample]), kept(homed.home[sample])) << "trial " << trial;
      }
    }
  }
}

TEST(LeastMovement, IsTheInnerPolicyWhereSamplesHaveNoHome)  // Ensures (3)
{
  random_source random(35);
  for (int trial = 0; trial < 100; ++trial) {
    auto const step = random_instance(random, 30, 5, 4);
    auto const plan = plan_instance(step, least_movement{greedy_knapsack{}});
    auto const inner = plan_instance(step, greedy_knapsack{});
    ASSERT_EQ(plan->owner, inner->owner);
    EXPECT_EQ(plan->moved, ratio{});
  }
}

TEST(LeastMovement, LimitsAreExact)
{
  least_movement const policy{longest_processing_time{}, 5'000};
  EXPECT_EQ(policy.limit({1000, 1}, 1), 1005);
  EXPECT_EQ(policy.limit({999, 1}, 1), 1003);
  EXPECT_EQ(policy.limit({1000, 3}, 4), 1340);
  constexpr auto most = std::numeric_limits<cost_units>::max();
  constexpr auto fastest = std::numeric_limits<std::uint32_t>::max();
  EXPECT_EQ(policy.limit({most, 1}, fastest), most);
  least_movement const endless{longest_processing_time{}, fastest};
  EXPECT_EQ(endless.limit({most, fastest}, fastest), most);
  least_movement const none{longest_processing_time{}, 0};
  EXPECT_EQ(none.limit({most - 1, 1}, 1), most - 1);
}

TEST(LeastMovement, KeepsCapacitiesThatTheInnerPolicyKeeps)  // Ensures (5)
{
  // Round robin keeps two samples in each bag, all that a bag may hold; the loads alone would let
  // bag 0 keep three.
  std::vector<tokens> const lengths{10, 10, 10, 10};
  std::vector<rank_id> const home{rank_id{0}, rank_id{0}, rank_id{0}, rank_id{1}};
  std::vector<std::int64_t> const ones{1, 1, 1, 1};
  auto const cost = [](tokens) { return 5; };
  least_movement const policy{round_robin{}, 1'000'000};
  auto const free = partition(lengths, one_gpu_bags(2), policy, cost, {}, {.home = home}).value();
  EXPECT_EQ(free.moved, (ratio{0, 40}));
  auto const capped = partition(lengths, one_gpu_bags(2), policy, cost, {},
                                {.home = home, .most_per_gpu = 2, .weights = ones})
                          .value();
  EXPECT_EQ(capped.moved, (ratio{10, 40}));
}

TEST(LeastMovement, MovesWholeGroupsThatStayTogether)
{
  std::vector<tokens> const lengths{10, 10, 10, 10, 10, 10};
  std::vector<std::int64_t> const prompts{1, 1, 2, 2, 3, 4};
  std::vector<rank_id> const home(6, rank_id{0});
  auto const plan =
      partition(lengths, one_gpu_bags(2), least_movement{}, [](tokens length) { return length; },
                {}, {.together = prompts, .home = home});
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->owner[0], plan->owner[1]);
  EXPECT_EQ(plan->owner[2], plan->owner[3]);
  EXPECT_EQ(plan->loads, (std::vector<cost_units>{30, 30}));
}

TEST(LeastMovement, CountsWhatAGroupMovesByWhereEachSampleLies)
{
  std::vector<tokens> const lengths{4, 6, 9};
  std::vector<std::int64_t> const prompts{2, 2, 1};
  std::vector<rank_id> const home{rank_id{0}, rank_id{1}, rank_id{1}};
  auto const plan =
      partition(lengths, one_gpu_bags(2), least_movement{longest_processing_time{}},
                [](tokens length) { return length; }, {}, {.together = prompts, .home = home});
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->owner, (std::vector<bag_id>{bag_id{0}, bag_id{0}, bag_id{1}}));
  EXPECT_EQ(plan->moved, (ratio{6, 19}));
}

// Groups of samples that stay together, each sample on any rank: the fewest tokens within the limit
// by trying all plans.
tokens least_moved_in_groups(std::vector<tokens> const& lengths,
                             std::vector<std::int64_t> const& group,
                             std::vector<rank_id> const& home, std::size_t bags, cost_units limit)
{
  std::size_t const groups = static_cast<std::size_t>(*std::ranges::max_element(group)) + 1;
  return least_of_all(groups, bags,
                      [&](assignment const& owner) -> std::optional<tokens> {
                        std::vector<cost_units> loads(bags, 0);
                        tokens moved = 0;
                        for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
                          auto const own = static_cast<std::size_t>(group[sample]);
                          if (own >= owner.size()) { continue; }
                          loads[owner[own]] += lengths[sample];
                          moved += to_index(home[sample]) == owner[own] ? 0 : lengths[sample];
                        }
                        if (std::ranges::max(loads) > limit) { return std::nullopt; }
                        return moved;
                      })
      .value();
}

TEST(LeastMovement, MovesNoMoreThanTheInnerPolicyWithGroupsInSeveralBags)  // Ensures (3) (4)
{
  random_source random(37);
  std::vector<bag_layout> const layouts{one_gpu_bags(2), one_gpu_bags(3)};
  workspace memory;
  partition_plan plan;
  partition_plan inner;
  constexpr int trials = is_sanitized ? 700 : 30'000;
  int compared = 0;
  int exact = 0;
  for (int trial = 0; trial < trials && !HasFailure(); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::size_t const samples = 1 + random.below(7);
    std::size_t const bags = 2 + random.below(2);
    std::vector<tokens> lengths;
    std::vector<std::int64_t> group;
    std::vector<rank_id> home;
    for (std::size_t sample = 0; sample < samples; ++sample) {
      lengths.push_back(random.between(0, 12));
      group.push_back(static_cast<std::int64_t>(random.below((2 * samples + 2) / 3)));
      home.push_back(to_id<rank_id>(random.below(bags)));
    }
    least_movement const policy{longest_processing_time{}, random.below(2) == 0 ? 0U : 100'000U};
    partition_constraints const constraints{.together = group, .home = home};
    auto const cost = [](tokens length) { return length; };
    auto const run = [&](partition_plan& into, policy_ref const& with) {
      return partition_into(into, memory, lengths, layouts[bags - 2], with, cost, {}, constraints);
    };
    ASSERT_TRUE(run(plan, policy) && run(inner, policy.inner));
    ASSERT_LE(plan.moved, inner.moved);
    cost_units const limit = policy.limit(inner.makespan, 1);
    ASSERT_LE(plan.makespan, (ratio{limit, 1}));
    if (trial % 10 != 0) { continue; }
    tokens const least = least_moved_in_groups(lengths, group, home, bags, limit);
    ASSERT_GE(plan.moved.numerator, least);
    ++compared;
    exact += plan.moved.numerator == least ? 1 : 0;
  }
  EXPECT_GE(1000 * exact, (is_sanitized ? 980 : 995) * compared);
}

TEST(LeastMovement, LeavesNoGroupInABagThatItsShortestSampleDoesNotFit)
{
  // Two tokens do not fit a bag of four GPUs, and eight of them in one group do not either.
  std::vector<tokens> const lengths{2, 2, 2, 2, 9};
  std::vector<std::int64_t> const prompts{1, 1, 1, 1, 2};
  std::vector<rank_id> const home(5, rank_id{0});
  bag_layout const bags(std::vector<bag>{{rank_id{0}, 4}, {rank_id{4}, 1}});
  auto const plan = partition(lengths, bags, least_movement{}, [](tokens length) { return length; },
                              {}, {.together = prompts, .home = home});
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->owner,
            (std::vector<bag_id>{bag_id{1}, bag_id{1}, bag_id{1}, bag_id{1}, bag_id{0}}));
  EXPECT_EQ(plan->moved, (ratio{8, 17}));
}

// KnapFormer's data codes: every GPU reads images of one size with texts of any length.
TEST(LeastMovement, MovesATenthOfTheTokensOfNearlyEvenDataAtMost)
{
  auto const codes = parse_data_codes("g32b32i256f1s0").value();
  auto const cost = gamma_corrected({24ULL * 3072 * 3072, 4ULL * 3072}, 0.405)->cost;
  random_source random(1);
  auto const bags = one_gpu_bags(32);
  for (int step = 0; step < 20; ++step) {
    SCOPED_TRACE(testing::Message() << "step " << step);
    auto const batch = draw_batch(codes, 32, {}, random).value();
    partition_constraints const homes{.home = batch.source};
    auto const greedy = partition(batch.lengths, bags, greedy_knapsack{}, cost, {}, homes);
    auto const plan = partition(batch.lengths, bags, least_movement{}, cost, {}, homes);
    ASSERT_TRUE(greedy && plan);
    EXPECT_GT(greedy->moved.value(), 0.9);
    EXPECT_LT(plan->moved.value(), 0.04);
    EXPECT_LT(plan->gap(), 0.006);
  }
}

TEST(LeastMovement, AllocatesNothingInTheSteadyState)
{
  random_source random(36);
  std::vector<rank_id> home(1000);
  for (rank_id& rank : home) { rank = to_id<rank_id>(random.below(16)); }
  expect_the_same_again_without_allocation(
      least_movement{}, 1000, squared_length{}, one_gpu_bags(16),
      [&](std::span<tokens const> lengths) {
        return partition_constraints{.home = std::span(home).first(lengths.size())};
      });
}

TEST(LeastMovementDeathTest, RefusesAPolicyThatRestrictsItself)  // Expects
{
  homed_step const homed({{9}, {5}, {1, 1}}, {0});
  EXPECT_DEATH(plan_homed(homed, least_movement{said_by_value<equal_count>{}}),
               "restricts its plans");
}

}  // namespace
