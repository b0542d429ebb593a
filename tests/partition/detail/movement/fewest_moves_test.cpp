#include <ballast/partition/detail/movement/fewest_moves.hpp>  // first: proves it is self-contained

#include "../../../support/movement_lower_bound.hpp"
#include "../../../support/policy_checks.hpp"
#include "../../../support/steady_state.hpp"
#include "../../../support/test.hpp"

#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/partition/greedy_knapsack.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/partition/round_robin.hpp>
#include <ballast/workload/sample_batch.hpp>

namespace {

using namespace ballast;
using namespace ballast_test;

/// A step whose samples lie in bags already, with everything that a policy is told about it.
struct homed_step : direct_problem {
  std::vector<bag_id> home;
  std::vector<tokens> joint_lengths = {};
  std::vector<std::uint32_t> first_part = {};
  std::vector<partition_problem::part> parts = {};

  homed_step(instance of, std::vector<std::uint32_t> const& homes) : direct_problem(std::move(of))
  {
    for (std::uint32_t const bag : homes) { home.push_back(bag_id{bag}); }
    step.before.resize(step.gpus.size());
  }

  [[nodiscard]] partition_problem problem() const
  {
    partition_problem seen = view();
    seen.home = home;
    seen.joint_lengths = joint_lengths;
    seen.first_part = first_part;
    seen.parts = parts;
    return seen;
  }
  /// Makes samples of several that stay together, each in a bag of its own below `bags`.
  void join_several(random_source& random, std::size_t bags)
  {
    first_part.push_back(0);
    for (std::size_t sample = 0; sample < home.size(); ++sample) {
      std::map<std::size_t, tokens> at;
      tokens const shortest = step.lengths[sample];
      at[random.below(bags)] = shortest;
      for (std::size_t more = random.below(4); more > 0; --more) {
        at[random.below(bags)] += random.between(shortest, shortest + shortest / 2);
      }
      joint_lengths.push_back(0);
      tokens most = -1;
      for (auto const& [bag, length] : at) {
        joint_lengths.back() += length;
        if (length > most) { home[sample] = to_id<bag_id>(bag); }
        most = std::max(most, length);
        if (length > 0) { parts.push_back({to_id<bag_id>(bag), length}); }
      }
      first_part.push_back(static_cast<std::uint32_t>(parts.size()));
    }
  }
  [[nodiscard]] tokens moved(std::span<bag_id const> owner) const
  {
    tokens all = 0;
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      if (first_part.empty()) {
        all += owner[sample] == home[sample] ? 0 : step.lengths[sample];
        continue;
      }
      for (auto part = first_part[sample]; part < first_part[sample + 1]; ++part) {
        all += owner[sample] == parts[part].bag ? 0 : parts[part].length;
      }
    }
    return all;
  }
};

/// A random step as random_instance draws it, in every second one with all samples at few bags, in
/// every fourth with work that bags have before, and in every third with samples joined to one. Work
/// is in units of 2^shift.
homed_step random_homed_step(random_source& random, std::size_t most_samples, std::size_t most_bags,
                             std::uint32_t largest_bag, int shift = 0)
{
  instance step = random_instance(random, most_samples, most_bags, largest_bag);
  std::size_t const bags = step.gpus.size();
  std::size_t const used = random.below(2) == 0 ? bags : 1 + random.below(bags);
  std::vector<std::uint32_t> homes;
  for (std::size_t sample = 0; sample < step.costs.size(); ++sample) {
    homes.push_back(static_cast<std::uint32_t>(random.below(used)));
  }
  if (random.below(4) == 0) { step.before = random_loads(random, step, 500); }
  for (auto& load : step.before) { load <<= shift; }
  for (auto& cost : step.costs) { cost <<= shift; }
  homed_step homed(std::move(step), homes);
  if (random.below(3) == 0) { homed.join_several(random, used); }
  return homed;
}

/// The fewest tokens that any plan within the limits moves, by trying all of them; nothing where
/// there is none.
std::optional<tokens> least_moved(homed_step const& homed, std::vector<cost_units> const& limits)
{
  return least_of_all(homed.step.costs.size(), limits.size(),
                      [&](assignment const& places) -> std::optional<tokens> {
                        std::vector<bag_id> owner;
                        for (std::size_t const bag : places) {
                          owner.push_back(to_id<bag_id>(bag));
                        }
                        auto const loads = homed.step.loads(places);
                        bool const within = std::equal(loads.begin(), loads.end(), limits.begin(),
                                                       std::less_equal<cost_units>{});
                        if (!within || !homed.step.all_fit(places)) { return std::nullopt; }
                        return homed.moved(owner);
                      });
}

