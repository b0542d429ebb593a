#include <ballast/partition/packing/packing_plan.hpp>  // first: proves it is self-contained

#include "../../support/packing_oracles.hpp"
#include "../../support/steady_state.hpp"
#include "../../support/test.hpp"

#include <ballast/partition/packing/best_fit_decreasing.hpp>
#include <ballast/partition/packing/minimum_bin_slack.hpp>

namespace {

using namespace ballast;
using namespace ballast_test;

constexpr fewest_bins_of fewest_of_both{best_fit_decreasing{}, minimum_bin_slack{}};
static_assert(packing_policy<std::remove_const_t<decltype(fewest_of_both)>>);

TEST(FewestBinsOf, OverrunsNoBin)
{
  expect_valid_packings(fewest_of_both, 141);
  expect_packing_edges(fewest_of_both);
}

TEST(FewestBinsOf, IsTheBetterOfBoth)  // Ensures (1)
{
  random_source random(142);
  int first_is_better = 0;
  int second_is_better = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = random_packing(random, 60);
    auto const first = pack(step, fewest_of_both.first);
    auto const second = pack(step, fewest_of_both.second);
    auto const plan = pack(step, fewest_of_both);
    ASSERT_TRUE(first && second && plan);
    ASSERT_EQ(plan->bins(), std::min(first->bins(), second->bins()));
    if (first->bins() <= second->bins()) { EXPECT_EQ(plan->owner, first->owner); }
    first_is_better += first->bins() < second->bins() ? 1 : 0;
    second_is_better += second->bins() < first->bins() ? 1 : 0;
  }
  EXPECT_GT(first_is_better, 0);
  EXPECT_GT(second_is_better, 0);
}

TEST(FewestBinsOf, FindsMostOptimaOfSmallSteps)
{
  EXPECT_GE(expect_small_packings(fewest_of_both, 143, 500, [](auto, auto) {}).optimal, 490);
}

TEST(FewestBinsOf, AllocatesNothingInTheSteadyState)
{
  random_source random(144);
  std::vector<std::int64_t> weights(1000, 500);  // one to a bin: the most bins
  packing_plan plan;
  workspace memory;
  auto const step = [&] {
    auto const done = pack_to_capacity_into(plan, memory, weights, 900, fewest_of_both);
    for (auto& weight : weights) { weight = random.between(200, 500); }
    return done.has_value();
  };
  expect_steady_state(step, 2);
}

}  // namespace
