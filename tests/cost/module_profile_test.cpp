// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/cost/module_profile.hpp>

#include <string>

namespace {

using ballast::check_profile;
using ballast::find_degree;
using ballast::module_profile;
using testing::HasSubstr;

module_profile sound()
{
  return {.name = "encoder",
          .layers = 24,
          .flops = {.linear = 1000},
          .degrees = {{.tp = 1}, {.tp = 2}, {.tp = 8}}};
}

std::string said(module_profile const& module)
{
  auto const checked = check_profile(module);
  return checked ? "" : checked.error().message;
}

TEST(ModuleProfile, HasLayersWorkAndDegreesInOrder)
{
  EXPECT_EQ(said(sound()), "");
  auto module = sound();
  module.layers = 0;
  EXPECT_THAT(said(module), HasSubstr("module encoder has no layers"));
  module = sound();
  module.flops = {};
  EXPECT_THAT(said(module), HasSubstr("takes no FLOP"));
  module = sound();
  module.degrees.clear();
  EXPECT_THAT(said(module), HasSubstr("no parallel degree"));
  module = sound();
  module.boundary_bytes = (std::uint64_t{1} << 53) + 1;
  EXPECT_THAT(said(module), HasSubstr("gives more than 2^53 bytes"));
  module = sound();
  module.degrees[2].tp = 2;
  EXPECT_THAT(said(module), HasSubstr("has degree tp 2 after tp 2"));
  EXPECT_EQ(check_profile(module).error().position, 2U);
  module.degrees[2].ep = 2;
  EXPECT_EQ(said(module), "");
  module.degrees[1].sp = 2;
  EXPECT_THAT(said(module), HasSubstr("has degree tp 2 ep 2 after tp 2 sp 2"));
  module.degrees[2].sp = 0;
  EXPECT_THAT(said(module),
              HasSubstr("has a degree of tp 2 sp 0 ep 2, which is no number of GPUs"));
  module.degrees[2].sp = 1U << 31;
  EXPECT_THAT(said(module), HasSubstr("no number of GPUs from 1 to 2^32 - 1"));
  module = sound();
  module.degrees[1].memory.layers = {3, 3};
  EXPECT_THAT(said(module), HasSubstr("at tp 2: memory was measured with 3"));
}

TEST(ModuleProfile, FindsTheDegreesThatItWasMeasuredAt)
{
  auto const module = sound();
  EXPECT_EQ(find_degree(module, {1}), &module.degrees[0]);
  EXPECT_EQ(find_degree(module, {8}), &module.degrees[2]);
  EXPECT_EQ(find_degree(module, {4}), nullptr);
  EXPECT_EQ(find_degree(module, {8, 2}), nullptr);
  EXPECT_EQ(find_degree(module_profile{}, {1}), nullptr);
}

}  // namespace
