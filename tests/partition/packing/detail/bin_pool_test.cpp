#include <ballast/partition/packing/detail/bin_pool.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/partition/descending_order.hpp>

#include <cstdint>
#include <vector>

namespace {

using ballast::bag_id;

TEST(BinPool, TakesTheRoomiestAndNumbersTheOthersAnew)
{
  std::vector<std::int64_t> const weights{3, 9, 4, 10, 2, 8};
  std::vector<bag_id> owner{bag_id{0}, bag_id{1}, bag_id{2}, bag_id{3}, bag_id{4}, bag_id{5}};
  ballast::workspace memory;
  std::vector<ballast::priced_sample> order(weights.size());
  ballast::descending_order_into(order, weights, memory);
  ballast::packing_problem const problem{weights, order, 10};
  auto scratch = memory.open();
  ballast::detail::bin_pool pool(problem, 6, owner, scratch);
  pool.choose_roomiest(3);
  ASSERT_EQ(pool.bins(), 3U);
  auto const part = pool.problem();
  EXPECT_EQ(std::vector(part.weights.begin(), part.weights.end()),
            (std::vector<std::int64_t>{4, 3, 2}));
  EXPECT_EQ(part.heaviest_first[0].cost, 4);
  for (bag_id& bin : pool.owner()) { bin = bag_id{0}; }  // 4 + 3 + 2 in the roomiest, that of 2
  EXPECT_EQ(pool.put_back(1), 4U);
  // Bins 0 and 2 are empty: 4 and 5 get their numbers.
  EXPECT_EQ(owner[0], owner[2]);
  EXPECT_EQ(owner[0], owner[4]);
  EXPECT_EQ(owner[1], bag_id{1});
  EXPECT_EQ(owner[3], bag_id{3});
  EXPECT_NE(owner[5], owner[4]);
  EXPECT_LT(to_index(owner[5]), 4U);
  EXPECT_LT(to_index(owner[4]), 4U);

  pool.choose_roomiest(9);
  EXPECT_EQ(pool.bins(), 4U);
  EXPECT_EQ(pool.problem().weights.size(), 6U);
  EXPECT_EQ(pool.put_back(4), 4U);
}

}  // namespace
