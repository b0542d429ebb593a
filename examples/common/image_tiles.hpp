// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "raw_inputs.hpp"

#include <algorithm>
#include <cstdint>

namespace model_inputs {

/// How many tiles lie side by side and one below the other.
struct tile_grid {
  std::int64_t columns = 1;
  std::int64_t rows = 1;

  [[nodiscard]] constexpr std::int64_t tiles() const { return columns * rows; }

  friend bool operator==(tile_grid const&, tile_grid const&) = default;
};

/// The grid whose aspect ratio is nearest to the image's, of all with at most `most` tiles. Of
/// grids that are equally near, a larger one is taken if the image has more than half of its
/// pixels.
///
/// Expects     most >= 1, sides in [1, most_pixels].
/// Ensures     (1) exact: ratios are compared as fractions
/// Complexity  O(most^2).
/// Source      Z. Chen et al., "How Far Are We to GPT-4V?", arXiv:2404.16821, 2024 (InternVL 1.5);
///             dynamic_preprocess in OpenGVLab/InternVL, internvl_chat/internvl/train/dataset.py.
struct nearest_aspect_tiles {
  std::int64_t tile_pixels = 448;

  [[nodiscard]] constexpr tile_grid operator()(image_size image, std::int64_t most) const
  {
    tile_grid best;
    std::int64_t best_distance = distance(image, best);  // as a fraction of rows * image.height
    for (std::int64_t tiles = 2; tiles <= most; ++tiles) {
      for (std::int64_t columns = 1; columns <= tiles; ++columns) {
        if (tiles % columns != 0) { continue; }
        tile_grid const grid{columns, tiles / columns};
        std::int64_t const ours = distance(image, grid);
        std::int64_t const before = best_distance * grid.rows;
        std::int64_t const after = ours * best.rows;
        bool const is_full =
            2 * image.width * image.height > tile_pixels * tile_pixels * grid.tiles();
        if (after < before || (after == before && is_full)) {
          best = grid;
          best_distance = ours;
        }
      }
    }
    return best;
  }

  friend bool operator==(nearest_aspect_tiles const&, nearest_aspect_tiles const&) = default;

 private:
  /// |width / height - columns / rows|, times height and rows.
  [[nodiscard]] static constexpr std::int64_t distance(image_size image, tile_grid grid)
  {
    std::int64_t const difference = image.width * grid.rows - image.height * grid.columns;
    return difference < 0 ? -difference : difference;
  }
};

/// The grid of up to `most_side` x `most_side` tiles in which the image, scaled to fit, keeps most
/// of its pixels; of those, the one with the fewest pixels left empty.
///
/// Expects     sides in [1, most_pixels].
/// Ensures     (1) exact: scaled sides are rounded down from fractions, where the model's Python
///                 rounds a double down and may be a pixel off
/// Complexity  O(most_side^2).
/// Source      B. Li et al., "LLaVA-OneVision: Easy Visual Task Transfer", arXiv:2408.03326, 2024;
///             select_best_resolution in LLaVA-VL/LLaVA-NeXT, llava/mm_utils.py.
struct best_fit_tiles {
  std::int64_t tile_pixels = 384;
  std::int64_t most_side = 6;

  [[nodiscard]] constexpr tile_grid operator()(image_size image) const
  {
    tile_grid best;
    std::int64_t best_kept = 0;
    std::int64_t least_empty = 0;
    for (std::int64_t columns = 1; columns <= most_side; ++columns) {
      for (std::int64_t rows = 1; rows <= most_side; ++rows) {
        std::int64_t const width = columns * tile_pixels;
        std::int64_t const height = rows * tile_pixels;
        bool const fills_width = width * image.height <= height * image.width;
        std::int64_t const scaled = fills_width ? width * (image.height * width / image.width)
                                                : height * (image.width * height / image.height);
        std::int64_t const kept = std::min(scaled, image.width * image.height);
        std::int64_t const empty = width * height - kept;
        if (kept > best_kept || (kept == best_kept && kept > 0 && empty < least_empty)) {
          best = {columns, rows};
          best_kept = kept;
          least_empty = empty;
        }
      }
    }
    return best;
  }

  friend bool operator==(best_fit_tiles const&, best_fit_tiles const&) = default;
};

}  // namespace model_inputs
