#include <ballast/partition/packing/detail/best_fit.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/packing/detail/bins_by_room.hpp>
#include <ballast/partition/packing/detail/room_tree.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace {

using ballast::bag_id;

TEST(BestFit, FindsTheSamePackingWithEitherSetOfBins)
{
  ballast::random_source random(181);
  for (int trial = 0; trial < 500; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::int64_t const capacity = random.between(1, 100);
    std::vector<std::int64_t> weights(random.below(60));
    for (auto& weight : weights) { weight = random.between(0, capacity); }
    ballast::workspace memory;
    auto scratch = memory.open();
    std::vector<ballast::priced_sample> order(weights.size());
    ballast::descending_order_into(order, weights, memory);
    ballast::packing_problem const problem{weights, order, capacity};
    std::vector<bag_id> by_list(weights.size());
    std::vector<bag_id> by_tree(weights.size());
    std::size_t const bins = ballast::detail::best_fit_into(
        by_list, problem, ballast::detail::bins_by_room(capacity, weights.size(), scratch));
    EXPECT_EQ(ballast::detail::best_fit_into(by_tree, problem,
                                             ballast::detail::room_tree(weights.size(), scratch)),
              bins);
    EXPECT_EQ(by_list, by_tree);
    std::vector<std::int64_t> held(bins, 0);
    for (std::size_t sample = 0; sample < weights.size(); ++sample) {
      held[to_index(by_list[sample])] += weights[sample];
    }
    EXPECT_TRUE(std::ranges::all_of(held, [&](std::int64_t all) { return all <= capacity; }));
  }
}

}  // namespace
