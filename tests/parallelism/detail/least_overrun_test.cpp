// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/detail/least_overrun.hpp>  // first: proves it is self-contained

#include "../../support/all_layouts.hpp"
#include "../../support/random_modules.hpp"

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

using ballast::detail::least_overrun;
using ballast::detail::overrun;
using ballast::detail::stage_memory;

TEST(LeastOverrun, IsThatOfTheLayoutThatNeedsLeast)  // Ensures (1)
{
  ballast::random_source random(77);
  int over = 0;
  for (int trial = 0; trial < 150; ++trial) {
    std::size_t const modules = 1 + random.below(3);
    std::uint64_t const bytes = std::uint64_t{1} << 30;
    auto const model = ballast_test::draw_model(random, modules, 4, false, bytes);
    ballast::layout_problem problem;
    problem.modules = model.modules;
    problem.sizes = model.sizes;
    problem.global_batch = static_cast<std::uint32_t>(1 + random.below(8));
    problem.gpus = static_cast<std::uint32_t>(1 + random.below(10));
    problem.memory_bytes = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t least = overrun::no_layout;
    for (ballast::model_layout const& layout : ballast_test::all_layouts(problem, true)) {
      least = std::min(least, layout.memory_bytes);
    }
    problem.memory_bytes = bytes / 4;
    stage_memory memory(problem);
    overrun const found = least_overrun(problem, memory).find();
    if (least == overrun::no_layout) {
      EXPECT_EQ(found.bytes, overrun::no_layout);
      continue;
    }
    EXPECT_EQ(found.bytes, least > problem.memory_bytes ? least - problem.memory_bytes : 0);
    EXPECT_LT(found.module, modules);
    EXPECT_TRUE(found.is_certain);
    over += found.bytes > 0 ? 1 : 0;
  }
  EXPECT_GT(over, 20);
}

}  // namespace
