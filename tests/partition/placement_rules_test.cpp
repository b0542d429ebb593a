// SPDX-License-Identifier: Apache-2.0
// Rules about which samples share a bag, through the front door.

#include "../../examples/common/baselines/karmarkar_karp.hpp"
#include "../support/instances.hpp"
#include "../support/test.hpp"

#include <ballast/partition/capped.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/equal_count.hpp>
#include <ballast/partition/exact.hpp>
#include <ballast/partition/least_movement.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/padded_batches.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/partition_constraints.hpp>
#include <ballast/partition/partition_plan.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/topology/bag_layout.hpp>

namespace placement_rules_test {

using namespace ballast;
using namespace ballast_test;
using testing::HasSubstr;

static_assert(rule_keeping_policy<refine<>>);
static_assert(rule_keeping_policy<capped<>>);
static_assert(rule_keeping_policy<capped<refine<>>>);
static_assert(!rule_keeping_policy<capped<equal_count>>);
static_assert(!rule_keeping_policy<longest_processing_time>);

TEST(PlacementRules, GiveEachBagAtMostSoManySamples)
{
  // [most_samples]
  std::vector<ballast::tokens> const lengths = {90, 30, 20, 20, 10, 10};
  auto const plan = ballast::partition(lengths, ballast::one_gpu_bags(2), ballast::refine{},
                                       std::identity{}, {.most_samples = 3});
  // 90 10 10 and 30 20 20: without the rule it is 90 alone.
  // [most_samples]
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->loads, (std::vector<std::int64_t>{110, 70}));
  EXPECT_TRUE(plan->proven_optimal());
}

TEST(PlacementRules, KeepSamplesOfOneKeyApart)
{
  // [apart]
  std::vector<ballast::tokens> const lengths = {60, 20, 20, 20};
  std::vector<int> const prompts = {7, 1, 1, 2};  // two samples of prompt 1
  auto const plan = ballast::partition(lengths, ballast::one_gpu_bags(2), ballast::refine{},
                                       std::identity{}, {.apart = prompts});
  // 60 20 and 20 20, where 60 and 20 20 20 would be level.
  // [apart]
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->loads, (std::vector<std::int64_t>{80, 40}));
  EXPECT_TRUE(plan->proven_optimal());
}

TEST(PlacementRules, LetASampleAboveASoftCapStandAlone)
{
  // [soft_cap]
  std::vector<ballast::tokens> const lengths = {150, 60, 40, 30};
  auto const plan = ballast::partition(lengths, ballast::one_gpu_bags(3), ballast::capped{},
                                       std::identity{}, {.most_per_gpu = 100, .cap_is_soft = true});
  // plan->above_cap has bag 0, with the sample of 150 alone.
  // [soft_cap]
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->above_cap, (std::vector<bag_id>{bag_id{0}}));
  EXPECT_EQ(plan->loads, (std::vector<std::int64_t>{150, 60, 70}));
}

// A step with any of the rules, limits and keys.
struct ruled_step : instance {
  std::vector<std::int64_t> weights, capacities;
  std::vector<int> together, apart;
  std::int64_t most_samples = partition_constraints::no_limit;
  bool cap_is_soft = false;

  [[nodiscard]] partition_constraints constraints() const
  {
    return {.together = together,
            .weights = weights,
            .bag_capacities = capacities,
            .most_samples = most_samples,
            .apart = apart,
            .cap_is_soft = cap_is_soft};
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
    if (!step.constraints().has_rules()) { continue; }
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
  expect_best_of_all(capped{}, 302);
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

std::string refusal(policy_ref const& policy, partition_constraints const& given,
                    std::vector<tokens> const& lengths = {8, 7, 5, 4})
{
  auto const plan = partition(lengths, one_gpu_bags(2), policy, std::identity{}, given);
  return plan ? "" : plan.error().message;
}

TEST(PlacementRules, AreRefusedWithTheNumbers)
{
  std::vector<int> const thrice = {1, 1, 2, 1};
  std::vector<int> const pairs = {1, 1, 2, 2};
  std::vector<int> const three = {1, 1, 1};
  EXPECT_EQ(refusal(refine{}, {.apart = thrice}),
            "3 samples have the key of sample 0 in constraints.apart, and there are 2 bags; leave "
            "out 1 or add bags");
  EXPECT_EQ(refusal(refine{}, {.together = pairs, .apart = pairs}),
            "samples 0 and 1 have one key in constraints.together and one in constraints.apart; "
            "give them other keys in either");
  EXPECT_EQ(refusal(refine{}, {.most_samples = 1}),
            "4 samples in 2 bags with at most 1 each need 4; add bags or raise "
            "constraints.most_samples");
  EXPECT_EQ(refusal(refine{}, {.together = thrice, .most_samples = 2}),
            "sample 0 and what stays with it are 3 samples, and constraints.most_samples is 2; "
            "raise it or split them");
  EXPECT_EQ(refusal(refine{}, {.most_samples = 0}),
            "constraints.most_samples is 0; give at least 1, or no limit");
  EXPECT_EQ(refusal(refine{}, {.apart = three}),
            "constraints.apart has 3 entries for 4 samples; give one for each sample, or none");
  EXPECT_EQ(refusal(refine{}, {.cap_is_soft = true}),
            "constraints.cap_is_soft has no most_per_gpu or bag_capacities to soften; give one");
  EXPECT_THAT(refusal(refine{}, {.most_per_gpu = 9, .apart = pairs}),
              HasSubstr("all samples weigh 24 and 2 bags hold at most 9 each"));
  EXPECT_THAT(refusal(refine{}, {.most_per_gpu = 7, .apart = pairs, .cap_is_soft = true}),
              HasSubstr("have no plan that keeps the rules and the capacities"));
}

TEST(PlacementRules, AreRefusedByPoliciesThatKeepNone)
{
  std::vector<int> const pairs = {1, 1, 2, 2};
  auto const expect_refused = [&](policy_ref const& policy, std::string const& but = "") {
    EXPECT_EQ(refusal(policy, {.apart = pairs}),
              "this policy does not keep constraints.apart; use refine{} or capped{}, which do" +
                  but + ", or leave it out");
    EXPECT_THAT(refusal(policy, {.most_samples = 3}), HasSubstr("constraints.most_samples"));
    EXPECT_THAT(refusal(policy, {.most_per_gpu = 90, .cap_is_soft = true}),
                HasSubstr("constraints.cap_is_soft"));
  };
  expect_refused(longest_processing_time{});
  expect_refused(baselines::karmarkar_karp{});
  expect_refused(exact{});
  expect_refused(equal_count{}, ", but keep no counts");
  expect_refused(padded_batches{});
  expect_refused(least_movement{});
  expect_refused(capped{equal_count{}}, ", but keep no counts");
  auto const vectors =
      partition(std::vector<tokens>{8, 7}, one_gpu_bags(2), refine{},
                [](tokens length) { return cost_vector<2>{length, length}; }, {.most_samples = 1});
  EXPECT_EQ(vectors.error().message,
            "constraints.most_samples counts in plans by one quantity, and the cost of a sample "
            "has 2; leave it out");
}

}  // namespace placement_rules_test
