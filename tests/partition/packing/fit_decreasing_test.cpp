#include <ballast/partition/packing/best_fit_decreasing.hpp>  // first: proves it is self-contained

#include "../../support/packing_oracles.hpp"
#include "../../support/test.hpp"

#include <ballast/partition/packing/first_fit_decreasing.hpp>
#include <ballast/partition/packing/minimum_bin_slack.hpp>
#include <ballast/workload/synthetic_lengths.hpp>

namespace {

using namespace ballast;
using namespace ballast_test;

// Samples that each fit a bin.
packing_instance any_packing(std::int64_t lightest)
{
  packing_instance step{{}, *rc::gen::inRange<std::int64_t>(lightest, 200)};
  step.weights = *rc::gen::container<std::vector<std::int64_t>>(
      rc::gen::inRange<std::int64_t>(lightest, step.capacity + 1));
  return step;
}

static_assert(packing_policy<best_fit_decreasing>);

constexpr std::int64_t largest_array = ballast::detail::bins_by_room::largest_capacity;

// Oracle: looks at every bin for every sample, as the definition says.
std::vector<bag_id> best_fit_by_scan(packing_instance const& step)
{
  struct open_bin {
    std::int64_t room;
    std::size_t filled;  // when
  };
  std::vector<open_bin> bins;
  std::vector<bag_id> owner(step.weights.size());
  std::size_t now = 0;
  for (std::size_t const sample : heaviest_first(step.weights)) {
    std::int64_t const weight = step.weights[sample];
    std::size_t best = bins.size();
    for (std::size_t bin = 0; bin < bins.size(); ++bin) {
      if (bins[bin].room < weight) { continue; }
      if (best == bins.size() || bins[bin].room < bins[best].room ||
          (bins[bin].room == bins[best].room && bins[bin].filled > bins[best].filled)) {
        best = bin;
      }
    }
    if (best == bins.size()) { bins.push_back({step.capacity, 0}); }
    bins[best] = {bins[best].room - weight, ++now};
    owner[sample] = to_id<bag_id>(best);
  }
  return owner;
}

TEST(BestFitDecreasing, OverrunsNoBin)  // Ensures (1)
{
  expect_valid_packings(best_fit_decreasing{}, 9);
  expect_packing_edges(best_fit_decreasing{});
}

RC_GTEST_PROP(BestFitDecreasing, AgreesWithAScanOfAllBins, ())  // Ensures (3)
{
  packing_instance const step = any_packing(0);
  auto const plan = pack(step, best_fit_decreasing{});
  RC_ASSERT(plan.has_value());
  RC_ASSERT(plan->owner == best_fit_by_scan(step));
}

TEST(BestFitDecreasing, PacksAlikeOnBothSidesOfTheLargestArray)  // Ensures (3)
{
  for (std::int64_t const capacity : {largest_array, largest_array + 1, std::int64_t{1} << 50}) {
    SCOPED_TRACE(testing::Message() << "capacity " << capacity);
    random_source random(14);
    packing_instance step{std::vector<std::int64_t>(2000), capacity};
    for (auto& weight : step.weights) {
      weight = random.between(0, 100) * (capacity / 300);  // ties and equal rooms
    }
    auto const plan = pack(step, best_fit_decreasing{});
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->owner, best_fit_by_scan(step));
  }
}

TEST(BestFitDecreasing, StaysWithinJohnsonsBound)  // Ensures (2)
{
  expect_small_packings(best_fit_decreasing{}, 15, 500, [](std::size_t bins, std::size_t fewest) {
    EXPECT_LE(9 * bins, 11 * fewest + 36);
  });
}

TEST(BestFitDecreasing, PrefersTheFullestBinToTheFirst)
{
  // 15 leaves 5 in the first bin, 11 and 6 leave 3 in the second: 3 goes where it leaves nothing.
  auto const plan = pack_to_capacity(std::vector{15, 11, 6, 3}, 20, best_fit_decreasing{}).value();
  EXPECT_EQ(plan.owner, (std::vector{bag_id{0}, bag_id{1}, bag_id{1}, bag_id{1}}));
}

static_assert(packing_policy<first_fit_decreasing>);

// Oracle: looks at every bin for every sample, as the definition says.
std::vector<bag_id> first_fit_by_scan(packing_instance const& step)
{
  std::vector<std::int64_t> room;
  std::vector<bag_id> owner(step.weights.size());
  for (std::size_t const sample : heaviest_first(step.weights)) {
    std::size_t bin = 0;
    while (bin < room.size() && room[bin] < step.weights[sample]) { ++bin; }
    if (bin == room.size()) { room.push_back(step.capacity); }
    room[bin] -= step.weights[sample];
    owner[sample] = to_id<bag_id>(bin);
  }
  return owner;
}

TEST(FirstFitDecreasing, OverrunsNoBin)  // Ensures (1)
{
  expect_valid_packings(first_fit_decreasing{}, 8);
  expect_packing_edges(first_fit_decreasing{});
}

RC_GTEST_PROP(FirstFitDecreasing, AgreesWithAScanOfAllBins, ())  // Ensures (3)
{
  packing_instance const step = any_packing(0);
  auto const plan = pack(step, first_fit_decreasing{});
  RC_ASSERT(plan.has_value());
  RC_ASSERT(plan->owner == first_fit_by_scan(step));
}

TEST(FirstFitDecreasing, AgreesWithAScanOfManyBins)  // Ensures (3)
{
  random_source random(11);
  packing_instance step{std::vector<std::int64_t>(5000), 8192};
  for (auto& weight : step.weights) { weight = random.between(0, 8192); }
  auto const plan = pack(step, first_fit_decreasing{}).value();
  EXPECT_EQ(plan.owner, first_fit_by_scan(step));
}

TEST(FirstFitDecreasing, StaysWithinDosasBound)  // Ensures (2)
{
  expect_small_packings(first_fit_decreasing{}, 12, 500, [](std::size_t bins, std::size_t fewest) {
    EXPECT_LE(9 * bins, 11 * fewest + 6);
  });
}

static_assert(packing_policy<minimum_bin_slack>);

TEST(MinimumBinSlack, OverrunsNoBin)  // Ensures (1)
{
  expect_valid_packings(minimum_bin_slack{}, 131);
  expect_valid_packings(minimum_bin_slack{.words_per_bin = 1}, 132);
  expect_packing_edges(minimum_bin_slack{});
}

RC_GTEST_PROP(MinimumBinSlack, IsFirstFitDecreasingWithoutExactFills, ())  // Ensures (2)
{
  packing_instance const step = any_packing(1);
  auto const plan = pack(step, minimum_bin_slack{.words_per_bin = 0});
  auto const first = pack(step, first_fit_decreasing{});
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
