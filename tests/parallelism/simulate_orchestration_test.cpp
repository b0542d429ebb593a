// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/simulate_orchestration.hpp>  // first: proves it is self-contained

#include "../../examples/common/baselines/orchestrations.hpp"
#include "../support/all_orchestrations.hpp"
#include "../support/disttrain_models.hpp"
#include "../support/random_orchestrations.hpp"
#include "../support/small_orchestration.hpp"
#include "../support/test.hpp"
#include "../support/trials.hpp"

#include <ballast/cost/flops.hpp>
#include <ballast/cost/known_models.hpp>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/parallelism/orchestrate.hpp>
#include <ballast/parallelism/orchestration_problem.hpp>

namespace {

using namespace ballast;
using testing::HasSubstr;
using unit_layouts = std::vector<module_layout>;

TEST(SimulateOrchestration, FillsThePipelineThenGoesAtThePaceOfTheSlowestStage)
{
  // The encoder takes 10 + 20 ps, the LLM 80 + 160: it waits for the first microbatch, and the
  // encoder for the last gradient. Then the LLM on two stages, which wait for each other at both
  // ends.
  auto const problem = ballast_test::small_orchestration();
  EXPECT_EQ(simulate_orchestration(problem, std::vector<module_layout>{{1, 1, 1}, {1, 1, 1}}),
            10 + 12 * 240 + 20);
  EXPECT_EQ(simulate_orchestration(problem, std::vector<module_layout>{{1, 1, 1}, {1, 2, 1}}),
            10 + 13 * 120 + 20);
}

TEST(SimulateOrchestration, RefusesWhatCannotBePriced)
{
  auto problem = ballast_test::small_orchestration();
  auto const refused = simulate_orchestration(problem, std::vector<module_layout>{{1, 1, 1}});
  EXPECT_THAT(refused.error().message, HasSubstr("layouts of 1 module were given for 2"));
}

TEST(SimulateOrchestration, IsTheChainOfItsStages)
{
  ballast::random_source random(41);
  std::size_t simulated = 0;
  for (int trial = 0; trial < ballast_test::trials_of(200); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto problem = ballast_test::random_orchestration(random, 64, 40);
    ballast_test::add_groups(random, problem.modules);
    auto const found = orchestrate(problem);
    if (!found) { continue; }
    auto const& units = found->layout.modules;
    auto const step = simulate_orchestration(problem, units, found->kinds);
    ASSERT_TRUE(step) << step.error().message;
    EXPECT_EQ(*step,
              ballast_test::simulated_step(ballast_test::on_kinds(problem, found->kinds), units));
    ++simulated;
  }
  EXPECT_GT(simulated, static_cast<std::size_t>(ballast_test::trials_of(200)) / 4);
}

/// How far the best units by the price are from the best by simulation, and prices from steps; of
/// problems without virtual stages, and of those with. docs/orchestration.md has the figures of
/// BALLAST_TRIALS=4000.
TEST(SimulateOrchestration, JudgesTheBestUnits)
{
  struct judged {
    std::vector<double> above;   // the best of all simulated
    std::vector<double> priced;  // over the simulated step
  };
  std::array<judged, 2> both;
  ballast::random_source random(43);
  char const* const asked = std::getenv("BALLAST_TRIALS");
  int const trials = ballast_test::trials_of(asked != nullptr ? std::atoi(asked) : 200);
  for (int trial = 0; trial < trials; ++trial) {
    auto drawn = ballast_test::random_orchestration(random, 12, 8, 4);
    bool const is_interleaved = trial % 2 == 1;
    for (auto& module : drawn.modules) {
      if (!is_interleaved) { module.virtual_stages = 1; }
    }
    std::vector<std::size_t> const first(drawn.modules.size(), 0);
    auto const problem = ballast_test::on_kinds(drawn, first);
    auto const found = orchestrate(problem);
    if (!found || found->layout.step == 0) { continue; }
    ballast::time_units best = ballast::no_cost;
    ballast_test::each_orchestration(
        problem, {}, [&](auto const& chosen, std::uint32_t microbatches) {
          if (!ballast_test::memory_of(problem, chosen, microbatches)) { return; }
          std::vector<module_layout> units;
          for (auto const* const each : chosen) { units.push_back(each->layout); }
          best = std::min(best, ballast_test::simulated_step(problem, units));
        });
    auto const own = simulate_orchestration(problem, found->layout.modules).value();
    ASSERT_GE(own, best);
    both[is_interleaved].above.push_back(static_cast<double>(own) / static_cast<double>(best) - 1);
    both[is_interleaved].priced.push_back(static_cast<double>(found->layout.step) /
                                          static_cast<double>(own));
  }
  for (auto& [above, priced] : both) {
    ASSERT_GT(above.size(), static_cast<std::size_t>(trials) / 8);
    std::sort(above.begin(), above.end());
    std::sort(priced.begin(), priced.end());
    auto const mean = [](std::vector<double> const& of) {
      return std::accumulate(of.begin(), of.end(), 0.0) / static_cast<double>(of.size());
    };
    std::printf(
        "%zu problems: best units above the best simulated by %.2f %% (mean), %.1f %% (most), by "
        "0 in %td; price / simulated %.3f (mean), %.3f to %.3f\n",
        above.size(), 100 * mean(above), 100 * above.back(),
        std::upper_bound(above.begin(), above.end(), 0.0) - above.begin(), mean(priced),
        priced.front(), priced.back());
    EXPECT_LT(mean(above), 0.05);
  }
}

/// Prices and steps of the paper's models on 1,296 GPUs, as docs/orchestration.md shows them.
TEST(SimulateOrchestration, IsNearThePriceOfTheModelsOfThePaper)
{
  struct model_of_paper {
    char const* llm;
    ballast::transformer_shape shape;
    std::uint32_t latent;
  };
  for (auto const& [llm, shape, latent] :
       {model_of_paper{"9B", ballast::known_shape("llama3-7b"), 64},
        model_of_paper{"15B", ballast::known_shape("llama3-13b"), 64},
        model_of_paper{"72B", ballast::known_shape("llama3-70b"), 128}}) {
    auto const problem =
        ballast_test::orchestration_of({.llm = shape, .latent = latent}, 1296, 1920);
    auto const compare = [&](char const* name, auto const& policy) {
      auto const found = orchestrate(problem, policy);
      ASSERT_TRUE(found) << found.error().message;
      auto const step = simulate_orchestration(problem, found->layout.modules);
      ASSERT_TRUE(step) << step.error().message;
      double const ratio = static_cast<double>(found->layout.step) / static_cast<double>(*step);
      std::printf("%s, %s: %.3f s priced, %.3f s simulated, ratio %.3f\n", llm, name,
                  static_cast<double>(found->layout.step) * 1e-12,
                  static_cast<double>(*step) * 1e-12, ratio);
      EXPECT_GE(ratio, 1);
      EXPECT_LE(ratio, 1.2);
    };
    compare("best units", ballast::best_units{});
    compare("homogeneous", baselines::homogeneous{});
    compare("monolithic", baselines::monolithic{});
  }
}

TEST(PriceOrchestration, IsTheFormula)
{
  auto problem = ballast_test::small_orchestration();
  // dp_LLM 2: 6 microbatches of 2 samples. The encoder takes 2 * 30 / 3 = 20, the LLM 2 * 120 / 2 /
  // 2 on each of its two stages; 20 + 2 * 60 + 5 * 60.
  auto const priced = price_orchestration(problem, unit_layouts{{1, 1, 3}, {2, 2, 2}}).value();
  EXPECT_EQ(priced.step, 440);
  EXPECT_EQ(priced.microbatches, 6U);
  // The encoder: 20 + 20 + 120 / 3 + 8; the LLM: (40 + 40) / 2 + 240 / 2 / 2 + 20.
  EXPECT_EQ(priced.memory_bytes, 120U);
  problem.microbatch = 2;
  auto const twice = price_orchestration(problem, unit_layouts{{1, 1, 3}, {2, 2, 2}}).value();
  EXPECT_EQ(twice.microbatches, 3U);
  EXPECT_EQ(twice.step, 40 + 2 * 120 + 2 * 120);
}

TEST(PriceOrchestration, SaysWhatCannotBe)
{
  auto problem = ballast_test::small_orchestration();
  auto const expect_refused = [&](unit_layouts const& given, std::size_t position,
                                  std::string const& why) {
    auto const priced = price_orchestration(problem, given);
    ASSERT_FALSE(priced) << why;
    EXPECT_EQ(priced.error().code, ballast::error_code::infeasible);
    EXPECT_EQ(priced.error().position, position);
    EXPECT_THAT(priced.error().message, HasSubstr(why));
  };
  expect_refused({{1, 1, 1}}, 0, "layouts of 1 module were given for 2");
  expect_refused({{1, 1, 5}, {1, 1, 1}}, 0, "cannot have dp 5; give a divisor of the 12");
  expect_refused({{1, 1, 1}, {1, 1, 0}}, 1, "cannot have dp 0");
  expect_refused({{1, 1, 1}, {4, 1, 1}}, 1, "module llm cannot have tp 4");
  expect_refused({{1, 3, 1}, {1, 1, 1}}, 0, "of 2 layers cannot have 3 stages");
  expect_refused({{1, 1, 1}, {1, 0, 1}}, 1, "cannot have 0 stages");
  expect_refused({{1, 1, 12}, {2, 2, 2}}, 0, "get 20 GPUs of kind 0, and there are 16");
  problem.kinds[0].memory_bytes = 119;
  expect_refused({{1, 1, 3}, {2, 2, 2}}, 1,
                 "a GPU of module llm would hold 120 bytes, and has 119");
  problem = ballast_test::small_orchestration();
  problem.kinds.push_back(problem.kinds[0]);
  problem.modules[0].kinds = {0};
  expect_refused({{1, 1, 1}, {1, 1, 1}}, 1, "module llm may get GPUs of several kinds; say which");
  unit_layouts const ones(2);
  auto const priced = [&](std::vector<std::size_t> const& kinds) {
    return price_orchestration(problem, ones, kinds);
  };
  EXPECT_TRUE(priced({0, 1}));
  EXPECT_THAT(priced({1, 1}).error().message, HasSubstr("vision may not get GPUs of the given"));
  EXPECT_THAT(priced({0}).error().message, HasSubstr("kinds of GPUs were given for 1 module of 2"));
  problem.kinds.clear();
  EXPECT_EQ(price_orchestration(problem, unit_layouts{}).error().code,
            ballast::error_code::out_of_range);
  problem = ballast_test::small_orchestration();
  problem.global_batch = 1 << 24;
  problem.modules[1].degrees[0].forward = ballast::orchestration_problem::longest_time;
  expect_refused({{1, 1, 1}, {1, 1, 1}}, 0, "a step takes 2^63 picoseconds or more");
}

}  // namespace
