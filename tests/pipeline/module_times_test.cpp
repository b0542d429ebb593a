// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/module_times.hpp>  // first: proves it is self-contained

#include "../support/counted_allocations.hpp"
#include "../support/test.hpp"

#include <ballast/cost/flops.hpp>
#include <ballast/cost/latency_fit.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/pipeline/stage_graph.hpp>

namespace {

using namespace ballast;
using layers_of_modules = std::vector<std::vector<std::uint32_t>>;

constexpr time_units longest_time = std::numeric_limits<time_units>::max();

using two_modules = std::array<stage_time, 2>;

TEST(SumOverSamples, AddsUpEachModuleInEitherPass)
{
  std::vector<two_modules> const samples = {
      {{{1, 2}, {3, 4}}}, {{{10, 20}, {30, 40}}}, {{{100, 200}, {300, 400}}}};
  // The second microbatch has no sample.
  std::vector<std::vector<sample_id>> const microbatches = {
      {sample_id{0}, sample_id{2}}, {}, {sample_id{1}}};
  auto const whole = sum_over_samples(microbatches, samples).value();
  EXPECT_EQ(whole.stages, 2U);
  EXPECT_EQ(whole.rows,
            (std::vector<stage_time>{{101, 202}, {303, 404}, {0, 0}, {0, 0}, {10, 20}, {30, 40}}));
}

TEST(SumOverSamples, TakesTheGroupsOfAPlanAndPricesSamples)
{
  std::vector<ballast::tokens> const lengths = {5, 7, 11, 13};
  std::vector const owner = {microbatch_id{1}, microbatch_id{0}, microbatch_id{1},
                             microbatch_id{1}};
  ballast::jagged<microbatch_id, sample_id> microbatches;
  microbatches.collect(owner, 2);
  auto const whole = sum_over_samples(microbatches, lengths, [](ballast::tokens length) {
    return std::array{stage_time{length, length * length}};
  });
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->rows, (std::vector<stage_time>{{7, 49}, {29, 25 + 121 + 169}}));
}

TEST(SumOverSamples, OfNoMicrobatchIsNoRow)
{
  std::vector<std::vector<sample_id>> const none;
  auto const whole = sum_over_samples(none, std::vector<two_modules>{}).value();
  EXPECT_EQ(whole.stages, 2U);
  EXPECT_EQ(whole.microbatches(), 0U);
}

TEST(SumOverSamples, NamesTheSampleThatHasNoTime)  // Errors
{
  std::vector<std::vector<sample_id>> const one = {{sample_id{0}, sample_id{1}}};
  std::vector<two_modules> samples(2);
  for (time_units const wrong : {time_units{-1}, ballast::no_cost}) {
    samples[1] = {{{0, 0}, {0, wrong}}};
    auto const whole = sum_over_samples(one, samples);
    ASSERT_FALSE(whole);
    EXPECT_EQ(whole.error().code, error_code::out_of_range);
    EXPECT_EQ(whole.error().position, 1U);
    EXPECT_NE(whole.error().message.find("sample 1 on module 1"), std::string::npos);
  }
  samples = {{{{longest_time / 2, 0}, {0, 0}}},
             {{{longest_time / 2, 0}, {0, 0}}}};  // together no_cost - 1
  EXPECT_TRUE(sum_over_samples(one, samples).has_value());
  samples[1][0].forward += 1;
  EXPECT_EQ(sum_over_samples(one, samples).error().position, 1U);
}

TEST(SumOverSamplesDeathTest, RejectsSamplesThatDoNotExist)  // Expects
{
  std::vector<std::vector<sample_id>> const one = {{sample_id{2}}};
  EXPECT_DEATH((void)sum_over_samples(one, std::vector<two_modules>(2)),
               "microbatch 0 holds sample 2, and there are times of 2");
}

