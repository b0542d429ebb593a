// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

#include <cuda_bf16.h>

#include <cmath>

/// What the kernels of a layer do with one row, or with a few. On a GPU a team is a block of
/// threads; on the host it is one lane, so that tests compute the same without a GPU.
///
/// A team says lane() and lanes(), and sum(x) and largest(x) of all lanes to each of them; add(to,
/// x) adds to what other teams add to as well. Lanes read and write 8 numbers at once, and each of
/// them the same ones in all loops over a row.
namespace cli::gpu_rows {

using bf16 = __nv_bfloat16;

/// 8 numbers that are read or written at once.
struct alignas(16) vector8 {
  bf16 values[8];

  [[nodiscard]] BALLAST_HOST_DEVICE float operator[](std::size_t i) const
  {
    return __bfloat162float(values[i]);
  }
  BALLAST_HOST_DEVICE void set(std::size_t i, float value) { values[i] = __float2bfloat16(value); }
};

[[nodiscard]] BALLAST_HOST_DEVICE inline vector8 load(bf16 const* from)
{
  return *reinterpret_cast<vector8 const*>(from);
}
BALLAST_HOST_DEVICE inline void store(bf16* to, vector8 const& values)
{
  *reinterpret_cast<vector8*>(to) = values;
}

/// Calls visit(at) for each eighth number of n that is the lane's.
template <class Team, class Visit>
BALLAST_HOST_DEVICE void for_each_vector(Team const& team, std::size_t n, Visit const& visit)
{
  for (std::size_t at = 8 * team.lane(); at < n; at += 8 * team.lanes()) { visit(at); }
}

/// Numbers from -most to most that depend on the seed and the place alone; without sign where all
/// are 0.
struct fill {
  bf16* to;
  std::size_t count;
  std::size_t per_row;
  float most;
  std::uint64_t seed;

  template <class Team>
  BALLAST_HOST_DEVICE void operator()(Team const& team, std::size_t row) const
  {
    std::size_t const end = (row + 1) * per_row < count ? (row + 1) * per_row : count;
    for (std::size_t at = row * per_row + team.lane(); at < end; at += team.lanes()) {
      std::uint64_t bits = seed * 0x9e37'79b9'7f4a'7c15U + at;  // splitmix64
      bits = (bits ^ (bits >> 30U)) * 0xbf58'476d'1ce4'e5b9U;
      bits = (bits ^ (bits >> 27U)) * 0x94d0'49bb'1331'11ebU;
      auto const top = static_cast<float>((bits ^ (bits >> 31U)) >> 40U);  // 24 bits
      to[at] = __float2bfloat16(most > 0.0F ? most * (top / 8'388'608.0F - 1.0F) : 0.0F);
    }
  }
};

/// y = x / rms(x) * gain; keeps 1 / rms(x).
struct rms_norm {
  bf16 const* x;
  bf16 const* gain;
  bf16* y;
  float* scale;
  std::size_t n;

  template <class Team>
  BALLAST_HOST_DEVICE void operator()(Team const& team, std::size_t row) const
  {
    bf16 const* const in = x + row * n;
    bf16* const out = y + row * n;
    float squares = 0;
    for_each_vector(team, n, [&](std::size_t at) {
      vector8 const value = load(in + at);
      for (std::size_t i = 0; i < 8; ++i) { squares += value[i] * value[i]; }
    });
    squares = team.sum(squares) + 1e-6F;
    float const factor = 1.0F / sqrtf(squares / static_cast<float>(n));
    for_each_vector(team, n, [&](std::size_t at) {
      vector8 const value = load(in + at);
      vector8 const by = load(gain + at);
      vector8 normed;
      for (std::size_t i = 0; i < 8; ++i) { normed.set(i, value[i] * factor * by[i]); }
      store(out + at, normed);
    });
    if (team.lane() == 0) { scale[row] = factor; }
  }
};

/// dx = base + the gradient of x, where dy is that of y.
struct rms_norm_gradient {
  bf16 const* x;
  bf16 const* gain;
  float const* scale;
  bf16 const* dy;
  bf16 const* base;
  bf16* dx;
  std::size_t n;

  template <class Team>
  BALLAST_HOST_DEVICE void operator()(Team const& team, std::size_t row) const
  {
    std::size_t const first = row * n;
    float along = 0;
    for_each_vector(team, n, [&](std::size_t at) {
      vector8 const value = load(x + first + at);
      vector8 const by = load(gain + at);
      vector8 const d = load(dy + first + at);
      for (std::size_t i = 0; i < 8; ++i) { along += d[i] * by[i] * value[i]; }
    });
    along = team.sum(along);
    float const factor = scale[row];
    // squares = n / factor^2, of which the host's reference divides.
    float const back = along * factor * factor / static_cast<float>(n);
    for_each_vector(team, n, [&](std::size_t at) {
      vector8 const value = load(x + first + at);
      vector8 const by = load(gain + at);
      vector8 const d = load(dy + first + at);
      vector8 const before = load(base + first + at);
      vector8 after;
      for (std::size_t i = 0; i < 8; ++i) {
        after.set(i, before[i] + factor * (d[i] * by[i] - value[i] * back));
      }
      store(dx + first + at, after);
    });
  }
};

/// The gradient of the gain: each team adds up some rows, column by column.
struct gain_gradient {
  static constexpr std::size_t rows_at_once = 64;

  bf16 const* x;
  float const* scale;
  bf16 const* dy;
  float* dgain;
  std::size_t rows;
  std::size_t n;

