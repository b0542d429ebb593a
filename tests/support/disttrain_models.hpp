// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/cost/known_models.hpp>
#include <ballast/parallelism/layout_problem.hpp>
#include <ballast/parallelism/orchestrate.hpp>

namespace ballast_test {

/// The models of Z. Zhang et al., "DistTrain", SIGCOMM 2025: ViT-Huge, an LLM, Stable Diffusion
/// 2.1. Encoder and generator fit one GPU, and are replicated inside groups, whose GPUs share the
/// images of a sample (section 7.1). What the paper does not say is assumed: `images` of 1,024
/// tokens in a sample of 8,192 tokens, each encoded, and each generated with `latent` pixels on a
/// side (64 for 512 x 512 pixels, 128 for the 1024 x 1024 of 72B), and how fast an A100 computes.
struct disttrain_model {
  ballast::transformer_shape llm{};
  std::uint32_t images = 8;
  std::uint32_t latent = 64;
  double reached = 0.6;       ///< of 312 TFLOP/s, in products of an LLM
  double unet_reached = 0.3;  ///< in convolutions
};

namespace disttrain {

constexpr ballast::tokens length = 8192;
constexpr ballast::tokens image_tokens = 1024;
constexpr double peak = 312e12;
constexpr double nvlink = 300e9;  // bytes per second of a GPU

/// What a module takes of a sample forward, whatever its kind.
struct forward_work {
  double products;   // FLOP with weights
  double attention;  // FLOP without
  double reduced;    // bytes that tensor parallelism all-reduces
  double parameters;
  double activations;  // bytes
};

/// Backward takes twice the work, and as many all-reduces. A GPU holds of a parameter 2 bytes of
/// weight, 4 of gradient and 12 of optimiser. A sample has size 1. Where there are images, the GPUs
/// of a group share these (sp), else every product (tp).
inline ballast::module_profile module_of(std::string name, std::uint32_t layers,
                                         forward_work const& work, double reached,
                                         std::uint32_t images = 0)
{
  ballast::module_profile module;
  module.name = std::move(name);
  module.layers = layers;
  module.flops = {.linear = 3 * static_cast<std::uint64_t>(work.products),
                  .quadratic = 3 * static_cast<std::uint64_t>(work.attention)};
  for (std::uint32_t const gpus : {1U, 2U, 4U, 8U}) {
    // Of its images a GPU of a group has so many of all.
    double const most = images == 0 ? 1.0 / gpus : (images + gpus - 1) / gpus / 1.0 / images;
    // In each of two passes, of which the forward has a third of the products.
    double const reduce = images == 0 ? 2.0 / 3 * 2 * work.reduced * (gpus - 1) / gpus / nvlink : 0;
    auto const curve = [](double per_second) {
      std::array<ballast::tokens, 1> const sizes{1};
      std::array const speeds{per_second};
      return ballast::interpolated_throughput::make(sizes, speeds).value();
    };
    double const products = work.products * most / (reached * peak) + reduce;
    ballast::profiled_degree degree;
    (images == 0 ? degree.tp : degree.sp) = gpus;
    degree.linear = curve(work.products / gpus / products);
    degree.attention = curve(reached * peak / gpus / most);
    double const state = 18 * work.parameters / (images == 0 ? gpus : 1);
    double const held = work.activations * most;
    auto const bytes = [layers](double all, double part) {
      return static_cast<std::uint64_t>(all * part / layers);
    };
    degree.memory = {.layers = {1, 2},
                     .state_bytes = {bytes(state, 1), bytes(state, 2)},
                     .sizes = {0, 1},
                     .activation_bytes = {{{0, bytes(held, 1)}, {0, bytes(held, 2)}}}};
    module.degrees.push_back(degree);
  }
  return module;
}

/// Two all-reduces a layer, and 34 bytes of activations for each token and channel (V. Korthikanti
/// et al., arXiv 2205.05198).
inline forward_work transformer_work(ballast::transformer_shape const& shape,
                                     ballast::tokens tokens_of_item, std::uint32_t items)
{
  auto const flops = forward_flops(shape).value();
  double const tokens = static_cast<double>(tokens_of_item) * items;
  double const channels = static_cast<double>(shape.hidden) * shape.layers;
  return {static_cast<double>(flops.linear) * tokens,
          static_cast<double>(flops.quadratic) * static_cast<double>(tokens_of_item) * tokens,
          2 * 2 * tokens * channels, static_cast<double>(flops.linear) / 2, 34 * tokens * channels};
}

/// Four all-reduces for each residual block with its transformer, of the pixels of its level; 64
/// bytes of activations for each of these pixels and channels.
inline forward_work unet_work(std::uint32_t latent, std::uint32_t images)
{
  auto const& shape = ballast::stable_diffusion_2_1;
  auto const costs = shape.costs_of(latent, 77);
  double pixels = 0;
  double size = latent;
  for (std::uint32_t const channels : shape.channels) {
    pixels += (2 * shape.blocks + 1) * size * size * channels;
    size /= 2;
  }
  return {static_cast<double>(costs.forward_flops) * images, 0, 4 * 2 * pixels * images,
          static_cast<double>(costs.parameters), 64 * pixels * images};
}

}  // namespace disttrain

/// A model on so many A100 of 80 GB, nodes of eight with 4 x 200 Gb/s, one sample in a microbatch.
struct disttrain_job {
  std::vector<ballast::module_profile> modules;
  std::vector<ballast::module_role> roles{3};
  std::array<ballast::tokens, 3> sizes{1, 1, 1};
  ballast::layout_problem problem;
  ballast::orchestrate_options options{.llm = 1};

  disttrain_job(disttrain_model const& model, std::uint32_t gpus, std::uint32_t batch)
  {
    using namespace disttrain;
    auto const vit = ballast::known_shape("vit-huge");
    modules = {
        module_of("encoder", vit.layers, transformer_work(vit, image_tokens, model.images),
                  model.reached, model.images),
        module_of("llm", model.llm.layers, transformer_work(model.llm, length, 1), model.reached),
        module_of("generator", 1, unet_work(model.latent, model.images), model.unet_reached,
                  model.images)};
    std::uint64_t const of_image = 2 * static_cast<std::uint64_t>(image_tokens) * model.images;
    modules[0].boundary_bytes = of_image * vit.hidden;
    modules[1].boundary_bytes = 2 * static_cast<std::uint64_t>(length) * model.llm.hidden;
    modules[2].boundary_bytes = of_image * model.llm.hidden;
    problem.modules = modules;
    problem.roles = roles;
    problem.sizes = sizes;
    problem.global_batch = batch;
    problem.kinds = {{.gpus = gpus,
                      .gpus_per_node = 8,
                      .memory_bytes = 80'000'000'000,
                      .bytes_per_second = 12'500'000'000}};
    problem.may_leave_gpus = true;
    problem.state = {.weights = 2, .gradients = 4, .optimizer = 12, .is_optimizer_shared = true};
  }
  disttrain_job(disttrain_job const&) = delete;
  disttrain_job& operator=(disttrain_job const&) = delete;
};

}  // namespace ballast_test
