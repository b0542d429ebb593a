#include <ballast/partition/longest_processing_time.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"
#include "../support/vector_checks.hpp"

#include <ballast/partition/partition.hpp>

namespace {

using namespace ballast;
using namespace ballast_test;

static_assert(cost_vector_policy<longest_processing_time, 1>);
static_assert(cost_vector_policy<longest_processing_time, 4>);

TEST(VectorLongestProcessingTime, PlacesEverySample)  // Ensures (1) (2)
{
  expect_valid_vector_plans(longest_processing_time{}, 61);
}

// Oracle: looks at every bin for every sample, as the definition says.
template <std::size_t D>
std::vector<bag_id> scan_all_bins(vector_step<D> const& step)
{
  std::vector<std::size_t> order(step.costs.size());
  for (std::size_t sample = 0; sample < order.size(); ++sample) { order[sample] = sample; }
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    auto const largest_a = std::ranges::max(step.costs[a]);
    auto const largest_b = std::ranges::max(step.costs[b]);
    return largest_a > largest_b || (largest_a == largest_b && a < b);
  });
  std::vector<cost_vector<D>> loads(step.gpus.size(), cost_vector<D>{});
  std::vector<bag_id> owner(step.costs.size());
  for (std::size_t const sample : order) {
    auto const with_sample = [&](cost_vector<D> load) {
      for (std::size_t d = 0; d < D; ++d) { load[d] += step.costs[sample][d]; }
      return std::ranges::max(load);
    };
    auto const best = std::ranges::min_element(loads, {}, with_sample);  // of equals the first
    for (std::size_t d = 0; d < D; ++d) { (*best)[d] += step.costs[sample][d]; }
    owner[sample] = to_id<bag_id>(static_cast<std::size_t>(best - loads.begin()));
  }
  return owner;
}

RC_GTEST_PROP(VectorLongestProcessingTime, AgreesWithAScanOfAllBins, ())  // Ensures (3)
{
  vector_step<3> step;
  step.gpus.assign(*rc::gen::inRange<std::size_t>(1, 12), 1);
  step.costs = *rc::gen::container<std::vector<cost_vector<3>>>(
      rc::gen::container<cost_vector<3>>(rc::gen::inRange<std::int64_t>(0, 50)));
  auto const plan = plan_vectors(step, longest_processing_time{});
  RC_ASSERT(plan.has_value());
  RC_ASSERT(plan->owner == scan_all_bins(step));
}

TEST(VectorLongestProcessingTime, GivesTiesToLowestSampleThenLowestBin)  // Ensures (3)
{
  std::vector<cost_vector<2>> const costs{{5, 0}, {0, 5}, {5, 5}, {5, 1}};
  auto const plan = plan_in_bins(costs, 2, longest_processing_time{}).value();
  // The second sample adds nothing to what the first bin's largest load is.
  EXPECT_EQ(plan.owner, (std::vector{bag_id{0}, bag_id{0}, bag_id{1}, bag_id{0}}));
}

TEST(VectorLongestProcessingTime, WorksUpToTheLargestTotal)
{
  constexpr auto most = std::numeric_limits<std::int64_t>::max() - 1;
  std::vector<cost_vector<2>> const costs{{most / 2, most / 2}, {most / 2, most / 2}};
  auto const one = plan_in_bins(costs, 1, longest_processing_time{}).value();
  EXPECT_EQ(one.makespan, ratio{most / 2 * 2});
  auto const two = plan_in_bins(costs, 2, longest_processing_time{}).value();
  EXPECT_TRUE(two.proven_optimal());
}

TEST(VectorLongestProcessingTimeDeathTest, RefusesMismatchedSpans)
{
  std::vector<cost_vector<2>> const costs{{1, 1}};
  std::vector<cost_vector<2>> loads;
  std::vector<bag_id> owner(1);
  workspace memory;
  cost_vector_problem<2> const problem{costs};
  EXPECT_DEATH(longest_processing_time{}(problem, std::span(loads), std::span(owner), memory),
               "without bags");
}

}  // namespace
