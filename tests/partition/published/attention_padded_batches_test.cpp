#include <ballast/partition/attention_padded_batches.hpp>  // first: proves it is self-contained

#include "../../support/attention_checks.hpp"
#include "../../support/counted_allocations.hpp"  // defines: ballast_test::allocations
#include "../../support/steady_state.hpp"
#include "../../support/test.hpp"
#include "../../support/trials.hpp"

#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/partition/conv_transformer_batches.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/padded_batches.hpp>
#include <ballast/partition/partition.hpp>

namespace {

using namespace ballast;
using namespace ballast_test;
using testing::ElementsAre;

static_assert(partition_policy<attention_padded_batches>);

TEST(AttentionPaddedBatches, PlacesEverySampleInABagItFits)  // Ensures (1) (2)
{
  expect_valid_attention_plans(attention_padded_batches{.work = 20'000}, 2);
  expect_valid_attention_plans(attention_padded_batches{.work = 0}, 3);
}

TEST(AttentionPaddedBatches, PadsAttentionAlone)
{
  // [attention]
  // b samples cost the sum of their lengths + lambda b max^2, here with lambda = 1/1000.
  ballast::quadratic_cost const cost{.linear = 1000, .quadratic = 1};
  std::vector<ballast::tokens> const frames{2000, 1500, 400, 300, 300, 200};
  auto const plan = ballast::partition(frames, ballast::one_gpu_bags(3),
                                       ballast::attention_padded_batches{}, cost);
  // [attention]
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_THAT(plan->loads, ElementsAre(6'000'000, 3'750'000, 1'200'000 + 4 * 160'000));
  EXPECT_TRUE(plan->proven_optimal());
}

TEST(AttentionPaddedBatches, FindsTheOptimumOfSmallSteps)  // Ensures (4) (5)
{
  random_source random(20240607);
  for (int trial = 0; trial < trials_of(250); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    attention_problem const problem(attention_instance(random, 7, 4, trial % 3 == 0 ? 3 : 1),
                                    trial % 4 == 0);
    auto const plan = problem.run(attention_padded_batches{});
    ASSERT_EQ(problem.makespan_of(plan.owner), problem.optimum());
    ASSERT_EQ(plan.proven, problem.optimum());
  }
}

// Without work there is no search of all plans, so that the bound is that of fillings.
TEST(AttentionPaddedBatches, BoundsBagsOfSeveralSpeedsFromBelow)  // Ensures (4)
{
  random_source random(20);
  double below = 0;
  int const trials = trials_of(400);
  for (int trial = 0; trial < trials; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    attention_problem const problem(attention_instance(random, 7, 4, trial % 2 == 0 ? 8 : 2),
                                    trial % 4 == 0);
    auto const plan = problem.run(attention_padded_batches{.work = 0});
    auto const best = problem.optimum();
    ASSERT_LE(plan.proven, best);
    if (best.numerator > 0) { below += 1 - plan.proven.value() / best.value(); }
  }
  EXPECT_LT(below, 0.15 * trials);
}

TEST(AttentionPaddedBatches, IsNeverLongerThanAlgorithm5)  // Ensures (3)
{
  random_source random(8);
  int shorter = 0;
  constexpr int trials = trials_of(300);
  for (int trial = 0; trial < trials; ++trial) {
    attention_instance const step(random, 60, 8, 1);
    auto const published = step.plan(conv_transformer_batches{});
    for (std::uint64_t const work : {std::uint64_t{0}, std::uint64_t{1'000'000}}) {
      auto const best = step.plan(attention_padded_batches{work});
      ASSERT_LE(best->makespan, published->makespan) << "trial " << trial;
      shorter += best->makespan < published->makespan ? 1 : 0;
    }
  }
  EXPECT_GT(shorter, 2 * trials / 3);
}

// Moves and swaps between the bag that finishes last and any other until none helps.
cost_units plain_exchanges(attention_instance const& step,
                           std::vector<std::vector<std::size_t>> bags)
{
  while (true) {
    auto const heavier = [&](auto const& a, auto const& b) {
      return step.load_of(a) < step.load_of(b);
    };
    auto& last = *std::ranges::max_element(bags, heavier);
    cost_units const finish = step.load_of(last);
    auto const helps = [&](auto& bag) {
      return std::max(step.load_of(last), step.load_of(bag)) < finish;
    };
    bool found = false;
    for (auto& bag : bags) {
      for (std::size_t out = 0; out < last.size() && &bag != &last && !found; ++out) {
        std::swap(last[out], last.back());
        bag.push_back(last.back());
        last.pop_back();
        found = helps(bag);
        for (std::size_t in = 0; in + 1 < bag.size() && !found; ++in) {
          last.push_back(bag[in]);
          bag[in] = bag.back();
          bag.pop_back();
          found = helps(bag);
          if (found) { break; }
          bag.push_back(bag[in]);
          bag[in] = last.back();
          last.pop_back();
        }
        if (found) { break; }
        last.push_back(bag.back());
        bag.pop_back();
        std::swap(last[out], last.back());
      }
      if (found) { break; }
    }
    if (!found) { return finish; }
  }
}

TEST(AttentionPaddedBatches, IsNeverLongerThanPlainExchanges)
{
  random_source random(9);
  for (int trial = 0; trial < 250; ++trial) {
    attention_instance step(random, 30, 6, 1);
    step.step.gpu_speeds.clear();
    auto const plan = step.plan(attention_padded_batches{});
    std::vector<std::vector<std::size_t>> as_read(step.step.gpus.size());
    for (std::size_t sample = 0; sample < step.step.costs.size(); ++sample) {
      as_read[sample % as_read.size()].push_back(sample);
    }
    std::vector<std::vector<std::size_t>> by_cost(as_read.size());
    auto const heaviest_first = step.plan(longest_processing_time{});
    for (std::size_t sample = 0; sample < step.step.costs.size(); ++sample) {
      by_cost[to_index(heaviest_first->owner[sample])].push_back(sample);
    }
    cost_units const ours = std::ranges::max(plan->loads);
    EXPECT_LE(ours, plain_exchanges(step, as_read)) << "trial " << trial;
    EXPECT_LE(ours, plain_exchanges(step, by_cost)) << "trial " << trial;
  }
}

TEST(AttentionPaddedBatches, IsPackedWithoutAttentionAndPaddedWithNothingElse)
{
  random_source random(10);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<tokens> lengths(random.below(40));
    for (tokens& length : lengths) { length = random.between(0, 500); }
    auto const bags = one_gpu_bags(1 + random.below(6));
    quadratic_cost const squares{.quadratic = 1};
    auto const padded = partition(lengths, bags, padded_batches{}, squares);
    auto const attention = partition(lengths, bags, attention_padded_batches{}, squares);
    ASSERT_EQ(attention->makespan, padded->makespan) << "trial " << trial;
    quadratic_cost const sums{.linear = 1};
    auto const packed = partition(lengths, bags, attention_padded_batches{}, sums);
    auto const heaviest = partition(lengths, bags, longest_processing_time{}, sums);
    ASSERT_LE(packed->makespan, heaviest->makespan) << "trial " << trial;
  }
}

TEST(AttentionPaddedBatches, SaysThatACostModelKnowsNoAttention)  // Errors
{
  std::vector<tokens> const lengths{3, 2};
  auto const plan = partition(lengths, one_gpu_bags(2), attention_padded_batches{},
                              [](tokens length) { return length; });
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, error_code::infeasible);
  EXPECT_THAT(plan.error().message, testing::HasSubstr("use one with attention_part"));
}

// A cost model whose attention is more than all of its work.
struct too_much_attention {
  cost_units operator()(tokens length) const { return length; }
  [[nodiscard]] cost_units attention_part(tokens length) const { return 2 * length; }
};

TEST(AttentionPaddedBatches, RefusesMoreAttentionThanCost)  // Errors
{
  std::vector<tokens> const lengths{0, 2};
  auto const plan =
      partition(lengths, one_gpu_bags(2), attention_padded_batches{}, too_much_attention{});
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, error_code::out_of_range);
  EXPECT_EQ(plan.error().position, 1U);
}

TEST(AttentionPaddedBatches, AcceptsTheEdges)
{
  auto const loads_of = [](std::vector<tokens> const& lengths, std::size_t bags) {
    return partition(lengths, one_gpu_bags(bags), attention_padded_batches{},
                     quadratic_cost{.linear = 1, .quadratic = 1})
        ->loads;
  };
  EXPECT_THAT(loads_of({}, 2), ElementsAre(0, 0));
  EXPECT_THAT(loads_of({7}, 3), testing::UnorderedElementsAre(56, 0, 0));
  EXPECT_THAT(loads_of({3, 5}, 1), ElementsAre(8 + 2 * 25));
  EXPECT_THAT(loads_of({0, 0, 0}, 2), ElementsAre(0, 0));
  EXPECT_THAT(loads_of({4, 4, 4}, 3), ElementsAre(20, 20, 20));
}

TEST(AttentionPaddedBatches, WorksUpToTheLargestTotalWhereAttentionIsSmall)
{
  random_source random(1);
  attention_instance step(random, 0, 1, 1);
  constexpr cost_units most = cost_units{1} << 62;  // two of them are above 63 bits
  step.step = {{9, 9, 9}, {most, most / 2, 7}, {1, 1, 1}};
  step.attention = {5, 3, 1};
  auto const plan = step.plan(attention_padded_batches{}).value();
  EXPECT_EQ(plan.makespan, (ratio{most, 1}));
}

TEST(AttentionPaddedBatches, AllocatesNothingInTheSteadyState)
{
  expect_the_same_again_without_allocation(attention_padded_batches{.work = 10'000}, 1000,
                                           quadratic_cost{.linear = 1024, .quadratic = 1},
                                           consecutive_bags({1, 1, 2, 2, 4}));
}

TEST(AttentionPaddedBatchesDeathTest, RefusesAProblemWithoutAttention)
{
  direct_problem const problem(instance{{1}, {1}, {1}});
  std::vector<cost_units> loads(1);
  std::vector<bag_id> owner(1);
  workspace memory;
  EXPECT_DEATH(attention_padded_batches{}(problem.view(), loads, owner, memory),
               "attention parts of 0 samples for a problem of 1");
}

}  // namespace
