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
        partition(lengths, bags, quadratic_cost{.linear = 1}, {}, longest_processing_time{});
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
      auto const plan = partition(first, bags, quadratic_cost{.linear = 1}, {}, policy);
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

// Oracle: Algorithm 1 as printed. The largest sample first, always to the group with the least.
std::vector<std::vector<std::size_t>> largest_to_least(std::vector<cost_units> const& sizes,
                                                       std::size_t groups)
{
  std::vector<std::vector<std::size_t>> of_group(groups);
  std::vector<cost_units> loads(groups, 0);
  for (std::size_t const sample : heaviest_first(sizes)) {
    auto const least = static_cast<std::size_t>(std::ranges::min_element(loads) - loads.begin());
    of_group[least].push_back(sample);
    loads[least] += sizes[sample];
  }
  return of_group;
}

TEST(IntraReorder, GivesThePermutationOfAlgorithm1)  // Ensures (1) (2)
{
  random_source random(20240607);
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::size_t const groups = 1 + random.below(6);
    std::vector<cost_units> sizes(random.below(40));
    for (auto& size : sizes) { size = random.between(0, trial % 2 == 0 ? 9 : 10'000); }
    auto const batch = intra_reorder(sizes, one_gpu_bags(groups), std::identity{});
    ASSERT_TRUE(batch) << batch.error().message;
    auto expected = largest_to_least(sizes, groups);
    std::vector<sample_id> order;
    for (std::size_t group = 0; group < groups; ++group) {
      std::ranges::sort(expected[group]);
      std::vector<sample_id> members;
      for (std::size_t const sample : expected[group]) {
        members.push_back(to_id<sample_id>(sample));
      }
      auto const found = batch->plan.samples[to_id<bag_id>(group)];
      EXPECT_TRUE(std::ranges::equal(found, members)) << "group " << group;
      order.insert(order.end(), members.begin(), members.end());
    }
    EXPECT_TRUE(std::ranges::equal(batch->order(), order));
  }
}

TEST(IntraReorder, TakesSamplesOfAnyType)
{
  // [intra]
  struct image {
    int patches;
  };
  std::vector<image> const images{{5}, {4}, {2}, {1}};
  auto const batch = ballast::intra_reorder(images, ballast::one_gpu_bags(2), &image::patches);
  // order() is 0, 3 for group 0, then 1, 2 for group 1: six patches each.
  // [intra]
  ASSERT_TRUE(batch) << batch.error().message;
  EXPECT_TRUE(std::ranges::equal(
      batch->order(), std::array{sample_id{0}, sample_id{3}, sample_id{1}, sample_id{2}}));
  EXPECT_EQ(batch->plan.samples[bag_id{0}].size(), 2U);
  EXPECT_TRUE(batch->plan.proven_optimal());
}

TEST(IntraReorder, GivesGroupsOfEqualNumbersWhereAskedTo)
{
  std::vector<cost_units> const sizes{100, 1, 1, 1, 1, 1, 1, 1};
  auto const batch =
      intra_reorder(sizes, one_gpu_bags(2), std::identity{}, {.samples = counts::equal()}).value();
  EXPECT_EQ(batch.plan.samples[bag_id{0}].size(), 4U);
  EXPECT_EQ(batch.plan.samples[bag_id{1}].size(), 4U);
  auto const as_printed = intra_reorder(sizes, one_gpu_bags(2), std::identity{}).value();
  EXPECT_EQ(as_printed.plan.samples[bag_id{0}].size(), 1U);
}

TEST(IntraReorder, RefusesWhatPartitionRefuses)
{
  EXPECT_EQ(intra_reorder(std::vector{1, 2}, one_gpu_bags(0), std::identity{}).error().code,
            error_code::infeasible);
  auto const negative = intra_reorder(std::vector{1, -2}, one_gpu_bags(2), std::identity{});
  ASSERT_FALSE(negative);
  EXPECT_EQ(negative.error().code, error_code::out_of_range);
  EXPECT_EQ(negative.error().position, 1U);
}

}  // namespace
