// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/layout_review.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"

namespace {

using ballast::layout_problem;
using ballast::layout_review;
using ballast::module_profile;
using ballast::time_units;
using ballast::tokens;

constexpr time_units restart = 3'000'000'000;  // picoseconds

/// An encoder and an LLM that take about as long, on 8 GPUs.
struct small_training {
  std::array<module_profile, 2> modules;
  std::vector<tokens> sizes;
  layout_problem problem;

  small_training()
  {
    for (std::size_t module = 0; module < 2; ++module) {
      modules[module].name = module == 0 ? "vision" : "llm";
      modules[module].layers = 8;
      modules[module].flops = {.linear = 2'000'000};
      modules[module].degrees = {{.tp = 1}, {.tp = 2}};
      for (auto& degree : modules[module].degrees) {
        degree.memory.state_bytes = {1'000'000, 2'000'000};  // a megabyte a layer
      }
    }
    ballast::random_source random(5);
    for (int sample = 0; sample < 32; ++sample) {
      sizes.insert(sizes.end(), {random.between(20, 60), random.between(20, 60)});
    }
    problem.modules = modules;
    problem.sizes = sizes;
    problem.global_batch = 32;
    problem.kinds = {
        {.gpus = 8, .memory_bytes = 80'000'000'000, .bytes_per_second = 1'000'000'000}};
  }

  [[nodiscard]] ballast::model_layout best() const
  {
    return ballast::search_layouts(problem, sizes).value().layouts.front().layout;
  }

  /// Trains 40 steps, the encoder slower by a factor from step 20 on; the step in which a change is
  /// told, and the change.
  [[nodiscard]] std::pair<int, std::optional<ballast::layout_change>> train(
      double drift, std::uint64_t steps_left = 10'000) const
  {
    layout_review review(problem, best(), {.steps_left = steps_left, .restart = restart});
    ballast::random_source random(9);
    std::pair<int, std::optional<ballast::layout_change>> told{-1, std::nullopt};
    for (int step = 0; step < 40; ++step) {
      std::array<time_units, 2> const predicted{1'000'000 + 1000 * step, 1'100'000};
      auto const noise = [&] { return 0.98 + 0.001 * static_cast<double>(random.below(41)); };
      auto const measured_as = [&](std::size_t module, double factor) {
        return static_cast<time_units>(static_cast<double>(predicted[module]) * factor * noise());
      };
      std::array<time_units, 2> const measured{measured_as(0, step < 20 ? 1 : drift),
                                               measured_as(1, 1)};
      auto const change = review.finish_step(predicted, measured, sizes).value();
      if (!change) { continue; }
      EXPECT_EQ(told.first, -1) << "told again in step " << step;
      told = {step, change};
      review.change_to(change->layout);
    }
    return told;
  }
};

TEST(LayoutReview, TellsAnotherLayoutWhereAModuleIsTwiceAsSlow)  // Ensures (1)
{
  small_training const training;
  auto const [step, change] = training.train(2);
  ASSERT_TRUE(change);
  EXPECT_GE(step, 20);
  EXPECT_LE(step, 30);
  EXPECT_NE(change->layout.modules, training.best().modules);
  EXPECT_GT(change->layout.modules[0].gpus(), training.best().modules[0].gpus());
  EXPECT_LT(change->after, change->before);

  // By an encoder that has twice the FLOP, the change is as good as it says, but for noise.
  auto slower = training;
  slower.modules[0].flops.linear *= 2;
  slower.problem.modules = slower.modules;
  auto const before =
      ballast::simulate_layout(slower.problem, training.best(), slower.sizes).value();
  auto const after = ballast::simulate_layout(slower.problem, change->layout, slower.sizes).value();
  EXPECT_NEAR(static_cast<double>(change->before) / static_cast<double>(before), 1, 0.03);
  EXPECT_NEAR(static_cast<double>(change->after) / static_cast<double>(after), 1, 0.03);

  // The restart, and the state of the fullest GPU over 1 GB/s: a megabyte a layer takes a millisecond.
  std::uint32_t layers = 0;
  for (auto const& own : change->layout.modules) {
    layers = std::max(layers, (8 + own.pp - 1) / own.pp);
  }
  EXPECT_EQ(change->cost, restart + 1'000'000'000 * time_units{layers});
  EXPECT_GE(static_cast<time_units>(change->pays_after()) * (change->before - change->after),
            change->cost);
  EXPECT_LT(static_cast<time_units>(change->pays_after() - 1) * (change->before - change->after),
            change->cost);
}

TEST(LayoutReview, TellsNoneWhereModulesHardlyDriftOrNothingWouldPay)  // Ensures (1)
{
  small_training const training;
  EXPECT_EQ(training.train(1).first, -1);
  EXPECT_EQ(training.train(1.05).first, -1);
  EXPECT_EQ(training.train(2, 24).first, -1);  // no step is left when it is seen
}

TEST(LayoutReview, RefusesWhatSaysNothing)
{
  small_training const training;
  layout_review review(training.problem, training.best(), {});
  std::array<time_units, 2> const times{1, 1};
  std::array<time_units, 2> const without{1, 0};
  auto const refused = review.finish_step(times, without, training.sizes);
  EXPECT_EQ(refused.error().position, 1U);
  EXPECT_THAT(refused.error().message,
              testing::HasSubstr("module llm has no predicted or measured"));
  EXPECT_THAT(review.finish_step(times, times, std::span(training.sizes).first(3)).error().message,
              testing::HasSubstr("no whole number of batches"));
}

}  // namespace
