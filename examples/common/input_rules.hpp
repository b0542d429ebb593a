// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "image_tiles.hpp"
#include "raw_inputs.hpp"

#include <ballast/core.hpp>

namespace model_inputs {

/// What a sample is for the modules of a model. The two are drawn together, never apart: a document
/// with many images is a long one for the LLM as well.
struct input_shape {
  std::int64_t items = 0;      ///< that the encoder computes: tiles, frames, chunks of audio
  ballast::tokens length = 0;  ///< that the LLM reads: text, and what becomes of the items

  friend constexpr input_shape operator+(input_shape a, input_shape b)
  {
    return {a.items + b.items, a.length + b.length};
  }
  friend bool operator==(input_shape const&, input_shape const&) = default;
};

/// Rows of a trace, each draw independent of the others and every row equally likely.
///
/// Expects     at least one row.
/// Ensures     (1) equal arguments give equal draws on every machine
/// Complexity  O(draws).
template <class Row>
[[nodiscard]] std::vector<Row> draw_rows(std::span<Row const> rows, std::size_t draws,
                                         std::uint64_t seed)
{
  BALLAST_EXPECTS(!rows.empty());
  ballast::random_source random(seed);
  std::vector<Row> drawn;
  drawn.reserve(draws);
  for (std::size_t draw = 0; draw < draws; ++draw) {
    drawn.push_back(rows[static_cast<std::size_t>(random.below(rows.size()))]);
  }
  return drawn;
}

/// The tokens that become of a square tile: patches of patch_pixels, merge x merge of them to a
/// token, where the last row and column may be of fewer.
struct merged_patches {
  std::int64_t tile_pixels = 448;
  std::int64_t patch_pixels = 14;
  std::int64_t merge = 2;

  /// Patches along a side.
  [[nodiscard]] constexpr std::int64_t side() const { return tile_pixels / patch_pixels; }

  [[nodiscard]] constexpr ballast::tokens operator()() const
  {
    std::int64_t const merged = (side() + merge - 1) / merge;
    return merged * merged;
  }

  friend bool operator==(merged_patches const&, merged_patches const&) = default;
};

/// Images in tiles of the nearest aspect ratio, at most most_tiles of them over all images of a
/// sample but at least one of each, and a thumbnail of an image that has several.
struct tiled_images {
  nearest_aspect_tiles tiles{};
  merged_patches patches{};
  std::int64_t most_tiles = 12;
  bool thumbnail = true;
  ballast::tokens around_image = 2;  ///< tokens before and after those of an image

  [[nodiscard]] constexpr input_shape operator()(std::span<image_size const> images) const
  {
    input_shape sum;
    auto const count = static_cast<std::int64_t>(images.size());
    for (image_size const each : images) {
      std::int64_t const of_image =
          tiles(each, std::max<std::int64_t>(1, most_tiles / count)).tiles();
      std::int64_t const items = of_image + (thumbnail && of_image > 1 ? 1 : 0);
      sum = sum + input_shape{items, items * patches() + around_image};
    }
    return sum;
  }
};

/// An image alone in its best fitting grid and once more as a whole, of which the patches that show
/// it are tokens, scaled down to most_tiles tiles where they are over 1.21 times as many, and one
/// token after each row of them; several images as one tile each.
///
/// Ensures     (1) exact: where the model's Python divides doubles, an image in two hundred has a
///                 row or column of tokens less there
struct fitted_images {
  best_fit_tiles tiles{};
  std::int64_t patch_pixels = 14;
  std::int64_t most_tiles = 9;

  [[nodiscard]] constexpr input_shape operator()(std::span<image_size const> images) const
  {
    std::int64_t const side = tiles.tile_pixels / patch_pixels;
    std::int64_t const whole = side * side;
    if (images.size() != 1) {
      auto const count = static_cast<std::int64_t>(images.size());
      return {count, count * (whole + 1)};
    }
    image_size const image = images.front();
    tile_grid const grid = tiles(image);
    std::int64_t width = grid.columns * side;
    std::int64_t height = grid.rows * side;
    if (image.width * height > image.height * width) {
      height -= (height - image.height * width / image.width) / 2 * 2;
    } else {
      width -= (width - image.width * height / image.height) / 2 * 2;
    }
    std::int64_t const most = most_tiles * whole;
    if (100 * width * height > 121 * most) {
      std::int64_t const scaled = floor_root(height * most / width);
      width = floor_root(width * most / height);
      height = scaled;
    }
    return {1 + grid.tiles(), whole + height * (width + 1)};
  }

 private:
  [[nodiscard]] static constexpr std::int64_t floor_root(std::int64_t square)
  {
    std::int64_t root = 0;
    while ((root + 1) * (root + 1) <= square) { ++root; }
    return root;
  }
};

/// Every stride-th frame of a video, spread evenly where that makes more than `most`; an item each.
struct sampled_frames {
  std::int64_t stride = 1;
  std::int64_t most = 32;
  merged_patches patches{};
  ballast::tokens around_frame = 0;
  ballast::tokens around_video = 0;

  [[nodiscard]] constexpr input_shape operator()(std::int64_t frames) const
  {
    if (frames <= 0) { return {}; }
    std::int64_t const items = std::min((frames - 1) / stride + 1, most);
    return {items, items * (patches() + around_frame) + around_video};
  }
};

/// How a model turns what a sample consists of into items and tokens: a rule for its images and one
/// for its video; text is counted in tokens already.
///
/// Ensures     (1) integer arithmetic: the same on every machine
template <class Images>
struct input_rules {
  Images images;
  sampled_frames videos;

  [[nodiscard]] constexpr input_shape operator()(raw_input const& sample) const
  {
    return input_shape{0, sample.text} + images(sample.images) + videos(sample.video_frames);
  }
};
template <class Images>
input_rules(Images, sampled_frames) -> input_rules<Images>;

/// LLaVA-OneVision: SigLIP tiles of 384 pixels, a video as one frame a second of at most 32, pooled
/// to 14 x 14 tokens. Videos are taken to have 30 frames a second; set videos.stride for others.
///
/// Source      B. Li et al., arXiv:2408.03326, 2024; LLaVA-VL/LLaVA-NeXT, llava/model/llava_arch.py
///             (anyres_max_9, spatial_unpad, mm_newline_position one_token).
inline constexpr input_rules llava_ov_inputs{
    fitted_images{},
    sampled_frames{.stride = 30, .most = 32, .patches = {384, 14, 2}, .around_video = 1}};

/// InternVL 2.5: tiles of 448 pixels, 256 tokens each, at most 12 and a thumbnail; a video as at
/// most 32 frames of one tile. Training draws from 8 to 32 frames; these are as many as it can
/// have.
///
/// Source      Z. Chen et al., "Expanding Performance Boundaries of Open-Source Multimodal Models",
///             arXiv:2412.05271, 2024; OpenGVLab/InternVL, internvl_chat/internvl/train/dataset.py.
inline constexpr input_rules internvl_2_5_inputs{
    tiled_images{}, sampled_frames{.stride = 1, .most = 32, .around_frame = 2}};

/// The shapes of samples by a model's rules, in their order.
template <class Rules>
[[nodiscard]] std::vector<input_shape> shapes_of(std::span<raw_input const> samples,
                                                 Rules const& rules)
{
  std::vector<input_shape> shapes;
  shapes.reserve(samples.size());
  for (raw_input const& each : samples) { shapes.push_back(rules(each)); }
  return shapes;
}

}  // namespace model_inputs
