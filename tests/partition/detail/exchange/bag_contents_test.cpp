#include <ballast/partition/detail/exchange/bag_contents.hpp>  // first: proves it is self-contained

#include "../../../support/instances.hpp"  // defines: ballast_test::random_instance

#include <gtest/gtest.h>
#include <ballast/core/detail/work_budget.hpp>
#include <ballast/partition/descending_order.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using ballast::bag_id;
using ballast::detail::bag_contents;

// A random step with every sample in a random bag that it fits, or in none.
struct placed_step {
  explicit placed_step(ballast::random_source& random)
      : step(ballast_test::random_instance(random, 20, 4, 4)), order(step.costs.size())
  {
    ballast::descending_order_into(order, step.costs, memory);
    for (ballast::tokens const length : step.lengths) {
      std::size_t const bag = random.below(step.gpus.size() + 1);
      bool const fits =
          bag < step.gpus.size() && ballast::partition_problem::fits(length, step.gpus[bag]);
      owner.push_back(ballast::to_id<bag_id>(fits ? bag : step.gpus.size()));
    }
  }

  [[nodiscard]] ballast::partition_problem problem() const
  {
    return {step.costs, step.lengths, order, step.gpus, step.gpus};
  }

  ballast_test::instance step;
  std::vector<ballast::priced_sample> order;
  std::vector<bag_id> owner;
  ballast::workspace memory;
};

std::vector<bag_contents::rank> samples_of(bag_contents const& contents, std::size_t bag)
{
  std::vector<bag_contents::rank> samples;
  for (auto each = contents.lightest(bag); each != bag_contents::none;
       each = contents.heavier(each)) {
    samples.push_back(each);
  }
  return samples;
}

// Every list is what the owners say, lightest first, without samples that cost nothing.
void expect_agreement(bag_contents const& contents, placed_step const& placed)
{
  for (std::size_t bag = 0; bag < placed.step.gpus.size(); ++bag) {
    std::vector<bag_contents::rank> expected;
    for (std::size_t place = placed.order.size(); place-- > 0;) {
      auto const [cost, sample] = placed.order[place];
      if (cost > 0 && to_index(placed.owner[to_index(sample)]) == bag) {
        expected.push_back(static_cast<bag_contents::rank>(place));
      }
    }
    EXPECT_EQ(samples_of(contents, bag), expected) << "bag " << bag;
  }
}

TEST(BagContents, ListsWhatOwnersSayAndKeepsItThroughMoves)
{
  ballast::random_source random(21);
  for (int trial = 0; trial < 500; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    placed_step placed(random);
    auto scratch = placed.memory.open();
    bag_contents contents(placed.problem(), placed.owner, scratch);
    expect_agreement(contents, placed);
    for (int move = 0; move < 10; ++move) {
      std::size_t const from = random.below(placed.step.gpus.size());
      std::size_t const to = random.below(placed.step.gpus.size());
      if (from == to) { continue; }
      std::vector<bag_contents::rank> moved;
      for (auto const each : samples_of(contents, from)) {
        if (random.below(2) == 0) { moved.push_back(each); }
      }
      contents.move(moved, from, to);
      expect_agreement(contents, placed);
    }
    if (HasFailure()) { return; }
  }
}

TEST(BagContents, PassesOverSamplesTooShortForTheOtherBag)
{
  std::vector<ballast::cost_units> const costs{9, 8, 7, 6};
  std::vector<ballast::tokens> const lengths{4, 0, 2, 3};
  std::vector<ballast::priced_sample> order(4);
  std::vector<std::uint32_t> const gpus{1, 4};
  std::vector<bag_id> owner(4, bag_id{0});
  ballast::workspace memory;
  ballast::descending_order_into(order, costs, memory);
  auto scratch = memory.open();
  bag_contents const contents({costs, lengths, order, gpus, gpus}, owner, scratch);
  EXPECT_EQ(contents.lightest(0), 3U);
  EXPECT_EQ(contents.first_movable(3, 0, 1), 1U);  // a sample of no tokens fits everywhere
  EXPECT_EQ(contents.first_movable(0, 0, 1), 0U);
  EXPECT_EQ(contents.first_movable(3, 1, 0), 3U);
  EXPECT_EQ(contents.first_movable(bag_contents::none, 0, 1), bag_contents::none);
  ballast::detail::work_budget work(10);
  EXPECT_EQ(contents.first_movable(3, 0, 1, work), 1U);
  EXPECT_EQ(work.left(), 8U);  // it passed over two samples
}

}  // namespace
