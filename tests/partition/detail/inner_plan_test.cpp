#include <ballast/partition/detail/inner_plan.hpp>  // first: proves it is self-contained

#include "../../support/direct_problem.hpp"

#include <gtest/gtest.h>

#include <span>
#include <vector>

namespace {

using ballast::bag_id;
using ballast::cost_units;
using ballast::ratio;

// Puts all samples in the first bag, and says that no plan is faster than `proven`.
struct proven_all_in_one {
  ratio proven;

  ratio operator()(ballast::partition_problem const& problem, std::span<cost_units> loads,
                   std::span<bag_id> owner, ballast::workspace&) const
  {
    EXPECT_GT(problem.lower_bound, ratio{});  // the inner policy need not compute it
    for (bag_id& bag : owner) { bag = bag_id{0}; }
    for (cost_units const cost : problem.costs) { loads[0] += cost; }
    return proven;
  }
  friend bool operator==(proven_all_in_one const&, proven_all_in_one const&) = default;
};

struct inner_outcome {
  std::vector<cost_units> starts;
  std::vector<cost_units> loads;
  ratio bound;
};

// Samples of 6 and 2 in two bags, of which the second has 2 at the start: no plan is below 6.
inner_outcome run(ratio proven, ratio known = {})
{
  ballast_test::direct_problem const given({{1, 1}, {6, 2}, {1, 1}});
  ballast::partition_problem problem = given.view();
  problem.lower_bound = known;
  inner_outcome result{{}, {0, 2}, {}};
  std::vector<bag_id> owner(2, bag_id{2});
  ballast::workspace memory;
  auto scratch = memory.open();
  auto const inner = ballast::detail::run_inner_policy(proven_all_in_one{proven}, problem,
                                                       result.loads, owner, memory, scratch);
  result.starts.assign(inner.starts.begin(), inner.starts.end());
  result.bound = inner.bound;
  return result;
}

TEST(InnerPlan, KeepsWhatBagsHadAtTheStart)
{
  inner_outcome const inner = run({});
  EXPECT_EQ(inner.starts, (std::vector<cost_units>{0, 2}));
  EXPECT_EQ(inner.loads, (std::vector<cost_units>{8, 2}));
  EXPECT_EQ(proven_all_in_one{}, proven_all_in_one{});
}

TEST(InnerPlan, ReturnsTheLargestBound)  // Ensures (1)
{
  EXPECT_EQ(run({}).bound, (ratio{6, 1}));
  EXPECT_EQ(run({7, 1}).bound, (ratio{7, 1}));
  EXPECT_EQ(run({5, 1}).bound, (ratio{6, 1}));
  EXPECT_EQ(run({}, {3, 1}).bound, (ratio{3, 1}));  // it takes the bound that the problem has
}

// As it, among plans that put all samples in one bag.
struct restricted_to_one : proven_all_in_one {
  [[nodiscard]] static constexpr bool restricts() { return true; }
};

TEST(InnerPlan, DoesNotTakeWhatIsProvenOfSomePlansOnly)  // Ensures (1)
{
  ballast_test::direct_problem const given({{1, 1}, {6, 2}, {1, 1}});
  ballast::workspace memory;
  auto scratch = memory.open();
  std::vector<cost_units> loads{0, 0};
  std::vector<bag_id> owner(2, bag_id{2});
  auto const inner = ballast::detail::run_inner_policy(restricted_to_one{{{8, 1}}}, given.view(),
                                                       loads, owner, memory, scratch);
  EXPECT_EQ(loads, (std::vector<cost_units>{8, 0}));
  EXPECT_EQ(inner.bound, (ratio{6, 1}));
}

TEST(InnerPlan, IsThatOfLongestProcessingTimeWhereThatIsBetter)
{
  ballast_test::direct_problem const given({{1, 1}, {6, 2}, {1, 1}});
  ballast::workspace memory;
  auto scratch = memory.open();
  std::vector<cost_units> loads{0, 1};
  std::vector<bag_id> owner(2, bag_id{2});
  auto const inner = ballast::detail::run_inner_policy_or_lpt(proven_all_in_one{}, given.view(),
                                                              loads, owner, memory, scratch);
  EXPECT_EQ(loads, (std::vector<cost_units>{6, 3}));
  EXPECT_EQ(owner, (std::vector{bag_id{0}, bag_id{1}}));
  EXPECT_EQ(inner.bound, (ratio{6, 1}));
  EXPECT_EQ(inner.starts[1], 1);
}

}  // namespace
