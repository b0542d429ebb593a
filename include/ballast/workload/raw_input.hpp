// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_WORKLOAD_RAW_INPUT_HPP
#define BALLAST_WORKLOAD_RAW_INPUT_HPP

#include <ballast/core/quantities.hpp>

#include <cstdint>
#include <vector>

namespace ballast::inline v0 {

/// Width and height of an image in pixels: 1 to most_pixels each.
struct image_size {
  std::int64_t width = 1;
  std::int64_t height = 1;

  friend bool operator==(image_size const&, image_size const&) = default;
};

/// The longest side of an image that rules compute with.
inline constexpr std::int64_t most_pixels = std::int64_t{1} << 24;

/// What a sample consists of before a model's rules turn it into items and tokens.
struct raw_input {
  tokens text = 0;
  std::vector<image_size> images{};
  std::int64_t video_frames = 0;
  std::int64_t audio_milliseconds = 0;

  friend bool operator==(raw_input const&, raw_input const&) = default;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_WORKLOAD_RAW_INPUT_HPP
