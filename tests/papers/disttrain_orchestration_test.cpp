// SPDX-License-Identifier: Apache-2.0
// Sections 7.1 and 7.3 of Z. Zhang et al., "DistTrain: Addressing Model and Data Heterogeneity with
// Disaggregated Training for Multimodal Large Language Models", SIGCOMM 2025: its three models on
// 1,296 GPUs, and on 96 with frozen modules, orchestrated and as Megatron-LM has them. It prints
// the tables of docs/orchestration.md, which also says what is assumed.

#include "../support/disttrain_models.hpp"

#include <gtest/gtest.h>
#include <ballast/cost/known_models.hpp>
#include <ballast/parallelism/by_flops.hpp>
#include <ballast/parallelism/orchestrate.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

namespace {

using ballast::monolithic;
using ballast::orchestrate;
using ballast::orchestration;
using ballast::orchestration_problem;
using ballast_test::disttrain_model;
using ballast_test::orchestration_of;

struct published_model {
  char const* name;
  ballast::transformer_shape llm;
  monolithic megatron;           // tp, pp
  std::uint32_t megatron_batch;  // that its dp divides: 54, 40, 12
  std::uint32_t frozen_batch;
  double frozen_megatron_batch;
};

constexpr std::array<published_model, 3> published_models = {{
    {"9B", ballast::known_shape("llama3-7b"), {8, 1}, 1944, 128, 128},
    {"15B", ballast::known_shape("llama3-13b"), {8, 2}, 1920, 64, 63},
    {"72B", ballast::known_shape("llama3-70b"), {8, 10}, 1920, 40, 40},
}};

double seconds_of_step(orchestration const& of)
{
  return static_cast<double>(of.layout.step) * 1e-12;
}

std::string units_text(orchestration const& of)
{
  std::string text;
  for (auto const& [tp, pp, dp] : of.layout.modules) {
    text += (text.empty() ? "" : ", ") + std::to_string(tp) + "." + std::to_string(pp) + "." +
            std::to_string(dp);
  }
  return text;
}

struct expected_speed {
  std::uint64_t gpus;
  double over_monolithic;
};

struct published_case {
  char const* name;
  std::uint32_t images;
  std::uint32_t latent;
  std::array<expected_speed, 3> expected;
};

TEST(DistTrainOrchestration, IsFasterThanOneParallelismForAll)
{
  constexpr std::array<published_case, 3> cases = {{
      {"8 images of 512 x 512", 8, 64, {{{1280, 2.20}, {1296, 1.61}, {1296, 1.23}}}},
      {"4 images of 512 x 512", 4, 64, {{{1296, 2.33}, {1296, 1.76}, {1296, 1.29}}}},
      {"8 images of 1024 x 1024", 8, 128, {{{1280, 1.67}, {1296, 1.39}, {1296, 1.22}}}},
  }};
  std::array<std::uint32_t, 3> const published = {1056, 1216, 1176};
  for (published_case const& each : cases) {
    std::printf("%s\n", each.name);
    for (std::size_t which = 0; which < published_models.size(); ++which) {
      published_model const& model = published_models[which];
      disttrain_model const of{model.llm, each.images, each.latent};
      auto const problem = orchestration_of(of, 1296, 1920);
      auto const best = orchestrate(problem).value();
      auto const with_fewer = orchestrate(orchestration_of(of, published[which], 1920)).value();
      auto const old =
          orchestrate(orchestration_of(of, 1296, model.megatron_batch), model.megatron).value();
      auto const best_old = orchestrate(problem, monolithic{}).value();
      auto const one = orchestrate(problem, ballast::homogeneous{}).value();
      auto const shared = orchestrate(problem, ballast::by_flops{}).value();
      double const speed =
          seconds_of_step(old) / model.megatron_batch * 1920 / seconds_of_step(best);
      double flops = 0;
      for (auto const& module : problem.modules) {
        flops += 3 * static_cast<double>(module.forward_flops);
      }
      std::printf(
          "| %s | %s | %lu | %u | %.2f s | %.1f %% | %s on %lu | %.2f | %.2f | %.2f | %.2f | "
          "%.1f %% |\n",
          model.name, units_text(best).c_str(), static_cast<unsigned long>(best.layout.gpus()),
          published[which], seconds_of_step(best),
          100 * flops * 1920 /
              (seconds_of_step(best) * static_cast<double>(best.layout.gpus()) * 312e12),
          units_text(old).c_str(), static_cast<unsigned long>(old.layout.gpus()), speed,
          seconds_of_step(best_old) / seconds_of_step(best),
          seconds_of_step(one) / seconds_of_step(best),
          seconds_of_step(shared) / seconds_of_step(best),
          100 * (seconds_of_step(with_fewer) / seconds_of_step(best) - 1));
      EXPECT_EQ(best.layout.gpus(), each.expected[which].gpus) << model.name;
      EXPECT_NEAR(speed, each.expected[which].over_monolithic, 0.005) << model.name;
      EXPECT_LE(best.layout.step, best_old.layout.step);
      EXPECT_LE(best.layout.step, one.layout.step);
      EXPECT_LE(best.layout.step, shared.layout.step);
    }
  }
}

TEST(DistTrainOrchestration, IsFasterWhereModulesAreFrozen)
{
  struct frozen_setting {
    char const* name;
    std::size_t trained;  // 3: none
    std::array<double, 3> expected;
  };
  constexpr std::array<frozen_setting, 4> settings = {{{"projectors only", 3, {2.21, 1.52, 1.20}},
                                                       {"encoder", 0, {2.03, 1.51, 1.17}},
                                                       {"LLM", 1, {2.17, 1.56, 1.00}},
                                                       {"generator", 2, {2.07, 1.52, 1.18}}}};
  for (frozen_setting const& each : settings) {
    std::printf("| %s |", each.name);
    for (std::size_t which = 0; which < published_models.size(); ++which) {
      published_model const& model = published_models[which];
      auto const frozen = [&](double batch) {
        auto problem = orchestration_of({.llm = model.llm}, 96, static_cast<std::uint32_t>(batch));
        for (std::size_t module = 0; module < 3; ++module) {
          problem.modules[module].is_trained = module == each.trained;
          problem.modules[module].is_input_trained = module > 0;
        }
        return problem;
      };
      auto const best = orchestrate(frozen(model.frozen_batch));
      auto const old = orchestrate(frozen(model.frozen_megatron_batch), model.megatron);
      ASSERT_TRUE(best && old) << (best ? old : best).error().message;
      double const speed = seconds_of_step(*old) / model.frozen_megatron_batch *
                           model.frozen_batch / seconds_of_step(*best);
      std::printf(" %.2f (%s, %.2f s; %s, %.2f s) |", speed, units_text(*best).c_str(),
                  seconds_of_step(*best), units_text(*old).c_str(), seconds_of_step(*old));
      EXPECT_NEAR(speed, each.expected[which], 0.005) << model.name << ", " << each.name;
    }
    std::printf("\n");
  }
}

}  // namespace
