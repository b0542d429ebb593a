#include <ballast/partition/packing/refine_bins.hpp>  // first: proves it is self-contained

#include "../../support/packing_oracles.hpp"
#include "../../support/test.hpp"

#include <ballast/partition/packing/first_fit_decreasing.hpp>

namespace {

using namespace ballast;
using namespace ballast_test;

constexpr refine_bins<> refine_packing{};
static_assert(packing_policy<refine_bins<>>);

packing_instance uniform_packing(std::size_t samples, std::int64_t from, std::int64_t to,
                                 std::uint64_t seed)
{
  random_source random(seed);
  packing_instance step{std::vector<std::int64_t>(samples), 10'000};
  for (auto& weight : step.weights) { weight = random.between(from, to); }
  return step;
}

TEST(RefineBins, OverrunsNoBin)  // Ensures (1)
{
  expect_valid_packings(refine_bins<>{.steps = 1 << 15}, 151);
  expect_valid_packings(refine_bins<>{.steps = 1, .steps_per_sample = 0}, 152);
  expect_packing_edges(refine_packing);
  expect_no_packing_allocation(refine_bins<>{.steps = 1 << 12}, 20'000);
}

TEST(RefineBins, IsNeverAboveTheOthers)  // Ensures (2)
{
  random_source random(153);
  for (int trial = 0; trial < trials_of(200); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = near_parts_of_capacity(random, 100);
    auto const bins = [&](packing_ref const& policy) {
      auto const plan = pack(step, policy);
      EXPECT_TRUE(plan);
      return plan ? plan->bins() : 0;
    };
    std::size_t const refined = bins(refine_packing);
    EXPECT_LE(refined, bins(first_fit_decreasing{}));
    EXPECT_LE(refined, bins(best_fit_decreasing{}));
    EXPECT_LE(refined, bins(minimum_bin_slack{}));
  }
}

TEST(RefineBins, FindsAndProvesTheOptimaOfSmallSteps)
{
  auto const found = expect_small_packings(refine_packing, 154, 500, [](auto, auto) {});
  EXPECT_EQ(found.optimal, 500);
  EXPECT_EQ(found.proven, 500);
}

TEST(RefineBins, KnowsHowManyFitABin)
{
  // Three to a bin; the sum alone says 600.
  auto const thirds = uniform_packing(2000, 2600, 3400, 1);
  auto const plan = pack(thirds, refine_packing).value();
  EXPECT_EQ(plan.bins(), 667U);
  EXPECT_TRUE(plan.proven_optimal());
}

TEST(RefineBins, PacksFewKindsToTheOptimum)
{
  random_source random(155);
  packing_instance step{std::vector<std::int64_t>(2000), 10'000};
  for (auto& weight : step.weights) { weight = random.below(2) == 0 ? 3000 : 4000; }
  auto const two_kinds = pack(step, refine_packing).value();
  EXPECT_TRUE(two_kinds.proven_optimal());

  auto const thirds = uniform_packing(2000, 3300, 3366, 2);
  auto const noisy = pack(thirds, refine_packing).value();
  EXPECT_LE(noisy.bins(), noisy.lower_bound + 1);
}

TEST(RefineBins, PacksThirdsOfALargeCapacityAsThoseOfASmallOne)
{
  for (std::int64_t const third :
       {std::int64_t{1000}, std::int64_t{1} << 56, std::int64_t{1} << 59}) {
    packing_instance step{{}, 3 * third};
    for (std::int64_t const less : {2, 3, 0, 4, 1, 3}) { step.weights.push_back(third - less); }
    step.weights[2] = 3 * third - step.weights[0] - step.weights[1];
    step.weights[5] = 3 * third - step.weights[3] - step.weights[4];
    auto const plan = pack(step, refine_packing);
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_EQ(plan->bins(), 2U) << third;
  }
}

TEST(RefineBins, PacksAFifthToAHalfWithinABinOrTwo)
{
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    auto const step = uniform_packing(2000, 2000, 5000, seed);
    auto const plan = pack(step, refine_packing);
    ASSERT_TRUE(plan);
    EXPECT_LE(plan->bins(), plan->lower_bound + 2);
    // Above 2^17 weights are rounded up for the search, not for the bound.
    auto const fine = pack_to_capacity(step.weights, step.capacity << 40, refine_packing,
                                       [](std::int64_t weight) { return weight << 40; });
    ASSERT_TRUE(fine);
    EXPECT_LE(100 * fine->bins(), 101 * fine->lower_bound);
  }
}

TEST(RefineBins, ProvesMostSmallStepsOfAFifthToAThird)
{
  std::size_t proven = 0;
  for (std::uint64_t seed = 9; seed <= 20; ++seed) {
    auto const step = uniform_packing(120, 2000, 3500, seed);
    auto const plan = pack(step, refine_packing);
    ASSERT_TRUE(plan);
    proven += plan->proven_optimal() ? 1U : 0U;
  }
  EXPECT_GE(proven, 10U);  // 4 where attempts begin with 24 bins
}

}  // namespace
