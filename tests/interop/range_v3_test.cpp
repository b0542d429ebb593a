#include <ballast/interop/range_v3.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"

#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <range/v3/algorithm/equal.hpp>
#include <range/v3/numeric/accumulate.hpp>
#include <range/v3/range/conversion.hpp>
#include <range/v3/view/chunk.hpp>
#include <range/v3/view/concat.hpp>
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

struct clip {  // of a trainer: what it trains on, which nobody may copy
  std::string file;
  tokens frames = 0;
  tokens text = 0;

  clip(std::string name, tokens video, tokens words)
      : file(std::move(name)), frames(video), text(words)
  {}
  clip(clip&&) = default;
};

// The files that each GPU opens, step after step: lengths and costs are read from the clips where
// they lie.
std::vector<std::vector<std::string>> files_of_gpus(std::vector<clip> const& clips,
                                                    std::size_t of_step, std::size_t gpus)
{
  auto const length = [](clip const& each) { return each.frames + each.text; };
  auto const cost = [=](clip const& each) { return 2 * each.frames + length(each); };
  std::vector<std::vector<std::string>> files(gpus);
  for (auto step : clips | ranges::views::chunk(static_cast<std::ptrdiff_t>(of_step))) {
    auto const plan = ballast::partition(step, ballast::one_gpu_bags(gpus), cost, length).value();
    for (auto [own, bag] :
         ranges::views::zip(files, ballast::view_rows(plan.samples, std::move(step)))) {
      for (clip const& each : bag) { own.push_back(each.file); }
    }
  }
  return files;
}

TEST(RangeV3, PlansOwnSamplesWhereTheyLie)
{
  std::vector<clip> clips;
  for (tokens number = 0; number < 5; ++number) {
    clips.emplace_back("clip" + std::to_string(number), 5 - number, 1);
  }
  // Costs 16, 13, 10 and then 7, 4.
  EXPECT_EQ(files_of_gpus(clips, 3, 2), (std::vector<std::vector<std::string>>{
                                            {"clip0", "clip3"}, {"clip1", "clip2", "clip4"}}));

  // Views that are no arrays do too: some of the clips, and those of several lists.
  auto const frames = [](clip const& each) { return each.frames; };
  auto long_ones = clips | ranges::views::filter([&](clip const& each) { return each.frames > 2; });
  auto const some = ballast::partition(long_ones, ballast::one_gpu_bags(2), frames, frames);
  ASSERT_TRUE(some);
  EXPECT_EQ(some->costs, (std::vector<ballast::cost_units>{5, 4, 3}));
  auto twice = ranges::views::concat(clips, clips);
  auto const all = ballast::partition(twice, ballast::one_gpu_bags(2), frames, frames);
  ASSERT_TRUE(all);
  EXPECT_EQ(all->loads, (std::vector<ballast::cost_units>{15, 15}));
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
