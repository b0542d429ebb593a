#include <ballast/partition/packing/minimum_bin_slack.hpp>  // first: proves it is self-contained

#include "../../support/packing_oracles.hpp"
#include "../../support/test.hpp"

#include <ballast/workload/synthetic_lengths.hpp>

namespace {

using namespace ballast;
using namespace ballast_test;

static_assert(packing_policy<minimum_bin_slack>);

TEST(MinimumBinSlack, OverrunsNoBin)  // Ensures (1)
{
  expect_valid_packings(minimum_bin_slack{}, 131);
  expect_valid_packings(minimum_bin_slack{.words_per_bin = 1}, 132);
  expect_packing_edges(minimum_bin_slack{});
}

RC_GTEST_PROP(MinimumBinSlack, IsFirstFitDecreasingWithoutExactFills, ())  // Ensures (2)
{
  packing_instance step{{}, *rc::gen::inRange<std::int64_t>(1, 200)};
  step.weights = *rc::gen::container<std::vector<std::int64_t>>(
      rc::gen::inRange<std::int64_t>(1, step.capacity + 1));
  auto const plan =
      pack_to_capacity(step.weights, step.capacity, minimum_bin_slack{.words_per_bin = 0});
  auto const first = pack_to_capacity(step.weights, step.capacity, first_fit_decreasing{});
  RC_ASSERT(plan.has_value() && first.has_value());
  RC_ASSERT(plan->owner == first->owner);
}

TEST(MinimumBinSlack, IsFirstFitDecreasingAboveTheLargestArray)  // Ensures (3)
{
  random_source random(133);
  std::int64_t const capacity = (std::int64_t{1} << 22) + 1;
  std::vector<std::int64_t> weights(300);
  for (auto& weight : weights) { weight = random.between(0, capacity); }
  auto const plan = pack_to_capacity(weights, capacity, minimum_bin_slack{});
  auto const first = pack_to_capacity(weights, capacity, first_fit_decreasing{});
  ASSERT_TRUE(plan && first);
  EXPECT_EQ(plan->owner, first->owner);
}

TEST(MinimumBinSlack, FillsWhatIsLeftExactly)
{
  // First fit puts 5 beside 6 and wastes 1, where 3 and 3 waste nothing.
  auto const two = pack_to_capacity(std::vector{6, 5, 4, 3, 3, 3}, 12, minimum_bin_slack{});
  ASSERT_TRUE(two);
  EXPECT_EQ(two->owner,
            (std::vector{bag_id{0}, bag_id{1}, bag_id{1}, bag_id{0}, bag_id{0}, bag_id{1}}));
  // First fit puts 8 beside 11, where no two samples add up to 9 but three do.
  auto const three = pack_to_capacity(std::vector{11, 8, 4, 3, 2}, 20, minimum_bin_slack{}).value();
  EXPECT_EQ(three.owner, (std::vector{bag_id{0}, bag_id{1}, bag_id{0}, bag_id{0}, bag_id{0}}));
}

TEST(MinimumBinSlack, ProvesStepsOfManyLengths)
{
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    random_source random(seed);
    clamped_lengths const lengths{lognormal_lengths{.median = 1024, .sigma = 1.0}, 1, 8192};
    auto const plan =
        pack_to_capacity(draw_lengths(lengths, 10'000, random), 8192, minimum_bin_slack{});
    ASSERT_TRUE(plan);
    EXPECT_TRUE(plan->proven_optimal()) << plan->bins() << " bins, bound " << plan->lower_bound;
  }
}

}  // namespace
