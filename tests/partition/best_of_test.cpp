#include <ballast/partition/best_of.hpp>  // first: proves it is self-contained

#include "../support/policy_checks.hpp"
#include "../support/steady_state.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <ballast/partition/karmarkar_karp.hpp>
#include <ballast/partition/multifit.hpp>
#include <ballast/partition/round_robin.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace {

using ballast::bag_id;
using ballast::batching;
using ballast::best_of;
using ballast::cost_units;
using ballast::karmarkar_karp;
using ballast::longest_processing_time;
using ballast::multifit;
using ballast::partition_problem;
using ballast::ratio;
using ballast::round_robin;
using ballast::workspace;

static_assert(ballast::partition_policy<best_of<longest_processing_time>>);
static_assert(ballast::partition_policy<best_of<longest_processing_time, karmarkar_karp>>);
static_assert(best_of{multifit{3}, round_robin{}} ==
              best_of<multifit, round_robin>{multifit{3}, {}});
static_assert(best_of{multifit{3}, round_robin{}} != best_of<multifit, round_robin>{});

// Gives every sample to one bag and claims to have proven something.
struct all_in_one {
  std::size_t bag = 0;
  ratio proven{};
  bool restricted = false;
  batching computes = batching::packed;

  ratio operator()(partition_problem const& problem, std::span<cost_units> loads,
                   std::span<bag_id> owner, workspace&) const
  {
    std::ranges::fill(owner, ballast::to_id<bag_id>(bag));
    for (cost_units const cost : problem.costs) { loads[bag] += cost; }
    return proven;
  }
  [[nodiscard]] batching batches() const { return computes; }
  [[nodiscard]] bool restricts() const { return restricted; }
  friend bool operator==(all_in_one const&, all_in_one const&) = default;
};

// Ends the program when it is asked.
struct must_not_be_asked {
  void operator()(partition_problem const&, std::span<cost_units>, std::span<bag_id>,
                  workspace&) const
  {
    FAIL() << "a policy was asked though an optimal plan was there";
  }
  friend bool operator==(must_not_be_asked, must_not_be_asked) = default;
};

static_assert(all_in_one{} == all_in_one{} && must_not_be_asked{} == must_not_be_asked{});

struct outcome {
  std::vector<bag_id> owner;
  std::vector<cost_units> loads;
  ratio proven;
};

// Two samples of 6 and 2 in two bags, of which the second has 1 at the start and may be faster.
template <class Policy>
outcome run(Policy const& policy, std::uint32_t speed = 1,
            std::vector<std::int64_t> capacities = {})
{
  std::vector<cost_units> const costs{6, 2};
  std::vector<ballast::tokens> const lengths{1, 1};
  std::vector<ballast::priced_sample> const order{{6, ballast::sample_id{0}},
                                                  {2, ballast::sample_id{1}}};
  std::vector<std::uint32_t> const gpus{1, 1};
  std::vector<std::uint32_t> const speeds{1, speed};
  std::vector<std::int64_t> const weights(capacities.empty() ? 0 : 2, 5);
  outcome result{{bag_id{2}, bag_id{2}}, {0, 1}, {}};
  workspace memory;
  result.proven = run_policy(
      policy, partition_problem{costs, lengths, order, gpus, speeds, {}, weights, capacities},
      result.loads, result.owner, memory);
  return result;
}

TEST(BestOf, PlacesEverySampleInABagItFits)
{
  best_of const policy{round_robin{}, longest_processing_time{}, karmarkar_karp{}, multifit{}};
  ballast_test::expect_valid_plans(policy, 47);
  ballast_test::expect_starting_loads_counted(policy);
}

RC_GTEST_PROP(BestOf, IsTheBestOfItsPolicies, ())  // Ensures (1)
{
  ballast::random_source random(*rc::gen::arbitrary<std::uint64_t>());
  auto const step = ballast_test::random_instance(random, 30, 6, 3);
  auto const plan = [&step](auto const& policy) {
    return ballast_test::plan_instance(step, policy).value();
  };
  auto const first = plan(karmarkar_karp{});
  auto const second = plan(multifit{});
  auto const third = plan(round_robin{});
  auto const best = plan(best_of{karmarkar_karp{}, multifit{}, round_robin{}});
  RC_ASSERT(best.makespan == std::min({first.makespan, second.makespan, third.makespan}));
  RC_ASSERT(best.owner == (first.makespan == best.makespan    ? first.owner
                           : second.makespan == best.makespan ? second.owner
                                                              : third.owner));
}

