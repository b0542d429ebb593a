// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/text/excerpt.hpp>

namespace ballast::inline v0 {

/// The dimensions of a diffusion model's U-Net on which its FLOP depend, as its configuration names
/// them: residual blocks at several resolutions, each half the one before, with a transformer block
/// after each where there is attention. The middle has one between two residual blocks.
struct unet_shape {
  /// What a U-Net takes of one image, forward, and how many weights it has.
  struct costs {
    std::uint64_t forward_flops = 0;
    std::uint64_t parameters = 0;

    friend bool operator==(costs const&, costs const&) = default;
  };

  static constexpr std::size_t levels = 4;

  std::array<std::uint32_t, levels> channels{};  ///< block_out_channels
  std::array<bool, levels> has_attention{};      ///< its block is a cross-attention block
  std::uint32_t blocks = 2;                      ///< layers_per_block; one more on the way up
  std::uint32_t context = 0;                     ///< cross_attention_dim
  std::uint32_t latent_channels = 4;             ///< in_channels and out_channels

  /// What a U-Net takes of one image whose latent is `latent` pixels wide and high, forward, with a
  /// context of so many tokens: convolutions, products with weights, and attention of every pixel to
  /// all, counted as `flop_polynomial` counts.
  ///
  /// Expects     latent is a multiple of 8, from 8 to 1024; context_tokens <= 2^16; channels <= 2^14,
  ///             context <= 2^16, 1 to 8 blocks.
  /// Ensures     (1) parameters are those of the model, exactly: 865,910,724 of Stable Diffusion 2.1,
  ///                 859,520,964 of 1.5
  /// Complexity  O(layers).
  /// Source      R. Rombach et al., "High-Resolution Image Synthesis with Latent Diffusion Models",
  ///             CVPR 2022, as UNet2DConditionModel of the library diffusers builds it.
  ///
  ///     constexpr auto costs = stable_diffusion_2_1.costs_of(64, 77);  // 512 x 512 pixels
  [[nodiscard]] constexpr costs costs_of(std::uint32_t latent, std::uint32_t context_tokens) const;

  friend bool operator==(unet_shape const&, unet_shape const&) = default;
};

namespace detail {

/// Adds up a U-Net's layers in the order in which an image passes them.
class unet_count {
 public:
  constexpr unet_count(unet_shape const& shape, std::uint32_t latent, std::uint32_t context_tokens)
      : shape_(shape), embedding_(std::uint64_t{4} * shape.channels[0]), tokens_(context_tokens)
  {
    std::uint64_t const first = shape.channels[0];
    std::uint64_t size = latent;
    std::uint64_t now = first;
    std::array<std::uint64_t, 64> kept{};  // channels of what the way up is given from the way down
    std::size_t count = 0;
    product(first, embedding_, 1);
    product(embedding_, embedding_, 1);
    convolution(shape.latent_channels, first, 3, size);
    kept[count++] = first;
    for (std::size_t level = 0; level < unet_shape::levels; ++level) {
      for (std::uint32_t block = 0; block < shape.blocks; ++block) {
        block_of(level, now, size);
        now = shape.channels[level];
        kept[count++] = now;
      }
      if (level + 1 < unet_shape::levels) {
        size /= 2;
        convolution(now, now, 3, size);
        kept[count++] = now;
      }
    }
    residual(now, now, size);
    transformer(now, size);
    residual(now, now, size);
    for (std::size_t level = unet_shape::levels; level > 0; --level) {
      for (std::uint32_t block = 0; block <= shape.blocks; ++block) {
        block_of(level - 1, now + kept[--count], size);
        now = shape.channels[level - 1];
      }
      if (level > 1) {
        size *= 2;
        convolution(now, now, 3, size);
      }
    }
    norm(now);
    convolution(now, shape.latent_channels, 3, size);
  }

  [[nodiscard]] constexpr unet_shape::costs costs() const { return {2 * products_, parameters_}; }

 private:
  constexpr void convolution(std::uint64_t in, std::uint64_t out, std::uint64_t width,
                             std::uint64_t size)
  {
    parameters_ += in * out * width * width + out;
    products_ += in * out * width * width * size * size;
  }

  constexpr void product(std::uint64_t in, std::uint64_t out, std::uint64_t rows,
                         bool has_bias = true)
  {
    parameters_ += in * out + (has_bias ? out : 0);
    products_ += in * out * rows;
  }

  constexpr void norm(std::uint64_t channels) { parameters_ += 2 * channels; }

  constexpr void residual(std::uint64_t in, std::uint64_t out, std::uint64_t size)
  {
    norm(in);
    convolution(in, out, 3, size);
    product(embedding_, out, 1);
    norm(out);
    convolution(out, out, 3, size);
    if (in != out) { convolution(in, out, 1, size); }
  }

