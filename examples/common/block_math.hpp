// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

/// The arithmetic of a transformer block in float64, each function followed by its gradient, which
/// adds to what its outputs hold. Matrices are row-major; loops are as plain as the formulas.
namespace block {

using values = std::vector<double>;
using in = std::span<double const>;
using out = std::span<double>;

/// y[rows][n] += x[rows][m] w[m][n]
inline void linear(in x, in w, std::size_t m, std::size_t n, out y)
{
  for (std::size_t row = 0; row < y.size() / n; ++row) {
    for (std::size_t i = 0; i < m; ++i) {
      double const value = x[row * m + i];
      for (std::size_t j = 0; j < n; ++j) { y[row * n + j] += value * w[i * n + j]; }
    }
  }
}

inline void linear_gradient(in x, in w, std::size_t m, std::size_t n, in dy, out dx, out dw)
{
  for (std::size_t row = 0; row < dy.size() / n; ++row) {
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        dx[row * m + i] += dy[row * n + j] * w[i * n + j];
        dw[i * n + j] += dy[row * n + j] * x[row * m + i];
      }
    }
  }
}

/// y = x / rms(x) * gain, row by row
inline void rms_norm(in x, in gain, out y)
{
  std::size_t const n = gain.size();
  for (std::size_t row = 0; row < x.size() / n; ++row) {
    double squares = 1e-6;
    for (double const value : x.subspan(row * n, n)) { squares += value * value; }
    double const scale = 1 / std::sqrt(squares / static_cast<double>(n));
    for (std::size_t i = 0; i < n; ++i) { y[row * n + i] = x[row * n + i] * scale * gain[i]; }
  }
}

inline void rms_norm_gradient(in x, in gain, in dy, out dx, out dgain)
{
  std::size_t const n = gain.size();
  for (std::size_t row = 0; row < x.size() / n; ++row) {
    double squares = 1e-6;
    double along = 0;  // of x, in what arrives
    for (std::size_t i = row * n; i < (row + 1) * n; ++i) {
      squares += x[i] * x[i];
      along += dy[i] * gain[i - row * n] * x[i];
    }
    double const scale = 1 / std::sqrt(squares / static_cast<double>(n));
    for (std::size_t i = 0; i < n; ++i) {
      std::size_t const at = row * n + i;
      dx[at] += scale * (dy[at] * gain[i] - x[at] * along / squares);
      dgain[i] += dy[at] * x[at] * scale;
    }
  }
}

/// The mean of a row and 1 / its deviation.
inline std::pair<double, double> row_moments(in row)
{
  auto const count = static_cast<double>(row.size());
  double sum = 0;
  for (double const value : row) { sum += value; }
  double squares = 1e-6;
  for (double const value : row) { squares += (value - sum / count) * (value - sum / count); }
  return {sum / count, 1 / std::sqrt(squares / count)};
}

/// y = (x - mean) / deviation, row by row of n
inline void layer_norm(in x, std::size_t n, out y)
{
  for (std::size_t first = 0; first < x.size(); first += n) {
    auto const [mean, scale] = row_moments(x.subspan(first, n));
    for (std::size_t i = first; i < first + n; ++i) { y[i] = (x[i] - mean) * scale; }
  }
}

inline void layer_norm_gradient(in x, std::size_t n, in dy, out dx)
{
  auto const count = static_cast<double>(n);
  for (std::size_t first = 0; first < x.size(); first += n) {
    auto const [mean, scale] = row_moments(x.subspan(first, n));
    double sum = 0;
    double along = 0;  // of y, in what arrives
    for (std::size_t i = first; i < first + n; ++i) {
      sum += dy[i];
      along += dy[i] * (x[i] - mean) * scale;
    }
    for (std::size_t i = first; i < first + n; ++i) {
      dx[i] += scale * (dy[i] - sum / count - (x[i] - mean) * scale * along / count);
    }
  }
}

/// y = x sigmoid(x)
inline void silu(in x, out y)
{
  for (std::size_t i = 0; i < x.size(); ++i) { y[i] = x[i] / (1 + std::exp(-x[i])); }
}

inline void silu_gradient(in x, in dy, out dx)
{
  for (std::size_t i = 0; i < x.size(); ++i) {
    double const sigmoid = 1 / (1 + std::exp(-x[i]));
    dx[i] += dy[i] * sigmoid * (1 + x[i] * (1 - sigmoid));
  }
}

/// One head of one sequence, as it lies in an array [rows][heads][dim].
template <class T>
struct head_view {
  std::span<T> array;
  std::size_t row_stride;
  std::size_t first;

  [[nodiscard]] T& at(std::size_t row, std::size_t i) const
  {
    return array[row * row_stride + first + i];
  }
};

/// Whom a token attends to: itself and the tokens before it, or all tokens of its sequence.
enum class attends { to_earlier, to_all };

/// The weights with which token `row` attends to the first `seen` tokens.
inline void attention_weights(head_view<double const> q, head_view<double const> k, std::size_t row,
                              std::size_t seen, std::size_t dim, values& weights)
{
  weights.assign(seen, 0);
  double largest = -INFINITY;
  for (std::size_t other = 0; other < seen; ++other) {
    for (std::size_t i = 0; i < dim; ++i) { weights[other] += q.at(row, i) * k.at(other, i); }
    weights[other] /= std::sqrt(static_cast<double>(dim));
    largest = std::fmax(largest, weights[other]);
  }
  double sum = 0;
  for (double& weight : weights) { sum += weight = std::exp(weight - largest); }
  for (double& weight : weights) { weight /= sum; }
}

/// Attention of one head over one sequence.
inline void attention(head_view<double const> q, head_view<double const> k,
                      head_view<double const> v, std::size_t rows, std::size_t dim, attends to,
                      head_view<double> y)
{
  values weights;
  for (std::size_t row = 0; row < rows; ++row) {
    std::size_t const seen = to == attends::to_earlier ? row + 1 : rows;
    attention_weights(q, k, row, seen, dim, weights);
    for (std::size_t other = 0; other < seen; ++other) {
      for (std::size_t i = 0; i < dim; ++i) { y.at(row, i) += weights[other] * v.at(other, i); }
    }
  }
}

inline void attention_gradient(head_view<double const> q, head_view<double const> k,
                               head_view<double const> v, std::size_t rows, std::size_t dim,
                               attends to, head_view<double const> dy, head_view<double> dq,
                               head_view<double> dk, head_view<double> dv)
{
  values weights;
  values dweights;
  double const scale = 1 / std::sqrt(static_cast<double>(dim));
  for (std::size_t row = 0; row < rows; ++row) {
    std::size_t const seen = to == attends::to_earlier ? row + 1 : rows;
    attention_weights(q, k, row, seen, dim, weights);
    dweights.assign(seen, 0);
    double mean = 0;
    for (std::size_t other = 0; other < seen; ++other) {
      for (std::size_t i = 0; i < dim; ++i) {
        dv.at(other, i) += weights[other] * dy.at(row, i);
        dweights[other] += v.at(other, i) * dy.at(row, i);
      }
      mean += weights[other] * dweights[other];
    }
    for (std::size_t other = 0; other < seen; ++other) {
      double const dscore = weights[other] * (dweights[other] - mean) * scale;
      for (std::size_t i = 0; i < dim; ++i) {
        dq.at(row, i) += dscore * k.at(other, i);
        dk.at(other, i) += dscore * q.at(row, i);
      }
    }
  }
}

}  // namespace block
