// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/orchestration_problem.hpp>  // first: proves it is self-contained

#include "../support/small_orchestration.hpp"
#include "../support/test.hpp"

#include <ballast/cost/flops.hpp>
#include <ballast/cost/module_profile.hpp>

namespace {

using namespace ballast;
using testing::HasSubstr;

void expect_unsound(std::function<void(orchestration_problem&)> const& spoil, std::size_t position,
                    std::string const& why)
{
  auto problem = ballast_test::small_orchestration();
  spoil(problem);
  auto const checked = check_orchestration_problem(problem);
  ASSERT_FALSE(checked) << why;
  EXPECT_EQ(checked.error().code, ballast::error_code::out_of_range);
  EXPECT_EQ(checked.error().position, position) << why;
  EXPECT_THAT(checked.error().message, HasSubstr(why));
}

TEST(OrchestrationProblem, IsSound)
{
  EXPECT_TRUE(check_orchestration_problem(ballast_test::small_orchestration()));
}

TEST(OrchestrationProblem, SaysWhatIsWrongWithIt)
{
  using problem = orchestration_problem;
  expect_unsound([](problem& p) { p.modules.clear(); }, 0, "there is no module");
  expect_unsound([](problem& p) { p.kinds.clear(); }, 0, "there is no kind of GPUs to use");
  expect_unsound([](problem& p) { p.kinds.push_back({.gpus = 0}); }, 1,
                 "kind 1 has 0 GPUs on nodes of 8; give at least 1 of each");
  expect_unsound([](problem& p) { p.kinds[0].speed = {0, 1}; }, 0, "has a speed of 0 / 1");
  expect_unsound([](problem& p) { p.llm = 2; }, 0, "module 2 is to be the LLM, and there are 2");
  expect_unsound([](problem& p) { p.global_batch = 0; }, 0, "a global batch of 0 samples");
  expect_unsound([](problem& p) { p.global_batch = (1U << 24) + 1; }, 0, "give 1 to 16777216");
  expect_unsound([](problem& p) { p.microbatch = 5; }, 0,
                 "a batch of 12 samples is no whole number of microbatches of 5; give a divisor");
  expect_unsound([](problem& p) { p.microbatch = 0; }, 0, "microbatches of 0");
}

TEST(OrchestrationProblem, SaysWhatIsWrongWithAModule)
{
  using problem = orchestration_problem;
  expect_unsound([](problem& p) { p.modules[1].layers = 0; }, 1, "module llm has 0 layers");
  expect_unsound([](problem& p) { p.modules[1].virtual_stages = 5; }, 1,
                 "has stages of 5 virtual ones; give 1 to 4, its number of layers");
  expect_unsound([](problem& p) { p.modules[0].degrees.clear(); }, 0,
                 "module vision has times at no parallel degree");
  expect_unsound([](problem& p) { p.modules[1].degrees[1].tp = 1; }, 1,
                 "has degree tp 1 after tp 1");
  expect_unsound([](problem& p) { p.modules[1].degrees[0].tp = 0; }, 1,
                 "has a degree of tp 0, which is no number of GPUs from 1 to 2^32 - 1");
  expect_unsound([](problem& p) { p.modules[1].degrees[0].backward_of_input = 161; }, 1,
                 "takes 80 forward, 160 backward and 161 of it for its input at tp 1");
  expect_unsound([](problem& p) { p.modules[1].degrees[1].copies = 4; }, 1,
                 "has 4 copies on 2 GPUs; give a divisor");
  expect_unsound([](problem& p) { p.modules[1].degrees[0].forward = -1; }, 1, "takes -1 forward");
  expect_unsound([](problem& p) { p.modules[1].degrees[1].weight_bytes = problem::most_bytes + 1; },
                 1, "holds more than 2^53 bytes at tp 2");
  expect_unsound([](problem& p) { p.modules[0].boundary_bytes = problem::most_bytes + 1; }, 0,
                 "sends more than 2^53 bytes");
  expect_unsound(
      [](problem& p) {
        p.kinds[0].gpus_per_node = 6;
        p.modules[1].degrees[1].tp = 3;
      },
      0, "groups of 2 GPUs for module vision and of 3 for llm do not fill nodes together");
  expect_unsound([](problem& p) { p.modules[1].kinds = {0, 1}; }, 1,
                 "may get GPUs of kind 1, and the last one is 0");
  expect_unsound([](problem& p) { p.modules[0].kinds = {0, 0}; }, 0,
                 "may get GPUs of kind 0 after 0; give each kind once");
  expect_unsound([](problem& p) { p.kinds.resize(65, p.kinds[0]); }, 0,
                 "can be assigned to modules in more than 4096 ways");
}

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
