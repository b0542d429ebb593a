#include <ballast/partition/peak_tokens.hpp>  // first: proves it is self-contained

#include "../support/counted_allocations.hpp"  // defines: ballast_test::allocations
#include "../support/instances.hpp"            // defines: ballast_test::consecutive_bags
#include "../support/test.hpp"

#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/round_robin.hpp>

namespace {

using namespace ballast;
using namespace ballast_test;

TEST(PeakTokens, IsThatOfTheFullestGpu)  // Ensures (1)
{
  auto const bags = consecutive_bags({1, 2});
  std::vector<tokens> const lengths{5, 9, 4};
  std::vector<bag_id> const owner{bag_id{0}, bag_id{1}, bag_id{1}};
  workspace memory;
  EXPECT_EQ(peak_tokens(lengths, owner, bags, batching::packed, memory), (9 + 4 + 1) / 2);
  EXPECT_EQ(peak_tokens(lengths, owner, bags, batching::attention_padded, memory), 7);
  EXPECT_EQ(peak_tokens(lengths, owner, bags, batching::padded, memory), 9);
  EXPECT_EQ(peak_tokens({}, {}, bags, batching::padded, memory), 0);
  std::size_t const before = allocations();
  EXPECT_EQ(peak_tokens(lengths, owner, bags, batching::packed, memory), 7);
  EXPECT_EQ(allocations(), before);
}

TEST(PeakTokens, IsTheMakespanOfPlansThatCountTokens)  // Ensures (1)
{
  random_source random(4);
  workspace memory;
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<tokens> lengths(random.below(30));
    for (tokens& length : lengths) { length = random.between(0, 400); }
    auto const bags = one_gpu_bags(1 + random.below(5));
    auto const plan =
        partition(lengths, bags, longest_processing_time{}, quadratic_cost{.linear = 1});
    EXPECT_EQ(peak_tokens(lengths, plan->owner, bags, plan->batches, memory),
              std::ranges::max(plan->loads));
  }
}

TEST(LargestMiniBatch, IsTheLastThatFits)  // Ensures (1) (2)
{
  for (std::size_t most = 0; most < 70; ++most) {
    for (std::size_t limit = 0; limit < 70; ++limit) {
      auto const fits = [&](std::size_t samples) { return samples <= limit; };
      EXPECT_EQ(largest_mini_batch(most, fits), std::min(most, limit));
    }
  }
}

TEST(LargestMiniBatch, GrowsWithBalancing)
{
  random_source random(5);
  std::vector<tokens> lengths(4000);
  for (tokens& length : lengths) { length = random.below(10) == 0 ? 4000 : random.between(1, 300); }
  auto const bags = one_gpu_bags(16);
  workspace memory;
  auto const largest = [&](auto const& policy) {
    return largest_mini_batch(lengths.size(), [&](std::size_t samples) {
      std::vector<tokens> const first(lengths.begin(),
                                      lengths.begin() + static_cast<std::ptrdiff_t>(samples));
      auto const plan = partition(first, bags, policy, quadratic_cost{.linear = 1});
      return peak_tokens(first, plan->owner, bags, plan->batches, memory) <= 16'384;
    });
  };
  EXPECT_GT(largest(longest_processing_time{}), 12 * largest(round_robin{}) / 10);
}

TEST(PeakTokensDeathTest, RefusesOwnersOfOtherSamples)  // Expects
{
  std::vector<tokens> const lengths{5};
  workspace memory;
  EXPECT_DEATH((void)peak_tokens(lengths, {}, one_gpu_bags(1), batching::packed, memory),
               "owners of 0 samples and lengths of 1");
}

}  // namespace
