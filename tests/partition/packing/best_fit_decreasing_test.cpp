#include <ballast/partition/packing/best_fit_decreasing.hpp>  // first: proves it is self-contained

#include "../../support/packing_oracles.hpp"
#include "../../support/test.hpp"

namespace {

using namespace ballast;
using namespace ballast_test;

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
  packing_instance step{{}, *rc::gen::inRange<std::int64_t>(0, 200)};
  step.weights = *rc::gen::container<std::vector<std::int64_t>>(
      rc::gen::inRange<std::int64_t>(0, step.capacity + 1));
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

}  // namespace
