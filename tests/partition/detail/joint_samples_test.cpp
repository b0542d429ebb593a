#include <ballast/partition/detail/joint_samples.hpp>  // first: proves it is self-contained

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

namespace {

using ballast::bag_id;
using ballast::cost_units;
using ballast::tokens;
using ballast::detail::join_samples;
using ballast::detail::planned_items;
using testing::ElementsAre;
using testing::ElementsAreArray;

struct samples {
  std::vector<cost_units> costs;
  std::vector<tokens> lengths;
  std::vector<std::int64_t> weights = {};
  std::vector<bag_id> home = {};

  planned_items view() const { return {costs, lengths, weights, home}; }
};

TEST(JoinSamples, AddsUpWhatStaysTogether)
{
  samples const given{{1, 2, 4, 8, 16},
                      {30, 10, 0, 20, 7},
                      {1, 1, 2, 3, 5},
                      {bag_id{0}, bag_id{1}, bag_id{1}, bag_id{0}, bag_id{2}}};
  std::vector<std::int64_t> const keys{9, -3, 9, -3, 9};
  std::vector<std::uint32_t> item_of(5);
  ballast::workspace memory;
  auto frame = memory.open();
  planned_items const items = join_samples(keys, given.view(), item_of, frame);
  EXPECT_THAT(item_of, ElementsAre(0, 1, 0, 1, 0));
  EXPECT_THAT(items.costs, ElementsAre(21, 10));
  EXPECT_THAT(items.lengths, ElementsAre(7, 10));  // the fewest tokens, but not none
  EXPECT_THAT(items.weights, ElementsAre(8, 4));
  EXPECT_THAT(items.home, ElementsAre(bag_id{0}, bag_id{0}));  // 30 of 37 and 20 of 30 tokens
  EXPECT_THAT(items.first_sample, ElementsAre(0, 1));
  EXPECT_THAT(items.joint_lengths, ElementsAre(37, 30));
  EXPECT_EQ(items.sample_of(1), 1U);
}

TEST(JoinSamples, LeavesOutWhatIsNotGiven)
{
  samples const given{{5, 6}, {1, 2}};
  std::vector<std::uint32_t> item_of(2);
  ballast::workspace memory;
  auto frame = memory.open();
  planned_items const items =
      join_samples(std::vector<std::int64_t>{1, 2}, given.view(), item_of, frame);
  EXPECT_TRUE(items.weights.empty());
  EXPECT_TRUE(items.home.empty());
  EXPECT_EQ(planned_items{}.sample_of(7), 7U);  // where items are samples
}

TEST(JoinSamples, ManagesWithoutSamples)
{
  ballast::workspace memory;
  auto frame = memory.open();
  planned_items const items = join_samples({}, {}, {}, frame);
  EXPECT_TRUE(items.costs.empty());
}

TEST(JoinSamples, GivesHomeToTheFirstOfEqualBags)
{
  samples const given{{1, 1, 1, 1}, {5, 5, 0, 0}, {}, {bag_id{3}, bag_id{1}, bag_id{4}, bag_id{2}}};
  std::vector<std::uint32_t> item_of(4);
  ballast::workspace memory;
  auto frame = memory.open();
  planned_items const items =
      join_samples(std::vector<std::int64_t>{0, 0, 1, 1}, given.view(), item_of, frame);
  EXPECT_THAT(items.home, ElementsAre(bag_id{1}, bag_id{2}));
}

TEST(JoinSamples, CountsTokensPerBagOnlyWhereAnItemLiesInSeveral)  // Ensures (4)
{
  samples given{{1, 1, 1, 1}, {5, 4, 0, 2}, {}, {bag_id{3}, bag_id{1}, bag_id{4}, bag_id{3}}};
  std::vector<std::uint32_t> item_of(4);
  ballast::workspace memory;
  auto frame = memory.open();
  std::vector<std::int64_t> const keys{0, 0, 0, 1};
  planned_items const items = join_samples(keys, given.view(), item_of, frame);
  EXPECT_THAT(items.first_part, ElementsAre(0, 2, 3));
  ASSERT_EQ(items.parts.size(), 3U);
  EXPECT_EQ(items.parts[0].bag, bag_id{1});
  EXPECT_EQ(items.parts[0].length, 4);
  EXPECT_EQ(items.parts[1].bag, bag_id{3});
  EXPECT_EQ(items.parts[1].length, 5);
  EXPECT_EQ(items.parts[2].length, 2);

  given.home[1] = bag_id{3};  // the sample without tokens lies elsewhere, but moves nothing
  planned_items const one_home = join_samples(keys, given.view(), item_of, frame);
  EXPECT_THAT(one_home.home, ElementsAre(bag_id{3}, bag_id{3}));
  EXPECT_TRUE(one_home.first_part.empty());
  EXPECT_TRUE(one_home.parts.empty());
}

TEST(JoinSamples, AgreesWithAMapOfKeys)  // Ensures (1) (2) (3) (4)
{
  ballast::random_source random(101);
  for (int trial = 0; trial < 500; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::size_t const count = random.below(40);
    samples given;
    std::vector<std::int64_t> keys;
    for (std::size_t sample = 0; sample < count; ++sample) {
      given.costs.push_back(random.between(0, 100));
      given.lengths.push_back(random.between(0, 6));
      given.weights.push_back(random.between(0, 9));
      given.home.push_back(ballast::to_id<bag_id>(random.below(3)));
      keys.push_back(random.below(4) == 0 ? std::numeric_limits<std::int64_t>::min()
                                          : random.between(-3, 12));
    }
    struct joined {
      std::size_t first = 0;
      cost_units cost = 0;
      tokens length = 0;
      std::int64_t weight = 0;
      std::map<bag_id, tokens> at = {};
    };
    std::map<std::int64_t, std::size_t> number;
    std::vector<joined> expected;
    std::vector<std::uint32_t> expected_item;
    for (std::size_t sample = 0; sample < count; ++sample) {
      auto const [place, is_new] = number.emplace(keys[sample], expected.size());
      if (is_new) { expected.push_back({.first = sample}); }
      joined& item = expected[place->second];
      expected_item.push_back(static_cast<std::uint32_t>(place->second));
      item.cost += given.costs[sample];
      item.weight += given.weights[sample];
      item.at[given.home[sample]] += given.lengths[sample];
      if (given.lengths[sample] > 0) {
        item.length =
            item.length == 0 ? given.lengths[sample] : std::min(item.length, given.lengths[sample]);
      }
    }
    std::vector<std::uint32_t> item_of(count);
    ballast::workspace memory;
    auto frame = memory.open();
    planned_items const items = join_samples(keys, given.view(), item_of, frame);
    ASSERT_THAT(item_of, ElementsAreArray(expected_item));
    ASSERT_EQ(items.costs.size(), expected.size());
    for (std::size_t item = 0; item < expected.size(); ++item) {
      EXPECT_EQ(items.costs[item], expected[item].cost);
      EXPECT_EQ(items.lengths[item], expected[item].length);
      EXPECT_EQ(items.weights[item], expected[item].weight);
      EXPECT_EQ(items.sample_of(item), expected[item].first);
      EXPECT_EQ(items.home[item],
                std::ranges::max_element(expected[item].at, {}, [](auto const& entry) {
                  return entry.second;
                })->first);
      std::erase_if(expected[item].at, [](auto const& entry) { return entry.second == 0; });
      if (items.first_part.empty()) {
        EXPECT_LE(expected[item].at.size(), 1U);
        continue;
      }
      auto const parts = items.parts.subspan(items.first_part[item],
                                             items.first_part[item + 1] - items.first_part[item]);
      std::map<bag_id, tokens> at;
      for (auto const& part : parts) { EXPECT_TRUE(at.emplace(part.bag, part.length).second); }
      EXPECT_EQ(at, expected[item].at);
      EXPECT_TRUE(std::ranges::is_sorted(parts, {}, &ballast::partition_problem::part::bag));
    }
  }
}

}  // namespace
