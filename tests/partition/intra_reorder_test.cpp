// SPDX-License-Identifier: Apache-2.0
#include <ballast/partition/peak_tokens.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"

#include <ballast/partition/equal_count.hpp>

namespace {

using namespace ballast;

// Oracle: Algorithm 1 as printed. The largest sample first, always to the group with the least.
std::vector<std::vector<std::size_t>> largest_to_least(std::vector<cost_units> const& sizes,
                                                       std::size_t groups)
{
  std::vector<std::size_t> largest_first(sizes.size());
  std::iota(largest_first.begin(), largest_first.end(), std::size_t{0});
  std::ranges::sort(largest_first, {},
                    [&](std::size_t sample) { return std::pair(-sizes[sample], sample); });
  std::vector<std::vector<std::size_t>> of_group(groups);
  std::vector<cost_units> loads(groups, 0);
  for (std::size_t const sample : largest_first) {
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
  auto const batch = intra_reorder(sizes, one_gpu_bags(2), std::identity{}, equal_count{}).value();
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