  template <class Team>
  BALLAST_HOST_DEVICE void operator()(Team const& team, std::size_t chunk) const
  {
    std::size_t const first = chunk * rows_at_once;
    std::size_t const end = first + rows_at_once < rows ? first + rows_at_once : rows;
    for_each_vector(team, n, [&](std::size_t at) {
      float sums[8] = {};
      for (std::size_t row = first; row < end; ++row) {
        vector8 const value = load(x + row * n + at);
        vector8 const d = load(dy + row * n + at);
        for (std::size_t i = 0; i < 8; ++i) { sums[i] += d[i] * value[i] * scale[row]; }
      }
      for (std::size_t i = 0; i < 8; ++i) { team.add(dgain + at + i, sums[i]); }
    });
  }
};

/// y = x sigmoid(x)
struct silu {
  bf16 const* x;
  bf16* y;
  std::size_t n;

  template <class Team>
  BALLAST_HOST_DEVICE void operator()(Team const& team, std::size_t row) const
  {
    for_each_vector(team, n, [&](std::size_t at) {
      vector8 const value = load(x + row * n + at);
      vector8 made;
      for (std::size_t i = 0; i < 8; ++i) { made.set(i, value[i] / (1.0F + expf(-value[i]))); }
      store(y + row * n + at, made);
    });
  }
};

/// Turns the gradient of y into that of x, in its place.
struct silu_gradient {
  bf16 const* x;
  bf16* d;
  std::size_t n;

  template <class Team>
  BALLAST_HOST_DEVICE void operator()(Team const& team, std::size_t row) const
  {
    for_each_vector(team, n, [&](std::size_t at) {
      vector8 const value = load(x + row * n + at);
      vector8 made = load(d + row * n + at);
      for (std::size_t i = 0; i < 8; ++i) {
        float const sigmoid = 1.0F / (1.0F + expf(-value[i]));
        made.set(i, made[i] * sigmoid * (1.0F + value[i] * (1.0F - sigmoid)));
      }
      store(d + row * n + at, made);
    });
  }
};

/// From scores to weights, in their place: token r attends to tokens 0 to r. Rows are those of one
/// matrix of scores after the other.
struct causal_softmax {
  bf16* scores;
  std::size_t n;

  template <class Team>
  BALLAST_HOST_DEVICE void operator()(Team const& team, std::size_t row) const
  {
    bf16* const of_row = scores + row * n;
    std::size_t const last = row % n;
    float largest = -INFINITY;
    for_each_vector(team, last + 1, [&](std::size_t at) {
      vector8 const score = load(of_row + at);
      for (std::size_t i = 0; i < 8 && at + i <= last; ++i) { largest = fmaxf(largest, score[i]); }
    });
    largest = team.largest(largest);
    float sum = 0;
    for_each_vector(team, last + 1, [&](std::size_t at) {
      vector8 const score = load(of_row + at);
      for (std::size_t i = 0; i < 8 && at + i <= last; ++i) { sum += expf(score[i] - largest); }
    });
    float const factor = 1.0F / team.sum(sum);
    for_each_vector(team, n, [&](std::size_t at) {
      vector8 weight = load(of_row + at);
      for (std::size_t i = 0; i < 8; ++i) {
        weight.set(i, at + i <= last ? factor * expf(weight[i] - largest) : 0.0F);
      }
      store(of_row + at, weight);
    });
  }
};

/// Turns the gradient of the weights into that of the scores, in its place.
struct causal_softmax_gradient {
  bf16 const* weights;
  bf16* d;
  std::size_t n;

  template <class Team>
  BALLAST_HOST_DEVICE void operator()(Team const& team, std::size_t row) const
  {
    std::size_t const last = row % n;
    float mean = 0;
    for_each_vector(team, last + 1, [&](std::size_t at) {
      vector8 const weight = load(weights + row * n + at);  // 0 where there is no weight
      vector8 const dweight = load(d + row * n + at);
      for (std::size_t i = 0; i < 8; ++i) { mean += weight[i] * dweight[i]; }
    });
    mean = team.sum(mean);
    for_each_vector(team, n, [&](std::size_t at) {
      vector8 const weight = load(weights + row * n + at);
      vector8 dscore = load(d + row * n + at);
      for (std::size_t i = 0; i < 8; ++i) { dscore.set(i, weight[i] * (dscore[i] - mean)); }
      store(d + row * n + at, dscore);
    });
  }
};

/// Copies between [sequence][row][head][dim] and [sequence][head][row][dim]. The row is of the
/// former.
struct copy_heads {
  bf16 const* from;
  bf16* to;
  std::size_t rows_each;  ///< of a sequence
  std::size_t heads;
  std::size_t dim;
  bool to_heads;

  template <class Team>
  BALLAST_HOST_DEVICE void operator()(Team const& team, std::size_t row) const
  {
    std::size_t const sequence = row / rows_each;
    std::size_t const in_sequence = row % rows_each;
    for_each_vector(team, heads * dim, [&](std::size_t at) {
      std::size_t const head = at / dim;
      std::size_t const by_row = row * heads * dim + at;
      std::size_t const by_head =
          ((sequence * heads + head) * rows_each + in_sequence) * dim + at % dim;
      if (to_heads) {
        store(to + by_head, load(from + by_row));
      } else {
        store(to + by_row, load(from + by_head));
      }
    });
  }
};

}  // namespace cli::gpu_rows
