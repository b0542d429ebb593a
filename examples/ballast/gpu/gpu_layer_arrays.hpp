// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../../common/block_weights.hpp"
#include "../layer_part.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace cli {

/// Numbers of 2 bytes (bf16) are what a layer computes with, of 4 bytes (fp32) what it adds up.
inline constexpr std::size_t bf16_bytes = 2;
inline constexpr std::size_t fp32_bytes = 4;

/// Kernels read and write this many bf16 numbers at once, so dimensions have to be multiples.
inline constexpr std::size_t gpu_vector = 8;

/// Why the kernels cannot compute a shape, or nothing.
[[nodiscard]] inline std::string_view unfit_for_gpu(block::shape const& shape)
{
  if (shape.width % gpu_vector != 0) { return "d is no multiple of 8"; }
  if (shape.head_dim % gpu_vector != 0) { return "the head size is no multiple of 8"; }
  if (shape.hidden % gpu_vector != 0) { return "a GPU's share of ffn is no multiple of 8"; }
  return {};
}

/// Where an array begins in the memory of a layer, and how many numbers it has.
struct gpu_array {
  std::size_t first_byte = 0;
  std::size_t count = 0;
};

/// The arrays of a layer on a GPU, one after the other in one allocation, for a part of the layer.
///
/// A sequence is padded to a multiple of 8 rows. What attention needs is kept head by head
/// ([sequence][head][row][dim]: names with _heads), everything else row by row.
///
/// The scores of all heads can take more memory than all else, so only so many heads are computed
/// at once that their scores fit a limit; one of each group of query heads that share a key head.
struct gpu_layer_arrays {
  /// Of one array of scores, as long as one head needs no more.
  static constexpr std::size_t most_score_bytes = std::size_t{1} << 30;

  gpu_layer_arrays(block::shape const& of_shape, std::size_t of_sequences, std::size_t length,
                   layer_part part, std::size_t score_bytes = most_score_bytes)
      : shape(of_shape),
        sequences(of_sequences),
        padded((length + gpu_vector - 1) / gpu_vector * gpu_vector),
        rows(sequences * padded),
        groups_at_once(std::clamp<std::size_t>(score_bytes / (bf16_bytes * padded * padded), 1,
                                               sequences * shape.kv_heads))
  {
    std::size_t const query = rows * shape.query_width();
    std::size_t const key = rows * shape.kv_width();
    std::size_t const wide = rows * shape.width;
    std::size_t const hidden = rows * shape.hidden;
    if (part != layer_part::attention) {
      take_parameters(weights, bf16_bytes);
      take_parameters(gradients, fp32_bytes);
      for (gpu_array* each : {&x, &normed, &h, &hidden_normed, &y, &dnormed, &dh, &dx}) {
        take(*each, wide, bf16_bytes);
      }
      for (gpu_array* each : {&up, &activated, &dup}) { take(*each, hidden, bf16_bytes); }
      for (gpu_array* each : {&scale, &hidden_scale}) { take(*each, rows, fp32_bytes); }
    }
    // Both parts have what they hand to each other.
    for (gpu_array* each : {&q, &o, &dq, &do_}) { take(*each, query, bf16_bytes); }
    for (gpu_array* each : {&k, &v, &dk, &dv}) { take(*each, key, bf16_bytes); }
    if (part != layer_part::weights) {
      for (gpu_array* each : {&q_heads, &o_heads, &dq_heads}) { take(*each, query, bf16_bytes); }
      for (gpu_array* each : {&k_heads, &v_heads, &dk_heads, &dv_heads}) {
        take(*each, key, bf16_bytes);
      }
      for (gpu_array* each : {&scores, &dscores}) {
        take(*each, groups_at_once * padded * padded, bf16_bytes);
      }
    }
  }

  /// The parameters in the order of block::parameters.
  struct parameter_arrays {
    gpu_array norm, query, key, value, output, hidden_norm, up, down;
  };

  block::shape shape;
  std::size_t sequences;
  std::size_t padded;  ///< rows of a sequence
  std::size_t rows;
  std::size_t groups_at_once;  ///< key heads, of all sequences together
  std::size_t bytes = 0;       ///< of all arrays

  parameter_arrays weights, gradients;
  gpu_array x, normed, h, hidden_normed, y, dnormed, dh, dx;
  gpu_array up, activated, dup;
  gpu_array scale, hidden_scale;
  gpu_array q, k, v, o, dq, dk, dv, do_;
  gpu_array q_heads, k_heads, v_heads, o_heads, dq_heads, dk_heads, dv_heads;
  gpu_array scores, dscores;

  [[nodiscard]] static std::size_t parameters_of(block::shape const& shape)
  {
    return 2 * shape.width * (1 + shape.query_width() + shape.kv_width() + shape.hidden);
  }

  /// What a trainer's layer holds of each parameter: its bf16 value, and in fp32 the gradient, the
  /// value that the optimiser keeps, and two moments of Adam.
  [[nodiscard]] static std::size_t state_bytes(block::shape const& shape)
  {
    return (bf16_bytes + 4 * fp32_bytes) * parameters_of(shape);
  }

  /// What a layer keeps of a row between its passes: x, normed, h, hidden_normed, queries, keys and
  /// values, o, up, activated and two scales. Scores are computed again in the backward pass.
  [[nodiscard]] static std::size_t activation_bytes(block::shape const& shape)
  {
    return bf16_bytes * (4 * shape.width + 2 * shape.query_width() + 2 * shape.kv_width() +
                         2 * shape.hidden) +
           2 * fp32_bytes;
  }

 private:
  void take(gpu_array& array, std::size_t count, std::size_t bytes_each)
  {
    constexpr std::size_t aligned = 256;
    array = {bytes, count};
    bytes = (bytes + count * bytes_each + aligned - 1) / aligned * aligned;
  }

  void take_parameters(parameter_arrays& all, std::size_t bytes_each)
  {
    take(all.norm, shape.width, bytes_each);
    take(all.query, shape.width * shape.query_width(), bytes_each);
    take(all.key, shape.width * shape.kv_width(), bytes_each);
    take(all.value, all.key.count, bytes_each);
    take(all.output, all.query.count, bytes_each);
    take(all.hidden_norm, shape.width, bytes_each);
    take(all.up, shape.width * shape.hidden, bytes_each);
    take(all.down, all.up.count, bytes_each);
  }
};

}  // namespace cli
