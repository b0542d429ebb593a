#include <ballast/partition/packing/detail/pattern_filling.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/priced_sample.hpp>

#include <cstdint>
#include <vector>

namespace {

using ballast::bag_id;
using ballast::priced_sample;
using ballast::sample_id;
using ballast::detail::pattern_entry;
using ballast::detail::pattern_filling;
using ballast::detail::samples_by_weight;
using ballast::detail::weight_kind;

constexpr bag_id in_no_bin{99};

std::vector<priced_sample> listed_samples(std::vector<std::int64_t> const& weights)
{
  std::vector<priced_sample> samples;
  for (std::uint32_t place = 0; place < weights.size(); ++place) {
    samples.push_back({weights[place], sample_id{place}});
  }
  return samples;
}

TEST(PatternFilling, FillsABinExactlyWhereAPairDoes)
{
  auto const samples = listed_samples({52, 50, 33, 31, 18, 17, 15});
  ballast::workspace memory;
  auto scratch = memory.open();
  samples_by_weight waiting(100, samples, samples.size(), scratch);
  std::vector<bag_id> owner(samples.size(), in_no_bin);
  pattern_filling fill(waiting, 100, owner);
  std::vector<weight_kind> const kinds{{48, 52, 50}, {30, 34, 32}, {15, 19, 17}};
  std::vector<pattern_entry> const pattern{{0, 1}, {1, 1}, {2, 1}};
  EXPECT_EQ(fill(pattern, kinds, bag_id{0}), 3U);  // 52 + 33 + 15
  EXPECT_EQ(owner, (std::vector{bag_id{0}, in_no_bin, bag_id{0}, in_no_bin, in_no_bin, in_no_bin,
                                bag_id{0}}));
  EXPECT_EQ(fill(pattern, kinds, bag_id{1}), 3U);  // 50 + 31 + 18 are next to 100
  EXPECT_EQ(owner[4], bag_id{1});
  EXPECT_EQ(owner[5], in_no_bin);
}

TEST(PatternFilling, TakesWhatStillFits)
{
  auto const samples = listed_samples({60, 20, 15, 6});
  ballast::workspace memory;
  auto scratch = memory.open();
  samples_by_weight waiting(100, samples, samples.size(), scratch);
  std::vector<bag_id> owner(samples.size(), in_no_bin);
  pattern_filling fill(waiting, 100, owner);
  std::vector<weight_kind> const kinds{{60, 60, 60}};
  EXPECT_EQ(fill(std::vector<pattern_entry>{{0, 1}}, kinds, bag_id{0}), 3U);  // and 20 and 15
  EXPECT_EQ(owner[3], in_no_bin);
}

TEST(PatternFilling, LeavesAllWhereAKindIsMissing)
{
  auto const samples = listed_samples({40, 30});
  ballast::workspace memory;
  auto scratch = memory.open();
  samples_by_weight waiting(100, samples, samples.size(), scratch);
  std::vector<bag_id> owner(samples.size(), in_no_bin);
  pattern_filling fill(waiting, 100, owner);
  std::vector<weight_kind> const kinds{{40, 40, 40}, {30, 30, 30}};
  EXPECT_EQ(fill(std::vector<pattern_entry>{{0, 1}, {1, 2}}, kinds, bag_id{0}), 0U);
  EXPECT_EQ(fill(std::vector<pattern_entry>{{0, 65}}, kinds, bag_id{0}), 0U);
  EXPECT_EQ(owner, (std::vector{in_no_bin, in_no_bin}));
  EXPECT_EQ(fill(std::vector<pattern_entry>{{0, 1}, {1, 1}}, kinds, bag_id{0}), 2U);
}

}  // namespace
