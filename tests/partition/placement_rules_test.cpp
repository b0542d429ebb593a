// SPDX-License-Identifier: Apache-2.0
// Rules about which samples share a bag, through the front door.

#include "../../examples/common/baselines/karmarkar_karp.hpp"
#include "../support/instances.hpp"
#include "../support/test.hpp"

#include <ballast/partition/concepts.hpp>
#include <ballast/partition/greedy_knapsack.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/padded_batches.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/partition_plan.hpp>
#include <ballast/partition/placement_limits.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/partition/round_robin.hpp>
#include <ballast/topology/bag_layout.hpp>

namespace placement_rules_test {

using namespace ballast;
using namespace ballast_test;
using testing::HasSubstr;

TEST(PlacementRules, GiveEachBagAtMostSoManySamples)
{
  std::vector<ballast::tokens> const lengths = {90, 30, 20, 20, 10, 10};
  auto const plan = ballast::partition(lengths, ballast::one_gpu_bags(2), std::identity{},
                                       {.samples = ballast::counts::at_most(3)});
  // 90 10 10 and 30 20 20: without the rule it is 90 alone.
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->loads, (std::vector<std::int64_t>{110, 70}));
  EXPECT_TRUE(plan->proven_optimal());
}

TEST(PlacementRules, KeepSamplesOfOneKeyApart)
{
  std::vector<ballast::tokens> const lengths = {60, 20, 20, 20};
  std::vector<int> const prompts = {7, 1, 1, 2};  // two samples of prompt 1
  auto const plan =
      ballast::partition(lengths, ballast::one_gpu_bags(2), std::identity{}, {.apart = prompts});
  // 60 20 and 20 20, where 60 and 20 20 20 would be level.
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->loads, (std::vector<std::int64_t>{80, 40}));
  EXPECT_TRUE(plan->proven_optimal());
}

TEST(PlacementRules, LetASampleAboveASoftCapStandAlone)
{
  std::vector<ballast::tokens> const lengths = {150, 60, 40, 30};
  auto const plan = ballast::partition(lengths, ballast::one_gpu_bags(3), std::identity{},
                                       {.also = {{.most_per_gpu = 100, .is_soft = true}}});
  // plan->above_cap has bag 0, with the sample of 150 alone.
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->above_cap, (std::vector<bag_id>{bag_id{0}}));
  EXPECT_EQ(plan->loads, (std::vector<std::int64_t>{150, 60, 70}));
}

TEST(PlacementRules, AskWhatMayLieTogether)
{
  // [mixes]
  std::vector<ballast::tokens> const lengths = {9, 8, 7, 6, 5};
  std::vector<int> const prompts = {1, 1, 2, 3, 4};
  auto const of_two_prompts = [&](std::span<ballast::sample_id const> together) {
    std::set<int> found;
    for (auto const sample : together) { found.insert(prompts[sample]); }
    return found.size() <= 2;
  };
  auto const plan = ballast::partition(lengths, ballast::one_gpu_bags(2), std::identity{},
                                       {.mixes = of_two_prompts});
  // 9 8 5 and 7 6: 9 8 and 7 6 5 would be level, with three prompts on a rank.
  // [mixes]
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->makespan, (ratio{22, 1}));
  EXPECT_TRUE(plan->proven_optimal());
}

// A step with any of the rules, limits and keys.
struct ruled_step : instance {
  std::vector<std::int64_t> weights, capacities;
  std::vector<int> together, apart;
  std::int64_t most_samples = no_limit;
  bool cap_is_soft = false;

  [[nodiscard]] placement_limits constraints() const
  {
    placement_limits limits{.together = together, .apart = apart};
    if (!capacities.empty()) {
      limits.also = {{.of = weights, .most = capacities, .is_soft = cap_is_soft}};
    }
    if (most_samples != no_limit) { limits.samples = counts::at_most(most_samples); }
    return limits;
  }

  // Whether no bag that takes the samples that stay with this one holds what they weigh.
  [[nodiscard]] bool is_too_heavy(std::size_t sample) const
  {
    std::int64_t all = 0;
    std::vector<bool> may_take(gpus.size(), true);
    for (std::size_t other = 0; other < costs.size(); ++other) {
      bool const stays =
          other == sample || (!together.empty() && together[other] == together[sample]);
      all += stays ? weights[other] : 0;
      for (std::size_t bag = 0; bag < gpus.size() && stays; ++bag) {
        if (!fits(other, bag)) { may_take[bag] = false; }
      }
    }
    for (std::size_t bag = 0; bag < gpus.size(); ++bag) {
      if (may_take[bag] && all <= capacities[bag]) { return false; }
    }
    return true;
  }