/// Fewest moves around a policy.
template <class Inner = refine<>>
struct least_movement {
  Inner inner{};
  std::uint32_t tolerance_per_million = 5'000;
  std::uint64_t work = std::uint64_t{1} << 24;

  ratio operator()(partition_problem const& problem, std::span<cost_units> loads,
                   std::span<bag_id> owner, workspace& memory) const
  {
    ballast::detail::fewest_tokens_moved const stays{ballast::detail::policy_ref(inner),
                                                     tolerance_per_million, work};
    return stays(problem, loads, owner, memory);
  }
  [[nodiscard]] cost_units limit(ratio makespan, std::uint32_t speed) const
  {
    return ballast::detail::work_within(makespan, tolerance_per_million, speed);
  }
};
template <class Inner>
least_movement(Inner) -> least_movement<Inner>;
template <class Inner>
least_movement(Inner, std::uint32_t) -> least_movement<Inner>;
template <class Inner>
least_movement(Inner, std::uint32_t, std::uint64_t) -> least_movement<Inner>;

direct_plan plan_homed(homed_step const& homed, policy_ref const& policy)
{
  return plan_directly(homed.problem(), policy, homed.step.before);
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

TEST(FewestMoves, PlacesEverySampleInABagItFits)  // Ensures (1) (2)
{
  expect_valid_plans(least_movement{}, 31);
  expect_starting_loads_counted(least_movement{});
}

template <class Policy>
void expect_promises_kept(homed_step const& homed, Policy const& policy)
{
  auto const inner = plan_homed(homed, policy.inner);
  auto const plan = plan_homed(homed, policy);
  auto const owner = assignment_of(plan.owner);
  for (std::size_t const bag : owner) { ASSERT_LT(bag, plan.loads.size()); }
  ASSERT_TRUE(homed.step.all_fit(owner));
  ASSERT_EQ(plan.loads, homed.step.loads(owner));
  std::vector<cost_units> const limits = limits_of(homed, policy);
  for (std::size_t bag = 0; bag < limits.size(); ++bag) { ASSERT_LE(plan.loads[bag], limits[bag]); }
  ASSERT_LE(homed.moved(plan.owner), homed.moved(inner.owner));
  workspace memory;
  ASSERT_GE(homed.moved(plan.owner),
            movement_lower_bound(homed.problem(), homed.step.before, limits, memory));
  ASSERT_EQ(plan.owner, plan_homed(homed, policy).owner);
}

TEST(FewestMoves, StaysWithinItsLimitsAndMovesNoMoreThanTheInnerPolicy)  // Ensures (1) to (4)
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

TEST(FewestMoves, MovesLittleMoreThanTheBestPlanOfAll)
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

TEST(FewestMoves, LeavesAPlanAloneThatIsShortEnough)
{
  homed_step const homed({{9, 9, 9, 9}, {50, 50, 51, 49}, {1, 1}}, {1, 0, 0, 1});
  EXPECT_EQ(plan_homed(homed, least_movement{longest_processing_time{}, 20'000}).owner, homed.home);
  // 100 each is best, and 101 is not within half a percent of it.
  EXPECT_NE(plan_homed(homed, least_movement{}).owner, homed.home);
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
  homed_step const homed({{0, 7, 7, 7}, {30, 30, 30, 30}, {1, 1}}, {0, 0, 0, 1});
  auto const plan = plan_homed(homed, least_movement{});
  EXPECT_EQ(plan.loads, (std::vector<cost_units>{60, 60}));
  EXPECT_EQ(homed.moved(plan.owner), 0);
}

TEST(FewestMoves, KeepsAnyHomeThatItMayKeepWhenTheToleranceIsLarge)
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

TEST(FewestMoves, IsTheInnerPolicyWhereSamplesHaveNoHome)  // Ensures (3)
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

TEST(FewestMoves, LimitsAreExact)
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

TEST(FewestMoves, KeepsCapacitiesThatTheInnerPolicyKeeps)  // Ensures (5)
{
  // Round robin keeps two samples in each bag, all that a bag may hold; the loads alone would let
  // bag 0 keep three.
  std::vector<tokens> const lengths{10, 10, 10, 10};
  std::vector<rank_id> const home{rank_id{0}, rank_id{0}, rank_id{0}, rank_id{1}};
  std::vector<std::int64_t> const ones{1, 1, 1, 1};
  auto const cost = [](tokens) { return 5; };
  least_movement const policy{round_robin{}, 1'000'000};
  auto const free = partition(lengths, one_gpu_bags(2), cost, {.home = home}, policy).value();
  EXPECT_EQ(free.moved, (ratio{0, 40}));
  auto const capped = partition(lengths, one_gpu_bags(2), cost,
                                {.home = home, .also = {{.of = ones, .most_per_gpu = 2}}}, policy)
                          .value();
  EXPECT_EQ(capped.moved, (ratio{10, 40}));
}

TEST(FewestMoves, MovesWholeGroupsThatStayTogether)
{
  std::vector<tokens> const lengths{10, 10, 10, 10, 10, 10};
  std::vector<std::int64_t> const prompts{1, 1, 2, 2, 3, 4};
  std::vector<rank_id> const home(6, rank_id{0});
  auto const plan = partition(lengths, one_gpu_bags(2), std::identity{},
                              {.together = prompts, .home = home}, least_movement{});
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->owner[0], plan->owner[1]);
  EXPECT_EQ(plan->owner[2], plan->owner[3]);
  EXPECT_EQ(plan->loads, (std::vector<cost_units>{30, 30}));
}

TEST(FewestMoves, CountsWhatAGroupMovesByWhereEachSampleLies)
{
  std::vector<tokens> const lengths{4, 6, 9};
  std::vector<std::int64_t> const prompts{2, 2, 1};
  std::vector<rank_id> const home{rank_id{0}, rank_id{1}, rank_id{1}};
  auto const plan =
      partition(lengths, one_gpu_bags(2), std::identity{}, {.together = prompts, .home = home},
                least_movement{longest_processing_time{}});
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->owner, (std::vector<bag_id>{bag_id{0}, bag_id{0}, bag_id{1}}));
  EXPECT_EQ(plan->moved, (ratio{6, 19}));
}

TEST(FewestMoves, MovesNoMoreThanTheInnerPolicyWithGroupsInSeveralBags)  // Ensures (3) (4)
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
    placement_limits const constraints{.together = group, .home = home};
    std::identity const cost;
    auto const run = [&](partition_plan& into, policy_ref const& with) {
      return partition_into(into, memory, lengths, layouts[bags - 2], cost, constraints, with);
    };
    ASSERT_TRUE(run(plan, policy) && run(inner, policy.inner));
    ASSERT_LE(plan.moved, inner.moved);
    cost_units const limit = policy.limit(inner.makespan, 1);
    ASSERT_LE(plan.makespan, (ratio{limit, 1}));
    if (trial % 10 != 0) { continue; }
    // Oracle: all plans within the limit that keep groups together.
    auto const judge = [&](assignment const& owner) -> std::optional<tokens> {
      tokens moved = 0;
      for (std::size_t sample = 0; sample < owner.size(); ++sample) {
        moved += to_index(home[sample]) == owner[sample] ? 0 : lengths[sample];
        for (std::size_t other = 0; other < sample; ++other) {
          bool const is_apart = group[other] == group[sample] && owner[other] != owner[sample];
          if (is_apart) { return std::nullopt; }
        }
      }
      auto const loads = sums_of(owner, lengths, std::vector<tokens>(bags, 0));
      return std::ranges::max(loads) > limit ? std::nullopt : std::optional(moved);
    };
    auto const least = least_of_all(samples, bags, judge);
    ASSERT_GE(plan.moved.numerator, *least);
    ++compared;
    exact += plan.moved.numerator == *least ? 1 : 0;
  }
  EXPECT_GE(1000 * exact, (is_sanitized ? 980 : 995) * compared);
}

