// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/detail/layout_search.hpp>  // first: proves it is self-contained

#include "../../support/all_layouts.hpp"
#include "../../support/random_modules.hpp"

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <cstdint>

namespace {

using ballast::detail::layout_search;

TEST(LayoutSearch, EndsWithAllLayoutsWhereThereAreFewer)  // Ensures (1)
{
  ballast::random_source random(31);
  int searched = 0;
  for (int trial = 0; trial < 40; ++trial) {
    auto const model = ballast_test::draw_model(random, 2, 3, false, std::uint64_t{1} << 30);
    ballast::layout_problem problem;
    problem.modules = model.modules;
    problem.sizes = model.sizes;
    problem.global_batch = 6;
    problem.gpus = 5;
    problem.memory_bytes = std::uint64_t{1} << 30;
    auto const expected = ballast_test::all_layouts(problem);
    if (expected.empty()) { continue; }
    ballast::detail::layout_prices prices(problem);
    layout_search search(problem, expected.size() + 1, prices);
    search.run();
    EXPECT_TRUE(search.best() == expected);
    EXPECT_GE(search.evaluated(), expected.size());
    ++searched;
  }
  EXPECT_GE(searched, 10);
}

TEST(LayoutSearch, PricesFewOfTheLayouts)
{
  ballast::random_source random(5);
  auto const model = ballast_test::draw_model(random, 2, 8, true, std::uint64_t{1} << 30);
  ballast::layout_problem problem;
  problem.modules = model.modules;
  problem.sizes = model.sizes;
  problem.global_batch = 64;
  problem.gpus = 48;
  problem.memory_bytes = std::uint64_t{1} << 31;
  auto const all = ballast_test::all_layouts(problem);
  ASSERT_GT(all.size(), 500U);
  ballast::detail::layout_prices prices(problem);
  layout_search search(problem, 1, prices);
  search.run();
  EXPECT_EQ(search.best().front(), all.front());
  EXPECT_LT(search.evaluated(), all.size() / 4);
}

}  // namespace