  // Whether these owners keep everything; slow and plain.
  [[nodiscard]] bool keeps(assignment const& owner) const
  {
    for (std::size_t a = 0; a < owner.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        bool const meet = owner[a] == owner[b];
        if (meet && !apart.empty() && apart[a] == apart[b]) { return false; }
        if (!meet && !together.empty() && together[a] == together[b]) { return false; }
      }
    }
    for (std::size_t bag = 0; bag < gpus.size(); ++bag) {
      if (std::ranges::count(owner, bag) > most_samples) { return false; }
      if (capacities.empty()) { continue; }
      std::int64_t weight = 0;
      std::set<int> keys;
      bool has_heavy = false;
      for (std::size_t each = 0; each < owner.size(); ++each) {
        if (owner[each] != bag) { continue; }
        weight += weights[each];
        keys.insert(together.empty() ? static_cast<int>(each) : together[each]);
        has_heavy = has_heavy || (cap_is_soft && is_too_heavy(each));
      }
      if (has_heavy ? keys.size() > 1 : weight > capacities[bag]) { return false; }
    }
    return all_fit(owner);
  }
};

ruled_step draw_ruled_step(random_source& random)
{
  ruled_step step;
  step.gpus.resize(1 + random.below(3));
  bool const is_even = random.below(2) == 0;
  for (auto& each : step.gpus) {
    each = is_even ? 1 : static_cast<std::uint32_t>(1 + random.below(3));
  }
  std::size_t const count = random.below(7);
  auto const least = static_cast<std::int64_t>(std::ranges::min(step.gpus));
  auto const draw = [&](auto& into, std::size_t numbers, std::int64_t from, std::int64_t to) {
    into.resize(numbers);
    for (auto& each : into) { each = static_cast<int>(random.between(from, to)); }
  };
  draw(step.lengths, count, least, 6);
  draw(step.costs, count, 0, 20);
  if (random.below(2) == 0) {
    draw(step.weights, count, 0, 20);
    draw(step.capacities, step.gpus.size(), 10, 50);
    step.cap_is_soft = random.below(2) == 0;
  }
  auto const keys = static_cast<std::int64_t>(2 * count);
  if (random.below(2) == 0) { draw(step.together, count, 0, keys - 1); }
  if (random.below(2) == 0) { draw(step.apart, count, 0, keys - 1); }
  if (random.below(3) == 0) { draw(step.before, step.gpus.size(), 0, 30); }
  if (random.below(2) == 0) { step.most_samples = random.between(1, 4); }
  return step;
}

void expect_best_of_all(policy_ref const& policy, std::uint64_t seed)
{
  random_source random(seed);
  int refused = 0;
  int ruled = 0;
  for (int trial = 0; trial < trials_of(1500); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = draw_ruled_step(random);
    if (step.most_samples == no_limit && step.apart.empty() && !step.cap_is_soft) { continue; }
    ++ruled;
    auto const plan = plan_instance(step, policy, step.constraints());
    auto const best = optimum_where(step, [&](assignment const& owner) {
      return owner.size() < step.costs.size() || step.keeps(owner);
    });
    ASSERT_EQ(plan.has_value(), best.has_value()) << (plan ? "" : plan.error().message);
    refused += plan ? 0 : 1;
    if (!plan) {
      EXPECT_THAT(plan.error().message, testing::Not(HasSubstr("gave up")));
      continue;
    }
    auto const owner = assignment_of(plan->owner);
    ASSERT_TRUE(step.keeps(owner));
    ASSERT_EQ(plan->makespan, *best);
    ASSERT_EQ(plan->makespan, step.makespan_of(step.loads(owner)));
    ASSERT_TRUE(plan->proven_optimal());
    std::vector<bag_id> above;
    for (std::size_t bag = 0; bag < step.gpus.size() && step.cap_is_soft; ++bag) {
      auto const held =
          sums_of(owner, step.weights, std::vector<std::int64_t>(step.gpus.size(), 0));
      if (held[bag] > step.capacities[bag]) { above.push_back(to_id<bag_id>(bag)); }
    }
    ASSERT_EQ(plan->above_cap, above);
  }
  EXPECT_GT(refused, ruled / 20);
  EXPECT_LT(refused, ruled / 2);
}

