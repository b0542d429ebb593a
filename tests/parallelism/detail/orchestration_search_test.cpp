// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/detail/orchestration_search.hpp>  // first: proves it is self-contained

#include "../../support/small_orchestration.hpp"

#include <gtest/gtest.h>
#include <ballast/parallelism/model_layout.hpp>

#include <vector>

namespace {

using ballast::module_layout;
using ballast::detail::orchestration_search;
using ballast::detail::unit_options;

TEST(OrchestrationSearch, LeavesGpusUnusedThatDoNotHelp)
{
  auto problem = ballast_test::small_orchestration();
  problem.modules.erase(problem.modules.begin());
  problem.llm = 0;
  problem.global_batch = 3;
  unit_options const options(problem, {});
  orchestration_search search(options);
  search.run();
  ASSERT_TRUE(search.has_found());
  // Three replicas take a sample each; stages of a pipeline would only wait for one another.
  EXPECT_EQ(search.best().modules, (std::vector<module_layout>{{2, 1, 3}}));
  EXPECT_EQ(search.best().step, 120);
  EXPECT_GT(search.evaluated(), 0U);
}

TEST(OrchestrationSearch, FindsNothingWhereNothingFits)
{
  auto problem = ballast_test::small_orchestration();
  problem.kinds[0].memory_bytes = 10;
  unit_options const options(problem, {});
  orchestration_search search(options);
  search.run();
  EXPECT_FALSE(search.has_found());
}

}  // namespace
