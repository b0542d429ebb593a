// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/simulate_layout.hpp>  // first: proves it is self-contained

#include "../support/all_layouts.hpp"
#include "../support/pipelines.hpp"
#include "../support/random_modules.hpp"
#include "../support/test.hpp"
#include "../support/trials.hpp"

#include <ballast/cost/profile_file.hpp>
#include <ballast/parallelism/deal_samples.hpp>
#include <ballast/parallelism/layout_pipeline.hpp>
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
  layout_problem problem{
      .modules = {&module, 1}, .sizes = batch, .global_batch = 24, .kinds = {{.gpus = 8}}};
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

// Forward, gradients of inputs and of weights take 100 each on each of four stages.
TEST(SimulateLayout, SplitsBackwardsAsTheScheduleSays)
{
  auto module = plain_module("llm", 8, 120);
  module.degrees.resize(1);
  module.degrees[0].memory = {.layers = {1, 2},
                              .state_bytes = {500, 1000},
                              .sizes = {0, 10},
                              .activation_bytes = {{{0, 50}, {0, 100}}}};
  std::vector<tokens> const batch(16, 10);
  layout_problem problem{.modules = {&module, 1},
                         .sizes = batch,
                         .global_batch = 16,
                         .kinds = {{.gpus = 8, .memory_bytes = 1'700}}};
  auto const with = [&](layout_schedule schedule, std::uint32_t microbatches = 8) {
    model_layout layout{{{1, 4, 2}}, microbatches};
    layout.schedule = schedule;
    return layout;
  };
  using enum layout_schedule;
  // 3 (l + p - 1), 3 l + p - 1, and half units in a V; each microbatch keeps 100 bytes of 1,000.
  EXPECT_EQ(simulate_layout(problem, with(whole_backwards), batch), 3'300);
  EXPECT_EQ(simulate_layout(problem, with(zero_bubble), batch), 2'700);
  EXPECT_EQ(simulate_layout(problem, with(twice_zero_bubble), batch), 2'700);
  EXPECT_EQ(simulate_layout(problem, with(zero_bubble_v), batch), 2'550);
  EXPECT_EQ(simulate_layout(problem, with(planned), batch), 2'700);
  EXPECT_EQ(dealt_memory(problem, with(zero_bubble), batch), 1'400U);
  EXPECT_EQ(dealt_memory(problem, with(twice_zero_bubble), batch), 1'700U);
  EXPECT_EQ(dealt_memory(problem, with(zero_bubble_v), batch), 1'400U);
  EXPECT_LE(dealt_memory(problem, with(planned), batch).value(), 1'700U);
  problem.kinds[0].memory_bytes = 1'699;
  EXPECT_THAT(simulate_layout(problem, with(twice_zero_bubble), batch).error().message,
              HasSubstr("pipeline rank 0 keeps 700 bytes"));
  problem.kinds[0].memory_bytes = 1'400;
  EXPECT_EQ(simulate_layout(problem, with(planned), batch), 2'700);

  // No time for weights, and none that stays: the backward is whole.
  module.weights_percent = 0;
  EXPECT_EQ(simulate_layout(problem, with(zero_bubble), batch), 3'300);
  module.weights_percent = 101;
  EXPECT_THAT(simulate_layout(problem, with(zero_bubble), batch).error().message,
              HasSubstr("takes 101 % of a backward for weights"));
  module.weights_percent = 50;
  // Of what the rest takes, as much is attention, whose backward is all for inputs: 200, 300, 100.
  module.flops.quadratic = 12;
  EXPECT_EQ(simulate_layout(problem, with(whole_backwards), batch), 6'600);
  EXPECT_EQ(simulate_layout(problem, with(zero_bubble), batch), 8 * 600 + 3 * (200 + 300 - 100));
  // A frozen module computes its forward alone, and nothing is split.
  std::vector<module_role> const frozen{{.is_trained = false}};
  problem.roles = frozen;
  EXPECT_EQ(simulate_layout(problem, with(zero_bubble), batch),
            simulate_layout(problem, with(whole_backwards), batch));
  problem.roles = {};

  auto interleaved = with(zero_bubble);
  interleaved.virtual_stages = 2;
  problem.kinds[0].memory_bytes = 17'000;
  EXPECT_THAT(simulate_layout(problem, interleaved, batch).error().message,
              HasSubstr("pipeline rank 0 has 2 stages, and 1F1B is for one"));
  interleaved.schedule = zero_bubble_v;
  EXPECT_THAT(simulate_layout(problem, interleaved, batch).error().message,
              HasSubstr("cannot have two parts of each stage in a V"));
}

TEST(SimulateLayout, LetsABrokerWaitForAllReplicasBeforeIt)
{
  std::array<ballast::module_profile, 2> const modules{plain_module("encoder", 1, 3),
                                                       plain_module("llm", 1, 3)};
  // Two encoder replicas feed one of the LLM; a batch of four samples, two for each microbatch.
  std::array<tokens, 8> const batch{10, 100, 40, 100, 20, 100, 20, 100};
  layout_problem problem{
      .modules = modules, .sizes = batch, .global_batch = 4, .kinds = {{.gpus = 3}}};
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
  problem.kinds[0].gpus = 3;
  problem.kinds[0].memory_bytes = ~std::uint64_t{0};
  problem.kinds[0].bytes_per_second = 1'000'000'000'000;  // a byte a picosecond
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
  problem.kinds[0].bytes_per_second = 1;
  modules[1].degrees[0].memory.state_bytes = {800'000, 800'000};
  EXPECT_THAT(simulate_layout(problem, layout, batch).error().message,
              HasSubstr("gradients of module llm take above 2^53 ps"));
}

// Two layers of 400 bytes of weights, 400 of gradients and 2,400 of the optimiser on four replicas.
TEST(SimulateLayout, GathersEachLayerOfShardedWeightsInEachMicrobatch)
{
  auto module = plain_module("llm", 2, 30);
  module.degrees.resize(1);
  module.degrees[0].memory = {.layers = {1, 2}, .state_bytes = {3200, 6400}};
  std::vector<module_role> roles{{.weights = weight_sharding::either}};
  std::array<tokens, 8> const batch{100, 100, 100, 100, 20, 20, 20, 0};
  layout_problem problem{
      .modules = {&module, 1},
      .sizes = batch,
      .global_batch = 8,
      .kinds = {{.gpus = 4, .memory_bytes = 10'000, .bytes_per_second = 1'000'000'000'000}},
      .roles = roles};
  using enum ballast::sample_dealing;
  model_layout whole{{{1, 1, 4}}, 2};
  model_layout sharded = whole;
  sharded.modules[0].is_sharded = true;
  // Each of three quarters of 800 bytes of gradients go round twice, once a step.
  EXPECT_EQ(simulate_layout(problem, whole, batch, as_drawn), 3000 + 600 + 1200);
  // A microbatch gathers 300 of a layer twice and scatters 300. Behind 3,000 of computing all but
  // 900 hide. The short one is 2 x 300 and a layer's forward of 100, then 4 x 300 and a layer's
  // backward of 200; the replica that has no token in it gathers as long.
  EXPECT_EQ(simulate_layout(problem, sharded, batch, as_drawn), 3900 + 700 + 1400);
  EXPECT_EQ(dealt_memory(problem, whole, batch), 6400U);
  EXPECT_EQ(dealt_memory(problem, sharded, batch), 6400U / 4 + 2 * (400 + 400));
  EXPECT_EQ(text_of(sharded.modules[0]), "tp 1 pp 1 dp 4 sharded");

  // Replicas wait for each other in each microbatch: 100 beside 20, then 20 beside 100.
  std::array<tokens, 8> const crossed{100, 100, 20, 20, 20, 20, 100, 100};
  EXPECT_EQ(simulate_layout(problem, whole, crossed, as_drawn), 3600 + 1200);
  EXPECT_EQ(simulate_layout(problem, sharded, crossed, as_drawn), 2 * 3900);
  // On two stages a layer's gathers and scatter stand before and behind each microbatch.
  whole.modules[0] = sharded.modules[0] = {1, 2, 2};
  sharded.modules[0].is_sharded = true;
  std::array<tokens, 8> const equal{50, 50, 50, 50, 50, 50, 50, 50};
  auto const staged = simulate_layout(problem, sharded, equal, as_drawn);
  EXPECT_EQ(staged, 3 * (1500 + 3 * 200));  // two of 4 samples and a stage

  problem.kinds[0].memory_bytes = 5000;
  auto const found = search_layouts(problem, batch).value().layouts.front().layout;
  EXPECT_TRUE(found.modules[0].is_sharded || found.modules[0].pp == 2);
  roles[0].weights = weight_sharding::whole;
  EXPECT_THAT(simulate_layout(problem, sharded, batch).error().message,
              HasSubstr("is to have whole weights"));
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
                           .kinds = {{.gpus = static_cast<std::uint32_t>(layout.gpus()),
                                      .memory_bytes = ~std::uint64_t{0},
                                      .bytes_per_second = 1'000'000'000'000}}};
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
  layout_problem problem{
      .modules = modules, .sizes = batch, .global_batch = 4, .kinds = {{.gpus = 4}}};
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
  auto const modules = profile.profiles().value();                       // vision, llm
  std::vector<std::string> const columns = {"tiles", "text+256*tiles"};  // of each a size
  auto const sizes = ballast::read_sample_sizes(data_csv, columns).value();

  ballast::layout_problem problem;
  problem.modules = modules;
  problem.sizes = sizes;
  problem.global_batch = 64;
  problem.kinds = {{.gpus = 16, .memory_bytes = 80'000'000'000}};
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
                         .kinds = {{.gpus = 32, .memory_bytes = std::uint64_t{1} << 31}}};
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

constexpr std::uint64_t endless_memory = std::numeric_limits<std::uint64_t>::max();

/// The formulas of the documentation in floating point, for one sample in each module.
double seconds_of(layout_problem const& problem, std::span<module_layout const> layout,
                  std::uint32_t microbatches, std::vector<tokens> const& sample)
{
  double slowest = 0;
  double stages = 0;
  for (std::size_t module = 0; module < layout.size(); ++module) {
    auto const& profile = problem.modules[module];
    auto const [tp, pp, dp, sp, ep, is_sharded] = layout[module];
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
                           .kinds = {{.memory_bytes = endless_memory}}};
    std::vector<module_layout> layout;
    problem.kinds[0].gpus = 0;
    for (auto const& module : model.modules) {
      auto const& degree = module.degrees[random.below(module.degrees.size())];
      layout.push_back({degree.tp, static_cast<std::uint32_t>(1 + random.below(module.layers)),
                        static_cast<std::uint32_t>(1 + random.below(16)), degree.sp, degree.ep});
      problem.kinds[0].gpus += static_cast<std::uint32_t>(layout.back().gpus());
    }
    problem.kinds[0].gpus_per_node = 8;
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
    bool const straddles = !ballast::place_layout(layout, problem.kinds[0].gpus, 8).has_value();
    ASSERT_EQ(of_mean.has_value(), !straddles);
    if (straddles) { continue; }
    double const expected = seconds_of(problem, layout, microbatches, mean);
    EXPECT_NEAR(static_cast<double>(of_mean->step) * 1e-12, expected, 1e-6 * expected);
    EXPECT_NEAR(static_cast<double>(of_all->step) * 1e-12, mean_step, 1e-6 * mean_step);
  }
}

/// What the fullest GPU holds while the pipelines of a layout are simulated on a batch.
std::uint64_t held_in_simulation(ballast::layout_problem const& problem,
                                 ballast::model_layout const& layout,
                                 std::span<ballast::tokens const> batch)
{
  ballast::layout_pipeline const pipeline(problem, layout);
  auto const dealt = ballast::deal_samples(problem, layout, batch);
  auto const schedule = ballast::compiled_schedule::make(
                            pipeline.stages().value(),
                            ballast::interleaved_one_forward_one_backward{}, layout.microbatches)
                            .value();
  std::size_t const modules = problem.modules.size();
  auto const order = ballast_test::numbered_order(layout.microbatches);
  std::uint64_t most = 0;
  for (std::uint32_t group = 0; group < pipeline.groups(); ++group) {
    std::vector<ballast::held_bytes> bytes;  // of each microbatch in each stage
    std::vector<std::uint64_t> state;        // of each rank
    for (std::size_t microbatch = 0; microbatch < order.size(); ++microbatch) {
      for (std::size_t module = 0; module < modules; ++module) {
        auto const [tp, pp, dp, sp, ep, is_sharded] = layout.modules[module];
        auto const& profile = problem.modules[module];
        auto const& memory = profile.find({tp, sp, ep})->memory;
        std::size_t const replicas = dp / pipeline.groups();
        std::uint32_t const parts = module + 1 < modules ? 1 : layout.virtual_stages;
        for (std::size_t replica = 0; replica < replicas; ++replica) {
          ballast::tokens size = 0;
          for (auto const sample :
               dealt.modules[module]
                            [(microbatch * pipeline.groups() + group) * replicas + replica]) {
            size += batch[to_index(sample) * modules + module];
          }
          for (std::uint32_t part = 0; part < pp * parts; ++part) {
            std::uint32_t const own = part % pp;
            std::uint32_t const layers = profile.layers / pp + (own < profile.layers % pp ? 1 : 0);
            bytes.push_back({(memory.activations(layers, size) + parts - 1) / parts});
            if (microbatch == 0 && part < pp) { state.push_back(memory.state(layers)); }
          }
        }
      }
    }
    auto const times = ballast_test::equal_times(order.size(), schedule.stages().stages(), {1, 2});
    auto const ranks = ballast::activation_memory(
        schedule, ballast::simulate(schedule, times, order), order, bytes);
    for (std::size_t rank = 0; rank < state.size(); ++rank) {
      most = std::max(most, state[rank] + ranks[rank].peak_bytes);
    }
  }
  return most;
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
    layout_problem problem{.modules = model.modules,
                           .sizes = model.sizes,
                           .kinds = {{.gpus = 0, .memory_bytes = endless_memory}}};
    auto const feeds = ballast_test::random_feeds(random, model.modules.size());
    problem.feeds = feeds;
    std::vector<module_layout> layout;
    for (auto const& module : model.modules) {
      layout.push_back({1, static_cast<std::uint32_t>(1 + random.below(module.layers)),
                        static_cast<std::uint32_t>(1 + random.below(4))});
      problem.kinds[0].gpus += static_cast<std::uint32_t>(layout.back().gpus());
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
    std::uint64_t const simulated = held_in_simulation(problem, *priced, batch);
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
                         .kinds = {{.gpus = 5, .memory_bytes = endless_memory}}};
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
  problem.kinds[0].memory_bytes = priced.memory_bytes;
  EXPECT_TRUE(price_layout(problem, layout, 4));
  --problem.kinds[0].memory_bytes;
  EXPECT_THAT(price_layout(problem, layout, 4).error().message, HasSubstr("would hold 3360"));
}

TEST(PriceLayout, SaysWhatALayoutCannotHave)
{
  std::array<ballast::module_profile, 2> modules{};
  for (auto& module : modules) {
    module = {.name = "m", .layers = 3, .flops = {.linear = 10}, .degrees = {{.tp = 2}, {.tp = 3}}};
  }
  std::array<tokens, 2> const sizes{1, 4};
  layout_problem problem{
      .modules = modules, .sizes = sizes, .global_batch = 7, .kinds = {{.gpus = 8}}};
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
  problem.kinds[0].gpus_per_node = 6;
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
    problem.kinds[0].gpus = static_cast<std::uint32_t>(layout.gpus());
    problem.kinds[0].memory_bytes = ~std::uint64_t{0};
    problem.global_batch = static_cast<std::uint32_t>(
        layout.microbatches * layout.modules.back().dp * (1 + random.below(3)));
    auto batch = ballast_test::draw_model(random, modules, problem.global_batch, true, 1).sizes;
    bool const is_equal = trial % 2 == 0 && problem.global_batch % layout.microbatches == 0;
    if (is_equal) {
      for (std::size_t at = modules; at < batch.size(); ++at) { batch[at] = batch[at % modules]; }
    }
    auto const bytes = dealt_memory(problem, layout, batch);
    if (!bytes) { continue; }  // groups of GPUs that do not lie inside nodes
    std::uint64_t const held = held_in_simulation(problem, layout, batch);
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
  layout_problem problem{.modules = {&module, 1},
                         .sizes = batch,
                         .global_batch = 4,
                         .kinds = {{.memory_bytes = 1000}}};
  model_layout const layout{{{1, 1, 1}}, 4};
  EXPECT_EQ(dealt_memory(problem, layout, batch), 45U);
  problem.memory_quantile = {3, 4};
  EXPECT_EQ(dealt_memory(problem, layout, batch), 35U);
  EXPECT_THAT(dealt_memory(problem, layout, std::span(batch).first(3)).error().message,
              HasSubstr("batches has 3 sizes, no whole number of batches"));
  EXPECT_FALSE(dealt_memory(problem, {{{1, 1, 1}}, 5}, batch));
}

}  // namespace