TEST(SplitOverStages, SharesInProportionToLayersModuleAfterModule)
{
  pipeline_times whole(2, 2);
  whole.rows = {{12, 24}, {100, 200}, {7, 0}, {11, 22}};
  layers_of_modules const layers = {{1, 2}, {6, 0, 6, 8}};
  auto const times = split_over_stages(whole, layers);
  EXPECT_EQ(times.stages, 6U);
  EXPECT_EQ(times.rows,
            (std::vector<stage_time>{{4, 8},
                                     {8, 16},
                                     {30, 60},
                                     {0, 0},
                                     {30, 60},
                                     {40, 80},
                                     // 7 / 3 and 11 * 6 / 20, each rounded down where stages begin
                                     {2, 0},
                                     {5, 0},
                                     {3, 6},
                                     {0, 0},
                                     {3, 7},
                                     {5, 9}}));
}

RC_GTEST_PROP(SplitOverStages, LosesNothingAndRoundsByLessThanOne, ())  // Ensures (1) (2)
{
  auto const size = *rc::gen::inRange<std::size_t>(1, 9);
  auto layers = *rc::gen::container<std::vector<std::uint32_t>>(
      size,
      rc::gen::oneOf(rc::gen::inRange<std::uint32_t>(0, 50), rc::gen::arbitrary<std::uint32_t>()));
  layers[*rc::gen::inRange<std::size_t>(0, size)] |= 1U;
  auto const time = [] {
    return *rc::gen::oneOf(rc::gen::inRange<time_units>(0, 1000),
                           rc::gen::inRange<time_units>(longest_time - 1000, longest_time));
  };
  pipeline_times whole(1, 1);
  whole.rows[0] = {time(), time()};
  auto const times = split_over_stages(whole, layers_of_modules{layers});

  using ballast::uint128;
  auto const total = std::accumulate(layers.begin(), layers.end(), std::uint64_t{0});
  time_units forward = 0;
  time_units backward = 0;
  for (std::size_t stage = 0; stage < size; ++stage) {
    auto const& share = times.rows[stage];
    forward += share.forward;
    backward += share.backward;
    uint128 const exact =
        uint128{layers[stage]} * static_cast<std::uint64_t>(whole.rows[0].forward);
    RC_ASSERT(share.forward >= static_cast<time_units>(exact / total));
    RC_ASSERT(share.forward <= static_cast<time_units>((exact + total - 1) / total));
    RC_ASSERT(share.backward >= 0);
    for (std::size_t other = 0; other < stage; ++other) {
      if (layers[other] == layers[stage]) {
        RC_ASSERT(std::abs(times.rows[other].forward - share.forward) <= 1);
      }
    }
  }
  RC_ASSERT(forward == whole.rows[0].forward);
  RC_ASSERT(backward == whole.rows[0].backward);
}

TEST(SplitOverStages, SharesOutTheThirdPassToo)  // Ensures (1) (2)
{
  pipeline_times whole(2, 2);
  whole.weights = {7, 10, 0, 11};
  layers_of_modules const layers = {{1, 1}, {1, 2, 2}};
  auto times = split_over_stages(whole, layers);
  EXPECT_EQ(times.weights, (std::vector<time_units>{3, 4, 2, 4, 4, 0, 0, 2, 4, 5}));
  whole.weights.clear();
  ballast::split_over_stages_into(times, whole, layers);
  EXPECT_TRUE(times.weights.empty());
}

TEST(SplitOverStages, OfNoMicrobatchIsNoRow)
{
  auto const times = split_over_stages(pipeline_times(0, 2), layers_of_modules{{1, 1}, {3}});
  EXPECT_EQ(times.stages, 3U);
  EXPECT_EQ(times.microbatches(), 0U);
}

TEST(SplitOverStagesDeathTest, RejectsModulesWithoutLayersAndOtherShapes)  // Expects
{
  pipeline_times const whole(1, 2);
  EXPECT_DEATH((void)split_over_stages(whole, layers_of_modules{{1}, {0, 0}}),
               "module 1 has no layers on its 2 stages");
  EXPECT_DEATH((void)split_over_stages(whole, layers_of_modules{{1}, {}}),
               "module 1 has no layers on its 0 stages");
  EXPECT_DEATH((void)split_over_stages(whole, layers_of_modules{{1}}),
               "layers of 1 module and times of 2");
  EXPECT_DEATH((void)split_over_stages(pipeline_times(), layers_of_modules{}),
               "layers of no modules");
}

