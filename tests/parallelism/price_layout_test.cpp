// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/simulate_layout.hpp>  // first: proves it is self-contained

#include "../support/random_modules.hpp"
#include "../support/simulated_memory.hpp"
#include "../support/test.hpp"
#include "../support/trials.hpp"

#include <ballast/parallelism/model_layout.hpp>

namespace {

using namespace ballast;
using testing::HasSubstr;

constexpr std::uint64_t endless_memory = std::numeric_limits<std::uint64_t>::max();

/// The formulas of the documentation in floating point, for one sample in each module.
double seconds_of(layout_problem const& problem, std::span<module_layout const> layout,
                  std::uint32_t microbatches, std::vector<tokens> const& sample)
{
  double slowest = 0;
  double stages = 0;
  for (std::size_t module = 0; module < layout.size(); ++module) {
    auto const& profile = problem.modules[module];
    auto const [tp, pp, dp, sp, ep] = layout[module];
    auto const& degree = *std::find_if(
        profile.degrees.begin(), profile.degrees.end(), [&own = layout[module]](auto const& each) {
          return each.tp == own.tp && each.sp == own.sp && each.ep == own.ep;
        });
    double const batch = double{1} * problem.global_batch / (microbatches * double{1} * dp);
    auto const size = static_cast<double>(sample[module]);
    // How long 1e18 FLOP take says how many FLOP are done in a second.
    auto const flops_per_second = [](auto const& throughput, tokens at) {
      return 1e30 / static_cast<double>(throughput.picoseconds(1'000'000'000'000'000'000, at));
    };
    double const linear = static_cast<double>(profile.flops.linear) * size * batch;
    double const attention = static_cast<double>(profile.flops.quadratic) * size * size * batch;
    auto const shape = static_cast<tokens>(std::ceil(size * batch - 1e-9));
    slowest = std::max(slowest, (linear / flops_per_second(degree.linear, shape) +
                                 attention / flops_per_second(degree.attention, sample[module])) /
                                    (double{1} * tp * sp * ep * pp));
    stages += pp;
  }
  return (microbatches + stages - 1) * slowest;
}

TEST(PriceLayout, IsWhatTheFormulasSay)
{
  ballast::random_source random(4);
  for (int trial = 0; trial < 300; ++trial) {
    auto model = ballast_test::draw_model(random, 2, 5, true, std::uint64_t{1} << 30);
    if (random.below(2) == 0) { ballast_test::add_groups(random, model.modules); }
    layout_problem problem{.modules = model.modules,
                           .sizes = model.sizes,
                           .global_batch = static_cast<std::uint32_t>(16 + random.below(500)),
                           .memory_bytes = endless_memory};
    std::vector<module_layout> layout;
    problem.gpus = 0;
    for (auto const& module : model.modules) {
      auto const& degree = module.degrees[random.below(module.degrees.size())];
      layout.push_back({degree.tp, static_cast<std::uint32_t>(1 + random.below(module.layers)),
                        static_cast<std::uint32_t>(1 + random.below(16)), degree.sp, degree.ep});
      problem.gpus += static_cast<std::uint32_t>(layout.back().gpus());
    }
    problem.gpus_per_node = 8;
    auto const microbatches =
        static_cast<std::uint32_t>(1 + random.below(problem.global_batch / layout[1].dp));

    std::vector<tokens> mean(2);
    double mean_step = 0;
    for (std::size_t sample = 0; sample < 5; ++sample) {
      std::vector<tokens> const sizes{model.sizes[2 * sample], model.sizes[2 * sample + 1]};
      mean[0] += sizes[0];
      mean[1] += sizes[1];
      mean_step += seconds_of(problem, layout, microbatches, sizes) / 5;
    }
    for (tokens& each : mean) { each = (each + 4) / 5; }

    auto const of_mean = price_layout(problem, layout, microbatches);
    problem.estimate = step_estimate::mean_step;
    auto const of_all = price_layout(problem, layout, microbatches);
    bool const straddles = !ballast::place_layout(layout, problem.gpus, 8).has_value();
    ASSERT_EQ(of_mean.has_value(), !straddles);
    if (straddles) { continue; }
    double const expected = seconds_of(problem, layout, microbatches, mean);
    EXPECT_NEAR(static_cast<double>(of_mean->step) * 1e-12, expected, 1e-6 * expected);
    EXPECT_NEAR(static_cast<double>(of_all->step) * 1e-12, mean_step, 1e-6 * mean_step);
  }
}

TEST(PriceLayout, HasTheMemoryOfTheSimulatedPipeline)
{
  ballast::random_source random(41);
  int equal = 0;
  int interleaved = 0;
  int const trials = ballast_test::trials_of(400);
  for (int trial = 0; trial < trials; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto model =
        ballast_test::draw_model(random, 1 + random.below(3), 1, false, std::uint64_t{1} << 30);
    layout_problem problem{
        .modules = model.modules, .sizes = model.sizes, .gpus = 0, .memory_bytes = endless_memory};
    auto const feeds = ballast_test::random_feeds(random, model.modules.size());
    problem.feeds = feeds;
    std::vector<module_layout> layout;
    for (auto const& module : model.modules) {
      layout.push_back({1, static_cast<std::uint32_t>(1 + random.below(module.layers)),
                        static_cast<std::uint32_t>(1 + random.below(4))});
      problem.gpus += static_cast<std::uint32_t>(layout.back().gpus());
    }
    auto const microbatches = static_cast<std::uint32_t>(1 + random.below(16));
    // So many that each microbatch of each replica has as many, or nearly.
    problem.global_batch = static_cast<std::uint32_t>(12 * microbatches * (1 + random.below(2)) +
                                                      (trial % 2 == 0 ? 0 : random.below(12)));
    std::uint32_t virtual_stages = 1;
    if (trial % 3 == 0 && layout.back().pp > 1) {
      virtual_stages = static_cast<std::uint32_t>(2 + random.below(3));
      model.modules.back().layers = layout.back().pp * virtual_stages;
      ++interleaved;
    }
    auto const priced = price_layout(problem, layout, microbatches, virtual_stages);
    ASSERT_TRUE(priced) << priced.error().message;
    EXPECT_EQ(priced->virtual_stages, virtual_stages);
    EXPECT_GE(priced->memory_bytes, price_layout(problem, layout, microbatches)->memory_bytes);
    std::vector<tokens> batch;  // of equal samples
    for (std::uint32_t sample = 0; sample < problem.global_batch; ++sample) {
      batch.insert(batch.end(), model.sizes.begin(), model.sizes.end());
    }
    std::uint64_t const simulated = ballast_test::held_in_simulation(problem, *priced, batch);
    if (trial % 2 == 0) {
      ASSERT_EQ(priced->memory_bytes, simulated);
    } else {
      ASSERT_GE(priced->memory_bytes, simulated);
    }
    equal += priced->memory_bytes == simulated ? 1 : 0;
  }
  EXPECT_GT(equal, trials / 2);
  EXPECT_GT(interleaved, trials / 10);
}

TEST(PriceLayout, CountsTheMicrobatchesThatAStageHolds)
{
  std::array<ballast::module_profile, 2> modules{};
  for (auto& module : modules) {
    module = {.name = "m", .layers = 5, .flops = {.linear = 10}, .degrees = {{.tp = 1}}};
    module.degrees[0].memory = {
        .state_bytes = {1000, 2000}, .sizes = {0, 10}, .activation_bytes = {{{0, 50}, {0, 100}}}};
  }
  std::array<tokens, 6> const sizes{1, 4, 2, 5, 3, 6};
  layout_problem problem{.modules = modules,
                         .sizes = sizes,
                         .global_batch = 9,
                         .gpus = 5,
                         .memory_bytes = endless_memory};
  std::array<module_layout, 2> const layout{{{1, 2, 1}, {1, 3, 1}}};
  // Microbatches of ceil(9 / 4) = 3 samples, so of 6 and 15; stages of 3 and 2 layers, which hold 4
  // and 3 microbatches of 5 bytes a layer and size.
  auto const priced = price_layout(problem, layout, 4).value();
  EXPECT_EQ(priced.memory_bytes, std::max(3000 + 4 * (3 * 5 * 6), 2000 + 3 * (2 * 5 * 15)));
  EXPECT_THAT(priced.modules, testing::ElementsAreArray(layout));
  EXPECT_EQ(priced.microbatches, 4U);

  // Microbatches of two samples: 1 2, 2 3 and 3 1 in the first module; half of them have 3 or less.
  problem.memory_quantile = {1, 2};
  EXPECT_EQ(price_layout(problem, layout, 5)->memory_bytes,
            std::max(3000 + 5 * (3 * 5 * 4), 2000 + 3 * (2 * 5 * 10)));

  problem.memory_quantile = {1, 1};
  problem.memory_bytes = priced.memory_bytes;
  EXPECT_TRUE(price_layout(problem, layout, 4));
  --problem.memory_bytes;
  EXPECT_THAT(price_layout(problem, layout, 4).error().message, HasSubstr("a GPU would hold 3360"));
}

TEST(PriceLayout, SaysWhatALayoutCannotHave)
{
  std::array<ballast::module_profile, 2> modules{};
  for (auto& module : modules) {
    module = {.name = "m", .layers = 3, .flops = {.linear = 10}, .degrees = {{.tp = 2}, {.tp = 3}}};
  }
  std::array<tokens, 2> const sizes{1, 4};
  layout_problem problem{.modules = modules, .sizes = sizes, .global_batch = 7, .gpus = 8};
  auto const refusal = [&](std::vector<module_layout> const& layout, std::uint32_t microbatches) {
    auto const priced = price_layout(problem, layout, microbatches);
    EXPECT_FALSE(priced);
    return priced ? ballast::error{} : priced.error();
  };
  EXPECT_TRUE(price_layout(problem, std::vector<module_layout>{{2, 1, 2}, {2, 2, 1}}, 7));
  EXPECT_THAT(refusal({{2, 1, 4}}, 1).message, HasSubstr("a layout of 1 module"));
  EXPECT_THAT(refusal({{2, 1, 2}, {3, 1, 1}}, 1).message, HasSubstr("cannot have tp 3"));
  EXPECT_EQ(refusal({{2, 1, 2}, {1, 2, 2}}, 1).position, 1U);
  EXPECT_THAT(refusal({{2, 1, 2}, {2, 4, 1}}, 1).message, HasSubstr("cannot have 4 stages"));
  EXPECT_THAT(refusal({{2, 1, 0}, {2, 1, 4}}, 1).message, HasSubstr("of 0 replicas"));
  EXPECT_THAT(refusal({{2, 1, 1}, {2, 1, 2}}, 1).message, HasSubstr("take 6 of 8 GPUs"));
  EXPECT_THAT(refusal({{2, 1, 2}, {2, 1, 2}}, 4).message,
              HasSubstr("cannot give each of 2 replicas 4 microbatches"));
  EXPECT_THAT(refusal({{2, 1, 2}, {2, 1, 2}}, 0).message, HasSubstr("0 microbatches"));
  for (std::uint32_t const virtual_stages : {0U, 2U}) {
    EXPECT_THAT(
        price_layout(problem, std::vector<module_layout>{{2, 1, 2}, {2, 2, 1}}, 7, virtual_stages)
            .error()
            .message,
        HasSubstr("virtual stages on each of 2 stages; give 1, or what divides"));
  }
  problem.gpus_per_node = 6;
  EXPECT_TRUE(price_layout(problem, std::vector<module_layout>{{2, 1, 1}, {3, 1, 2}}, 1));
  EXPECT_EQ(refusal({}, 1).code, ballast::error_code::infeasible);
  modules[0].flops.linear = std::numeric_limits<std::uint64_t>::max();
  EXPECT_THAT(refusal({{2, 1, 1}, {2, 1, 3}}, 1).message, HasSubstr("2^63 picoseconds"));
  problem.global_batch = 0;
  EXPECT_EQ(refusal({{2, 1, 1}, {2, 1, 3}}, 1).code, ballast::error_code::out_of_range);
}

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
