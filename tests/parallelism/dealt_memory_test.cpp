// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/simulate_layout.hpp>  // first: proves it is self-contained

#include "../support/random_modules.hpp"
#include "../support/simulated_memory.hpp"
#include "../support/test.hpp"

namespace {

using ballast::dealt_memory;
using ballast::layout_problem;
using ballast::model_layout;
using ballast::tokens;
using testing::HasSubstr;

TEST(DealtMemory, IsNotBelowWhatIsHeldInSimulation)
{
  ballast::random_source random(5);
  int equal = 0;
  int tried = 0;
  for (int trial = 0; trial < 400; ++trial) {
    std::size_t const modules = 1 + random.below(3);
    auto model = ballast_test::draw_model(random, modules, 1, false, std::uint64_t{1} << 30);
    if (random.below(2) == 0) { ballast_test::add_groups(random, model.modules); }
    model_layout layout;
    for (auto const& module : model.modules) {
      auto const& degree = module.degrees[random.below(module.degrees.size())];
      layout.modules.push_back(
          {degree.tp, static_cast<std::uint32_t>(1 + random.below(std::min(module.layers, 4U))),
           static_cast<std::uint32_t>(1 + random.below(4)), degree.sp, degree.ep});
    }
    layout.microbatches = static_cast<std::uint32_t>(1 + random.below(8));
    layout_problem problem;
    problem.modules = model.modules;
    problem.sizes = model.sizes;
    problem.gpus = static_cast<std::uint32_t>(layout.gpus());
    problem.memory_bytes = ~std::uint64_t{0};
    problem.global_batch = static_cast<std::uint32_t>(
        layout.microbatches * layout.modules.back().dp * (1 + random.below(3)));
    auto batch = ballast_test::draw_model(random, modules, problem.global_batch, true, 1).sizes;
    bool const is_equal = trial % 2 == 0 && problem.global_batch % layout.microbatches == 0;
    if (is_equal) {
      for (std::size_t at = modules; at < batch.size(); ++at) { batch[at] = batch[at % modules]; }
    }
    auto const bytes = dealt_memory(problem, layout, batch);
    if (!bytes) { continue; }  // groups of GPUs that do not lie inside nodes
    std::uint64_t const held = ballast_test::held_in_simulation(problem, layout, batch);
    ASSERT_GE(*bytes, held) << trial;
    ++tried;
    equal += *bytes == held ? 1 : 0;
  }
  EXPECT_GE(tried, 200);
  EXPECT_GE(equal, tried / 3);
}

TEST(DealtMemory, CountsTheShareOfMicrobatchesThatHasToFit)
{
  ballast::module_profile module{
      .name = "llm", .layers = 1, .flops = {.linear = 1}, .degrees = {{.tp = 1}}};
  module.degrees[0].memory = {.layers = {1, 2},
                              .state_bytes = {5, 10},
                              .sizes = {0, 1},
                              .activation_bytes = {{{0, 1}, {0, 2}}}};
  std::array<tokens, 4> const batch{10, 40, 20, 30};
  layout_problem problem{
      .modules = {&module, 1}, .sizes = batch, .global_batch = 4, .memory_bytes = 1000};
  model_layout const layout{{{1, 1, 1}}, 4};
  EXPECT_EQ(dealt_memory(problem, layout, batch), 45U);
  problem.memory_quantile = {3, 4};
  EXPECT_EQ(dealt_memory(problem, layout, batch), 35U);
  EXPECT_THAT(dealt_memory(problem, layout, std::span(batch).first(3)).error().message,
              HasSubstr("batches has 3 sizes, no whole number of batches"));
  EXPECT_FALSE(dealt_memory(problem, {{{1, 1, 1}}, 5}, batch));
}

}  // namespace