  constexpr void transformer(std::uint64_t channels, std::uint64_t size)
  {
    std::uint64_t const pixels = size * size;
    norm(channels);
    product(channels, channels, pixels);
    attention(channels, pixels, channels, pixels);
    attention(channels, pixels, shape_.context, tokens_);
    norm(channels);
    product(channels, 8 * channels, pixels);  // gated, four times as wide
    product(4 * channels, channels, pixels);
    product(channels, channels, pixels);
  }

  constexpr void attention(std::uint64_t channels, std::uint64_t queries, std::uint64_t context,
                           std::uint64_t keys)
  {
    norm(channels);
    product(channels, channels, queries, false);
    product(context, channels, keys, false);
    product(context, channels, keys, false);
    products_ += 2 * queries * keys * channels;
    product(channels, channels, queries);
  }

  constexpr void block_of(std::size_t level, std::uint64_t in, std::uint64_t size)
  {
    residual(in, shape_.channels[level], size);
    if (shape_.has_attention[level]) { transformer(shape_.channels[level], size); }
  }

  unet_shape shape_;
  std::uint64_t embedding_;  // of the step of the diffusion
  std::uint64_t tokens_;
  std::uint64_t products_ = 0;  // a multiplication and an addition each
  std::uint64_t parameters_ = 0;
};

}  // namespace detail

constexpr unet_shape::costs unet_shape::costs_of(std::uint32_t latent,
                                                 std::uint32_t context_tokens) const
{
  BALLAST_EXPECTS(latent >= 8 && latent <= 1024 && latent % 8 == 0, "a latent is ", latent,
                  " pixels wide, which is no multiple of 8 from 8 to 1024");
  BALLAST_EXPECTS(context_tokens <= (1U << 16) && context <= (1U << 16),
                  "a U-Net has a context of ", context_tokens, " tokens of ", context,
                  " channels, above 2^16");
  BALLAST_EXPECTS(blocks >= 1 && blocks <= 8, "a U-Net has ", blocks,
                  " blocks in a level, which are not 1 to 8");
  for (std::uint32_t const width : channels) {
    BALLAST_EXPECTS(width <= (1U << 14), "a U-Net has ", width, " channels, above 2^14");
  }
  return detail::unet_count(*this, latent, context_tokens).costs();
}

/// The U-Net of Stable Diffusion 2.1, without the autoencoder, which pictures pass before and
/// after.
///
/// Source      unet/config.json of stabilityai/stable-diffusion-2-1-base.
inline constexpr unet_shape stable_diffusion_2_1 = {.channels = {320, 640, 1280, 1280},
                                                    .has_attention = {true, true, true, false},
                                                    .context = 1024};

/// A transformer that is known by a name, and where its dimensions are published.
struct known_model {
  std::string_view name;
  transformer_shape shape;
  std::string_view source;
};

namespace detail {

/// A language model of the Llama kind: heads share the hidden size, gated and causal.
[[nodiscard]] constexpr transformer_shape language_model(std::uint32_t layers, std::uint32_t hidden,
                                                         std::uint32_t ffn_hidden,
                                                         std::uint32_t heads,
                                                         std::uint32_t kv_heads,
                                                         std::uint32_t vocabulary)
{
  return {.hidden = hidden,
          .layers = layers,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dim = hidden / heads,
          .ffn_hidden = ffn_hidden,
          .gated_ffn = true,
          .mask = attention_mask::causal,
          .vocabulary = vocabulary};
}

inline constexpr transformer_shape siglip_so400m = {
    .hidden = 1152, .layers = 27, .heads = 16, .kv_heads = 16, .head_dim = 72, .ffn_hidden = 4304};

inline constexpr transformer_shape qwen_vision = {.hidden = 1280,
                                                  .layers = 32,
                                                  .heads = 16,
                                                  .kv_heads = 16,
                                                  .head_dim = 80,
                                                  .ffn_hidden = 3420,
                                                  .gated_ffn = true};

inline constexpr std::string_view from_disttrain =
    "Z. Zhang et al., DistTrain, SIGCOMM 2025; heads and vocabulary of Llama 2 and 3";
inline constexpr std::string_view from_orchmllm =
    "OrchMLLM; heads and vocabulary of the Qwen2.5 of the same size, heads of encoders assumed";

// Not constexpr, so that reaching it at compile time is an error that shows its name.
inline void no_known_model_has_this_name() {}

}  // namespace detail

/// The modules of the papers that this library follows, and of models that many train.
///
/// What a source does not say is that of the public model with the same dimensions: key-value
/// heads, vocabularies. The heads of OrchMLLM's encoders are assumed; FLOP do not depend on them.
///
/// Counted are the blocks and, of language models, the output head. Patch embeddings, projectors,
/// attention pooling and modulation are not: a few per cent of the weights, less of the FLOP. FLUX
/// is the exception: in 19 of its 57 blocks text and image have weights of their own, so that it
/// has nearly twice the weights of its shape, but every token passes as many as the shape says.
///
/// Stable Diffusion 2.1, which DistTrain generates with, is not here: its U-Net has convolutions
/// and attention at four resolutions, 320 to 1280 channels wide, and is no transformer of one
/// length. `stable_diffusion_2_1.costs_of(...)` says what it takes of an image.
inline constexpr auto known_models = std::to_array<known_model>({
    {"llama3-7b", detail::language_model(32, 4096, 11008, 32, 32, 32'000), detail::from_disttrain},
    {"llama3-13b", detail::language_model(40, 5120, 13824, 40, 40, 32'000), detail::from_disttrain},
    {"llama3-70b", detail::language_model(80, 8192, 28672, 64, 8, 128'256), detail::from_disttrain},
    {"llama3-8b", detail::language_model(32, 4096, 14336, 32, 8, 128'256),
     "config.json of meta-llama/Meta-Llama-3-8B"},
    {"qwen2.5-32b", detail::language_model(64, 5120, 27648, 40, 8, 152'064),
     "config.json of Qwen/Qwen2.5-32B"},
    {"qwen2.5-72b", detail::language_model(80, 8192, 29568, 64, 8, 152'064),
     "config.json of Qwen/Qwen2.5-72B"},
    {"qwen2.5-7b", detail::language_model(28, 3584, 18944, 28, 4, 152'064),
     "config.json of Qwen/Qwen2.5-7B"},
    {"mimo-vl-7b", detail::language_model(36, 4096, 11008, 32, 8, 151'680),
     "the LLM of config.json of XiaomiMiMo/MiMo-VL-7B-SFT"},
    {"qwen2-audio-llm", detail::language_model(32, 4096, 11008, 32, 32, 156'032),
     "the LLM of config.json of Qwen/Qwen2-Audio-7B"},
    {"whisper-large", classic_transformer(1280, 32, 20),
     "A. Radford et al., Robust Speech Recognition via Large-Scale Weak Supervision, ICML 2023, "
     "Table 1; the encoder, which is Qwen2-Audio's too"},
    {"orchmllm-10b-llm", detail::language_model(28, 3584, 18944, 28, 4, 152'064),
     detail::from_orchmllm},
    {"orchmllm-10b-vision", classic_transformer(2048, 36, 16), detail::from_orchmllm},
    {"orchmllm-10b-audio", classic_transformer(1280, 32, 20), detail::from_orchmllm},
    {"orchmllm-18b-llm", detail::language_model(48, 5120, 13824, 40, 8, 152'064),
     detail::from_orchmllm},
    {"orchmllm-18b-vision", classic_transformer(2400, 40, 25), detail::from_orchmllm},
    {"orchmllm-18b-audio", classic_transformer(1280, 32, 20), detail::from_orchmllm},
    {"orchmllm-84b-llm", detail::language_model(80, 8192, 29568, 64, 8, 152'064),
     detail::from_orchmllm},
    {"orchmllm-84b-vision", classic_transformer(3200, 45, 25), detail::from_orchmllm},
    {"orchmllm-84b-audio", classic_transformer(3072, 48, 24), detail::from_orchmllm},
    {"siglip-so400m", detail::siglip_so400m, "config.json of google/siglip-so400m-patch14-384"},
    {"internvit-6b", classic_transformer(3200, 45, 25),
     "config.json of OpenGVLab/InternViT-6B-448px-V2_5"},
    {"qwen2.5-vl-vision", detail::qwen_vision,
     "vision_config of config.json of Qwen/Qwen2.5-VL-7B; FlexRL trains a tower of 600 million "
     "weights of which it prints no shape"},
    {"vit-huge", classic_transformer(1280, 32, 16),
     "A. Dosovitskiy et al., An Image is Worth 16x16 Words, ICLR 2021, Table 1"},
    {"flux", classic_transformer(3072, 57, 24),
     "black-forest-labs/flux; as K. Zhang et al., KnapFormer, arXiv:2508.06001, count it"},
});

/// The shape of a model that the program names: another name is a compile error.
///
///     constexpr auto flops = gamma_corrected(known_shape("flux"), 0.405);
[[nodiscard]] consteval transformer_shape known_shape(std::string_view name)
{
  for (known_model const& model : known_models) {
    if (model.name == name) { return model.shape; }
  }
  detail::no_known_model_has_this_name();
  return {};
}

/// The model of a name that comes from outside.
///
/// Errors      unknown_name where no model is called so; the message says which there are.
/// Complexity  O(models).
[[nodiscard]] inline result<known_model> find_known_model(std::string_view name)
{
  std::string names;
  for (known_model const& model : known_models) {
    if (model.name == name) { return model; }
    names += (names.empty() ? "" : ", ") + std::string(model.name);
  }
  return fail(error_code::unknown_name, 0,
              "no model is called " + excerpt(name) + "; choose one of " + names);
}

}  // namespace ballast::inline v0
