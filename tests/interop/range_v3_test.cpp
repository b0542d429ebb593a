#include <ballast/interop/range_v3.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"

#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <range/v3/algorithm/equal.hpp>
#include <range/v3/numeric/accumulate.hpp>
#include <range/v3/range/conversion.hpp>
#include <range/v3/view/chunk.hpp>
#include <range/v3/view/filter.hpp>
#include <range/v3/view/map.hpp>
#include <range/v3/view/transform.hpp>
#include <range/v3/view/zip.hpp>

namespace {

using ballast::tokens;

TEST(RangeV3, ViewsTheSamplesOfEveryBag)  // Ensures (1)
{
  std::vector<tokens> const lengths{5, 4, 3, 2, 1};
  auto const plan = ballast::partition(
      lengths, ballast::one_gpu_bags(2), [](tokens length) { return length; }, {},
      ballast::longest_processing_time{});
  ASSERT_TRUE(plan);
  std::vector<std::vector<tokens>> seen;
  for (auto bag : ballast::view_rows(plan->samples, lengths)) {
    seen.push_back(bag | ranges::to<std::vector>());
  }
  EXPECT_EQ(seen, (std::vector<std::vector<tokens>>{{5, 2, 1}, {4, 3}}));
}

TEST(RangeV3, PlansOverAView)
{
  std::vector<int> const kilotokens{5, 4, 3};
  auto const plan = ballast::partition(
      kilotokens | ranges::views::transform([](int thousand) { return tokens{1000} * thousand; }),
      ballast::one_gpu_bags(2), [](tokens length) { return length; }, {},
      ballast::longest_processing_time{});
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->loads, (std::vector<ballast::cost_units>{5000, 7000}));
}

TEST(RangeV3, HasAStepForEveryChunkOfATrace)
{
  std::vector<tokens> const trace{5, 4, 3, 2, 1, 6, 6, 2, 9};
  auto const cost = [](tokens length) { return length; };
  std::vector<std::vector<tokens>> on_first_gpu;  // of each step
  // [steps]
  for (auto step : trace | ranges::views::chunk(3)) {
    auto const plan = ballast::partition(step, ballast::one_gpu_bags(2), cost, {},
                                         ballast::longest_processing_time{})
                          .value();
    auto of_first = [](auto const& assigned) { return assigned.second == ballast::bag_id{0}; };
    on_first_gpu.push_back(ranges::views::zip(step, plan.owner) | ranges::views::filter(of_first) |
                           ranges::views::keys | ranges::to<std::vector<tokens>>());
  }
  // [steps]
  EXPECT_EQ(on_first_gpu, (std::vector<std::vector<tokens>>{{5}, {6}, {9}}));
}

TEST(RangeV3, ViewsWhatItRefersTo)
{
  ballast::jagged<ballast::bag_id, ballast::sample_id> groups;
  std::vector<ballast::bag_id> const owner{ballast::bag_id{1}, ballast::bag_id{1}};
  groups.collect(owner, 2);
  std::vector<int> things{1, 2};
  for (auto bag : ballast::view_rows(groups, things)) {
    for (int& thing : bag) { thing *= 10; }
  }
  EXPECT_EQ(things, (std::vector<int>{10, 20}));
}

}  // namespace
