// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/cost/known_models.hpp>
#include <ballast/parallelism/layout_problem.hpp>
#include <ballast/parallelism/orchestration_problem.hpp>

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

/// Backward takes twice the products, and as many all-reduces. A GPU holds of a parameter 2 bytes
/// of weight, 4 of gradient and 12 of optimiser. Where there are images, a group shares these, else
/// every product.
inline ballast::orchestrated_module module_of(std::string name, std::uint32_t layers,
                                              forward_work const& work, double reached,
                                              std::uint32_t images = 0)
{
  ballast::orchestrated_module module;
  module.name = std::move(name);
  module.layers = layers;
  module.forward_flops = static_cast<std::uint64_t>(work.products + work.attention);
  for (std::uint32_t const tp : {1U, 2U, 4U, 8U}) {
    auto const picoseconds = [&](double products, double attention) {
      double const compute =
          (work.products * products + work.attention * attention) / (reached * peak * tp);
      double const reduce = 2 * work.reduced * (tp - 1) / tp / nvlink;
      return static_cast<ballast::time_units>((compute + reduce) * 1e12);
    };
    auto const bytes = [tp](double all) { return static_cast<std::uint64_t>(all / tp); };
    module.degrees.push_back({tp, picoseconds(1, 1), picoseconds(2, 2), picoseconds(1, 2),
                              bytes(2 * work.parameters), bytes(4 * work.parameters),
                              bytes(12 * work.parameters), bytes(work.activations)});
    if (images > 0) {
      module.degrees.back() = ballast::replicated_degree(module.degrees.front(), tp, images);
    }
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
  auto const costs = costs_of(shape, latent, 77);
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
inline ballast::orchestration_problem orchestration_of(disttrain_model const& model,
                                                       std::uint32_t gpus, std::uint32_t batch)
{
  using namespace disttrain;
  auto const vit = ballast::known_shape("vit-huge");
  ballast::orchestration_problem problem;
  problem.modules = {
      module_of("encoder", vit.layers, transformer_work(vit, image_tokens, model.images),
                model.reached, model.images),
      module_of("llm", model.llm.layers, transformer_work(model.llm, length, 1), model.reached),
      module_of("generator", 1, unet_work(model.latent, model.images), model.unet_reached,
                model.images)};
  std::uint64_t const of_image = 2 * static_cast<std::uint64_t>(image_tokens) * model.images;
  problem.modules[0].boundary_bytes = of_image * vit.hidden;
  problem.modules[1].boundary_bytes = 2 * static_cast<std::uint64_t>(length) * model.llm.hidden;
  problem.modules[2].boundary_bytes = of_image * model.llm.hidden;
  problem.llm = 1;
  problem.global_batch = batch;
  problem.kinds = {{.gpus = gpus,
                    .gpus_per_node = 8,
                    .memory_bytes = 80'000'000'000,
                    .bytes_per_second = 12'500'000'000}};
  return problem;
}

}  // namespace ballast_test