TEST(FewestMoves, LeavesNoGroupInABagThatItsShortestSampleDoesNotFit)
{
  // Two tokens do not fit a bag of four GPUs, and eight of them in one group do not either.
  std::vector<tokens> const lengths{2, 2, 2, 2, 9};
  std::vector<std::int64_t> const prompts{1, 1, 1, 1, 2};
  std::vector<rank_id> const home(5, rank_id{0});
  bag_layout const bags(std::vector<bag>{{rank_id{0}, 4}, {rank_id{4}, 1}});
  auto const plan = partition(lengths, bags, std::identity{}, {.together = prompts, .home = home},
                              least_movement{});
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
  for (int step = 0; step < 20; ++step) {
    SCOPED_TRACE(testing::Message() << "step " << step);
    auto const batch = draw_batch(codes, 32, {}, random).value();
    placement_limits const homes{.home = batch.source};
    auto const greedy = partition(batch.lengths, bags, cost, homes, greedy_knapsack{});
    auto const plan = partition(batch.lengths, bags, cost, homes, least_movement{});
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
      least_movement{}, 1000, squared_length{}, one_gpu_bags(16),
      [&](std::span<tokens const> lengths) {
        return placement_limits{.home = std::span(home).first(lengths.size())};
      });
}

tokens movement_bound_of(homed_step const& homed, std::vector<cost_units> const& limits)
{
  workspace memory;
  return movement_lower_bound(homed.problem(), homed.step.before, limits, memory);
}

