// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formula_profile.hpp"  // defines: dflop_models::profile_of
#include "input_rules.hpp"
#include "raw_inputs.hpp"

#include <ballast/cost.hpp>
#include <ballast/parallelism.hpp>
#include <ballast/text/read_file.hpp>
#include <ballast/workload.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

/// The models, data and GPUs on which the examples of DFLOP are compared.
namespace dflop_models {

using namespace ballast;
using namespace model_inputs;

inline constexpr std::uint32_t batch = 512;
inline constexpr tokens longest = 16'384;  // of a sample in the LLM; what is longer is cut

// Items and tokens of samples, 65 : 60 : 60 of three kinds, in random order.
inline std::vector<tokens> draw_mix(std::array<std::vector<input_shape>, 3> const& kinds,
                                    std::size_t times, std::uint64_t seed)
{
  std::vector<input_shape> mixed;
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    auto const drawn =
        draw_rows(std::span(kinds[kind]), times * (kind == 0 ? 65 : 60), seed + kind);
    mixed.insert(mixed.end(), drawn.begin(), drawn.end());
  }
  random_source(seed).shuffle(std::span(mixed));
  std::vector<tokens> sizes;
  for (auto const& [items, length] : mixed) {
    sizes.insert(sizes.end(), {items, std::min(length, longest)});
  }
  return sizes;
}

/// Rows of one image, of several and of a video, as they are in their files.
inline std::array<std::vector<raw_input>, 3> load_three_kinds(char const* one, char const* several,
                                                              char const* video)
{
  std::array<std::vector<raw_input>, 3> raw = {
      read_file(one, read_raw_inputs,
                input_columns{.text = "caption_tokens_sum", .width = "width", .height = "height"})
          .value(),
      read_file(several, read_raw_inputs,
                input_columns{.text = "text_tokens", .images = "image_dims"})
          .value(),
      read_file(video, read_raw_inputs,
                input_columns{.text = "text_tokens+answer_tokens", .video_frames = "frame_count"})
          .value()};
  std::erase_if(raw[1], [](raw_input const& page) { return page.images.empty(); });
  return raw;
}

struct dflop_model {
  std::string name;
  std::array<module_profile, 2> modules;
  std::array<std::vector<input_shape>, 3> kinds;  ///< what the rows are to it
};

inline std::array<dflop_model, 3> three_models(std::array<std::vector<raw_input>, 3> const& raw)
{
  auto const shapes = [&raw](auto const& rules) {
    return std::array{shapes_of(raw[0], rules), shapes_of(raw[1], rules), shapes_of(raw[2], rules)};
  };
  auto const llava = shapes(llava_ov_inputs);
  auto const siglip = profile_of("vision", known_shape("siglip-so400m"), 729);
  auto const internvit = profile_of("vision", known_shape("internvit-6b"), 1024, true);
  return {
      dflop_model{
          "LLaVA-OV, Llama-3 8B", {siglip, profile_of("llm", known_shape("llama3-8b"), 0)}, llava},
      dflop_model{"LLaVA-OV, Qwen-2.5 32B",
                  {siglip, profile_of("llm", known_shape("qwen2.5-32b"), 0)},
                  llava},
      dflop_model{"InternVL-2.5 72B",
                  {internvit, profile_of("llm", known_shape("qwen2.5-72b"), 0)},
                  shapes(internvl_2_5_inputs)}};
}

// Rows of which so many of a hundred keep their images and frames; of the others only text is left.
inline std::array<std::vector<raw_input>, 3> with_images(std::array<std::vector<raw_input>, 3> raw,
                                                         std::size_t share)
{
  for (std::vector<raw_input>& rows : raw) {
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (row * 37 % 100 >= share) { rows[row] = {.text = std::max<tokens>(rows[row].text, 1)}; }
    }
  }
  return raw;
}

// Qwen2-Audio: the encoder pads what it hears to windows of 30 s, 1,500 positions; the LLM reads 25
// tokens of a second of it.
inline dflop_model audio_model(char const* utterances)
{
  tokens const window = 750;
  auto const heard = read_file(utterances, read_length_trace, "audio_tokens_25hz").value();
  auto const said = read_file(utterances, read_length_trace, "text_tokens").value();
  std::vector<input_shape> shapes;
  for (std::size_t each = 0; each < heard.size(); ++each) {
    shapes.push_back({(heard[each] + window - 1) / window, heard[each] + said[each]});
  }
  return {"Qwen2-Audio",
          {profile_of("audio", known_shape("whisper-large"), 1500),
           profile_of("llm", known_shape("qwen2-audio-llm"), 0)},
          {shapes, shapes, shapes}};
}

// The encoder's share of a step's FLOP.
inline double share_of_encoder(dflop_model const& model)
{
  std::array<double, 2> work{};
  auto const sizes = draw_mix(model.kinds, 12, 2);
  for (std::size_t at = 0; at < sizes.size(); ++at) {
    work[at % 2] += static_cast<double>(model.modules[at % 2].flops.exact(sizes[at]));
  }
  return work[0] / (work[0] + work[1]);
}

inline std::string text_of(model_layout const& layout)
{
  std::string text;
  for (auto const& each : layout.modules) {
    text += std::to_string(each.tp) + "." + std::to_string(each.pp) + "." +
            std::to_string(each.dp) + " ";
  }
  return text + "x " + std::to_string(layout.microbatches);
}

}  // namespace dflop_models
