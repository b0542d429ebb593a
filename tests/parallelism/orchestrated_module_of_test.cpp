// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/orchestration_problem.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"

#include <ballast/cost/flops.hpp>
#include <ballast/cost/module_profile.hpp>

namespace {

using ballast::module_profile;
using ballast::orchestrated_module_of;
using testing::HasSubstr;

// A FLOP takes a picosecond; 16 bytes a layer, and a byte of activations for each item and layer.
module_profile eight_layers()
{
  return {.name = "llm",
          .layers = 8,
          .flops = {.linear = 30, .quadratic = 6},
          .degrees = {{.tp = 2,
                       .linear = {},
                       .attention = {},
                       .memory = {.layers = {1, 8},
                                  .state_bytes = {16, 128},
                                  .sizes = {0, 10},
                                  .activation_bytes = {{{0, 10}, {0, 80}}}}}}};
}

TEST(OrchestratedModuleOf, SharesOutWhatAStepTakes)
{
  auto profile = eight_layers();
  profile.boundary_bytes = 7;
  auto const module = orchestrated_module_of(profile, 10).value();
  EXPECT_EQ(module.name, "llm");
  EXPECT_EQ(module.layers, 8U);
  EXPECT_EQ(module.forward_flops, 100U + 200U);
  EXPECT_EQ(module.boundary_bytes, 70U);
  auto const& [tp, forward, backward, backward_of_input, weights, gradients, optimizer, held,
               copies, sp, ep] = module.degrees.at(0);
  EXPECT_EQ(tp, 2U);
  EXPECT_EQ(forward, 150);
  EXPECT_EQ(backward, 300);
  EXPECT_EQ(backward_of_input, 250) << "half of the products with weights, all of attention";
  EXPECT_EQ(weights, 16U);
  EXPECT_EQ(gradients, 16U);
  EXPECT_EQ(optimizer, 96U);
  EXPECT_EQ(held, 80U);
  EXPECT_EQ(copies, 1U);
  EXPECT_EQ(sp * ep, 1U);
}

TEST(OrchestratedModuleOf, HasTheWeightsOnceForEachSp)
{
  auto profile = eight_layers();
  auto const expected = orchestrated_module_of(profile, 10).value().degrees.at(0);
  profile.degrees[0].tp = 1;
  profile.degrees[0].sp = 2;
  auto of = orchestrated_module_of(profile, 10).value().degrees.at(0);
  EXPECT_EQ(of.copies, 2U);
  EXPECT_EQ(degree_of(of), (ballast::parallel_degree{1, 2, 1}));
  of.tp = 2;
  of.sp = of.copies = 1;
  EXPECT_EQ(of, expected) << "times of as many GPUs";
}

TEST(OrchestratedModuleOf, RecomputesBackward)
{
  auto profile = eight_layers();
  profile.flops = {.linear = 40, .quadratic = 8};
  auto const module =
      orchestrated_module_of(profile, 10, {.recompute = 1}, {.weights = 4, .optimizer = 0}).value();
  EXPECT_EQ(module.degrees[0].forward, 150);
  EXPECT_EQ(module.degrees[0].backward, 450);
  EXPECT_EQ(module.degrees[0].backward_of_input, 400);
  EXPECT_EQ(module.degrees[0].weight_bytes, 86U);  // 128 * 4 / 6
  EXPECT_EQ(module.degrees[0].optimizer_bytes, 0U);
  EXPECT_EQ(orchestrated_module_of(profile, 0)->degrees[0].forward, 0);
}

TEST(OrchestratedModuleOf, SaysWhatIsWrong)
{
  auto profile = eight_layers();
  EXPECT_THAT(orchestrated_module_of(profile, -1).error().message,
              HasSubstr("a sample of size -1 in module llm"));
  profile.boundary_bytes = std::uint64_t{1} << 53;
  EXPECT_THAT(orchestrated_module_of(profile, 2).error().message,
              HasSubstr("gives more than 2^53 bytes from module llm"));
  profile.boundary_bytes = 0;
  profile.flops.quadratic = 1 << 30;
  EXPECT_THAT(orchestrated_module_of(profile, ballast::longest_sample).error().message,
              HasSubstr("takes more than 2^53 picoseconds or bytes at tp 2"));
  profile.layers = 0;
  EXPECT_THAT(orchestrated_module_of(profile, 1).error().message, HasSubstr("has no layers"));
}

TEST(OrchestratedModuleOfDeathTest, NeedsAPassAndBytes)
{
  auto const profile = eight_layers();
  EXPECT_DEATH((void)orchestrated_module_of(profile, 1, {.forward = 0}), "no forward pass");
  EXPECT_DEATH((void)orchestrated_module_of(profile, 1, {}, {0, 0, 0}), "no byte of weight");
}

}  // namespace
