#include <ballast/partition/packing/packing_plan.hpp>  // first: proves it is self-contained

#include "../../support/packing_oracles.hpp"
#include "../../support/test.hpp"

#include <ballast/partition/descending_order.hpp>

namespace {

using namespace ballast;
using namespace ballast_test;

std::size_t bound(packing_instance const& step)
{
  workspace memory;
  std::vector<priced_sample> order(step.weights.size());
  descending_order_into(order, step.weights, memory);
  return packing_lower_bound({step.weights, order, step.capacity});
}

// Oracle: the definition, with every threshold from 0 to half the capacity, in O(n C).
std::size_t by_definition(packing_instance const& step)
{
  std::size_t best = step.weights.empty() ? 0 : 1;
  for (std::int64_t least = 0; 2 * least <= step.capacity; ++least) {
    std::int64_t alone = 0;
    std::int64_t open = 0;
    std::int64_t rest = 0;  // of the small samples, after they fill the open bins
    for (std::int64_t const weight : step.weights) {
      if (weight > step.capacity - least) {
        ++alone;
      } else if (2 * weight > step.capacity) {
        ++open;
        rest -= step.capacity - weight;
      } else if (weight >= least) {
        rest += weight;
      }
    }
    std::int64_t more = 0;
    while (more * step.capacity < rest) { ++more; }
    best = std::max(best, static_cast<std::size_t>(alone + open + more));
  }
  return best;
}

TEST(PackingLowerBound, IsNeverAboveTheFewestBins)  // Ensures (1)
{
  random_source random(31);
  int tight = 0;
  for (int trial = 0; trial < 1000; ++trial) {
    auto const step = random_packing(random, 9);
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::size_t const fewest = fewest_bins(step);
    ASSERT_LE(bound(step), fewest);
    tight += bound(step) == fewest ? 1 : 0;
  }
  EXPECT_GE(tight, 900);
}

RC_GTEST_PROP(PackingLowerBound, IsTheLargestOverAllThresholds, ())
{
  packing_instance step{{}, *rc::gen::inRange<std::int64_t>(1, 60)};
  step.weights = *rc::gen::container<std::vector<std::int64_t>>(
      rc::gen::inRange<std::int64_t>(0, step.capacity + 1));
  RC_ASSERT(bound(step) == by_definition(step));
}

TEST(PackingLowerBound, SeesMoreThanTheSum)
{
  EXPECT_EQ(bound({{6, 6, 6}, 10}), 3U);           // 18 / 10 needs two
  EXPECT_EQ(bound({{7, 7, 7, 4, 4, 4}, 10}), 5U);  // 33 / 10 needs four
  EXPECT_EQ(bound({{5, 5, 5, 5, 1}, 10}), 3U);     // the sum
}

TEST(PackingLowerBound, CountsABinForSamplesOfNoWeight)  // Ensures (2)
{
  EXPECT_EQ(bound({{}, 10}), 0U);
  EXPECT_EQ(bound({{0, 0}, 10}), 1U);
  EXPECT_EQ(bound({{0, 0}, 0}), 1U);
}

TEST(PackingLowerBound, WorksUpToTheLargestCapacity)
{
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() - 1;
  EXPECT_EQ(bound({{most}, most}), 1U);
  EXPECT_EQ(bound({{most / 2 + 1, most / 2 - 1}, most}), 1U);
  EXPECT_EQ(bound({{most / 2, most / 2}, most / 2}), 2U);
}

}  // namespace
