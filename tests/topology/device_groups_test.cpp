// SPDX-License-Identifier: Apache-2.0
#include <ballast/topology/device_groups.hpp>

#include "../support/test.hpp"

#include <ballast/core.hpp>

namespace {

using namespace ballast;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint32_t any_degree = std::numeric_limits<std::uint32_t>::max();

/// The definition, tried on every range of ranks: which ranges are groups.
std::set<std::pair<std::size_t, std::size_t>> groups_by_definition(
    std::vector<std::uint32_t> const& sizes, std::size_t largest_degree)
{
  std::set<std::pair<std::size_t, std::size_t>> found;  // (GPUs, first rank)
  auto const is_power_of_two = [](std::size_t n) { return n != 0 && (n & (n - 1)) == 0; };
  std::vector<std::size_t> starts{0};
  for (std::uint32_t const size : sizes) { starts.push_back(starts.back() + size); }
  for (std::size_t first = 0; first < starts.back(); ++first) {
    for (std::size_t end = first + 1; end <= starts.back(); ++end) {
      std::size_t const gpus = end - first;
      auto const node_after = std::ranges::upper_bound(starts, first) - starts.begin();
      auto const node = static_cast<std::size_t>(node_after) - 1;
      bool is_group =
          end <= starts[node + 1] && is_power_of_two(gpus) && (first - starts[node]) % gpus == 0;
      auto const end_node = std::ranges::find(starts, end) - starts.begin();
      bool const of_nodes = first == starts[node] && end_node < std::ssize(starts);
      if (of_nodes) {
        std::size_t const run = static_cast<std::size_t>(end_node) - node;
        is_group = is_group || (is_power_of_two(run) && node % run == 0);
      }
      if (is_group && gpus <= largest_degree) { found.emplace(gpus, first); }
    }
  }
  return found;
}

TEST(DeviceGroups, OfTwoNodesArePairsFoursNodesAndBoth)
{
  device_groups const groups(node_sizes::equal(2, 4), any_degree);
  EXPECT_EQ(groups.gpus(), 8U);
  EXPECT_EQ(groups.size(), 8U + 4U + 2U + 1U);
  EXPECT_THAT(groups.degrees(), ElementsAre(1, 2, 4, 8));
  EXPECT_THAT(groups.of_degree(4), ElementsAre(group_id{12}, group_id{13}));
  EXPECT_THAT(groups.of_degree(3), IsEmpty());
  EXPECT_EQ(groups[group_id{13}], (device_group{rank_id{4}, 4}));
  EXPECT_THAT(groups.groups_of(rank_id{5}),
              ElementsAre(group_id{5}, group_id{10}, group_id{13}, group_id{14}));
  EXPECT_EQ(groups.group_of(rank_id{5}, 2), group_id{10});
  EXPECT_EQ(groups.group_of(rank_id{5}, 3), std::nullopt);
}

TEST(DeviceGroups, OfUnevenNodesLeaveTheLastGpusInFewerGroups)
{
  std::vector<std::uint32_t> const sizes{6, 8, 5};
  device_groups const groups{node_sizes(sizes), any_degree};
  EXPECT_THAT(groups.degrees(), ElementsAre(1, 2, 4, 5, 6, 8, 14));
  EXPECT_THAT(groups.of_degree(4), testing::SizeIs(4));  // one in 6, two in 8, one in 5
  EXPECT_EQ(groups.group_of(rank_id{5}, 4), std::nullopt);
  EXPECT_EQ(groups[*groups.group_of(rank_id{5}, 6)], (device_group{rank_id{0}, 6}));
  EXPECT_EQ(groups[*groups.group_of(rank_id{7}, 14)], (device_group{rank_id{0}, 14}));
  EXPECT_EQ(groups.group_of(rank_id{18}, 2), std::nullopt);
  EXPECT_THAT(groups.groups_of(rank_id{18}), testing::SizeIs(2));  // itself and its node
}

TEST(DeviceGroups, AreThoseOfTheDefinitionAndNested)  // Ensures (1) (2) (3) (4)
{
  ballast::random_source random(5);
  for (int trial = 0; trial < 150; ++trial) {
    std::vector<std::uint32_t> sizes(1 + random.below(9));
    auto const alike = static_cast<std::uint32_t>(1 + random.below(8));
    bool const uneven = random.below(2) == 0;
    for (auto& size : sizes) {
      size = uneven ? static_cast<std::uint32_t>(1 + random.below(9)) : alike;
    }
    auto const largest = static_cast<std::uint32_t>(1 + random.below(70));
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    device_groups const groups{node_sizes(sizes), largest};

    auto const expected = groups_by_definition(sizes, largest);
    ASSERT_EQ(groups.size(), expected.size());
    ASSERT_LE(groups.size(), 4 * groups.gpus());
    std::size_t index = 0;
    for (auto const& [gpus, first] : expected) {  // the set has the identifiers' order
      auto const each = groups[ballast::to_id<group_id>(index++)];
      ASSERT_EQ(each.gpus, gpus);
      ASSERT_EQ(ballast::to_index(each.first), first);
    }

    std::size_t in_degrees = 0;
    for (std::uint32_t const degree : groups.degrees()) {
      for (group_id const id : groups.of_degree(degree)) {
        ASSERT_EQ(groups[id].gpus, degree);
        ++in_degrees;
      }
    }
    ASSERT_EQ(in_degrees, groups.size());

    for (std::size_t rank = 0; rank < groups.gpus(); ++rank) {
      auto const id = ballast::to_id<rank_id>(rank);
      std::vector<group_id> containing;
      std::size_t end_before = rank + 1;
      std::size_t first_before = rank;
      for (std::size_t group = 0; group < groups.size(); ++group) {
        auto const [first_rank, gpus] = groups[ballast::to_id<group_id>(group)];
        std::size_t const first = ballast::to_index(first_rank);
        if (rank < first || rank >= first + gpus) { continue; }
        containing.push_back(ballast::to_id<group_id>(group));
        ASSERT_LE(first, first_before);  // each contains the one before it
        ASSERT_GE(first + gpus, end_before);
        first_before = first;
        end_before = first + gpus;
        ASSERT_EQ(groups.group_of(id, gpus), containing.back());
      }
      ASSERT_THAT(groups.groups_of(id), testing::ElementsAreArray(containing));
      ASSERT_EQ(groups[ballast::to_id<group_id>(rank)], (device_group{id, 1}));
    }
  }
}

TEST(DeviceGroups, HaveADigestThatNodesAndDegreesEnter)
{
  device_groups const groups(node_sizes::equal(4, 4), 8);
  EXPECT_EQ(groups.digest(), device_groups(node_sizes::equal(4, 4), 8).digest());
  EXPECT_EQ(groups, device_groups(node_sizes::equal(4, 4), 8));
  EXPECT_NE(groups.digest(), device_groups(node_sizes::equal(4, 4), 4).digest());
  EXPECT_NE(groups.digest(), device_groups(node_sizes::equal(2, 8), 4).digest());
  EXPECT_NE(groups.digest(), device_groups(node_sizes::equal(8, 4), 8).digest());
  EXPECT_NE(groups, device_groups(node_sizes::equal(8, 4), 8));
}

TEST(DeviceGroups, OfNoJobAreNone)
{
  EXPECT_EQ(device_groups{}.size(), 0U);
  EXPECT_EQ(device_groups{}.gpus(), 0U);
  EXPECT_THAT(device_groups{}.degrees(), IsEmpty());
  EXPECT_THAT(device_groups{}.of_degree(1), IsEmpty());
}

TEST(DeviceGroupsDeathTest, RefuseWhatIsNoFamily)
{
  EXPECT_DEATH((void)device_groups(node_sizes::equal(1, 8), 0), "at most 0 GPUs");
  device_groups const groups(node_sizes::equal(1, 2), 2);
  EXPECT_DEATH((void)groups[group_id{3}], "group 3 of 3 groups");
  EXPECT_DEATH((void)groups.groups_of(rank_id{2}), "rank 2 of groups over 2 GPUs");
}

}  // namespace
