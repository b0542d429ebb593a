// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/simulate_layout.hpp>  // first: proves it is self-contained

#include "../support/all_layouts.hpp"
#include "../support/random_modules.hpp"
#include "../support/test.hpp"

#include <ballast/cost/profile_file.hpp>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/parallelism/search_layouts.hpp>
#include <ballast/workload/length_trace.hpp>

namespace {

using namespace ballast;
using testing::HasSubstr;

/// One FLOP a picosecond, at any size and degree.
ballast::module_profile plain_module(char const* name, std::uint32_t layers, std::uint64_t flops)
{
  return {.name = name,
          .layers = layers,
          .flops = {.linear = flops},
          .degrees = {{.tp = 1}, {.tp = 2}}};
}

TEST(SimulateLayout, IsThePredictedStepWhereAllSamplesAreEqual)
{
  auto const module = plain_module("llm", 12, 30);
  std::vector<tokens> const batch(24, 10);
  layout_problem problem{.modules = {&module, 1}, .sizes = batch, .global_batch = 24, .gpus = 8};
  for (auto const& [tp, pp, dp, microbatches] :
       {std::array<std::uint32_t, 4>{1, 4, 2, 6}, {2, 2, 2, 3}, {1, 1, 8, 1}, {2, 4, 1, 24}}) {
    std::array<ballast::module_layout, 1> const modules{{{tp, pp, dp}}};
    auto const layout = ballast::price_layout(problem, modules, microbatches);
    ASSERT_TRUE(layout);
    auto const simulated = simulate_layout(problem, *layout, batch);
    ASSERT_TRUE(simulated) << simulated.error().message;
    EXPECT_EQ(*simulated, layout->step);
  }
}

TEST(SimulateLayout, LetsABrokerWaitForAllReplicasBeforeIt)
{
  std::array<ballast::module_profile, 2> const modules{plain_module("encoder", 1, 3),
                                                       plain_module("llm", 1, 3)};
  // Two encoder replicas feed one of the LLM; a batch of four samples, two for each microbatch.
  std::array<tokens, 8> const batch{10, 100, 40, 100, 20, 100, 20, 100};
  layout_problem problem{.modules = modules, .sizes = batch, .global_batch = 4, .gpus = 3};
  model_layout const layout{{{1, 1, 2}, {1, 1, 1}}, 2};
  // Forward: the encoders take 10 and 40, then 20 and 20; the LLM 200 each, backward twice as long.
  // The LLM begins at 40 and computes 600 for each microbatch; its last backward ends at 1240, then
  // the encoders' last takes 40.
  using enum ballast::sample_dealing;
  EXPECT_EQ(simulate_layout(problem, layout, batch, as_drawn), 40 + 1200 + 40);
  std::vector<tokens> two_batches(batch.begin(), batch.end());
  two_batches.insert(two_batches.end(), {0, 100, 0, 100, 0, 100, 0, 100});
  EXPECT_EQ(simulate_layout(problem, layout, two_batches, as_drawn), (1280 + 1200) / 2);
}

TEST(SimulateLayout, SendsBesideWhatIsComputedAndReducesWhereOthersStillCompute)
{
  std::array<ballast::module_profile, 2> modules{plain_module("encoder", 1, 3),
                                                 plain_module("llm", 1, 3)};
  modules[0].boundary_bytes = 5;
  std::array<tokens, 8> const batch{10, 100, 40, 100, 20, 100, 20, 100};
  layout_problem problem;
  problem.modules = modules;
  problem.sizes = batch;
  problem.global_batch = 4;
  problem.gpus = 3;
  problem.memory_bytes = ~std::uint64_t{0};
  problem.bytes_per_second = 1'000'000'000'000;  // a byte a picosecond
  // As above. The encoders send 50 and 200, and the LLM receives 250 of the first microbatch. It
  // begins at 40 + 250 and has the second one, of 200, when the first forward is over. Gradients of
  // the last microbatch are over at 1490 + 200, then the encoders take 40. The LLM has one replica
  // and reduces nothing.
  model_layout layout{{{1, 1, 2}, {1, 1, 1}}, 2};
  using enum ballast::sample_dealing;
  EXPECT_EQ(simulate_layout(problem, layout, batch, as_drawn), 40 + 250 + 1200 + 200 + 40);
  // Each of the two encoders reduces 2 (2 - 1) / 2 of an eighth of 800 bytes at the end.
  for (auto& module : modules) { module.degrees[0].memory.state_bytes = {800, 1600}; }
  for (auto& module : modules) { module.degrees[0].memory.layers = {1, 2}; }
  EXPECT_EQ(simulate_layout(problem, layout, batch, as_drawn), 1730 + 100);
  // One encoder and two LLMs: these reduce while the last gradient goes back and 80 are computed.
  layout = {{{1, 1, 1}, {1, 1, 2}}, 2};
  auto const hidden = simulate_layout(problem, layout, batch, as_drawn).value();
  modules[1].degrees[0].memory.state_bytes = {0, 0};
  EXPECT_EQ(simulate_layout(problem, layout, batch, as_drawn), hidden);
  modules[1].degrees[0].memory.state_bytes = {8000, 8000};
  EXPECT_EQ(simulate_layout(problem, layout, batch, as_drawn), hidden + 1000 - 200 - 80);
  problem.bytes_per_second = 1;
  modules[1].degrees[0].memory.state_bytes = {800'000, 800'000};
  EXPECT_THAT(simulate_layout(problem, layout, batch).error().message,
              HasSubstr("gradients of module llm take above 2^53 ps"));
}

TEST(SimulateLayout, IsThePriceWhereSamplesAreEqualAndTransfersAreShort)
{
  ballast::random_source random(4);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<ballast::module_profile> modules;
    model_layout layout;
    auto const replicas = static_cast<std::uint32_t>(1 + random.below(3));
    for (std::uint64_t left = 1 + random.below(4); left > 0; --left) {
      auto const pp = static_cast<std::uint32_t>(1 + random.below(5));
      auto const dp = static_cast<std::uint32_t>(replicas * (1 + random.below(2)));
      modules.push_back(plain_module("m", pp, std::uint64_t{300} * pp * dp));
      modules.back().boundary_bytes = random.below(50);
      modules.back().degrees[0].memory.layers = {1, 2};
      modules.back().degrees[0].memory.state_bytes = {random.below(3) * 4000, 20'000};
      layout.modules.push_back({1, pp, dp});
    }
    auto const count = static_cast<std::uint32_t>(1 + random.below(30));
    layout_problem problem{.modules = modules,
                           .sizes = {},
                           .global_batch = count * replicas * 2,
                           .gpus = static_cast<std::uint32_t>(layout.gpus()),
                           .memory_bytes = ~std::uint64_t{0},
                           .bytes_per_second = 1'000'000'000'000};
    std::vector<tokens> const batch(problem.global_batch * modules.size(), 1);
    problem.sizes = batch;
    auto const price = ballast::price_layout(problem, layout.modules, count);
    ASSERT_TRUE(price) << price.error().message;
    auto const simulated = static_cast<double>(simulate_layout(problem, *price, batch).value());
    EXPECT_LE(static_cast<double>(price->step), simulated) << trial;
    EXPECT_GE(static_cast<double>(price->step), 0.97 * simulated) << trial;
  }
}

TEST(SimulateLayout, SimulatesEveryGroupOfReplicas)
{
  std::array<ballast::module_profile, 2> const modules{plain_module("encoder", 1, 3),
                                                       plain_module("llm", 1, 3)};
  std::array<tokens, 8> const batch{1, 10, 1, 10, 1, 10, 1, 70};
  layout_problem problem{.modules = modules, .sizes = batch, .global_batch = 4, .gpus = 4};
  // Two groups of one encoder and one LLM replica; the second has the long sample.
  model_layout const layout{{{1, 1, 2}, {1, 1, 2}}, 1};
  EXPECT_EQ(simulate_layout(problem, layout, batch, ballast::sample_dealing::as_drawn),
            2 + 3 * 80 + 4);
  // Longest first, the long one is alone.
  EXPECT_EQ(simulate_layout(problem, layout, batch), 1 + 3 * 70 + 2);
}

// A page of the docs shows this.
TEST(SimulateLayout, IsWhatTheSearchOfAProfileAndDataReturns)
{
  std::string const profile_csv =
      "module,tp,quantity,layers,size,value\n"
      "vision,,layers,,,4\nvision,,linear_flop,,,4e12\n"
      "vision,1,linear_flop_per_second,,1,100e12\nvision,1,linear_flop_per_second,,16,400e12\n"
      "vision,1,state_bytes,1,,1e9\nvision,1,state_bytes,4,,4e9\n"
      "vision,1,activation_bytes,1,0,0\nvision,1,activation_bytes,1,16,160e6\n"
      "vision,1,activation_bytes,4,0,0\nvision,1,activation_bytes,4,16,640e6\n"
      "llm,,layers,,,8\nllm,,linear_flop,,,48e9\n"
      "llm,4,linear_flop_per_second,,256,350e12\n"
      "llm,4,state_bytes,1,,4e9\nllm,4,state_bytes,8,,32e9\n"
      "llm,4,activation_bytes,1,0,0\nllm,4,activation_bytes,1,1000,25e6\n"
      "llm,4,activation_bytes,8,0,0\nllm,4,activation_bytes,8,1000,200e6\n";
  std::string data_csv = "tiles,text\n";
  for (int row = 0; row < 256; ++row) {
    data_csv += std::to_string(1 + row * row % 9) + "," + std::to_string(10 + row) + "\n";
  }
  // [search]
  auto const profile = ballast::read_profile(profile_csv).value();       // or load_profile(path)
  auto const modules = ballast::modules_of(profile).value();             // vision, llm
  std::vector<std::string> const columns = {"tiles", "text+256*tiles"};  // of each a size
  auto const sizes = ballast::read_sample_sizes(data_csv, columns).value();

  ballast::layout_problem problem;
  problem.modules = modules;
  problem.sizes = sizes;
  problem.global_batch = 64;
  problem.gpus = 16;
  problem.memory_bytes = 80'000'000'000;
  // These samples are four batches, on which steps are simulated.
  auto const found = ballast::search_layouts(problem, sizes).value();
  ballast::model_layout const& best = found.layouts.front().layout;
  auto const places = ballast::place_layout(best.modules, 16, 8).value();  // of every GPU
  // [search]
  EXPECT_TRUE(found.is_proven);
  EXPECT_EQ(found.layouts.front().simulated, ballast::simulate_layout(problem, best, sizes));
  EXPECT_EQ(places.size(), 16U);
}

TEST(SimulateLayout, RanksLayouts)
{
  ballast::random_source random(41);
  auto const model = ballast_test::draw_model(random, 2, 64, true, std::uint64_t{1} << 30);
  layout_problem problem{.modules = model.modules,
                         .sizes = model.sizes,
                         .global_batch = 64,
                         .gpus = 32,
                         .memory_bytes = std::uint64_t{1} << 31};
  auto layouts = ballast_test::all_layouts(problem);
  ASSERT_GE(layouts.size(), 8U);
  layouts.resize(8);
  auto const ranked = ballast::rank_by_simulation(problem, layouts, model.sizes).value();
  ASSERT_EQ(ranked.size(), layouts.size());
  for (std::size_t place = 0; place < ranked.size(); ++place) {
    auto const& [layout, simulated] = ranked[place];
    EXPECT_EQ(simulate_layout(problem, layout, model.sizes), simulated);
    EXPECT_THAT(layouts, testing::Contains(layout));
    if (place > 0) { EXPECT_LE(ranked[place - 1].simulated, simulated); }
  }
}

TEST(SimulateLayout, SaysWhatIsWrongWithABatch)
{
  auto const module = plain_module("llm", 1, 3);
  std::vector<tokens> batch(4, 10);
  layout_problem problem{.modules = {&module, 1}, .sizes = batch, .global_batch = 4};
  model_layout const layout{{{1, 1, 1}}, 2};
  EXPECT_TRUE(simulate_layout(problem, layout, batch));
  auto const some = std::span(batch).first(3);
  EXPECT_THAT(simulate_layout(problem, layout, some).error().message,
              HasSubstr("batches has 3 sizes, no whole number of batches"));
  EXPECT_FALSE(simulate_layout(problem, layout, {}));
  EXPECT_FALSE(simulate_layout(problem, {{{1, 2, 1}}, 2}, batch));
  std::vector<tokens> wrong(4, 10);
  wrong[2] = -1;
  EXPECT_EQ(simulate_layout(problem, layout, wrong).error().position, 2U);
  EXPECT_FALSE(ballast::rank_by_simulation(problem, {&layout, 1}, wrong));
}

TEST(SimulatedLayout, IsALayoutAndATime)
{
  simulated_layout const one{{{{2, 1, 4}}, 8, 100, 0}, 120};
  simulated_layout other = one;
  EXPECT_EQ(one, other);
  other.simulated = 121;
  EXPECT_NE(one, other);
  other = one;
  other.layout.microbatches = 9;
  EXPECT_NE(one, other);
}

}  // namespace