TEST(PlacementRules, AreKeptAsWellAsAllPlansAllow)
{
  expect_best_of_all(refine{}, 301);
  expect_best_of_all(round_robin{}, 302);
}

TEST(PlacementRules, HoldInLargeSteps)
{
  random_source random(304);
  for (int trial = 0; trial < trials_of(30); ++trial) {
    ruled_step step;
    std::size_t const bags = 2 + random.below(7);
    std::size_t const each = 8 + random.below(9);
    step.gpus.assign(bags, 1);
    step.most_samples = static_cast<std::int64_t>(each);  // all bags are full
    for (std::size_t sample = 0; sample < bags * each; ++sample) {
      step.costs.push_back(random.between(1, 40) * random.between(1, 40));
      step.apart.push_back(static_cast<int>(sample / bags));
    }
    step.lengths = step.costs;
    auto const plan = plan_instance(step, refine{}, step.constraints());
    ASSERT_TRUE(plan) << plan.error().message;
    ASSERT_TRUE(step.keeps(assignment_of(plan->owner)));
    // Of keys that all bags hold once, heaviest first in turn is within the widest key.
    EXPECT_LE(plan->gap(), 0.05) << trial;
  }
}

std::string refusal(policy_ref const& policy, placement_limits const& given,
                    std::vector<tokens> const& lengths = {8, 7, 5, 4})
{
  auto const plan = partition(lengths, one_gpu_bags(2), std::identity{}, given, policy);
  return plan ? "" : plan.error().message;
}

// Bags that are full to a fiftieth in two quantities: what is put first by any order leaves some
// sample without room, so that samples have to push others out. Bags are drawn full, so a plan exists.
TEST(PlacementRules, FindRoomInLargeStepsThatAreFull)
{
  random_source random(77);
  int found = 0;
  int const trials = 20;
  for (int trial = 0; trial < trials; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::size_t const bags = 6;
    std::vector<tokens> lengths;
    std::vector<std::int64_t> images;
    std::vector<std::int64_t> most_tokens(bags, 0);
    std::vector<std::int64_t> most_images(bags, 0);
    for (std::size_t sample = 0; sample < 36; ++sample) {
      lengths.push_back(random.between(1, 400));
      images.push_back(random.between(0, 60));
      most_tokens[sample % bags] += lengths.back();
      most_images[sample % bags] += images.back();
    }
    for (std::size_t bag = 0; bag < bags; ++bag) {
      most_tokens[bag] += most_tokens[bag] / 50;
      most_images[bag] += most_images[bag] / 50;
    }
    auto const plan =
        partition(lengths, one_gpu_bags(bags), std::identity{},
                  {.also = {{.most = most_tokens}, {.of = images, .most = most_images}}});
    if (!plan) {
      EXPECT_THAT(plan.error().message, HasSubstr("gave up"));
      continue;
    }
    ++found;
    std::vector<std::int64_t> held_tokens(bags, 0);
    std::vector<std::int64_t> held_images(bags, 0);
    for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
      held_tokens[plan->owner[sample]] += lengths[sample];
      held_images[plan->owner[sample]] += images[sample];
    }
    for (std::size_t bag = 0; bag < bags; ++bag) {
      EXPECT_LE(held_tokens[bag], most_tokens[bag]);
      EXPECT_LE(held_images[bag], most_images[bag]);
    }
  }
  EXPECT_GE(found, trials * 3 / 4);
}

