// SPDX-License-Identifier: Apache-2.0
// Rules about which samples share a bag, through the front door.

#include "../../examples/common/baselines/karmarkar_karp.hpp"
#include "../support/instances.hpp"
#include "../support/test.hpp"
#include "../support/trials.hpp"

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
struct ruled_step {
  bag_layout bags;
  std::vector<std::int64_t> lengths, costs, weights, capacities, before;
  std::vector<int> together, apart;
  std::int64_t most_samples = partition_constraints::no_limit;
  bool cap_is_soft = false;

  [[nodiscard]] partition_constraints constraints() const
  {
    return {.together = together,
            .weights = weights,
            .starting_loads = before,
            .bag_capacities = capacities,
            .most_samples = most_samples,
            .apart = apart,
            .cap_is_soft = cap_is_soft};
  }

  [[nodiscard]] bool takes(std::size_t sample, std::size_t bag) const
  {
    return bags.takes(to_id<bag_id>(bag), lengths[sample]);
  }

  // What the samples that stay with this one weigh, and whether a bag that takes them holds that.
  [[nodiscard]] bool is_too_heavy(std::size_t sample) const
  {
    std::int64_t all = 0;
    std::vector<bool> fits(bags.size(), true);
    for (std::size_t other = 0; other < costs.size(); ++other) {
      bool const stays =
          other == sample || (!together.empty() && together[other] == together[sample]);
      all += stays ? weights[other] : 0;
      for (std::size_t bag = 0; bag < bags.size() && stays; ++bag) {
        if (!takes(other, bag)) { fits[bag] = false; }
      }
    }
    for (std::size_t bag = 0; bag < bags.size(); ++bag) {
      if (fits[bag] && all <= capacities[bag]) { return false; }
    }
    return true;
  }

  // Whether these owners keep everything; slow and plain.
  [[nodiscard]] bool keeps(std::vector<std::size_t> const& owner) const
  {
    for (std::size_t bag = 0; bag < bags.size(); ++bag) {
      std::vector<std::size_t> held;
      for (std::size_t sample = 0; sample < owner.size(); ++sample) {
        if (owner[sample] != bag) { continue; }
        held.push_back(sample);
        if (!takes(sample, bag)) { return false; }
      }
      if (static_cast<std::int64_t>(held.size()) > most_samples) { return false; }
      std::int64_t weight = 0;
      for (std::size_t const a : held) {
        weight += weights.empty() ? 0 : weights[a];
        for (std::size_t const b : held) {
          if (a != b && !apart.empty() && apart[a] == apart[b]) { return false; }
        }
      }
      if (capacities.empty()) { continue; }
      bool const has_heavy = cap_is_soft && std::ranges::any_of(held, [this](std::size_t each) {
                               return is_too_heavy(each);
                             });
      std::set<int> keys;
      for (std::size_t const each : held) {
        keys.insert(together.empty() ? static_cast<int>(each) : together[each]);
      }
      if (has_heavy ? keys.size() > 1 : weight > capacities[bag]) { return false; }
    }
    for (std::size_t a = 0; a < owner.size() && !together.empty(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        if (together[a] == together[b] && owner[a] != owner[b]) { return false; }
      }
    }
    return true;
  }

  [[nodiscard]] ratio makespan(assignment const& owner) const
  {
    auto loads = before;
    loads.resize(bags.size());
    loads = sums_of(owner, costs, std::move(loads));
    ratio latest;
    for (std::size_t bag = 0; bag < bags.size(); ++bag) {
      latest = std::max(latest, ratio{loads[bag], bags.speeds()[bag]});
    }
    return latest;
  }

  // Oracle: all plans.
  [[nodiscard]] std::optional<ratio> optimum() const
  {
    return least_of_all(costs.size(), bags.size(),
                        [&](assignment const& owner) -> std::optional<ratio> {
                          if (owner.size() == costs.size() && !keeps(owner)) {
                            return std::nullopt;
                          }
                          return makespan(owner);
                        });
  }
};

