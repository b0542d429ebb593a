#include <ballast/partition/detail/exchange/bag_exchanges.hpp>  // first: proves it is self-contained

#include <ballast/core/random.hpp>

#include <gtest/gtest.h>
#include <ballast/core/detail/work_budget.hpp>
#include <ballast/partition/descending_order.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace {

using ballast::bag_id;
using ballast::cost_units;
using ballast::detail::bag_exchange;
using ballast::detail::bag_exchanges;
using ballast::detail::wanted_net;

// Samples of the given costs and lengths in the given bags.
struct two_filled_bags {
  two_filled_bags(std::vector<cost_units> all_costs, std::vector<ballast::tokens> all_lengths,
                  std::vector<std::uint32_t> sizes, std::vector<std::size_t> bags)
      : costs(std::move(all_costs)),
        lengths(std::move(all_lengths)),
        gpus(std::move(sizes)),
        order(costs.size()),
        loads(gpus.size(), 0)
  {
    for (std::size_t sample = 0; sample < costs.size(); ++sample) {
      owner.push_back(ballast::to_id<bag_id>(bags[sample]));
      loads[bags[sample]] += costs[sample];
    }
    ballast::descending_order_into(order, costs, memory);
  }

  [[nodiscard]] bag_exchanges search(ballast::workspace::frame& scratch,
                                     std::uint64_t steps = std::uint64_t{1} << 30)
  {
    work = ballast::detail::work_budget(steps);
    return {{costs, lengths, order, gpus, gpus}, loads, owner, work, memory, scratch};
  }

  void expect_agreement() const
  {
    std::vector<cost_units> recomputed(gpus.size(), 0);
    for (std::size_t sample = 0; sample < costs.size(); ++sample) {
      std::size_t const bag = to_index(owner[sample]);
      recomputed[bag] += costs[sample];
      EXPECT_TRUE(ballast::partition_problem::splits(lengths[sample], gpus[bag]));
    }
    EXPECT_EQ(loads, recomputed);
  }

  std::vector<cost_units> costs;
  std::vector<ballast::tokens> lengths;
  std::vector<std::uint32_t> gpus;
  std::vector<ballast::priced_sample> order;
  std::vector<cost_units> loads;
  ballast::detail::work_budget work{0};
  std::vector<bag_id> owner;
  ballast::workspace memory;
};

TEST(BagExchanges, KeepLoadsOwnersAndLengthsRight)  // Ensures (1) (2)
{
  ballast::random_source random(31);
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::vector<cost_units> costs(2 + random.below(40));
    std::vector<ballast::tokens> lengths(costs.size());
    std::vector<std::size_t> bags(costs.size());
    std::vector<std::uint32_t> const gpus{1, static_cast<std::uint32_t>(1 + random.below(4))};
    for (std::size_t sample = 0; sample < costs.size(); ++sample) {
      costs[sample] = random.between(0, 500);
      lengths[sample] = random.between(1, 5);
      bool const fits = ballast::partition_problem::splits(lengths[sample], gpus[1]);
      bags[sample] = fits ? random.below(2) : 0;
    }
    two_filled_bags plan(costs, lengths, gpus, bags);
    auto scratch = plan.memory.open();
    bag_exchanges search = plan.search(scratch);
    for (int step = 0; step < 6; ++step) {
      std::size_t const from = random.below(2);
      cost_units const least = random.between(1, 2000);
      wanted_net const wanted{least, least, least + random.between(0, 100)};
      bag_exchange const found = search.find(from, 1 - from, wanted, 1 + random.below(9));
      ASSERT_TRUE(0 <= found.found.net && found.found.net <= wanted.most);
      search.make(found);
      plan.expect_agreement();
    }
    if (HasFailure()) { return; }
  }
}

TEST(BagExchanges, LookAtTheLightestSamplesFirst)
{
  two_filled_bags plan({50, 9, 8, 40, 5, 3}, {1, 1, 1, 1, 1, 1}, {1, 1}, {0, 0, 0, 1, 1, 1});
  auto scratch = plan.memory.open();
  bag_exchanges search = plan.search(scratch);
  EXPECT_EQ(search.find(0, 1, {3, 3, 3}, 1).found.net, 0);  // 8 for 3, or 8 alone
  bag_exchange const found = search.find(0, 1, {3, 3, 3}, 2);
  EXPECT_EQ(found.found.net, 3);  // 8 for 5
  search.make(found);
  EXPECT_EQ(plan.loads, (std::vector<cost_units>{64, 51}));
  EXPECT_EQ(plan.owner,
            (std::vector{bag_id{0}, bag_id{0}, bag_id{1}, bag_id{1}, bag_id{0}, bag_id{1}}));
}

TEST(BagExchanges, SwapSamplesBeyondTheLightestWhereThoseAreTooLight)
{
  // Twenty samples of cost 1 hide what moves a thousand.
  std::vector<cost_units> costs(40, 1);
  std::vector<std::size_t> bags(40, 0);
  std::fill(bags.begin() + 20, bags.end(), 1);
  costs.insert(costs.end(), {5000, 3000, 3990, 1800});
  bags.insert(bags.end(), {0, 0, 1, 1});
  two_filled_bags plan(costs, std::vector<ballast::tokens>(44, 1), {1, 1}, bags);
  auto scratch = plan.memory.open();
  bag_exchanges search = plan.search(scratch);
  EXPECT_EQ(search.find(0, 1, {1000, 1000, 1300}, 5).found.net, 1010);  // 5000 for 3990
  EXPECT_EQ(search.find(0, 1, {1300, 1300, 1400}, 5).found.net, 1200);  // 3000 for 1800, below
  EXPECT_EQ(search.find(0, 1, {3000, 3000, 3000}, 5).found.net, 3000);  // 3000 for nothing
  EXPECT_EQ(search.find(1, 0, {900, 900, 985}, 5).found.net, 1);  // 1 for nothing; 990 is too much
}

TEST(BagExchanges, SayHowManyCandidatesMakeAnExactExchangeLikely)
{
  std::vector<cost_units> costs(40, 1000);
  std::vector<std::size_t> bags(40, 0);
  std::fill(bags.begin() + 20, bags.end(), 1);
  two_filled_bags plan(costs, std::vector<ballast::tokens>(40, 1), {1, 1}, bags);
  auto scratch = plan.memory.open();
  bag_exchanges search = plan.search(scratch);
  // The least k for which 2 * 4^k exceeds 2 k * 1000 per unit of tolerance.
  EXPECT_EQ(search.dense_candidates(0, 1, 0), 7U);
  EXPECT_EQ(search.dense_candidates(0, 1, 999), 1U);
  for (cost_units& cost : plan.costs) { cost = cost_units{1} << 50; }
  ballast::descending_order_into(plan.order, plan.costs, plan.memory);
  EXPECT_GT(search.dense_candidates(0, 1, 0), ballast::detail::subset_sum::most_members);
}

TEST(BagExchanges, CountTheWorkOfEverySearch)
{
  two_filled_bags plan({9, 8, 7, 1}, {1, 1, 1, 1}, {1, 1}, {0, 0, 0, 1});
  auto scratch = plan.memory.open();
  bag_exchanges search = plan.search(scratch, 100);
  EXPECT_EQ(search.work().left(), 100U);
  search.work().spend(30);
  EXPECT_EQ(search.work().left(), 70U);
  EXPECT_FALSE(search.work().spent());
  (void)search.find(0, 1, {1, 1, 9}, 3);
  EXPECT_TRUE(search.work().spent());
  EXPECT_EQ(plan.work.left(), 0U);
}

}  // namespace
