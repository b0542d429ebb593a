// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/model_layout.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"

namespace {

using ballast::module_layout;

static_assert(module_layout{2, 9, 9} < module_layout{4, 1, 1});  // Ensures (1)
static_assert(module_layout{2, 1, 9} < module_layout{2, 2, 1});
static_assert(module_layout{2, 2, 1} < module_layout{2, 2, 2});

TEST(ModuleLayout, CountsItsGpus)
{
  EXPECT_EQ((module_layout{8, 4, 3}.gpus()), 96U);
  constexpr std::uint32_t many = 1U << 20;
  EXPECT_EQ((module_layout{many, many, 1}.gpus()), std::uint64_t{1} << 40);
}

TEST(ModelLayout, CountsTheGpusOfAllModules)
{
  ballast::model_layout layout;
  EXPECT_EQ(layout.gpus(), 0U);
  layout.modules = {{8, 4, 3}, {1, 1, 5}};
  EXPECT_EQ(layout.gpus(), 101U);
}

}  // namespace
