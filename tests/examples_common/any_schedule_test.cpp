#include "../../examples/common/by_name/any_schedule.hpp"  // first: proves it is self-contained
#include "../support/test.hpp"

namespace {

using ballast::chain_of_stages;
using by_name::any_schedule;
using interleaved = ballast::interleaved_one_forward_one_backward;

static_assert(ballast::schedule_policy<any_schedule>);

TEST(AnySchedule, WritesTheScheduleOfThePolicyThatItHolds)  // Ensures (1)
{
  for (std::size_t microbatches = 0; microbatches < 9; ++microbatches) {
    auto const one = chain_of_stages(4, 4);
    auto const two = chain_of_stages(8, 4);
    EXPECT_EQ(any_schedule{ballast::gpipe{}}(two, microbatches),
              ballast::gpipe{}(two, microbatches));
    EXPECT_EQ(any_schedule{ballast::one_forward_one_backward{}}(one, microbatches),
              ballast::one_forward_one_backward{}(one, microbatches));
    EXPECT_EQ((any_schedule{interleaved{}, 2}(two, microbatches)),
              interleaved{}(two, microbatches));
  }
}

TEST(AnySchedule, PassesRefusalsOn)
{
  auto const two = chain_of_stages(8, 4);
  EXPECT_EQ(any_schedule{ballast::one_forward_one_backward{}}(two, 4),
            ballast::one_forward_one_backward{}(two, 4));
  EXPECT_FALSE(any_schedule{ballast::one_forward_one_backward{}}(two, 4));
}

TEST(AnySchedule, DiffersByPolicyAndByVirtualStages)
{
  EXPECT_EQ(any_schedule{}, any_schedule{ballast::gpipe{}});
  EXPECT_NE(any_schedule{ballast::gpipe{}}, any_schedule{interleaved{}});
  EXPECT_NE((any_schedule{interleaved{}, 2}), (any_schedule{interleaved{}, 3}));
}

}  // namespace
