#include <ballast/partition/conv_transformer_batches.hpp>  // first: proves it is self-contained

#include "../../support/attention_checks.hpp"
#include "../../support/counted_allocations.hpp"  // defines: ballast_test::allocations
#include "../../support/steady_state.hpp"
#include "../../support/test.hpp"
#include "../../support/trials.hpp"

#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>

namespace {

using namespace ballast;
using namespace ballast_test;
using testing::ElementsAre;

static_assert(partition_policy<conv_transformer_batches>);

TEST(ConvTransformerBatches, PlacesEverySampleInABagItFits)  // Ensures (1) (2) (4)
{
  expect_valid_attention_plans(conv_transformer_batches{}, 2);
}

// Oracle: the steps on lists, for bags of one GPU.
std::vector<bag_id> steps_on_lists(std::vector<tokens> const& lengths, std::size_t ranks)
{
  auto const without_padding = partition(lengths, one_gpu_bags(ranks), longest_processing_time{},
                                         [](tokens length) { return length; });
  tokens const bound = std::ranges::max(without_padding->loads);
  std::vector<std::size_t> order(lengths.size());
  for (std::size_t sample = 0; sample < order.size(); ++sample) { order[sample] = sample; }
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    return lengths[a] > lengths[b] || (lengths[a] == lengths[b] && a < b);
  });

  struct list {
    tokens count = 0;
    tokens first = 0;
    tokens sum = 0;
  };
  std::vector<list> bags(ranks);
  std::vector<bag_id> owner(order.size());
  std::size_t open = 0;
  for (std::size_t const sample : order) {
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
    auto const plan = partition(lengths, one_gpu_bags(ranks), conv_transformer_batches{},
                                quadratic_cost{.linear = 64, .quadratic = 1});
    ASSERT_TRUE(plan);
    ASSERT_EQ(plan->owner, steps_on_lists(lengths, ranks));
  }
}

TEST(ConvTransformerBatches, AddsWhatIsLeftToTheLeastSumOfLengths)  // Ensures (3)
{
  // Without padding 16 + 6 and 14 + 8 take 22: so 16 alone, 14 alone, and 8 and 6 are left. Padded,
  // the second bag has done 28 by then, but its lengths sum up to 22, as those of the first do not.
  std::vector<tokens> const lengths{16, 14, 8, 6};
  auto const plan = partition(lengths, one_gpu_bags(2), conv_transformer_batches{},
                              quadratic_cost{.linear = 1, .quadratic = 1})
                        .value();
  EXPECT_THAT(plan.owner, ElementsAre(bag_id{0}, bag_id{1}, bag_id{1}, bag_id{0}));
  EXPECT_THAT(plan.loads, ElementsAre(22 + 2 * 256, 22 + 2 * 196));
}

TEST(ConvTransformerBatches, AcceptsTheEdges)
{
  auto const loads_of = [](std::vector<tokens> const& lengths, std::size_t bags) {
    return partition(lengths, one_gpu_bags(bags), conv_transformer_batches{},
                     quadratic_cost{.linear = 1, .quadratic = 1})
        ->loads;
  };
  EXPECT_THAT(loads_of({}, 2), ElementsAre(0, 0));
  EXPECT_THAT(loads_of({7}, 3), ElementsAre(56, 0, 0));
  EXPECT_THAT(loads_of({3, 5}, 1), ElementsAre(8 + 2 * 25));
  EXPECT_THAT(loads_of({0, 0, 0}, 2), ElementsAre(0, 0));
  EXPECT_THAT(loads_of({4, 4, 4}, 3), ElementsAre(20, 20, 20));
}

TEST(ConvTransformerBatches, AllocatesNothingInTheSteadyState)
{
  expect_the_same_again_without_allocation(conv_transformer_batches{}, 1000,
                                           quadratic_cost{.linear = 1024, .quadratic = 1},
                                           consecutive_bags({1, 1, 2, 2, 4}));
}

TEST(ConvTransformerBatchesDeathTest, RefusesAProblemWithoutAttention)
{
  direct_problem const problem(instance{{1}, {1}, {1}});
  std::vector<cost_units> loads(1);
  std::vector<bag_id> owner(1);
  workspace memory;
  EXPECT_DEATH(conv_transformer_batches{}(problem.view(), loads, owner, memory),
               "attention parts of 0 samples for a problem of 1");
}

}  // namespace