TEST(ModuleTimes, AllocateNothingOnceTheyHaveSeenAStepAsLarge)
{
  std::vector<two_modules> const samples(64, two_modules{{{5, 10}, {7, 14}}});
  ballast::random_source random(3);
  std::vector<microbatch_id> owner(samples.size());
  for (auto& of_sample : owner) { of_sample = to_id<microbatch_id>(random.below(8)); }
  ballast::jagged<microbatch_id, sample_id> microbatches;
  microbatches.collect(owner, 8);
  layers_of_modules const layers = {{1, 1}, {4, 4, 4}};
  auto const whole = ballast::sum_over_samples(microbatches, samples).value();
  pipeline_times times;
  for (int step = 0; step < 3; ++step) {
    std::size_t const before = ballast_test::allocations();
    ballast::split_over_stages_into(times, whole, layers);
    if (step > 0) { EXPECT_EQ(ballast_test::allocations(), before); }
  }
}

TEST(ModuleTimes, OfAFrozenEncoderAndATrainedLlmCanBeSimulated)
{
  // [module_times]
  struct sample {
    ballast::tokens patches;
    ballast::tokens text;
  };
  std::vector<sample> const samples = {{400, 100}, {0, 300}, {800, 50}, {200, 200}};
  std::vector<std::vector<sample_id>> const microbatches = {{sample_id{0}, sample_id{1}},
                                                            {sample_id{2}, sample_id{3}}};

  // One GPU of 200 TFLOP/s per stage, and attention half as fast as other products.
  ballast::gamma_fit const gpu{.seconds_per_flop = 1 / 200e12, .gamma = 2};
  auto const price = [&](ballast::flop_polynomial flops) { return latency_cost(gpu, flops); };
  auto const encoder_flops = forward_flops(ballast::classic_transformer(1024, 24)).value();
  auto const llm_flops = forward_flops(ballast::classic_transformer(4096, 32)).value();
  auto const encoder = ballast::price_passes(
      encoder_flops, training_passes{}.frozen(ballast::frozen_gradient::stops), price);
  auto const llm = ballast::price_passes(llm_flops, {}, price);

  auto const whole = ballast::sum_over_samples(microbatches, samples, [&](sample const& s) {
    return std::array{(*encoder)(s.patches), (*llm)(s.text + s.patches / 4)};
  });
  std::vector<std::vector<std::uint32_t>> const layers = {{24}, {11, 11, 10}};
  auto const times = ballast::split_over_stages(*whole, layers);
  // [module_times]

  EXPECT_FALSE(encoder->has_backward());
  auto const graph = ballast::joined_stages({.encoders = {{1, encoder->has_backward()}},
                                             .llm = {3, llm->has_backward()},
                                             .generators = {}})
                         .value();
  auto const compiled = ballast::compiled_schedule::make(graph, ballast::one_forward_one_backward{},
                                                         times.microbatches());
  ASSERT_TRUE(compiled) << compiled.error().message;
  ASSERT_TRUE(ballast::check_times(times, *compiled));
  auto const timeline =
      ballast::simulate(*compiled, times, std::array{microbatch_id{0}, microbatch_id{1}});
  // Each rank is busy for as long as its layers take: the encoder forward only.
  EXPECT_EQ(timeline.busy[0], whole->rows[0].forward + whole->rows[2].forward);
  EXPECT_EQ(timeline.busy[1] + timeline.busy[2] + timeline.busy[3],
            whole->rows[1].forward + whole->rows[1].backward + whole->rows[3].forward +
                whole->rows[3].backward);
  EXPECT_EQ(whole->rows[1].backward, 2 * whole->rows[1].forward);
}

static_assert(std::regular<pass_costs>);

