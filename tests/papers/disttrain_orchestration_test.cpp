// SPDX-License-Identifier: Apache-2.0
// Figures 13 to 15, 18 and 19 of Z. Zhang et al., "DistTrain: Addressing Model and Data
// Heterogeneity with Disaggregated Training for Multimodal Large Language Models", SIGCOMM 2025:
// its three models on 1,296 GPUs, and on 96, trained in full or with frozen modules, orchestrated,
// as Megatron-LM has them and by FLOP: with samples that are images alone, and with the images that a
// sample of Figure 16's data has in the mean. It prints the tables of
// docs/notes/pipeline_examples.md, which also says what is assumed.

#include "../../examples/common/baselines/orchestrations.hpp"
#include "../support/disttrain_models.hpp"
#include "on_page.hpp"

#include <ballast/cost/known_models.hpp>
#include <ballast/parallelism/orchestrate.hpp>

namespace {

using ballast::orchestrate;
using ballast_test::disttrain_job;
using ballast_test::disttrain_model;
using ballast_test::expect_on_page;
using ballast_test::figures;

struct published_model {
  char const* name;
  ballast::transformer_shape llm;
  std::uint32_t latent;
  std::uint32_t megatron_stages;                // of the LLM, in groups of 8
  std::uint32_t megatron_batch;                 // that its dp divides: 54, 40, 12
  std::uint32_t small_batch;                    // on 96 GPUs
  std::uint32_t small_megatron_batch;           // that its dp divides: 4, 3, 1
  std::array<std::uint32_t, 2> gpus;            // DistTrain's and Megatron's of 1,296
  std::array<std::uint32_t, 3> small_gpus;      // DistTrain's, Megatron's, DistMM*'s of 96
  std::array<char const*, 2> published_ratios;  // of MFU and of throughput
};

constexpr std::array<published_model, 3> published_models = {{
    {"9B",
     ballast::known_shape("llama3-7b"),
     64,
     1,
     1944,
     128,
     128,
     {1056, 1296},
     {96, 96, 88},
     {"1.7 to 2.8", "1.7 to 2.2"}},
    {"15B",
     ballast::known_shape("llama3-13b"),
     64,
     2,
     1920,
     64,
     63,
     {1216, 1280},
     {80, 96, 76},
     {"1.7 to 2.8", "1.7 to 2.2"}},
    {"72B",
     ballast::known_shape("llama3-70b"),
     128,
     10,
     1920,
     40,
     40,
     {1176, 1152},
     {82, 96, 90},
     {"1.2", "1.3"}},
}};

/// Images of a sample of 8,192 tokens, 1,024 of each: all, or as in the data of Figure 16, whose
/// samples have 658 tokens of images in the mean.
constexpr std::uint32_t all_images = 8;
constexpr std::uint32_t one_image = 1;

/// An orchestration, and what it is compared by.
struct measured {
  std::string units;
  double gpus = 0;
  double samples_per_second = 0;
  double mfu = 0;
};

/// What is found for the job, or by shares of FLOP.
measured measure(disttrain_job const& job, ballast::layout_limits const& limits = {},
                 bool is_by_flops = false)
{
  ballast::orchestrate_options const options{.llm = 1, .limits = limits};
  auto const found = is_by_flops ? baselines::by_flops{}(job.problem, options)
                                 : orchestrate(job.problem, {}, options);
  EXPECT_TRUE(found) << found.error().message;
  if (!found) { return {}; }
  measured of;
  double flops = 0;  // of a sample
  for (std::size_t module = 0; module < 3; ++module) {
    auto const& own = found->layout.modules[module];
    of.units += (module == 0 ? "" : ", ") + std::to_string(own.group()) + "." +
                std::to_string(own.pp) + "." + std::to_string(own.dp);
    double const passes = job.roles[module].is_trained         ? 3
                          : job.roles[module].is_input_trained ? 2
                                                               : 1;
    auto const& step = job.modules[module].flops;
    flops += passes / 3 * static_cast<double>(step.linear + step.quadratic);
  }
  of.gpus = static_cast<double>(found->layout.gpus());
  of.samples_per_second =
      job.problem.global_batch / (static_cast<double>(found->layout.step) * 1e-12);
  of.mfu = 100 * flops * of.samples_per_second / (of.gpus * ballast_test::disttrain::peak);
  return of;
}

ballast::layout_limits megatron_of(published_model const& model)
{
  return baselines::monolithic({.group = 8, .pp = model.megatron_stages});
}

double ratio(measured const& a, measured const& b)
{
  return a.samples_per_second / b.samples_per_second;
}

struct large_scale {
  measured best, megatron, best_megatron, shared;
};

large_scale at_large_scale(published_model const& model, disttrain_model const& of)
{
  disttrain_job const job(of, 1296, 1920);
  return {measure(job), measure(disttrain_job(of, 1296, model.megatron_batch), megatron_of(model)),
          measure(job, baselines::monolithic()), measure(job, {}, true)};
}

TEST(DistTrainOrchestration, IsFasterThanOneParallelismForAll)  // Figures 13 and 14
{
  for (std::uint32_t const images : {all_images, one_image}) {
    std::array<double, 3> mfu{}, over{}, faster{}, over_best{};
    for (std::size_t which = 0; which < 3; ++which) {
      published_model const& model = published_models[which];
      auto const [best, megatron, best_megatron, shared] =
          at_large_scale(model, {.llm = model.llm, .images = images, .latent = model.latent});
      std::printf(
          "| %s | %s on %.0f (%u) | %.1f %% | 8.%u on %.0f (%u) | %.1f %% | %.2f (%s) | "
          "%.2f (%s) |\n",
          model.name, best.units.c_str(), best.gpus, model.gpus[0], best.mfu, model.megatron_stages,
          megatron.gpus, model.gpus[1], megatron.mfu, best.mfu / megatron.mfu,
          model.published_ratios[0], ratio(best, megatron), model.published_ratios[1]);
      EXPECT_EQ(megatron.gpus, model.gpus[1]);
      EXPECT_GE(ratio(best, best_megatron), 1);
      EXPECT_GE(ratio(best, shared), 1);
      mfu[which] = best.mfu;
      over[which] = best.mfu / megatron.mfu;
      faster[which] = ratio(best, megatron);
      over_best[which] = ratio(best, best_megatron);
    }
    char const* const where = images == one_image ? "with one image " : "";
    expect_on_page(where + figures(mfu) + " %; " + figures(over) + " times");
    expect_on_page(where + figures(faster) + " times");
    expect_on_page((images == one_image ? "with one image only " : "throughput is only ") +
                   figures(over_best));
  }
}

TEST(DistTrainOrchestration, DependsOnWhatIsAssumed)
{
  struct assumption {
    char const* name;
    disttrain_model of;
  };
  std::array const assumptions = {
      assumption{"as above", {}}, assumption{"U-Net at 60 %", {.unet_reached = 0.6}},
      assumption{"4 images", {.images = 4}},
      assumption{"4 images, U-Net at 60 %", {.images = 4, .unet_reached = 0.6}},
      assumption{"1 image", {.images = one_image}}};
  for (auto [name, of] : assumptions) {
    std::array<std::string, 3> texts;
    for (published_model const& model : published_models) {
      of.llm = model.llm;
      of.latent = model.latent;
      auto const [best, megatron, best_megatron, shared] = at_large_scale(model, of);
      std::array const over = {ratio(best, megatron), ratio(best, best_megatron),
                               ratio(best, shared)};
      for (std::size_t each = 0; each < 3; ++each) {
        std::array<char, 16> text{};
        std::snprintf(text.data(), text.size(), "%.2f", over[each]);
        texts[each] += (texts[each].empty() ? "" : " / ") + std::string(text.data());
        EXPECT_GE(over[each], each == 0 ? 0 : 1);
      }
    }
    std::printf("| %s | %s | %s | %s |\n", name, texts[0].c_str(), texts[1].c_str(),
                texts[2].c_str());
  }
}

TEST(DistTrainOrchestration, IsFasterThanSharesByFlops)  // Figure 15
{
  for (std::uint32_t const images : {all_images, one_image}) {
    std::vector<double> over, over_shared, mfu, mfu_shared;
    for (published_model const& model : published_models) {
      disttrain_model const of{.llm = model.llm, .images = images, .latent = model.latent};
      auto const best = measure(disttrain_job(of, 96, model.small_batch));
      auto const megatron =
          measure(disttrain_job(of, 96, model.small_megatron_batch), megatron_of(model));
      auto const shared = measure(disttrain_job(of, 96, model.small_batch), {}, true);
      std::printf(
          "| %s | %s on %.0f (%u) | %.1f %% | on %.0f (%u) | %.1f %% | %s on %.0f (%u) | "
          "%.1f %% | %.2f, %.2f | %.2f, %.2f |\n",
          model.name, best.units.c_str(), best.gpus, model.small_gpus[0], best.mfu, megatron.gpus,
          model.small_gpus[1], megatron.mfu, shared.units.c_str(), shared.gpus, model.small_gpus[2],
          shared.mfu, ratio(best, megatron), ratio(best, shared), best.mfu / megatron.mfu,
          best.mfu / shared.mfu);
      EXPECT_GE(ratio(best, shared), 1);
      EXPECT_EQ(megatron.gpus, model.small_gpus[1]);
      over.push_back(ratio(best, megatron));
      over_shared.push_back(ratio(best, shared));
      mfu.push_back(best.mfu / megatron.mfu);
      mfu_shared.push_back(best.mfu / shared.mfu);
    }
    std::string const where = images == one_image ? "with one image " : "";
    expect_on_page(where + "throughput " + figures(over) + " times Megatron-LM, " +
                   figures(over_shared) + " times shares by FLOP");
    expect_on_page(where + "MFU " + figures(mfu) + " and " + figures(mfu_shared) + " times");
  }
}

TEST(DistTrainOrchestration, IsFasterWhereModulesAreFrozen)  // Figures 18 and 19
{
  struct frozen_setting {
    char const* name;
    std::size_t trained;  // 3: none
  };
  constexpr std::array<frozen_setting, 4> settings = {
      {{"projectors only", 3}, {"encoder", 0}, {"LLM", 1}, {"generator", 2}}};
  for (std::uint32_t const images : {all_images, one_image}) {
    double least = 9, most = 0, least_faster = 9, most_faster = 0;
    for (frozen_setting const& each : settings) {
      std::printf("| %s |", each.name);
      for (published_model const& model : published_models) {
        auto const frozen = [&](std::uint32_t batch, ballast::layout_limits const& limits) {
          disttrain_job job({.llm = model.llm, .images = images, .latent = model.latent}, 96,
                            batch);
          for (std::size_t module = 0; module < 3; ++module) {
            job.roles[module].is_trained = module == each.trained;
            job.roles[module].is_input_trained = module > 0;
          }
          return measure(job, limits);
        };
        auto const best = frozen(model.small_batch, {});
        auto const megatron = frozen(model.small_megatron_batch, megatron_of(model));
        double const mfu = best.mfu / megatron.mfu;
        std::printf(" %.1f %% on %.0f, %.1f %% | %.2f, %.2f |", best.mfu, best.gpus, megatron.mfu,
                    mfu, ratio(best, megatron));
        EXPECT_GE(ratio(best, megatron), 0.99) << model.name << ", " << each.name;
        least = std::min(least, mfu);
        most = std::max(most, mfu);
        least_faster = std::min(least_faster, ratio(best, megatron));
        most_faster = std::max(most_faster, ratio(best, megatron));
      }
      std::printf("\n");
    }
    std::string const where = images == one_image ? "with one image " : "";
    expect_on_page(where + "MFU " + figures({least}) + " to " + figures({most}) + " times");
    expect_on_page(where + "throughput " + figures({least_faster}) + " to " +
                   figures({most_faster}) + " times");
  }
}

}  // namespace