// Samples of one key apart and at home as far as that costs no time: 60 equal samples that lie on their
// GPUs already, but for pairs that have to part.
TEST(PlacementRules, MoveFewTokensInLargeSteps)
{
  random_source random(78);
  std::size_t const bags = 6;
  std::vector<tokens> lengths(60);
  std::vector<rank_id> home;
  std::vector<std::int64_t> keys;
  for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
    lengths[sample] = 90 + random.between(0, 20);
    home.push_back(rank_id(sample % bags));
    keys.push_back(
        static_cast<std::int64_t>(sample % bags + 6 * (sample / 12)));  // pairs at one home
  }
  auto const plan =
      partition(lengths, one_gpu_bags(bags), std::identity{},
                {.home = home, .apart = keys, .then = fewest_moves, .within_per_million = 50'000});
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_LE(plan->gap(), 0.06);
  // One of each pair leaves: 30 of 60.
  EXPECT_GE(plan->moved.value(), 0.4);
  EXPECT_LE(plan->moved.value(), 0.6);
}

TEST(PlacementRules, HoldWithOtherLimitsInOneCall)
{
  // [several]
  // Tokens and images of eight samples for four ranks, two samples each.
  std::vector<ballast::tokens> const lengths = {9, 8, 7, 6, 5, 4, 3, 2};
  std::vector<std::int64_t> const images = {1, 0, 2, 1, 0, 1, 0, 3};
  auto const plan = ballast::partition(lengths, ballast::one_gpu_bags(4), std::identity{},
                                       {.most_per_gpu = 13,
                                        .also = {{.of = images, .most_per_gpu = 3}},
                                        .samples = ballast::counts::equal()});
  // 7 5, 9 3, 8 2 and 6 4: level by tokens alone, 6 2 would be a rank with four images.
  // [several]
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->makespan, (ratio{12, 1}));
  EXPECT_TRUE(plan->proven_optimal());
  for (auto const samples : plan->samples) {
    std::int64_t held = 0;
    for (sample_id const sample : samples) { held += images[to_index(sample)]; }
    EXPECT_LE(held, 3);
    EXPECT_EQ(samples.size(), 2U);
  }
}

// {1 8} are one item, so that {16} and {1 8 7} would be shorter, and no multiples.
TEST(PlacementRules, CountMultiplesOfWhatStaysTogether)
{
  std::vector<std::int64_t> const costs{16, 1, 7, 8};
  std::vector<int> const keys{0, 1, 2, 1};
  std::vector<std::int64_t> const images{3, 1, 2, 0};
  auto const plan = partition(costs, one_gpu_bags(2), std::identity{},
                              {.together = keys,
                               .also = {{.of = images, .most_per_gpu = 6}},
                               .samples = counts::multiple_of(2)})
                        .value();
  EXPECT_EQ(plan.makespan, (ratio{23, 1}));
  EXPECT_TRUE(plan.proven_optimal());
}

TEST(PlacementRules, AreRefusedWithTheNumbers)
{
  std::vector<int> const thrice = {1, 1, 2, 1};
  std::vector<int> const pairs = {1, 1, 2, 2};
  std::vector<int> const three = {1, 1, 1};
  EXPECT_EQ(refusal(refine{}, {.apart = thrice}),
            "3 samples have the key of sample 0 in limits.apart, and there are 2 bags; leave "
            "out 1 or add bags");
  EXPECT_EQ(refusal(refine{}, {.together = pairs, .apart = pairs}),
            "samples 0 and 1 have one key in limits.together and one in limits.apart; "
            "give them other keys in either");
  EXPECT_EQ(refusal(refine{}, {.samples = counts::at_most(1)}),
            "4 samples in 2 bags with at most 1 each need 4; add bags or raise "
            "limits.samples");
  EXPECT_EQ(refusal(refine{}, {.samples = counts::at_most(2)}, {1, 1, 1, 1, 1}),
            "5 samples in 2 bags with at most 2 each need 3; add bags or raise "
            "limits.samples");
  EXPECT_EQ(refusal(refine{}, {.together = thrice, .samples = counts::at_most(2)}),
            "sample 0 and what stays with it are 3 samples, and limits.samples is 2; "
            "raise it or split them");
  EXPECT_EQ(refusal(refine{}, {.samples = counts::at_most(0)}),
            "limits.samples asks for 0 samples; give 1 or more");
  EXPECT_EQ(refusal(refine{}, {.samples = counts::equal(std::int64_t{1} << 32)}),
            "limits.samples asks for counts in multiples of 4294967296; give less than 2^31");
  EXPECT_EQ(refusal(refine{}, {.apart = three}),
            "limits.apart has 3 entries for 4 samples; give one for each sample, or none");
  EXPECT_EQ(refusal(refine{}, {.also = {{.is_soft = true}}}),
            "limits.also[0] has neither most_per_gpu nor most; give one");
  EXPECT_THAT(refusal(refine{}, {.most_per_gpu = 9, .apart = pairs}),
              HasSubstr("3 such bags are needed and enough; 4 items in 2 bags have no plan that "
                        "keeps limits.most_per_gpu; loosen it, add bags or microbatches, or "
                        "leave it out"));
  EXPECT_THAT(refusal(refine{}, {.also = {{.most_per_gpu = 7, .is_soft = true}}, .apart = pairs}),
              HasSubstr("have no plan that keeps limits.also[0]; loosen it, add bags or "
                        "microbatches, or leave it out"));
}

