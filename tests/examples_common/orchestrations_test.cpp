// SPDX-License-Identifier: Apache-2.0
#include "../../examples/common/baselines/orchestrations.hpp"  // first: proves it is self-contained
#include "../support/test.hpp"

#include "../support/all_orchestrations.hpp"
#include "../support/random_orchestrations.hpp"
#include "../support/small_orchestration.hpp"
#include "../support/trials.hpp"

namespace {

using ballast::orchestrate;
using ballast_test::small_job;
using baselines::by_flops;
using testing::HasSubstr;

TEST(ByFlops, SharesOutGpusAndFindsTheBestOfEachShare)
{
  small_job job;
  // 1 : 8 of 16 GPUs are 1.8 and 14.2; what is left goes to the larger remainder.
  small_job shared;
  shared.problem.kinds = {job.problem.kinds[0], job.problem.kinds[0]};
  shared.problem.kinds[0].gpus = 2;
  shared.problem.kinds[1].gpus = 14;
  shared.roles[0].kinds = {0};
  shared.roles[1].kinds = {1};
  auto const expect_shared = [&] {
    auto const best = ballast_test::all_orchestrations(shared.view(), {}).best();
    ASSERT_TRUE(best);
    auto const found = by_flops{}(job.view()).value().layout;
    EXPECT_EQ(found.modules, best->modules);
    EXPECT_EQ(found.step, best->step);
  };
  expect_shared();
  // A frozen encoder computes a third: 1 : 24 are 0.6 and 15.4.
  job.roles[0].is_trained = shared.roles[0].is_trained = false;
  shared.problem.kinds[0].gpus = 1;
  shared.problem.kinds[1].gpus = 15;
  expect_shared();
}

TEST(ByFlops, GivesMoreGpusThanSharesWhereTheseDoNotSuffice)  // Ensures (1)
{
  small_job job;
  job.modules[1].flops.linear = 24'000;  // of 16 GPUs none is the encoder's
  auto const found = by_flops{}(job.view());
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->layout.modules[0].gpus(), 1U);
  ballast::random_source random(23);
  for (int trial = 0; trial < ballast_test::trials_of(100); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    ballast_test::random_job const drawn(random, 24, 24);
    auto const best = orchestrate(drawn.problem, {}, drawn.options);
    auto const shared = by_flops{}(drawn.problem, drawn.options);
    if (!shared && shared.error().code == ballast::error_code::out_of_range) { continue; }
    ASSERT_EQ(shared.has_value(), best.has_value());
    if (!best) {
      EXPECT_EQ(shared.error().message, best.error().message);
    } else {
      EXPECT_GE(shared->layout.step, best->layout.step);
    }
  }
}

TEST(ByFlops, SaysWhatIsMissing)
{
  small_job job;
  job.sizes = {1, 0};
  EXPECT_EQ(by_flops{}(job.view()).error().position, 1U);
  EXPECT_THAT(by_flops{}(job.problem).error().message,
              HasSubstr("module llm has no FLOP to share out GPUs by"));
}

}  // namespace
