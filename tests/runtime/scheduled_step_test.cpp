#include <ballast/runtime/scheduled_step.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"

namespace {

using ballast::bag_id;
using ballast::sample_id;
using ballast::scheduled_step;
using testing::ElementsAre;
using testing::IsEmpty;

// Two groups of one replica of module 0 and two of module 1, two microbatches each; six samples.
scheduled_step<2> two_groups()
{
  scheduled_step<2> step;
  step.number = 4;
  step.microbatches = 2;
  step.stages = {{0, 0, 1, 1}, {1, 0, 1, 1}, {1, 1, 1, 1}};
  step.times.assign(2, ballast::pipeline_times(2, 3));
  step.replicas = {2, 4};
  step.owner[0] = {bag_id{0}, bag_id{3}, bag_id{1}, bag_id{2}, bag_id{3}, bag_id{0}};
  step.owner[1] = {bag_id{0}, bag_id{6}, bag_id{3}, bag_id{5}, bag_id{7}, bag_id{1}};
  step.samples[0].collect(step.owner[0], 4);
  step.samples[1].collect(step.owner[1], 8);
  return step;
}

TEST(ScheduledStep, SaysWhatEachReplicaComputesAtEachPosition)  // Ensures (1)
{
  auto const step = two_groups();
  EXPECT_EQ(step.pipelines(), 2U);
  EXPECT_EQ(step.ranks(), 6U);
  EXPECT_THAT(step.microbatch(0, 0, 0), ElementsAre(sample_id{0}, sample_id{5}));
  EXPECT_THAT(step.microbatch(0, 1, 1), ElementsAre(sample_id{1}, sample_id{4}));
  EXPECT_THAT(step.microbatch(1, 0, 0), ElementsAre(sample_id{0}));
  EXPECT_THAT(step.microbatch(1, 1, 0), ElementsAre(sample_id{5}));
  EXPECT_THAT(step.microbatch(1, 1, 1), ElementsAre(sample_id{2}));
  EXPECT_THAT(step.microbatch(1, 0, 1), IsEmpty());
  EXPECT_THAT(step.microbatch(1, 3, 1), ElementsAre(sample_id{4}));
}

TEST(ScheduledStep, HasADigestOfAllThatRanksHaveToAgreeOn)
{
  auto const step = two_groups();
  EXPECT_EQ(step.digest(), two_groups().digest());
  auto other = step;
  other.number = 5;
  EXPECT_NE(other.digest(), step.digest());
  other = step;
  other.owner[1][2] = bag_id{2};
  EXPECT_NE(other.digest(), step.digest());
  other = step;
  other.makespan = 1;
  EXPECT_NE(other.digest(), step.digest());
}

TEST(ScheduledStep, SaysHowFarItIsFromTheBound)
{
  auto step = two_groups();
  step.largest_load = 103;
  step.largest_load_bound = 100;
  EXPECT_DOUBLE_EQ(step.largest_load_gap(), 0.03);
  EXPECT_EQ(scheduled_step<2>{}.largest_load_gap(), 0);
}

TEST(ScheduledStepDeathTest, HasNoOtherMicrobatches)  // Expects
{
  auto const step = two_groups();
  EXPECT_DEATH((void)step.microbatch(0, 2, 0), "microbatch 0 of replica 2 of module 0");
}

}  // namespace