TEST(PlacementRules, AreRefusedWithThoseOfWhichNoneCanBeLeftOut)
{
  // Tokens and keys leave {5 1} {1 5} alone, the first with both images.
  std::vector<int> const pairs = {1, 1, 2, 2};
  std::vector<tokens> const lengths = {5, 1, 5, 1};
  std::vector<std::int64_t> const images = {1, 0, 0, 1};
  EXPECT_EQ(refusal(refine{},
                    {.most_per_gpu = 6,
                     .also = {{.of = images, .most_per_gpu = 1}},
                     .samples = counts::at_most(3),
                     .apart = pairs},
                    lengths),
            "4 items in 2 bags have no plan that keeps limits.most_per_gpu, limits.also[0] and "
            "limits.apart together, and each of these is needed for that; raise or leave out one");
}

TEST(PlacementRules, AreRefusedWithAProofWhereSumsShowIt)
{
  auto const why = [](std::size_t samples, std::size_t bags, placement_limits const& given) {
    auto const plan =
        partition(std::vector<tokens>(samples, 10), one_gpu_bags(bags), std::identity{}, given);
    return plan ? "" : plan.error().message;
  };
  std::vector<std::size_t> keys(500);
  for (std::size_t sample = 0; sample < keys.size(); ++sample) { keys[sample] = sample / 2; }
  EXPECT_EQ(why(500, 16, {.most_per_gpu = 300, .apart = keys}),
            "all samples weigh 5000 and 16 bags hold at most 300 each; 17 such bags are needed and "
            "enough; 500 items in 16 bags have no plan that keeps limits.most_per_gpu; loosen it, "
            "add bags or microbatches, or leave it out");
  for (std::size_t const samples : {std::size_t{0}, std::size_t{15}}) {
    EXPECT_THAT(why(samples, 16, {.samples = counts::filled()}),
                HasSubstr("have no plan that keeps limits.samples"));
  }
  EXPECT_EQ(why(16, 16, {.samples = counts::filled()}), "");
  // Samples of 2 are too short for the larger bag.
  bag_layout const uneven(std::vector<bag>{{rank_id{0}, 1}, {rank_id{1}, 4}});
  EXPECT_THAT(partition(std::vector<tokens>{2, 2, 9, 9}, uneven, std::identity{},
                        {.samples = counts::equal()})
                  ->samples[bag_id{0}],
              testing::SizeIs(2));
  EXPECT_FALSE(partition(std::vector<tokens>{2, 2, 2, 9}, uneven, std::identity{},
                         {.samples = counts::equal()}));
}

TEST(PlacementRules, AreKeptAroundPoliciesThatPackAndRefusedByOthers)
{
  std::vector<int> const pairs = {1, 1, 2, 2};
  std::vector<rank_id> const home(4);
  longest_processing_time const greedy;
  baselines::karmarkar_karp const differencing;
  refine<> const proves{.nodes = 1000};
  greedy_knapsack const knapsack;
  padded_batches const pads;
  for (policy_ref const& policy :
       {policy_ref(greedy), policy_ref(differencing), policy_ref(proves), policy_ref(knapsack)}) {
    EXPECT_EQ(refusal(policy, {.apart = pairs}), "");
    EXPECT_EQ(refusal(policy, {.samples = counts::at_most(3)}), "");
  }
  for (policy_ref const& policy : {policy_ref(pads)}) {
    for (placement_limits const& given :
         {placement_limits{.apart = pairs}, placement_limits{.samples = counts::at_most(3)},
          placement_limits{.also = {{.most_per_gpu = 90, .is_soft = true}}},
          placement_limits{.samples = counts::equal()}, placement_limits{.then = most_level},
          placement_limits{.home = home, .then = fewest_moves}}) {
      EXPECT_THAT(refusal(policy, given),
                  HasSubstr("a policy that pads samples keeps one cap alone; use refine{}"));
    }
  }
}

}  // namespace placement_rules_test