ballast::result<quadratic_cost> as_they_are(flop_polynomial flops)
{
  return quadratic_cost{.linear = flops.linear, .quadratic = flops.quadratic};
}

constexpr flop_polynomial forward_pass{.linear = 1000, .quadratic = 10};

TEST(PassCosts, OfATrainedModuleAreTwiceAsHighBackward)
{
  auto const costs = price_passes(forward_pass, {}, as_they_are).value();
  EXPECT_EQ(costs(7), (stage_time{7490, 14980}));
  EXPECT_EQ(costs(0), stage_time{});
  EXPECT_EQ(costs(-1), (stage_time{ballast::no_cost, ballast::no_cost}));
  EXPECT_TRUE(costs.has_backward());
}

TEST(PassCosts, AddUpToTheStep)  // Ensures (1)
{
  ballast::random_source random(5);
  for (int trial = 0; trial < 500; ++trial) {
    auto const often = [&] { return static_cast<std::uint32_t>(random.below(4)); };
    training_passes const passes{often(), often(), often(), often()};
    flop_polynomial const flops{random.below(1 << 20), random.below(1 << 20)};
    auto const costs = price_passes(flops, passes, as_they_are).value();
    EXPECT_EQ(costs.forward.linear, flops.linear * passes.forward);
    EXPECT_EQ(costs.forward.quadratic, flops.quadratic * passes.forward);
    auto const step = ballast::step_flops(flops, passes).value();
    EXPECT_EQ(costs.forward.linear + costs.backward.linear, step.linear);
    EXPECT_EQ(costs.forward.quadratic + costs.backward.quadratic, step.quadratic);
  }
}

TEST(PassCosts, OfAFrozenFrontHaveNoBackward)  // Ensures (2)
{
  auto const passes = training_passes{.recompute = 1}.frozen(frozen_gradient::stops);
  auto const costs = price_passes(forward_pass, passes, as_they_are).value();
  EXPECT_FALSE(costs.has_backward());
  EXPECT_EQ(costs(7), (stage_time{7490, 0}));

  // Nor in picoseconds, where no FLOP are a coefficient of 0 with many fraction bits.
  ballast::gamma_fit const fit{.seconds_per_flop = 1e-12, .gamma = 2};
  auto const timed = price_passes(forward_pass, passes,
                                  [&](flop_polynomial all) { return latency_cost(fit, all); });
  ASSERT_TRUE(timed);
  EXPECT_FALSE(timed->has_backward());
  EXPECT_EQ((*timed)(7), (stage_time{7000 + 2 * 490, 0}));
}

TEST(PassCosts, OfAFrozenModuleThatPassesGradientsOnKeepItsAttention)
{
  auto const costs =
      price_passes(forward_pass, training_passes{}.frozen(frozen_gradient::passes_through),
                   as_they_are)
          .value();
  EXPECT_EQ(costs(7), (stage_time{7490, 7000 + 2 * 490}));
}

TEST(PassCosts, SayWhatCouldNotBePriced)  // Errors
{
  auto const refuse_attention = [](flop_polynomial flops) -> ballast::result<quadratic_cost> {
    if (flops.quadratic > 10) { return ballast::fail(error_code::unreadable, 3, "no attention"); }
    return as_they_are(flops);
  };
  EXPECT_EQ(price_passes({0, 11}, {}, refuse_attention).error().message, "no attention");
  EXPECT_EQ(price_passes({0, 10}, {}, refuse_attention).error().position, 3U);  // backward: 20
  EXPECT_TRUE(price_passes({0, 5}, {}, refuse_attention).has_value());
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  EXPECT_TRUE(price_passes({most / 2, 0}, {}, as_they_are).has_value());
  EXPECT_EQ(price_passes({most / 2 + 1, 0}, {}, as_they_are).error().code,
            error_code::out_of_range);
  EXPECT_EQ(price_passes({most, 0}, {.forward = 2}, as_they_are).error().code,
            error_code::out_of_range);
}

}  // namespace
