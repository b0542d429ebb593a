// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_ROUTE_TINY_ATTENTION_HPP
#define BALLAST_TESTS_ROUTE_TINY_ATTENTION_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/route/chunking.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ballast_test {

/// Causal grouped-query attention over packed sequences, and its gradient, for some of the heads:
/// out = softmax(q k^T) v for every query head and sequence.
///
/// Arrays are [rows][count of the chunk][dim]; `queries` are query heads, and `key_values` the
/// heads that they use.
struct tiny_attention {
  std::uint32_t query_heads;
  std::uint32_t key_value_heads;
  std::size_t dim;

  using numbers = std::vector<double>;

  void forward(std::span<ballast::tokens const> lengths, ballast::chunk queries,
               ballast::chunk key_values, numbers const& q, numbers const& k, numbers const& v,
               numbers& out) const
  {
    std::ranges::fill(out, 0.0);
    for_each_token(lengths, queries, key_values, q, k, [&](token const& at) {
      for (std::size_t j = 0; j < at.weights.size(); ++j) {
        for (std::size_t i = 0; i < dim; ++i) {
          out[at.query + i] += at.weights[j] * v[at.key(j) + i];
        }
      }
    });
  }

  void backward(std::span<ballast::tokens const> lengths, ballast::chunk queries,
                ballast::chunk key_values, numbers const& q, numbers const& k, numbers const& v,
                numbers const& d_out, numbers& d_q, numbers& d_k, numbers& d_v) const
  {
    for (numbers* const gradient : {&d_q, &d_k, &d_v}) { std::ranges::fill(*gradient, 0.0); }
    for_each_token(lengths, queries, key_values, q, k, [&](token const& at) {
      numbers d_weights(at.weights.size(), 0.0);
      double mean = 0;
      for (std::size_t j = 0; j < at.weights.size(); ++j) {
        for (std::size_t i = 0; i < dim; ++i) {
          d_weights[j] += d_out[at.query + i] * v[at.key(j) + i];
          d_v[at.key(j) + i] += at.weights[j] * d_out[at.query + i];
        }
        mean += at.weights[j] * d_weights[j];
      }
      for (std::size_t j = 0; j < at.weights.size(); ++j) {
        double const d_score = at.weights[j] * (d_weights[j] - mean);
        for (std::size_t i = 0; i < dim; ++i) {
          d_q[at.query + i] += d_score * k[at.key(j) + i];
          d_k[at.key(j) + i] += d_score * q[at.query + i];
        }
      }
    });
  }

 private:
  // One token and query head: where its elements begin, and how much it looks at each token before.
  struct token {
    std::size_t query;
    std::size_t first_key;
    std::size_t key_row;  // from a token's key to the next token's
    numbers weights;

    [[nodiscard]] std::size_t key(std::size_t j) const { return first_key + j * key_row; }
  };

  template <class Visit>
  void for_each_token(std::span<ballast::tokens const> lengths, ballast::chunk queries,
                      ballast::chunk key_values, numbers const& q, numbers const& k,
                      Visit const& visit) const
  {
    auto const query_row = static_cast<std::size_t>(queries.count) * dim;
    auto const key_row = static_cast<std::size_t>(key_values.count) * dim;
    std::size_t sequence = 0;  // its first row
    for (ballast::tokens const length : lengths) {
      for (std::size_t row = 0; row < static_cast<std::size_t>(length); ++row) {
        for (std::int64_t head = 0; head < queries.count; ++head) {
          std::int64_t const used = (queries.first + head) * key_value_heads / query_heads;
          auto const key_head = static_cast<std::size_t>(used - key_values.first);
          token at{(sequence + row) * query_row + static_cast<std::size_t>(head) * dim,
                   sequence * key_row + key_head * dim, key_row, numbers(row + 1, 0.0)};
          double sum = 0;
          for (std::size_t j = 0; j <= row; ++j) {
            double score = 0;
            for (std::size_t i = 0; i < dim; ++i) { score += q[at.query + i] * k[at.key(j) + i]; }
            at.weights[j] = std::exp(score);
            sum += at.weights[j];
          }
          for (double& weight : at.weights) { weight /= sum; }
          visit(at);
        }
      }
      sequence += static_cast<std::size_t>(length);
    }
  }
};

}  // namespace ballast_test

#endif  // BALLAST_TESTS_ROUTE_TINY_ATTENTION_HPP
