#include <ballast/partition/packing/packing_plan.hpp>  // first: proves it is self-contained

#include "../../support/packing_oracles.hpp"
#include "../../support/plan_checks.hpp"
#include "../../support/test.hpp"

#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/packing/best_fit_decreasing.hpp>
#include <ballast/partition/packing/minimum_bin_slack.hpp>

namespace {

using namespace ballast;
using namespace ballast_test;

static_assert(packing_rules{}.most_samples + 1 == 0);  // no limit
static_assert(packing_rules{}.least_bins == 0 && packing_rules{}.multiple_of == 1);
static_assert(packing_rules{}.length_multiple == 1 && !packing_rules{}.is_padded);

TEST(PackingPlan, KnowsWhenNoPackingHasFewerBinsAndHasADigestOfAll)
{
  packing_plan plan;
  plan.owner = {bag_id{0}, bag_id{1}, bag_id{0}};
  plan.weights = {4, 6, 5};
  plan.loads = {9, 6};
  plan.capacity = 10;
  plan.lower_bound = 2;
  plan.samples.collect(plan.owner, 2);
  EXPECT_EQ(plan.bins(), 2U);
  EXPECT_TRUE(plan.proven_optimal());
  expect_digest_of_all(
      plan, {[](auto& of) { of.owner[0] = bag_id{1}; }, [](auto& of) { of.weights[2] = 4; },
             [](auto& of) { of.loads[1] = 7; }, [](auto& of) { of.capacity = 11; }});
  plan.lower_bound = 1;
  EXPECT_FALSE(plan.proven_optimal());
  EXPECT_TRUE(packing_plan{}.proven_optimal());
}

// Satisfies packing_policy and nothing more: a bin for every sample.
struct one_to_a_bin {
  std::size_t operator()(packing_problem const& problem, std::span<bag_id> owner, workspace&) const
  {
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      owner[sample] = to_id<bag_id>(sample);
    }
    return problem.weights.size();
  }
};

struct says_nothing {
  void operator()(packing_problem const&, std::span<bag_id>, workspace&) const {}
};

static_assert(packing_policy<one_to_a_bin>);
static_assert(!packing_policy<says_nothing>);

// Says that no packing has fewer bins, which is true of heavy samples only.
struct proves_one_to_a_bin {
  packed_bins operator()(packing_problem const& problem, std::span<bag_id> owner,
                         workspace& memory) const
  {
    std::size_t const bins = one_to_a_bin{}(problem, owner, memory);
    return {bins, bins};
  }
};

static_assert(packing_policy<proves_one_to_a_bin>);

TEST(PackingPolicy, IsAllThatTheFrontDoorAsksFor)
{
  expect_valid_packings(one_to_a_bin{}, 3);
}

TEST(PackingPolicy, MayProveABound)
{
  std::vector<std::int64_t> const weights{7, 7};
  auto const plan = pack_to_capacity(weights, 14, proves_one_to_a_bin{}).value();
  EXPECT_EQ(plan.lower_bound, 2U);

  workspace memory;
  std::vector<priced_sample> const order{{7, sample_id{0}}, {7, sample_id{1}}};
  std::vector<bag_id> owner(2);
  packing_problem const problem{weights, order, 14};
  EXPECT_EQ(run_policy(one_to_a_bin{}, problem, std::span(owner), memory), (packed_bins{2, 0}));
  EXPECT_EQ(run_policy(proves_one_to_a_bin{}, problem, std::span(owner), memory),
            (packed_bins{2, 2}));
}

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

constexpr fewest_bins_of fewest_of_both{best_fit_decreasing{}, minimum_bin_slack{}};
static_assert(packing_policy<std::remove_const_t<decltype(fewest_of_both)>>);

TEST(FewestBinsOf, OverrunsNoBin)
{
  expect_valid_packings(fewest_of_both, 141);
  expect_packing_edges(fewest_of_both);
  expect_no_packing_allocation(fewest_of_both, 900);
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

}  // namespace