TEST(BestOf, KeepsTheFirstOfEqualPlans)
{
  // 8 on the empty bag, or 9 on the other, which does them in 4.5 and in 3 where it is faster.
  EXPECT_EQ(run(best_of{all_in_one{0}, all_in_one{1}}).owner, (std::vector(2, bag_id{0})));
  EXPECT_EQ(run(best_of{all_in_one{1}, all_in_one{0}}).owner, (std::vector(2, bag_id{0})));
  EXPECT_EQ(run(best_of{all_in_one{0}, all_in_one{1}}, 2).loads, (std::vector<cost_units>{0, 9}));
  EXPECT_EQ(run(best_of{all_in_one{0}, all_in_one{1}}, 3).loads, (std::vector<cost_units>{0, 9}));
  best_of const equal{all_in_one{0, {1, 1}}, all_in_one{0, {2, 1}}};
  EXPECT_EQ(run(equal).loads, (std::vector<cost_units>{8, 1}));
}

TEST(BestOf, AnswersTheLargestProofThatHoldsForAll)  // Ensures (2)
{
  EXPECT_EQ(run(best_of{all_in_one{0}, all_in_one{1}}).proven, (ratio{6, 1}));  // the heavy sample
  EXPECT_EQ(run(best_of{all_in_one{0, {7, 1}}, all_in_one{1, {13, 2}}}).proven, (ratio{7, 1}));
  best_of const restricted{all_in_one{0, {15, 2}, true}, all_in_one{1, {7, 1}, true}};
  EXPECT_TRUE(restricted.restricts());
  EXPECT_EQ(run(restricted).proven, (ratio{7, 1}));
  best_of const unproven{all_in_one{0, {8, 1}, true}, all_in_one{1, {}, true}};
  EXPECT_EQ(run(unproven).proven, (ratio{6, 1}));
}

TEST(BestOf, AsksNobodyOnceAPlanMeetsTheBound)
{
  EXPECT_EQ(run(best_of{longest_processing_time{}, must_not_be_asked{}}).loads,
            (std::vector<cost_units>{6, 3}));
  EXPECT_EQ(run(best_of{all_in_one{0, {8, 1}}, must_not_be_asked{}}).proven, (ratio{8, 1}));
}

TEST(BestOf, TakesAWorsePlanThatKeepsToTheCapacities)
{
  // Samples weigh 5 each, so only the second bag holds both.
  best_of const policy{all_in_one{0}, all_in_one{1}};
  EXPECT_EQ(run(policy, 1, {10, 10}).owner.front(), bag_id{0});
  EXPECT_EQ(run(policy, 1, {9, 10}).owner.front(), bag_id{1});
  EXPECT_EQ(run(policy, 1, {9, 9}).owner.front(), bag_id{0});
}

TEST(BestOf, OfOnePolicyIsThatPolicy)
{
  ballast::random_source random(4);
  auto const step = ballast_test::random_instance(random, 30, 6, 3);
  EXPECT_EQ(ballast_test::plan_instance(step, best_of{round_robin{}})->owner,
            ballast_test::plan_instance(step, round_robin{})->owner);
}

TEST(BestOf, AllocatesNothingInTheSteadyState)
{
  ballast_test::expect_the_same_again_without_allocation(
      best_of{round_robin{}, karmarkar_karp{}, multifit{}}, 300);
}

TEST(BestOfDeathTest, RefusesPoliciesWhosePlansDoNotCompare)
{
  EXPECT_DEATH((void)run(best_of{all_in_one{}, all_in_one{0, {}, true}}),
               "some of its policies restrict");
  EXPECT_DEATH((void)run(best_of{all_in_one{}, all_in_one{0, {}, false, batching::padded}}),
               "some of its policies pad");
}

}  // namespace
