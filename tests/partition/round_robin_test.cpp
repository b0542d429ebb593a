#include <ballast/partition/round_robin.hpp>  // first: proves it is self-contained

#include "../support/policy_checks.hpp"
#include "../support/test.hpp"

namespace {

using namespace ballast;
using namespace ballast_test;

static_assert(partition_policy<round_robin>);

TEST(RoundRobin, PlacesEverySampleInABagItFits)  // Ensures (1) (2)
{
  expect_valid_plans(round_robin{}, 1);
  expect_starting_loads_counted(round_robin{});
}

TEST(RoundRobin, DealsSamplesInTurn)  // Ensures (3)
{
  instance const step{{1, 1, 1, 1, 1}, {9, 9, 9, 9, 9}, {1, 1, 1}};
  auto const plan = plan_instance(step, round_robin{}).value();
  EXPECT_EQ(plan.owner, (std::vector{bag_id{0}, bag_id{1}, bag_id{2}, bag_id{0}, bag_id{1}}));
}

TEST(RoundRobin, PassesAShortSampleOnToTheNextBagItFits)
{
  instance const step{{2, 2, 8}, {1, 1, 1}, {4, 2, 8}};
  auto const plan = plan_instance(step, round_robin{}).value();
  EXPECT_EQ(plan.owner, (std::vector{bag_id{1}, bag_id{1}, bag_id{2}}));
}

}  // namespace
