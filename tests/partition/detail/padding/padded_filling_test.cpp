#include <ballast/partition/detail/padding/padded_filling.hpp>  // first: proves it is self-contained

#include "../../../support/direct_problem.hpp"
#include "../../../support/instances.hpp"
#include "../../../support/trials.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

namespace {

using ballast::cost_units;
using ballast::uint128;
using ballast::detail::finishing_times;
using ballast::detail::padded_batch;
using ballast::detail::padded_filling;
using ballast_test::direct_problem;
using ballast_test::instance;

// Which samples each bag gets by a time, and who is left.
struct filling {
  std::map<std::size_t, std::vector<std::size_t>> bags;
  std::vector<std::size_t> left;
  uint128 finish;
  uint128 next;
};
filling fill(direct_problem const& problem, std::vector<cost_units> const& start, uint128 time)
{
  ballast::workspace memory;
  auto scratch = memory.open();
  auto const view = problem.view();
  finishing_times const times(view, start, scratch);
  padded_filling bags(view, times, scratch);
  filling got;
  auto const outcome = bags.fill(time, [&](padded_batch const& batch) {
    for (auto const each : batch.samples) { got.bags[batch.bag].push_back(to_index(each.sample)); }
  });
  for (auto const each : outcome.left) { got.left.push_back(to_index(each.sample)); }
  got.finish = outcome.finish;
  got.next = outcome.next;
  return got;
}

using batches = std::map<std::size_t, std::vector<std::size_t>>;

TEST(PaddedFilling, FillsBagsInDescendingOrder)
{
  direct_problem const problem(instance{{9, 9, 9, 9, 9}, {10, 6, 6, 5, 1}, {1, 1}});
  auto const tight = fill(problem, {0, 0}, 12);
  EXPECT_EQ(tight.bags, (batches{{0, {0}}, {1, {1, 2}}}));
  EXPECT_EQ(tight.left, (std::vector<std::size_t>{3, 4}));
  EXPECT_TRUE(tight.finish == 12);
  EXPECT_TRUE(tight.next == 18);  // three times 6, before two times 10
  auto const ample = fill(problem, {0, 0}, 20);
  EXPECT_EQ(ample.bags, (batches{{0, {0, 1}}, {1, {2, 3, 4}}}));
  EXPECT_TRUE(ample.left.empty());
}

TEST(PaddedFilling, StartsWithTheFastestBagAndSkipsThoseWithoutTime)
{
  direct_problem problem(instance{{9, 9, 9}, {10, 6, 2}, {1, 1, 1}});
  problem.speeds = {1, 2, 2};
  EXPECT_EQ(fill(problem, {0, 0, 0}, 10).bags, (batches{{1, {0}}, {2, {1}}, {0, {2}}}));
  EXPECT_EQ(fill(problem, {0, 5, 0}, 12).bags, (batches{{2, {0}}, {0, {1}}}));
}

TEST(PaddedFilling, LeavesShortSamplesToSmallBags)
{
  // Samples of 1, 2 and 4 tokens in bags of 1, 2 and 4 GPUs, each of a speed that is its size.
  direct_problem const problem(instance{{1, 4, 2, 4, 1, 0}, {9, 8, 7, 6, 5, 4}, {1, 2, 4}});
  auto const got = fill(problem, {0, 0, 0}, 12 * 4);
  EXPECT_EQ(got.bags, (batches{{2, {1, 3, 5}}, {1, {2}}, {0, {0}}}));
  EXPECT_EQ(got.left, (std::vector<std::size_t>{4}));
}

TEST(PaddedFilling, IsTheSameFromFinishToBeforeNext)  // Ensures (1) (2)
{
  ballast::random_source random(13);
  for (int trial = 0; trial < ballast_test::trials_of(2000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    direct_problem const problem(ballast_test::random_instance(random, 20, 6, 5));
    std::vector<cost_units> const start(problem.step.gpus.size(), random.between(0, 10));
    ballast::workspace memory;
    auto scratch = memory.open();
    finishing_times const times(problem.view(), start, scratch);
    auto const time = times.least() + random.below(10000);
    auto const got = fill(problem, start, time);
    EXPECT_LE(got.finish, time);
    EXPECT_GT(got.next, time);
    EXPECT_EQ(fill(problem, start, std::max(got.finish, times.least())).bags, got.bags);
    if (got.next < (uint128{1} << 60)) {  // else there is none
      EXPECT_EQ(fill(problem, start, got.next - 1).bags, got.bags);
      EXPECT_NE(fill(problem, start, got.next).bags, got.bags);
    }
    ASSERT_TRUE(fill(problem, start, times.enough()).left.empty());
    if (testing::Test::HasFailure()) { return; }
  }
}

TEST(PaddedFilling, KnowsWhetherSizesMatter)
{
  auto const all_fit = [](instance const& step) {
    direct_problem const problem(step);
    std::vector<cost_units> const start(step.gpus.size(), 0);
    ballast::workspace memory;
    auto scratch = memory.open();
    auto const view = problem.view();
    finishing_times const times(view, start, scratch);
    return padded_filling(view, times, scratch).all_fit();
  };
  EXPECT_TRUE(all_fit({{}, {}, {1, 2}}));
  EXPECT_TRUE(all_fit({{2, 0}, {1, 1}, {1, 2}}));
  EXPECT_FALSE(all_fit({{2, 1}, {1, 1}, {1, 2}}));
}

}  // namespace
