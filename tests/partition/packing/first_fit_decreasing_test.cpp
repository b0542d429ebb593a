#include <ballast/partition/packing/first_fit_decreasing.hpp>  // first: proves it is self-contained

#include "../../support/packing_oracles.hpp"
#include "../../support/test.hpp"

namespace {

using namespace ballast;
using namespace ballast_test;

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
  packing_instance step{{}, *rc::gen::inRange<std::int64_t>(0, 200)};
  step.weights = *rc::gen::container<std::vector<std::int64_t>>(
      rc::gen::inRange<std::int64_t>(0, step.capacity + 1));
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

}  // namespace
