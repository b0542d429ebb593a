// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COST_KNOWN_MODELS_HPP
#define BALLAST_COST_KNOWN_MODELS_HPP

#include <ballast/core/result.hpp>
#include <ballast/cost/transformer_shape.hpp>
#include <ballast/text/excerpt.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace ballast::inline v0 {

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
/// length. `costs_of(stable_diffusion_2_1, ...)` says what it takes of an image
/// (cost/unet_shape.hpp).
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

#endif  // BALLAST_COST_KNOWN_MODELS_HPP
