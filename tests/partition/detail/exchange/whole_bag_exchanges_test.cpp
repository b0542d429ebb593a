#include <ballast/partition/detail/exchange/whole_bag_exchanges.hpp>  // first: proves it is self-contained

#include "../../../support/direct_problem.hpp"

#include <gtest/gtest.h>
#include <ballast/core/ids.hpp>
#include <ballast/partition/detail/exchange/settle_latest.hpp>

#include <vector>

namespace {

using ballast::bag_id;
using ballast::cost_units;

// 40 samples of 100 to 119 in two bags, each with as many: the light half in the first one.
struct two_bags {
  ballast_test::direct_problem problem{ballast_test::instance{}};
  std::vector<cost_units> loads{0, 0};
  std::vector<bag_id> owner;

  two_bags()
  {
    ballast_test::instance step;
    step.gpus = {1, 1};
    for (cost_units sample = 0; sample < 40; ++sample) {
      step.costs.push_back(100 + sample / 2);
      step.lengths.push_back(1);
      owner.push_back(bag_id{sample < 20 ? 0U : 1U});
      loads[sample < 20 ? 0 : 1] += step.costs.back();
    }
    problem = ballast_test::direct_problem(step);
  }
};

TEST(WholeBagExchanges, MoveTheSampleOrSwapTheTwoThatEvenOutBest)
{
  two_bags plan;  // 2090 and 2290: 100 have to go over, and a swap moves at most 19
  ballast::workspace memory;
  auto scratch = memory.open();
  ballast::detail::work_budget work(1'000'000);
  ballast::detail::bag_exchanges bags(plan.problem.view(), plan.loads, plan.owner, work, memory,
                                      scratch);
  ballast::detail::whole_bag_exchanges all(bags);
  auto const swap = all.find_swap(1, 0);
  EXPECT_EQ(swap.net, 110);  // the lightest of the second bag
  all.make(swap);
  EXPECT_EQ(plan.loads, (std::vector<cost_units>{2200, 2180}));
  EXPECT_EQ(all.find_swap(0, 1).net, 0);  // what the first bag has is no heavier
}

TEST(WholeBagExchanges, ReachTheMeanWhereTheLightestSamplesAreAlike)
{
  two_bags plan;
  ballast::workspace memory;
  auto scratch = memory.open();
  ballast::detail::work_budget work(1'000'000);
  ballast::detail::bag_exchanges bags(plan.problem.view(), plan.loads, plan.owner, work, memory,
                                      scratch);
  ballast::detail::whole_bag_exchanges all(bags);
  ballast::detail::settle_latest(all, {2190, 1}, scratch)();
  EXPECT_EQ(plan.loads, (std::vector<cost_units>{2190, 2190}));
  std::vector<cost_units> recomputed(2, 0);
  for (std::size_t sample = 0; sample < 40; ++sample) {
    recomputed[to_index(plan.owner[sample])] += plan.problem.step.costs[sample];
  }
  EXPECT_EQ(recomputed, plan.loads);
}

}  // namespace