ruled_step draw_ruled_step(random_source& random)
{
  ruled_step step;
  std::vector<std::uint32_t> gpus(1 + random.below(3));
  bool const is_even = random.below(2) == 0;
  for (auto& each : gpus) { each = is_even ? 1 : static_cast<std::uint32_t>(1 + random.below(3)); }
  step.bags = consecutive_bags(gpus, {});
  std::size_t const count = random.below(7);
  auto const least = static_cast<std::int64_t>(std::ranges::min(gpus));
  for (std::size_t sample = 0; sample < count; ++sample) {
    step.lengths.push_back(random.between(least, 6));
    step.costs.push_back(random.between(0, 20));
  }
  if (random.below(2) == 0) {
    for (std::size_t sample = 0; sample < count; ++sample) {
      step.weights.push_back(random.between(0, 20));
    }
    for (std::size_t bag = 0; bag < gpus.size(); ++bag) {
      step.capacities.push_back(random.between(10, 50));
    }
    step.cap_is_soft = random.below(2) == 0;
  }
  for (auto* keys : {&step.together, &step.apart}) {
    if (random.below(2) == 0) {
      for (std::size_t sample = 0; sample < count; ++sample) {
        keys->push_back(static_cast<int>(random.below(2 * count)));
      }
    }
  }
  if (random.below(3) == 0) {
    for (std::size_t bag = 0; bag < gpus.size(); ++bag) {
      step.before.push_back(random.between(0, 30));
    }
  }
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
    std::vector<std::size_t> samples(step.costs.size());
    std::iota(samples.begin(), samples.end(), std::size_t{0});
    auto const plan = partition(
        samples, step.bags, policy, [&](std::size_t each) { return step.costs[each]; },
        [&](std::size_t each) { return step.lengths[each]; }, step.constraints());
    auto const best = step.optimum();
    ASSERT_EQ(plan.has_value(), best.has_value()) << (plan ? "" : plan.error().message);
    refused += plan ? 0 : 1;
    if (!plan) {
      EXPECT_THAT(plan.error().message, testing::Not(HasSubstr("gave up")));
      continue;
    }
    auto const owner = assignment_of(plan->owner);
    ASSERT_TRUE(step.keeps(owner));
    ASSERT_EQ(plan->makespan, *best);
    ASSERT_EQ(plan->makespan, step.makespan(owner));
    ASSERT_TRUE(plan->proven_optimal());
    for (std::size_t bag = 0; bag < step.bags.size(); ++bag) {
      std::int64_t held = 0;
      for (std::size_t sample = 0; sample < owner.size(); ++sample) {
        held += owner[sample] == bag && step.cap_is_soft ? step.weights[sample] : 0;
      }
      bool const listed = std::ranges::count(plan->above_cap, to_id<bag_id>(bag)) == 1;
      ASSERT_EQ(listed, step.cap_is_soft && held > step.capacities[bag]);
    }
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
  workspace memory;
  partition_plan plan;
  for (int trial = 0; trial < trials_of(30); ++trial) {
    ruled_step step;
    std::size_t const bags = 2 + random.below(7);
    std::size_t const each = 8 + random.below(9);
    step.bags = one_gpu_bags(bags);
    step.most_samples = static_cast<std::int64_t>(each);  // all bags are full
    for (std::size_t sample = 0; sample < bags * each; ++sample) {
      step.costs.push_back(random.between(1, 40) * random.between(1, 40));
      step.apart.push_back(static_cast<int>(sample / bags));
    }
    ASSERT_TRUE(partition_into(plan, memory, step.costs, step.bags, refine{}, std::identity{},
                               no_length{}, step.constraints()));
    step.lengths = step.costs;
    ASSERT_TRUE(step.keeps(assignment_of(plan.owner)));
    // Of keys that all bags hold once, heaviest first in turn is within the widest key.
    EXPECT_LE(plan.gap(), 0.05) << trial;
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
