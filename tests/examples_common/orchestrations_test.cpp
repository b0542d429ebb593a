// SPDX-License-Identifier: Apache-2.0
#include "../../examples/common/baselines/orchestrations.hpp"  // first: proves it is self-contained
#include "../support/test.hpp"

#include "../support/all_orchestrations.hpp"
#include "../support/random_orchestrations.hpp"
#include "../support/small_orchestration.hpp"
#include "../support/trials.hpp"

#include <ballast/parallelism/orchestrate.hpp>

namespace {

using ballast::orchestrate;
using baselines::by_flops;
using testing::HasSubstr;

TEST(ByFlops, SharesOutGpusAndFindsTheBestOfEachShare)
{
  auto problem = ballast_test::small_orchestration();
  // 1 : 8 of 16 GPUs are 1.8 and 14.2; what is left goes to the larger remainder.
  auto shared = problem;
  shared.kinds = {problem.kinds[0], problem.kinds[0]};
  shared.kinds[0].gpus = 2;
  shared.kinds[1].gpus = 14;
  shared.modules[0].kinds = {0};
  shared.modules[1].kinds = {1};
  auto const found = orchestrate(problem, by_flops{}).value();
  EXPECT_EQ(found.layout, ballast_test::best_of_all_orchestrations(shared));
  // A frozen encoder computes a third: 1 : 24 are 0.6 and 15.4.
  problem.modules[0].is_trained = false;
  shared.modules[0].is_trained = false;
  shared.kinds[0].gpus = 1;
  shared.kinds[1].gpus = 15;
  EXPECT_EQ(orchestrate(problem, by_flops{})->layout,
            ballast_test::best_of_all_orchestrations(shared));
}

TEST(ByFlops, GivesMoreGpusThanSharesWhereTheseDoNotSuffice)  // Ensures (1)
{
  auto problem = ballast_test::small_orchestration();
  problem.modules[1].forward_flops = 800;  // of 16 GPUs none is the encoder's
  auto const found = orchestrate(problem, by_flops{});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->layout.modules[0].gpus(), 1U);
  ballast::random_source random(23);
  for (int trial = 0; trial < ballast_test::trials_of(100); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const drawn = ballast_test::random_orchestration(random, 24, 24);
    auto const best = orchestrate(drawn);
    auto const shared = orchestrate(drawn, by_flops{});
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
  auto problem = ballast_test::small_orchestration();
  problem.modules[1].forward_flops = 0;
  EXPECT_EQ(orchestrate(problem, by_flops{}).error().position, 1U);
  EXPECT_THAT(orchestrate(problem, by_flops{}).error().message,
              HasSubstr("module llm has no FLOP to share out GPUs by"));
}

}  // namespace
