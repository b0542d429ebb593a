// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "block_math.hpp"

#include <ballast/sharding/row_split.hpp>

#include <cmath>
#include <numeric>

namespace block {

/// Attention of one head as a kernel for sequences of different lengths computes it, in float64.
/// Rows of q, y and their gradients lie where the pack has them, and so do rows of kv, which have a
/// key and a value each.
class packed_attention {
 public:
  packed_attention(std::size_t width, std::span<ballast::tokens const> rows,
                   std::span<ballast::row_split::kernel_call const> calls)
      : width_(width), rows_(rows), calls_(calls)
  {}

  /// y is added to.
  void forward(in q, in kv, out y) const
  {
    for_each_query(q, kv, [&](std::size_t query, std::size_t key, values const& weights) {
      for (std::size_t at = 0; at < weights.size() * width_; ++at) {
        y[query + at % width_] += weights[at / width_] * kv[value_of(key, at)];
      }
    });
  }

  /// dq and dkv are added to.
  void gradient(in q, in kv, in dy, out dq, out dkv) const
  {
    for_each_query(q, kv, [&](std::size_t query, std::size_t key, values const& weights) {
      values along(weights.size());
      for (std::size_t at = 0; at < along.size() * width_; ++at) {
        along[at / width_] += dy[query + at % width_] * kv[value_of(key, at)];
      }
      double const mean = std::inner_product(along.begin(), along.end(), weights.begin(), 0.0);
      for (std::size_t at = 0; at < weights.size() * width_; ++at) {
        double const score = weights[at / width_] * (along[at / width_] - mean);
        std::size_t const here = query + at % width_;
        dq[here] += score * kv[value_of(key, at) - width_];
        dkv[value_of(key, at) - width_] += score * q[here];
        dkv[value_of(key, at)] += weights[at / width_] * dy[here];
      }
    });
  }

 private:
  static std::size_t index(ballast::tokens row) { return static_cast<std::size_t>(row); }

  /// The place of number `at` of the values of keys from place `key` on.
  [[nodiscard]] std::size_t value_of(std::size_t key, std::size_t at) const
  {
    return key + at / width_ * 2 * width_ + width_ + at % width_;
  }

  /// Calls visit(place of q, place of the first key, weights of the keys) for each query.
  template <class Visit>
  void for_each_query(in q, in kv, Visit const& visit) const
  {
    for (auto const& call : calls_) {
      for (std::size_t piece = 0; piece < call.first_query.size(); ++piece) {
        auto const queries = call.cu_queries[piece + 1] - call.cu_queries[piece];
        auto const keys = call.cu_keys[piece + 1] - call.cu_keys[piece];
        for (ballast::tokens query = 0; query < queries; ++query) {
          auto const end = call.causal ? keys - (queries - 1 - query) : keys;
          auto const first = call.window > 0 && call.window < end ? end - call.window : 0;
          std::size_t const row = index(rows_[index(call.first_query[piece] + query)]) * width_;
          std::size_t const key = index(call.first_key[piece] + first) * 2 * width_;
          values weights(index(end - first));
          for (std::size_t at = 0; at < weights.size(); ++at) {
            auto const* const other = &kv[key + at * 2 * width_];
            weights[at] = std::exp(std::inner_product(other, other + width_, &q[row], 0.0));
          }
          double const sum = std::reduce(weights.begin(), weights.end());
          for (double& each : weights) { each /= sum; }
          visit(row, key, weights);
        }
      }
    }
  }

  std::size_t width_;
  std::span<ballast::tokens const> rows_;
  std::span<ballast::row_split::kernel_call const> calls_;
};

}  // namespace block
