// SPDX-License-Identifier: Apache-2.0
// Plans that leave samples where they lie, as far as limits and the makespan let them.

#include "../support/plan_checks.hpp"
#include "../support/policy_checks.hpp"
#include "../support/steady_state.hpp"
#include "../support/test.hpp"

#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/partition/greedy_knapsack.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/partition/round_robin.hpp>
#include <ballast/workload/sample_batch.hpp>

namespace fewest_moves_test {

using namespace ballast;
using namespace ballast_test;

/// A step whose samples lie on ranks, some of them with others that stay together.
struct homed_step : instance {
  std::vector<rank_id> home;
  std::vector<int> together = {};

  [[nodiscard]] placement_limits limits(std::uint32_t within) const
  {
    return {.together = together, .home = home, .then = fewest_moves, .within_per_million = within};
  }
  [[nodiscard]] tokens moved(assignment const& owner) const
  {
    auto const bags = consecutive_bags(gpus);
    tokens all = 0;
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      all += owner[sample] == to_index(bags.bag_of(home[sample])) ? 0 : lengths[sample];
    }
    return all;
  }
  [[nodiscard]] bool keeps_together(assignment const& owner) const
  {
    for (std::size_t a = 0; a < owner.size() && !together.empty(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        if (together[a] == together[b] && owner[a] != owner[b]) { return false; }
      }
    }
    return true;
  }
};

/// In every second step all samples lie on few ranks, in every fourth bags have work before, and in
/// every third samples stay together. Work is in units of 2^shift.
homed_step random_homed_step(random_source& random, std::size_t most_samples, std::size_t most_bags,
                             std::uint32_t largest_bag, int shift = 0)
{
  homed_step step{random_instance(random, most_samples, most_bags, largest_bag), {}};
  std::size_t const ranks = std::reduce(step.gpus.begin(), step.gpus.end(), std::size_t{0});
  std::size_t const used = random.below(2) == 0 ? ranks : 1 + random.below(ranks);
  bool const joins = random.below(3) == 0;
  for (std::size_t sample = 0; sample < step.costs.size(); ++sample) {
    step.home.push_back(to_id<rank_id>(random.below(used)));
    if (joins) { step.together.push_back(static_cast<int>(random.below(step.costs.size()))); }
  }
  if (random.below(4) == 0) { step.before = random_loads(random, step, 500); }
  for (auto& load : step.before) { load <<= shift; }
  for (auto& cost : step.costs) { cost <<= shift; }
  return step;
}

/// A makespan and what is above it by so many parts of a million.
ratio raised(ratio makespan, std::uint32_t within)
{
  auto const denominator = makespan.denominator * 1'000'000;
  return {makespan.numerator * (1'000'000 + within), denominator};
}

void expect_promises_kept(homed_step const& step, policy_ref const& policy, std::uint32_t within)
{
  auto const plan = plan_instance(step, policy, step.limits(within));
  placement_limits limits = step.limits(within);
  limits.then = {};
  auto const plain = plan_instance(step, policy, limits);
  ASSERT_TRUE(plan && plain) << plan.error().message;
  expect_valid_plan(step, *plan);
  auto const owner = assignment_of(plan->owner);
  ASSERT_TRUE(step.keeps_together(owner));
  EXPECT_EQ(plan->moved.numerator, step.moved(owner));
  EXPECT_LE(plan->makespan, raised(plain->makespan, within));
  // Of small steps all plans are tried, and a shorter one may move more.
  if (plan->makespan >= plain->makespan) { EXPECT_LE(plan->moved, plain->moved); }
  EXPECT_EQ(plan->owner, plan_instance(step, policy, step.limits(within))->owner);
}