TEST(MovementLowerBound, IsNotAboveTheLeastMovement)  // Ensures (1)
{
  random_source random(8);
  int bounded = 0;
  int tight = 0;
  for (int trial = 0; trial < 400; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const homed = random_homed_step(random, 6, 3, 4);
    std::vector<cost_units> limits = homed.step.before;
    for (cost_units& limit : limits) { limit += random.between(0, 1500); }
    auto const least = least_moved(homed, limits);
    if (!least) { continue; }
    tokens const bound = movement_bound_of(homed, limits);
    ASSERT_LE(bound, *least);
    bounded += bound > 0 ? 1 : 0;
    tight += bound > 0 && bound == *least ? 1 : 0;
  }
  EXPECT_GE(bounded, 40);
  EXPECT_GE(tight, bounded / 2);
}

TEST(MovementLowerBound, CutsTheSamplesWithMostWorkPerToken)
{
  // 70 of 100 may stay. The long sample brings 6 units per token, the others 2.
  homed_step const homed({{10, 10, 10}, {60, 20, 20}, {1, 1}}, {0, 0, 0});
  EXPECT_EQ(movement_bound_of(homed, {70, 100}), 5);
  EXPECT_EQ(movement_bound_of(homed, {69, 100}), 6);  // 31/60 of ten tokens, in whole ones
  EXPECT_EQ(movement_bound_of(homed, {30, 100}), 10 + 5);
  EXPECT_EQ(movement_bound_of(homed, {100, 0}), 0);
}

TEST(MovementLowerBound, CountsSamplesThatDoNotFitTheirHome)
{
  homed_step const homed({{3, 9}, {50, 60}, {4, 1}}, {0, 0});
  EXPECT_EQ(movement_bound_of(homed, {60, 100}), 3);
  EXPECT_EQ(movement_bound_of(homed, {0, 110}), 3 + 9);
}

TEST(MovementLowerBound, CountsWhatLiesElsewhereOfASampleJoinedFromSeveral)
{
  homed_step homed({{4, 6}, {40, 60}, {1, 1}}, {0, 0});
  homed.joint_lengths = {14, 16};
  homed.first_part = {0, 2, 4};
  homed.parts = {{bag_id{0}, 10}, {bag_id{1}, 4}, {bag_id{0}, 9}, {bag_id{1}, 7}};
  EXPECT_EQ(movement_bound_of(homed, {100, 100}), 4 + 7);
  EXPECT_EQ(movement_bound_of(homed, {40, 100}), 4 + 7 + 2);  // the second moves nine, not seven
  EXPECT_EQ(movement_bound_of(homed, {0, 100}), 4 + 7 + 2 + 6);
}

TEST(MovementLowerBound, MovesSamplesWithoutTokensForNothing)
{
  homed_step const homed({{0, 8}, {50, 60}, {1, 1}, {}, {5, 0}}, {0, 0});
  EXPECT_EQ(movement_bound_of(homed, {65, 100}), 0);
  EXPECT_EQ(movement_bound_of(homed, {35, 100}), 4);
}

TEST(MovementLowerBound, IsZeroWithoutSamples)
{
  EXPECT_EQ(movement_bound_of(homed_step({{}, {}, {1, 2}}, {}), {0, 0}), 0);
}

}  // namespace
