#include <ballast/partition/detail/search/makespan_search.hpp>  // first: proves it is self-contained

#include "../../../support/direct_problem.hpp"
#include "../../../support/instances.hpp"
#include "../../../support/trials.hpp"

#include <gtest/gtest.h>
#include <ballast/core/detail/work_budget.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

using ballast::bag_id;
using ballast::cost_units;
using ballast::ratio;

struct search_outcome {
  ratio bound;
  ratio makespan;
  std::vector<cost_units> loads;
};

/// Searches from the worst plan there is, each sample in the last bag that it fits, and checks that
/// loads and owners stay a plan.
search_outcome search(ballast_test::instance const& step, std::vector<cost_units> const& starts,
                      ratio bound, std::uint64_t nodes)
{
  ballast_test::direct_problem const problem(step);
  ballast::partition_problem const view = problem.view();
  ballast::workspace memory;
  auto scratch = memory.open();
  std::vector<cost_units> loads = starts;
  std::vector<bag_id> owner(step.costs.size());
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    std::size_t bag = step.gpus.size() - 1;
    while (!ballast::partition_problem::splits(step.lengths[sample], step.gpus[bag])) { --bag; }
    owner[sample] = ballast::to_id<bag_id>(bag);
    loads[bag] += step.costs[sample];
  }
  ballast::detail::makespan_search improve(view, starts, scratch);
  ballast::detail::work_budget left(nodes);
  search_outcome end{improve(bound, left, loads, owner), {}, loads};

  std::vector<cost_units> recomputed = starts;
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    std::size_t const bag = to_index(owner[sample]);
    EXPECT_TRUE(ballast::partition_problem::splits(step.lengths[sample], step.gpus[bag]));
    recomputed[bag] += step.costs[sample];
  }
  EXPECT_EQ(loads, recomputed);
  for (std::size_t bag = 0; bag < loads.size(); ++bag) {
    end.makespan = std::max(end.makespan, ratio{loads[bag], step.speed_of(bag)});
  }
  return end;
}

TEST(MakespanSearch, MeetsTheOptimumFromAnyBound)
{
  ballast::random_source random(41);
  for (int trial = 0; trial < ballast_test::trials_of(1500); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = ballast_test::random_instance(random, 7, 4, trial % 2 == 0 ? 1 : 5);
    std::vector<cost_units> starts(step.gpus.size(), 0);
    if (random.below(3) == 0) {
      for (auto& start : starts) { start = random.between(0, 40); }
    }
    auto loads = starts;
    ratio const best = *ballast_test::optimum(step, loads);
    ratio bound;  // what every search is told at least
    for (std::size_t bag = 0; bag < starts.size(); ++bag) {
      bound = std::max(bound, ratio{starts[bag], step.speed_of(bag)});
    }
    for (ratio const told : {bound, std::max(bound, ratio{best.numerator / 2, best.denominator})}) {
      search_outcome const end = search(step, starts, told, 10'000'000);
      ASSERT_EQ(end.makespan, best);
      ASSERT_EQ(end.bound, best);
    }
    if (testing::Test::HasFailure()) { return; }
  }
}

TEST(MakespanSearch, StaysRightHoweverFewNodesItHas)
{
  ballast::random_source random(42);
  for (int trial = 0; trial < ballast_test::trials_of(1500); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = ballast_test::random_instance(random, 7, 4, trial % 2 == 0 ? 1 : 5);
    std::vector<cost_units> const starts(step.gpus.size(), 0);
    ratio const best = *ballast_test::optimum(step);
    ratio last_makespan{std::numeric_limits<std::int64_t>::max(), 1};
    for (std::uint64_t const nodes : {0U, 1U, 20U, 150U}) {
      search_outcome const end = search(step, starts, {}, nodes);
      ASSERT_LE(end.bound, best);
      ASSERT_GE(end.makespan, best);
      if (nodes == 0) { last_makespan = end.makespan; }
      ASSERT_LE(end.makespan, last_makespan);  // never worse than the plan that it is given
      ASSERT_EQ(end.loads, search(step, starts, {}, nodes).loads);
    }
    if (testing::Test::HasFailure()) { return; }
  }
}

TEST(MakespanSearch, LeavesRoomsThatAddUpToTooMuch)
{
  constexpr auto most = std::numeric_limits<std::int64_t>::max() - 2;
  ballast_test::instance const step{{1, 1, 1}, {most - 1, 1, 1}, {1, 1, 1}};
  search_outcome const end = search(step, {0, 0, 0}, {most - 1, 1}, 1000);
  EXPECT_EQ(end.bound, (ratio{most - 1, 1}));
  EXPECT_EQ(end.makespan, (ratio{most + 1, 1}));
}

}  // namespace
