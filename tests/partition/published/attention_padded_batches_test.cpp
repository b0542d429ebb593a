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

using ballast::attention_padded_batches;
using ballast::cost_units;
using ballast::one_gpu_bags;
using ballast::quadratic_cost;
using ballast::ratio;
using ballast::tokens;
using ballast_test::attention_instance;
using ballast_test::attention_problem;
using testing::ElementsAre;

static_assert(ballast::partition_policy<attention_padded_batches>);

TEST(AttentionPaddedBatches, PlacesEverySampleInABagItFits)  // Ensures (1) (2)
{
  ballast_test::expect_valid_attention_plans(attention_padded_batches{.work = 20'000}, 2);
  ballast_test::expect_valid_attention_plans(attention_padded_batches{.work = 0}, 3);
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
  ballast::random_source random(20240607);
  for (int trial = 0; trial < ballast_test::trials_of(250); ++trial) {
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
  ballast::random_source random(20);
  double below = 0;
  int const trials = ballast_test::trials_of(400);
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
  ballast::random_source random(8);
  int shorter = 0;
  constexpr int trials = ballast_test::trials_of(300);
  for (int trial = 0; trial < trials; ++trial) {
    attention_instance const step(random, 60, 8, 1);
    auto const published = step.plan(ballast::conv_transformer_batches{});
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
  ballast::random_source random(9);
  for (int trial = 0; trial < 250; ++trial) {
    attention_instance step(random, 30, 6, 1);
    step.step.gpu_speeds.clear();
    auto const plan = step.plan(attention_padded_batches{});
    std::vector<std::vector<std::size_t>> as_read(step.step.gpus.size());
    for (std::size_t sample = 0; sample < step.step.costs.size(); ++sample) {
      as_read[sample % as_read.size()].push_back(sample);
    }
    std::vector<std::vector<std::size_t>> by_cost(as_read.size());
    auto const heaviest_first = step.plan(ballast::longest_processing_time{});
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
  ballast::random_source random(10);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<tokens> lengths(random.below(40));
    for (tokens& length : lengths) { length = random.between(0, 500); }
    auto const bags = one_gpu_bags(1 + random.below(6));
    quadratic_cost const squares{.quadratic = 1};
    auto const padded = ballast::partition(lengths, bags, ballast::padded_batches{}, squares);
    auto const attention = ballast::partition(lengths, bags, attention_padded_batches{}, squares);
    ASSERT_EQ(attention->makespan, padded->makespan) << "trial " << trial;
    quadratic_cost const sums{.linear = 1};
    auto const packed = ballast::partition(lengths, bags, attention_padded_batches{}, sums);
    auto const heaviest =
        ballast::partition(lengths, bags, ballast::longest_processing_time{}, sums);
    ASSERT_LE(packed->makespan, heaviest->makespan) << "trial " << trial;
  }
}

TEST(AttentionPaddedBatches, SaysThatACostModelKnowsNoAttention)  // Errors
{
  std::vector<tokens> const lengths{3, 2};
  auto const plan = ballast::partition(lengths, one_gpu_bags(2), attention_padded_batches{},
                                       [](tokens length) { return length; });
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ballast::error_code::infeasible);
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
  auto const plan = ballast::partition(lengths, one_gpu_bags(2), attention_padded_batches{},
                                       too_much_attention{});
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ballast::error_code::out_of_range);
  EXPECT_EQ(plan.error().position, 1U);
}

TEST(AttentionPaddedBatches, AcceptsTheEdges)
{
  auto const loads_of = [](std::vector<tokens> const& lengths, std::size_t bags) {
    return ballast::partition(lengths, one_gpu_bags(bags), attention_padded_batches{},
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
  ballast::random_source random(1);
  attention_instance step(random, 0, 1, 1);
  constexpr cost_units most = cost_units{1} << 62;  // two of them are above 63 bits
  step.step = {{9, 9, 9}, {most, most / 2, 7}, {1, 1, 1}};
  step.attention = {5, 3, 1};
  auto const plan = step.plan(attention_padded_batches{}).value();
  EXPECT_EQ(plan.makespan, (ballast::ratio{most, 1}));
}

TEST(AttentionPaddedBatches, AllocatesNothingInTheSteadyState)
{
  ballast_test::expect_the_same_again_without_allocation(
      attention_padded_batches{.work = 10'000}, 1000,
      quadratic_cost{.linear = 1024, .quadratic = 1},
      ballast_test::consecutive_bags({1, 1, 2, 2, 4}));
}

TEST(AttentionPaddedBatchesDeathTest, RefusesAProblemWithoutAttention)
{
  ballast_test::direct_problem const problem(ballast_test::instance{{1}, {1}, {1}});
  std::vector<cost_units> loads(1);
  std::vector<ballast::bag_id> owner(1);
  ballast::workspace memory;
  EXPECT_DEATH(attention_padded_batches{}(problem.view(), loads, owner, memory),
               "attention parts of 0 samples for a problem of 1");
}

}  // namespace
