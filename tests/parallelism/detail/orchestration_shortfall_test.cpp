// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/detail/orchestration_shortfall.hpp>  // first: proves it is self-contained

#include "../../support/small_orchestration.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using ballast::detail::orchestration_shortfall;
using ballast::detail::unit_options;
using ballast::detail::unit_restrictions;
using testing::HasSubstr;

ballast::error shortfall_of(ballast::orchestration_problem const& problem,
                            unit_restrictions const& asked = {})
{
  unit_options const options(problem, asked);
  auto const sentence = orchestration_shortfall(options).sentence();
  EXPECT_EQ(sentence.value().code, ballast::error_code::infeasible);
  return sentence.value();
}

TEST(OrchestrationShortfall, SaysHowMuchMemoryIsMissing)
{
  auto problem = ballast_test::small_orchestration();
  problem.kinds[0].memory_bytes = 30;
  // At tp 2, 4 stages, 12 replicas: (40 + 40 + 240 / 12) / 4 + 20.
  EXPECT_EQ(shortfall_of(problem).position, 1U);
  EXPECT_THAT(
      shortfall_of(problem).message,
      HasSubstr("module llm needs 15 bytes more than the 30 of a GPU where it comes closest "
                "(tp 2 pp 4 dp 12)"));
}

TEST(OrchestrationShortfall, SaysHowManyGpusAreMissing)
{
  auto problem = ballast_test::small_orchestration();
  problem.kinds[0].gpus = 1;
  EXPECT_EQ(shortfall_of(problem).position, 0U);
  EXPECT_THAT(shortfall_of(problem).message,
              HasSubstr("the closest (vision tp 1 pp 1 dp 1, llm tp 1 pp 1 dp 1) needs 1 more than "
                        "the 1; use more GPUs"));
  problem.kinds.push_back(problem.kinds[0]);
  problem.modules[1].kind = 1;
  problem.kinds[1].memory_bytes = 400;
  EXPECT_EQ(shortfall_of(problem).position, 1U);
  EXPECT_THAT(shortfall_of(problem).message,
              HasSubstr("(llm tp 1 pp 2 dp 1) needs 1 more than the 1 of kind 1"));
}

TEST(OrchestrationShortfall, SaysWhichDegreeCannotBe)
{
  auto problem = ballast_test::small_orchestration();
  problem.kinds[0].gpus_per_node = 3;
  problem.modules[1].degrees.erase(problem.modules[1].degrees.begin());
  EXPECT_EQ(shortfall_of(problem).position, 1U);
  EXPECT_THAT(shortfall_of(problem).message,
              HasSubstr("module llm has times at no tensor-parallel degree that can be used on "
                        "nodes of 3 GPUs"));
  problem.kinds[0].gpus_per_node = 8;
  EXPECT_THAT(shortfall_of(problem, {.has_one_degree = true, .pp = 7}).message,
              HasSubstr("number of stages that they may have"));
}

TEST(OrchestrationShortfall, SaysWhereTimesDoNotFit)
{
  auto problem = ballast_test::small_orchestration();
  problem.global_batch = 1 << 24;
  problem.kinds[0].speed = {1, ballast::orchestration_problem::most_speed};
  for (auto& each : problem.modules[1].degrees) {
    each.forward = ballast::orchestration_problem::longest_time;
  }
  EXPECT_THAT(shortfall_of(problem).message, HasSubstr("takes 2^63 picoseconds or more"));
}

}  // namespace