TEST(FewestMoves, StaysWithinItsLimitAndMovesNoMoreThanThePolicy)
{
  random_source random(32);
  for (int trial = 0; trial < trials_of(300, 40) && !testing::Test::HasFailure(); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = random_homed_step(random, 40, 9, 8, trial % 5 == 0 ? 20 : 0);
    expect_promises_kept(step, refine{}, 5'000);
    expect_promises_kept(step, longest_processing_time{}, 0);
    expect_promises_kept(step, round_robin{}, 100'000);
  }
}

struct against_best {
  tokens moved = 0;
  tokens least = 0;
  int exact = 0;

  void add(homed_step const& step, std::uint32_t within)
  {
    auto const plan = plan_instance(step, refine{}, step.limits(within));
    ASSERT_TRUE(plan) << plan.error().message;
    auto const shortest =
        optimum_where(step, [&](assignment const& owner) { return step.keeps_together(owner); });
    EXPECT_LE(plan->lower_bound, *shortest);
    EXPECT_GE(plan->makespan, *shortest);
    EXPECT_LE(plan->makespan, raised(*shortest, within));
    auto const best = least_of_all(
        step.costs.size(), step.gpus.size(), [&](assignment const& owner) -> std::optional<tokens> {
          bool const is_short = step.makespan_of(step.loads(owner)) <= raised(*shortest, within);
          bool const may_be = is_short && step.all_fit(owner) && step.keeps_together(owner);
          return may_be ? std::optional(step.moved(owner)) : std::nullopt;
        });
    tokens const ours = step.moved(assignment_of(plan->owner));
    EXPECT_GE(ours, *best);
    if (plan->then_is_proven) { EXPECT_EQ(ours, *best); }
    moved += ours;
    least += *best;
    exact += ours == *best ? 1 : 0;
  }
};

TEST(FewestMoves, MovesAsLittleAsTheBestPlanOfAll)
{
  random_source random(33);
  int const trials = trials_of(200);
  against_best coarse;
  for (int trial = 0; trial < trials && !testing::Test::HasFailure(); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    coarse.add(random_homed_step(random, 7, 3, 2), 50'000);
  }
  EXPECT_EQ(coarse.exact, trials);
  // Work that grows faster than lengths, as attention does.
  against_best quadratic;
  for (int trial = 0; trial < trials && !testing::Test::HasFailure(); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    homed_step step{{{}, {}, std::vector<std::uint32_t>(2 + random.below(2), 1)}, {}};
    for (std::size_t sample = 0; sample < 8; ++sample) {
      step.lengths.push_back(random.between(1, 1000));
      step.costs.push_back(step.lengths.back() * (1000 + step.lengths.back()));
      step.home.push_back(to_id<rank_id>(random.below(step.gpus.size())));
    }
    quadratic.add(step, 20'000);
  }
  EXPECT_EQ(quadratic.exact, trials);
}

result<partition_plan> plan_homed(homed_step const& step, std::uint32_t within = 5'000)
{
  return plan_instance(step, refine{}, step.limits(within));
}

TEST(FewestMoves, LeavesAPlanAloneThatIsShortEnough)
{
  homed_step const step{{{9, 9, 9, 9}, {50, 50, 51, 49}, {1, 1}},
                        {rank_id{1}, rank_id{0}, rank_id{0}, rank_id{1}}};
  EXPECT_EQ(plan_homed(step, 20'000)->moved.numerator, 0);
  // 100 each is best, and 101 is not within half a percent of it.
  EXPECT_GT(plan_homed(step)->moved.numerator, 0);
}

TEST(FewestMoves, SwapsTwoSamplesOfTheLeastTokens)
{
  // [least_movement]
  std::vector<ballast::tokens> const lengths{60, 30, 14, 56, 30, 10};
  std::vector<ballast::rank_id> home(6, ballast::rank_id{0});    // 104 tokens on rank 0
  std::fill(home.begin() + 3, home.end(), ballast::rank_id{1});  // and 96 on rank 1
  auto const cost = [](ballast::tokens length) { return length; };
  auto const plan = ballast::partition(
      lengths, ballast::one_gpu_bags(2), cost,
      {.home = home, .then = ballast::fewest_moves, .within_per_million = 5'000});
  // [least_movement]
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->loads, (std::vector<cost_units>{100, 100}));
  EXPECT_EQ(plan->moved, (ratio{14 + 10, 200}));
}

TEST(FewestMoves, MovesSamplesWithoutTokensForNothing)
{
  homed_step const step{{{0, 7, 7, 7}, {30, 30, 30, 30}, {1, 1}},
                        {rank_id{0}, rank_id{0}, rank_id{0}, rank_id{1}}};
  auto const plan = plan_homed(step);
  EXPECT_EQ(plan->loads, (std::vector<cost_units>{60, 60}));
  EXPECT_EQ(plan->moved.numerator, 0);
}

TEST(FewestMoves, KeepsAnyHomeThatItMayKeepWhenAllIsWithin)
{
  random_source random(34);
  for (int trial = 0; trial < trials_of(100); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto step = random_homed_step(random, 30, 5, 4);
    step.together.clear();
    step.before.clear();
    auto const plan = plan_homed(step, std::numeric_limits<std::uint32_t>::max());
    auto const bags = consecutive_bags(step.gpus);
    for (std::size_t sample = 0; sample < step.home.size(); ++sample) {
      bag_id const at = bags.bag_of(step.home[sample]);
      bool const may_stay = step.lengths[sample] > 0 && step.fits(sample, to_index(at));
      if (may_stay) { ASSERT_EQ(plan->owner[to_id<sample_id>(sample)], at); }
    }
  }
}

TEST(FewestMoves, WorksUpToTheLargestTotal)
{
  constexpr cost_units quarter = (std::numeric_limits<cost_units>::max() - 1) / 4;
  homed_step const step{{{9, 9, 9, 9}, {quarter, quarter, quarter, quarter}, {1, 1}},
                        std::vector<rank_id>(4, rank_id{0})};
  EXPECT_EQ(plan_homed(step, 0)->moved, (ratio{1, 2}));
  EXPECT_EQ(plan_homed(step, 600'000)->moved, (ratio{1, 4}));
  EXPECT_EQ(plan_homed(step, std::numeric_limits<std::uint32_t>::max())->moved.numerator, 0);
}

TEST(FewestMoves, KeepsCaps)
{
  // The loads alone would let bag 0 keep three.
  std::vector<tokens> const lengths(4, 10);
  std::vector<rank_id> const home{rank_id{0}, rank_id{0}, rank_id{0}, rank_id{1}};
  std::vector<std::int64_t> const ones(4, 1);
  auto const moved = [&](caps const& also) {
    placement_limits const given{
        .home = home, .also = also, .then = fewest_moves, .within_per_million = 1'000'000};
    return partition(lengths, one_gpu_bags(2), std::identity{}, given, round_robin{})->moved;
  };
  EXPECT_EQ(moved({}), (ratio{0, 40}));
  EXPECT_EQ(moved({{.of = ones, .most_per_gpu = 2}}), (ratio{10, 40}));
  EXPECT_EQ(moved({{.of = ones, .most_per_gpu = 3}}), (ratio{0, 40}));
}

TEST(FewestMoves, CountsWhatAGroupMovesByWhereEachSampleLies)
{
  std::vector<int> const prompts{2, 2, 1};
  homed_step const step{
      {{4, 6, 9}, {4, 6, 9}, {1, 1}}, {rank_id{0}, rank_id{1}, rank_id{1}}, prompts};
  auto const plan = plan_homed(step);
  EXPECT_EQ(plan->owner, (std::vector<bag_id>{bag_id{0}, bag_id{0}, bag_id{1}}));
  EXPECT_EQ(plan->moved, (ratio{6, 19}));
}

TEST(FewestMoves, LeavesNoGroupInABagThatItsShortestSampleDoesNotFit)
{
  // Two tokens do not fit a bag of four GPUs, and eight of them in one group do not either.
  homed_step const step{{{2, 2, 2, 2, 9}, {2, 2, 2, 2, 9}, {4, 1}},
                        std::vector<rank_id>(5, rank_id{0}),
                        {1, 1, 1, 1, 2}};
  auto const plan = plan_homed(step);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->owner,
            (std::vector<bag_id>{bag_id{1}, bag_id{1}, bag_id{1}, bag_id{1}, bag_id{0}}));
  EXPECT_EQ(plan->moved, (ratio{8, 17}));
}

// KnapFormer's data codes: every GPU reads images of one size with texts of any length.
TEST(FewestMoves, MovesATenthOfTheTokensOfNearlyEvenDataAtMost)
{
  auto const codes = parse_data_codes("g32b32i256f1s0").value();
  auto const cost = gamma_corrected({24ULL * 3072 * 3072, 4ULL * 3072}, 0.405)->cost;
  random_source random(1);
  auto const bags = one_gpu_bags(32);
  for (int step = 0; step < trials_of(20); ++step) {
    SCOPED_TRACE(testing::Message() << "step " << step);
    auto const batch = draw_batch(codes, 32, {}, random).value();
    auto const greedy =
        partition(batch.lengths, bags, cost, {.home = batch.source}, greedy_knapsack{});
    auto const plan =
        partition(batch.lengths, bags, cost,
                  {.home = batch.source, .then = fewest_moves, .within_per_million = 5'000});
    ASSERT_TRUE(greedy && plan);
    EXPECT_GT(greedy->moved.value(), 0.9);
    EXPECT_LT(plan->moved.value(), 0.04);
    EXPECT_LT(plan->gap(), 0.006);
  }
}

TEST(FewestMoves, AllocatesNothingInTheSteadyState)
{
  random_source random(36);
  std::vector<rank_id> home(1000);
  for (rank_id& rank : home) { rank = to_id<rank_id>(random.below(16)); }
  expect_the_same_again_without_allocation(
      refine{}, 1000, squared_length{}, one_gpu_bags(16), [&](std::span<tokens const> lengths) {
        return placement_limits{.home = std::span(home).first(lengths.size()),
                                .then = fewest_moves,
                                .within_per_million = 5'000};
      });
}

}  // namespace fewest_moves_test
