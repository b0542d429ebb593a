#include <ballast/partition/attention_padded_batches.hpp>  // first: proves it is self-contained

#include "../../support/plan_checks.hpp"
#include "../../support/policy_checks.hpp"
#include "../../support/steady_state.hpp"
#include "../../support/test.hpp"

#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/partition/attention_padded_batches.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/padded_batches.hpp>
#include <ballast/partition/partition.hpp>

namespace {

using namespace ballast;
using namespace ballast_test;
using testing::ElementsAre;

static_assert(partition_policy<attention_padded_batches>);
static_assert(partition_policy<conv_transformer_batches>);
static_assert(batching_of(attention_padded_batches{}) == batching::attention_padded);
static_assert(batching_of(conv_transformer_batches{}) == batching::attention_padded);

// A random step whose samples have attention parts: of costs l + l^2 / 8, or any part of any cost.
instance random_attention(random_source& random, std::size_t most_samples, std::size_t most_bags,
                          std::uint32_t largest_bag)
{
  instance step = random_instance(random, most_samples, most_bags, largest_bag);
  bool const by_length = random.below(2) == 0;
  tokens const longest = random.below(2) == 0 ? 12 : 300;
  for (std::size_t sample = 0; sample < step.costs.size(); ++sample) {
    tokens& length = step.lengths[sample];
    if (by_length) {
      length += length > 0 ? random.between(0, longest) : 0;
      step.padded.push_back(length * length / 8);
      step.costs[sample] = length + step.padded.back();
    } else {
      step.padded.push_back(random.between(0, step.costs[sample]));
    }
  }
  return step;
}

// What both policies do alike.
void expect_attention_edges(policy_ref const& policy)
{
  quadratic_cost const cost{.linear = 1, .quadratic = 1};
  auto const loads_of = [&](std::vector<tokens> const& lengths, std::size_t bags) {
    return partition(lengths, one_gpu_bags(bags), cost, {}, policy)->loads;
  };
  EXPECT_THAT(loads_of({}, 2), ElementsAre(0, 0));
  EXPECT_THAT(loads_of({7}, 3), testing::UnorderedElementsAre(56, 0, 0));
  EXPECT_THAT(loads_of({3, 5}, 1), ElementsAre(8 + 2 * 25));
  EXPECT_THAT(loads_of({0, 0, 0}, 2), ElementsAre(0, 0));
  EXPECT_THAT(loads_of({4, 4, 4}, 3), ElementsAre(20, 20, 20));
  expect_the_same_again_without_allocation(policy, 1000,
                                           quadratic_cost{.linear = 1024, .quadratic = 1},
                                           consecutive_bags({1, 1, 2, 2, 4}));
  direct_problem const problem(instance{{1}, {1}, {1}});
  EXPECT_DEATH((void)plan_directly(problem.view(), policy, {0}),
               "attention parts of 0 samples for a problem of 1");
}

TEST(AttentionPaddedBatches, PlacesEverySampleInABagItFits)  // Ensures (1) (2)
{
  expect_valid_plans(attention_padded_batches{.work = 20'000}, 2);
  expect_valid_plans(attention_padded_batches{.work = 0}, 3);
  expect_starting_loads_counted(attention_padded_batches{.work = 20'000});
  expect_attention_edges(attention_padded_batches{.work = 10'000});
}

TEST(AttentionPaddedBatches, PadsAttentionAlone)
{
  // [attention]
  // b samples cost the sum of their lengths + lambda b max^2, here with lambda = 1/1000.
  ballast::quadratic_cost const cost{.linear = 1000, .quadratic = 1};
  std::vector<ballast::tokens> const frames{2000, 1500, 400, 300, 300, 200};
  auto const plan = ballast::partition(frames, ballast::one_gpu_bags(3), cost, {},
                                       ballast::attention_padded_batches{});
  // [attention]
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_THAT(plan->loads, ElementsAre(6'000'000, 3'750'000, 1'200'000 + 4 * 160'000));
  EXPECT_TRUE(plan->proven_optimal());
}

TEST(AttentionPaddedBatches, FindsTheOptimumOfSmallSteps)  // Ensures (4) (5)
{
  int const trials = trials_of(250);
  auto const found = compare_with_all_plans(
      attention_padded_batches{}, 20240607, trials, [](random_source& random, int trial) {
        instance step = random_attention(random, 7, 4, trial % 3 == 0 ? 3 : 1);
        if (trial % 4 == 0) { step.before = random_loads(random, step, 200); }
        return step;
      });
  EXPECT_EQ(found.optimal, trials);
  EXPECT_EQ(found.proven, trials);
}

// Without work there is no search of all plans, so that the bound is that of fillings.
TEST(AttentionPaddedBatches, BoundsBagsOfSeveralSpeedsFromBelow)  // Ensures (4)
{
  int const trials = trials_of(400);
  auto const found = compare_with_all_plans(
      attention_padded_batches{.work = 0}, 20, trials, [](random_source& random, int trial) {
        instance step = random_attention(random, 7, 4, trial % 2 == 0 ? 8 : 2);
        if (trial % 4 == 0) { step.before = random_loads(random, step, 200); }
        return step;
      });
  EXPECT_GT(found.bounds, 0.85 * trials);
}

TEST(AttentionPaddedBatches, IsNeverLongerThanAlgorithm5)  // Ensures (3)
{
  random_source random(8);
  int shorter = 0;
  constexpr int trials = trials_of(300);
  for (int trial = 0; trial < trials; ++trial) {
    instance const step = random_attention(random, 60, 8, 1);
    auto const published = plan_instance(step, conv_transformer_batches{});
    for (std::uint64_t const work : {std::uint64_t{0}, std::uint64_t{1'000'000}}) {
      auto const best = plan_instance(step, attention_padded_batches{work});
      ASSERT_LE(best->makespan, published->makespan) << "trial " << trial;
      shorter += best->makespan < published->makespan ? 1 : 0;
    }
  }
  EXPECT_GT(shorter, 2 * trials / 3);
}

// Moves and swaps between the bag that finishes last and any other until none helps.
cost_units plain_exchanges(instance const& step, assignment owner)
{
  for (;;) {
    auto const loads = step.loads(owner);
    auto const last = static_cast<std::size_t>(std::ranges::max_element(loads) - loads.begin());
    std::optional<assignment> better;
    auto const attempt = [&](assignment const& changed, std::size_t other) {
      if (better || other == last) { return; }
      auto const now = step.loads(changed);
      if (std::max(now[last], now[other]) < loads[last]) { better = changed; }
    };
    for (std::size_t out = 0; out < owner.size() && !better; ++out) {
      if (owner[out] != last) { continue; }
      assignment changed = owner;
      for (std::size_t bag = 0; bag < loads.size(); ++bag) {
        changed[out] = bag;
        attempt(changed, bag);
      }
      for (std::size_t in = 0; in < owner.size(); ++in) {
        changed = owner;
        std::swap(changed[out], changed[in]);
        attempt(changed, owner[in]);
      }
    }
    if (!better) { return loads[last]; }
    owner = *better;
  }
}

TEST(AttentionPaddedBatches, IsNeverLongerThanPlainExchanges)  // Ensures (5)
{
  random_source random(9);
  for (int trial = 0; trial < trials_of(250); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    instance step = random_attention(random, 30, 6, 1);
    step.gpu_speeds.clear();
    cost_units const ours =
        std::ranges::max(plan_instance(step, attention_padded_batches{})->loads);
    assignment as_read(step.costs.size());
    for (std::size_t sample = 0; sample < as_read.size(); ++sample) {
      as_read[sample] = sample % step.gpus.size();
    }
    EXPECT_LE(ours, plain_exchanges(step, as_read));
    auto const by_cost = plan_instance(step, longest_processing_time{});
    EXPECT_LE(ours, plain_exchanges(step, assignment_of(by_cost->owner)));
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
    auto const padded = partition(lengths, bags, squares, {}, padded_batches{});
    auto const attention = partition(lengths, bags, squares, {}, attention_padded_batches{});
    ASSERT_EQ(attention->makespan, padded->makespan) << "trial " << trial;
    quadratic_cost const sums{.linear = 1};
    auto const packed = partition(lengths, bags, sums, {}, attention_padded_batches{});
    auto const heaviest = partition(lengths, bags, sums, {}, longest_processing_time{});
    ASSERT_LE(packed->makespan, heaviest->makespan) << "trial " << trial;
  }
}

// A cost model whose attention is more than all of its work.
struct too_much_attention {
  cost_units operator()(tokens length) const { return length; }
  [[nodiscard]] cost_units attention_part(tokens length) const { return 2 * length; }
};

TEST(AttentionPaddedBatches, RefusesCostModelsWithoutAttentionOrWithTooMuch)  // Errors
{
  std::vector<tokens> const lengths{0, 2};
  expect_refused(
      partition(lengths, one_gpu_bags(2), std::identity{}, {}, attention_padded_batches{}),
      error_code::infeasible, 0, "use one with attention_part");
  expect_refused(
      partition(lengths, one_gpu_bags(2), too_much_attention{}, {}, attention_padded_batches{}),
      error_code::out_of_range, 1);
}

TEST(AttentionPaddedBatches, WorksUpToTheLargestTotalWhereAttentionIsSmall)
{
  constexpr cost_units most = cost_units{1} << 62;  // two of them are above 63 bits
  instance const step{{9, 9, 9}, {most, most / 2, 7}, {1, 1, 1}, {}, {}, {5, 3, 1}};
  EXPECT_EQ(plan_instance(step, attention_padded_batches{})->makespan, (ratio{most, 1}));
}

TEST(ConvTransformerBatches, PlacesEverySampleInABagItFits)  // Ensures (1) (2) (4)
{
  expect_valid_plans(conv_transformer_batches{}, 2);
  expect_starting_loads_counted(conv_transformer_batches{});
  expect_attention_edges(conv_transformer_batches{});
}

// Oracle: the steps on lists, for bags of one GPU.
std::vector<bag_id> steps_on_lists(std::vector<tokens> const& lengths, std::size_t ranks)
{
  auto const without_padding = partition(
      lengths, one_gpu_bags(ranks), [](tokens length) { return length; }, {},
      longest_processing_time{});
  tokens const bound = std::ranges::max(without_padding->loads);

  struct list {
    tokens count = 0;
    tokens first = 0;
    tokens sum = 0;
  };
  std::vector<list> bags(ranks);
  std::vector<bag_id> owner(lengths.size());
  std::size_t open = 0;
  for (std::size_t const sample : heaviest_first(lengths)) {
    while (open < ranks && bags[open].count > 0 &&
           (bags[open].count + 1) * bags[open].first > bound) {
      ++open;
    }
    std::size_t bag = open;
    if (open == ranks) {
      for (std::size_t other = bag = 0; other < ranks; ++other) {
        if (bags[other].sum < bags[bag].sum) { bag = other; }
      }
    }
    if (bags[bag].count == 0) { bags[bag].first = lengths[sample]; }
    ++bags[bag].count;
    bags[bag].sum += lengths[sample];
    owner[sample] = to_id<bag_id>(bag);
  }
  return owner;
}

TEST(ConvTransformerBatches, TakesTheStepsOfAlgorithm5)  // Ensures (3) (5)
{
  random_source random(5);
  for (int trial = 0; trial < trials_of(2000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::vector<tokens> lengths(random.below(41));
    tokens const longest = random.below(2) == 0 ? 5 : 1000;
    for (tokens& length : lengths) { length = random.between(0, longest); }
    std::size_t const ranks = 1 + random.below(8);
    auto const plan =
        partition(lengths, one_gpu_bags(ranks), quadratic_cost{.linear = 64, .quadratic = 1}, {},
                  conv_transformer_batches{});
    ASSERT_TRUE(plan);
    ASSERT_EQ(plan->owner, steps_on_lists(lengths, ranks));
  }
}

TEST(ConvTransformerBatches, AddsWhatIsLeftToTheLeastSumOfLengths)  // Ensures (3)
{
  // Without padding 16 + 6 and 14 + 8 take 22: so 16 alone, 14 alone, and 8 and 6 are left. Padded,
  // the second bag has done 28 by then, but its lengths sum up to 22, as those of the first do not.
  std::vector<tokens> const lengths{16, 14, 8, 6};
  auto const plan = partition(lengths, one_gpu_bags(2), quadratic_cost{.linear = 1, .quadratic = 1},
                              {}, conv_transformer_batches{})
                        .value();
  EXPECT_THAT(plan.owner, ElementsAre(bag_id{0}, bag_id{1}, bag_id{1}, bag_id{0}));
  EXPECT_THAT(plan.loads, ElementsAre(22 + 2 * 256, 22 + 2 * 196));
}

}  // namespace
