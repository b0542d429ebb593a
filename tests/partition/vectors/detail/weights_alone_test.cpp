#include <ballast/partition/vectors/detail/weights_alone.hpp>  // first: proves it is self-contained

#include "../../../support/bag_vectors.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace {

TEST(WeightsAlone, KeepsWhatDecidesWhereSamplesMayGo)  // Ensures (1)
{
  ballast::random_source random(31);
  for (int trial = 0; trial < 100; ++trial) {
    ballast_test::bag_vector_problem<2> const given{
        ballast_test::random_bag_vectors<2>(random, 9, 5)};
    auto problem = given.view();
    bool const plain = random.below(3) == 0;
    if (plain) { problem = {.costs = given.step.costs}; }
    std::size_t const bins = given.step.gpus.size();
    ballast::workspace memory;
    auto scratch = memory.open();
    auto const alone = ballast::detail::weights_alone(problem, bins, scratch);
    ASSERT_EQ(alone.gpus.size(), bins);
    ASSERT_EQ(alone.speeds.size(), bins);
    for (std::size_t sample = 0; sample < problem.costs.size(); ++sample) {
      EXPECT_EQ(alone.costs[sample], 0);
      for (std::size_t bin = 0; bin < bins; ++bin) {
        EXPECT_EQ(ballast::partition_problem::fits(alone.lengths[sample], alone.gpus[bin]),
                  problem.fits(sample, bin));
        EXPECT_EQ(alone.speeds[bin], problem.speed(bin));
      }
    }
    EXPECT_TRUE(std::ranges::equal(alone.weights, problem.weights));
    EXPECT_TRUE(std::ranges::equal(alone.capacities, problem.capacities));
  }
}

}  // namespace
