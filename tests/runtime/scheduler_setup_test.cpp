#include <ballast/runtime/scheduled_step.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"
#include "scheduled_steps.hpp"

namespace {

using ballast::error_code;
using ballast::replica_groups;
using ballast_test::small_setup;
using testing::HasSubstr;

TEST(SchedulerSetup, HasAsManyGroupsAsItsReplicasShare)
{
  EXPECT_EQ(replica_groups(small_setup(6, 4), 2), 6U);
  EXPECT_EQ(ballast::scheduled_module{}.all_layers(), 1U);
  EXPECT_EQ(small_setup(1, 4).modules[1].all_layers(), 29U);
}

TEST(SchedulerSetup, SaysWhatIsWrong)  // Errors
{
  auto setup = small_setup(2, 4);
  EXPECT_THAT(replica_groups(setup, 1).error().message,
              HasSubstr("a scheduler of 1 module was given 2"));
  setup.modules[1].layers = {0, 0, 0};
  EXPECT_EQ(replica_groups(setup, 2).error().position, 1U);
  setup = small_setup(2, 4);
  setup.modules[0].replicas = 0;
  EXPECT_EQ(replica_groups(setup, 2).error().code, error_code::out_of_range);
  setup.modules[0].replicas = 4;
  EXPECT_THAT(replica_groups(setup, 2).error().message,
              HasSubstr("5 stages in each of 2 groups of replicas, and the schedule has 4"));
}

}  // namespace
