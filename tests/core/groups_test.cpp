// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/groups.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <vector>

namespace {

using ballast::bag_id;
using ballast::groups;
using ballast::sample_id;
using ballast::to_id;
using testing::ElementsAre;
using testing::IsEmpty;
using samples_of_bags = groups<bag_id, sample_id>;
using owners = std::vector<bag_id>;

static_assert(std::forward_iterator<samples_of_bags::iterator>);

samples_of_bags group(owners const& owner, std::size_t keys)
{
  samples_of_bags result;
  result.regroup(owner, keys);
  return result;
}

// Oracle: push every member, in order, to its key's list.
void expect_same_as_map(samples_of_bags const& grouped, owners const& owner, std::size_t keys)
{
  std::map<std::size_t, std::vector<sample_id>> lists;
  std::vector<sample_id> all;
  for (std::size_t i = 0; i < owner.size(); ++i) {
    lists[ballast::to_index(owner[i])].push_back(to_id<sample_id>(i));
  }
  ASSERT_EQ(grouped.size(), keys);
  EXPECT_EQ(grouped.empty(), keys == 0);
  for (std::size_t key = 0; key < keys; ++key) {
    auto const members = grouped[to_id<bag_id>(key)];
    EXPECT_TRUE(std::ranges::equal(members, lists[key])) << "key " << key;
    std::ranges::copy(lists[key], std::back_inserter(all));
  }
  EXPECT_TRUE(std::ranges::equal(grouped.members(), all));
}

RC_GTEST_PROP(Groups, EqualAMapOfLists, ())  // Ensures (1) (2) (3)
{
  auto const keys = *rc::gen::inRange<std::size_t>(1, 20);
  auto const owner = *rc::gen::container<owners>(
      rc::gen::map(rc::gen::inRange<std::size_t>(0, keys), to_id<bag_id>));
  expect_same_as_map(group(owner, keys), owner, keys);
  samples_of_bags by_function;
  by_function.regroup_by(owner.size(), keys, [&](std::size_t member) { return owner[member]; });
  EXPECT_EQ(by_function, group(owner, keys));
}

TEST(Groups, AreReusedForMoreAndFewerMembersAndKeys)
{
  ballast::random_source random(20240607);
  samples_of_bags grouped;
  for (int round = 0; round < 100; ++round) {
    auto const keys = static_cast<std::size_t>(random.between(1, 50));
    owners owner(static_cast<std::size_t>(random.between(0, 200)));
    for (bag_id& key : owner) { key = to_id<bag_id>(static_cast<std::size_t>(random.below(keys))); }
    grouped.regroup(owner, keys);
    expect_same_as_map(grouped, owner, keys);
  }
}

TEST(Groups, HaveNoKeysAtFirst)
{
  samples_of_bags const none;
  EXPECT_TRUE(none.empty());
  EXPECT_THAT(none.members(), IsEmpty());
  EXPECT_EQ(none.begin(), none.end());
  EXPECT_EQ(none, group({}, 0));
}

TEST(Groups, MayBeWithoutMembers)
{
  auto const grouped = group({bag_id{2}, bag_id{2}}, 4);
  EXPECT_THAT(grouped[bag_id{0}], IsEmpty());
  EXPECT_THAT(grouped[bag_id{2}], ElementsAre(sample_id{0}, sample_id{1}));
  EXPECT_THAT(grouped[bag_id{3}], IsEmpty());
}

TEST(Groups, IterateAsSpansInKeyOrder)
{
  auto const grouped = group({bag_id{1}, bag_id{0}, bag_id{1}}, 3);
  std::vector<std::size_t> sizes;
  for (auto const members : grouped) { sizes.push_back(members.size()); }
  EXPECT_THAT(sizes, ElementsAre(1U, 2U, 0U));

  auto walk = grouped.begin();
  auto const before = walk++;
  EXPECT_THAT(*before, ElementsAre(sample_id{1}));
  EXPECT_THAT(*walk, ElementsAre(sample_id{0}, sample_id{2}));
  EXPECT_NE(before, walk);
  EXPECT_EQ(std::ranges::distance(grouped), 3);
}

TEST(Groups, AreEqualWhenEveryGroupIs)
{
  auto const one = group({bag_id{0}, bag_id{1}}, 2);
  EXPECT_EQ(one, group({bag_id{0}, bag_id{1}}, 2));
  EXPECT_NE(one, group({bag_id{1}, bag_id{0}}, 2));
  EXPECT_NE(one, group({bag_id{0}, bag_id{1}}, 3));
}

TEST(GroupsDeathTest, RejectAnOwnerOutsideTheKeys)
{
  EXPECT_DEATH((void)group({bag_id{2}}, 2), "member 0 belongs to group 2 of 2");
  EXPECT_DEATH((void)group({bag_id{0}}, 0), "member 0 belongs to group 0 of 0");
}

TEST(GroupsDeathTest, RejectAKeyOutsideTheGroups)
{
  auto const grouped = group({bag_id{0}}, 1);
  EXPECT_DEATH((void)grouped[bag_id{1}], "group 1 of 1 groups");
  EXPECT_DEATH((void)samples_of_bags{}[bag_id{0}], "group 0 of 0 groups");
}

}  // namespace
