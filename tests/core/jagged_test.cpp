// SPDX-License-Identifier: Apache-2.0
#include "../support/test.hpp"

namespace {

using namespace ballast;
using testing::ElementsAre;
using testing::IsEmpty;
using samples_of_bags = jagged<bag_id, sample_id>;
using owners = std::vector<bag_id>;

static_assert(std::forward_iterator<samples_of_bags::iterator>);

samples_of_bags collect(owners const& owner, std::size_t keys)
{
  samples_of_bags result;
  result.collect(owner, keys);
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
  EXPECT_TRUE(std::ranges::equal(grouped.values(), all));
}

RC_GTEST_PROP(Jagged, CollectsAsAMapOfListsDoes, ())  // Ensures (1) (2)
{
  auto const keys = *rc::gen::inRange<std::size_t>(1, 20);
  auto const owner = *rc::gen::container<owners>(
      rc::gen::map(rc::gen::inRange<std::size_t>(0, keys), to_id<bag_id>));
  expect_same_as_map(collect(owner, keys), owner, keys);
}

RC_GTEST_PROP(Jagged, HasTheSameRowsHoweverTheyAreFilled, ())  // Ensures (1) (2)
{
  auto const rows = *rc::gen::arbitrary<std::vector<std::vector<int>>>();
  jagged<std::size_t, int> filled;
  filled.fill(rows.size(), [&](auto const& visit) {  // the first value of each row, then the second
    std::size_t longest = 0;
    for (auto const& row : rows) { longest = std::max(longest, row.size()); }
    for (std::size_t at = 0; at < longest; ++at) {
      for (std::size_t row = 0; row < rows.size(); ++row) {
        if (at < rows[row].size()) { visit(row, rows[row][at]); }
      }
    }
  });
  jagged<std::size_t, int> appended;
  appended.push_back(1);  // given up by clear()
  appended.clear();
  jagged<std::size_t, int> resized;
  resized.resize(rows.size(), [&](std::size_t row) { return rows[row].size(); });
  for (std::size_t row = 0; row < rows.size(); ++row) {
    for (int const value : rows[row]) { appended.push_back(value); }
    appended.end_row();
    std::ranges::copy(rows[row], resized.row(row).begin());
  }
  RC_ASSERT(filled.size() == rows.size());
  ballast::jagged_view<std::size_t, int const> const view(filled.offsets(), filled.values());
  RC_ASSERT(view.size() == rows.size());
  for (std::size_t row = 0; row < rows.size(); ++row) {
    RC_ASSERT(std::ranges::equal(filled[row], rows[row]));
    RC_ASSERT(std::ranges::equal(view[row], rows[row]));
  }
  RC_ASSERT(appended == filled);
  RC_ASSERT(resized == filled);
}

TEST(Jagged, HasNoRowsOnceItIsMovedFrom)
{
  auto from = collect({bag_id{0}}, 1);
  auto const to = std::move(from);
  EXPECT_EQ(to.size(), 1U);
  EXPECT_TRUE(from.empty());  // NOLINT(bugprone-use-after-move)
  from.clear();
  from.end_row();
  EXPECT_EQ(from.size(), 1U);
  EXPECT_TRUE((ballast::jagged_view<bag_id, int>().empty()));
}

TEST(Jagged, IsReusedForMoreAndFewerValuesAndRows)
{
  ballast::random_source random(20240607);
  samples_of_bags grouped;
  for (int round = 0; round < 100; ++round) {
    auto const keys = static_cast<std::size_t>(random.between(1, 50));
    owners owner(static_cast<std::size_t>(random.between(0, 200)));
    for (bag_id& key : owner) { key = to_id<bag_id>(static_cast<std::size_t>(random.below(keys))); }
    grouped.collect(owner, keys);
    expect_same_as_map(grouped, owner, keys);
  }
}

TEST(Jagged, HasNoRowsAtFirst)
{
  samples_of_bags const none;
  EXPECT_TRUE(none.empty());
  EXPECT_THAT(none.values(), IsEmpty());
  EXPECT_EQ(none.begin(), none.end());
  EXPECT_EQ(none, collect({}, 0));
}

TEST(Jagged, IsWalkedAsSpansInKeyOrder)
{
  auto const grouped = collect({bag_id{1}, bag_id{0}, bag_id{1}}, 3);
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

TEST(Jagged, IsEqualWhereEveryRowIs)
{
  auto const one = collect({bag_id{0}, bag_id{1}}, 2);
  EXPECT_EQ(one, collect({bag_id{0}, bag_id{1}}, 2));
  EXPECT_NE(one, collect({bag_id{1}, bag_id{0}}, 2));
  EXPECT_NE(one, collect({bag_id{0}, bag_id{1}}, 3));
}

TEST(JaggedDeathTest, RejectsAnOwnerOutsideTheRows)
{
  EXPECT_DEATH((void)collect({bag_id{2}}, 2), "a value was given to row 2 of 2");
  EXPECT_DEATH((void)collect({bag_id{0}}, 0), "a value was given to row 0 of 0");
}

TEST(JaggedDeathTest, RejectsAKeyOutsideTheRows)
{
  auto const grouped = collect({bag_id{0}}, 1);
  EXPECT_DEATH((void)grouped[bag_id{1}], "row 1 of 1");
  EXPECT_DEATH((void)samples_of_bags{}[bag_id{0}], "row 0 of 0");
}

}  // namespace
