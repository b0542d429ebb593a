#include <ballast/partition/detail/exchange/bag_exchanges.hpp>  // first: proves it is self-contained

#include "../../../support/test.hpp"

#include <ballast/partition/descending_order.hpp>

namespace {

using namespace ballast;
using ballast::detail::bag_exchanges;

// Bags 0 and 1, of one GPU each, with samples of these costs.
struct two_bags {
  two_bags(std::vector<cost_units> const& first, std::vector<cost_units> const& second)
      : costs(first), owner(first.size(), bag_id{0})
  {
    costs.insert(costs.end(), second.begin(), second.end());
    owner.resize(costs.size(), bag_id{1});
    loads = {std::reduce(first.begin(), first.end()), std::reduce(second.begin(), second.end())};
    lengths.resize(costs.size(), 1);
    order.resize(costs.size());
    descending_order_into(order, costs, memory);
  }

  // The net work of the best exchange.
  cost_units find(std::size_t from, std::size_t to, ballast::detail::wanted_net wanted,
                  std::size_t count)
  {
    auto scratch = memory.open();
    bag_exchanges search({costs, lengths, order, gpus, gpus}, loads, owner, work, memory, scratch);
    return search.find(from, to, wanted, count).found.net;
  }

  std::vector<cost_units> costs;
  std::vector<bag_id> owner;
  std::vector<cost_units> loads;
  std::vector<tokens> lengths;
  std::vector<priced_sample> order;
  std::vector<std::uint32_t> gpus{1, 1};
  workspace memory;
  ballast::detail::work_budget work{std::uint64_t{1} << 30};
};

TEST(BagExchanges, SwapSamplesBeyondTheLightestWhereThoseAreTooLight)
{
  // Twenty light samples in each bag hide what moves a thousand.
  std::vector<cost_units> first(20);
  std::iota(first.begin(), first.end(), cost_units{1});
  std::vector<cost_units> second = first;
  first.insert(first.end(), {5000, 3000});
  second.insert(second.end(), {3990, 1800});
  two_bags bags(first, second);
  EXPECT_EQ(bags.find(0, 1, {1000, 1000, 1300}, 5), 1010);  // 5000 for 3990
  EXPECT_EQ(bags.find(0, 1, {1300, 1300, 1400}, 5), 1200);  // 3000 for 1800, below
  EXPECT_EQ(bags.find(0, 1, {3000, 3000, 3000}, 5), 3000);  // 3000 for nothing
  EXPECT_EQ(bags.find(1, 0, {900, 900, 985}, 5), 20);       // 20 for nothing; 990 is too much
}

TEST(BagExchanges, TakeOneCandidateOfEachCost)
{
  two_bags bags({10, 10, 10, 10, 17}, {10, 10, 10, 13, 13});
  EXPECT_EQ(bags.find(0, 1, {4, 4, 4}, 2), 4);  // 17 for 13, of two candidates each
}

}  // namespace
