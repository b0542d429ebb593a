// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/layout_pipeline.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"

namespace {

using ballast::stage_time;
using ballast::tokens;

TEST(LayoutTimes, DivideTheWorkOfASampleByTheGpusOfAGroup)
{
  // One unit of work a picosecond: 30 l + 15 l^2, on two GPUs.
  ballast::module_profile const module{.name = "m",
                                       .layers = 5,
                                       .flops = {.linear = 30, .quadratic = 15},
                                       .degrees = {{.tp = 1}, {.tp = 2}}};
  std::array<tokens, 2> const drawn{1, 5};
  ballast::layout_problem problem{.modules = {&module, 1}, .sizes = drawn};
  ballast::layout_times<1> const times(problem, {{{2, 1, 1}}, 1});
  EXPECT_THAT(times(std::array<tokens, 1>{4}), testing::ElementsAre(stage_time{60, 120}));
  EXPECT_THAT(times(std::array<tokens, 1>{0}), testing::ElementsAre(stage_time{0, 0}));
}

}  // namespace
