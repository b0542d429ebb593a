#include <ballast/partition/detail/exchange/bag_exchanges.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/core/detail/work_budget.hpp>
#include <ballast/partition/descending_order.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using ballast::bag_id;
using ballast::cost_units;
using ballast::detail::bag_exchanges;

TEST(BagExchanges, SwapSamplesBeyondTheLightestWhereThoseAreTooLight)
{
  // Twenty samples of cost 1 in each bag hide what moves a thousand.
  std::vector<cost_units> costs(40, 1);
  costs.insert(costs.end(), {5000, 3000, 3990, 1800});
  std::vector<bag_id> owner(44, bag_id{0});
  std::fill(owner.begin() + 20, owner.begin() + 40, bag_id{1});
  owner[42] = owner[43] = bag_id{1};
  std::vector<cost_units> loads{8020, 5810};
  std::vector<ballast::tokens> const lengths(44, 1);
  std::vector<std::uint32_t> const gpus{1, 1};
  std::vector<ballast::priced_sample> order(44);
  ballast::workspace memory;
  ballast::descending_order_into(order, costs, memory);
  auto scratch = memory.open();
  ballast::detail::work_budget work(std::uint64_t{1} << 30);
  bag_exchanges search({costs, lengths, order, gpus, gpus}, loads, owner, work, memory, scratch);
  EXPECT_EQ(search.find(0, 1, {1000, 1000, 1300}, 5).found.net, 1010);  // 5000 for 3990
  EXPECT_EQ(search.find(0, 1, {1300, 1300, 1400}, 5).found.net, 1200);  // 3000 for 1800, below
  EXPECT_EQ(search.find(0, 1, {3000, 3000, 3000}, 5).found.net, 3000);  // 3000 for nothing
  EXPECT_EQ(search.find(1, 0, {900, 900, 985}, 5).found.net, 1);  // 1 for nothing; 990 is too much
}

}  // namespace
