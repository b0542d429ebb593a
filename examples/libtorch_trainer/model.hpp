// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/route.hpp>

#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

// A small decoder with grouped queries and rotary positions. It knows nothing of ballast but the
// struct that describes its shape.

namespace trainer {

using ballast::transformer_shape;
using torch::Tensor;

/// The key-value head that each query head uses.
[[nodiscard]] inline Tensor kv_head_of(transformer_shape const& shape)
{
  std::int64_t const heads = shape.heads;
  std::int64_t const kv_heads = shape.kv_heads;
  return (torch::arange(heads, torch::kLong) * kv_heads).div(heads, "floor");
}

/// Queries [rows][heads][dim], keys and values [rows][kv_heads][dim] to outputs [rows][heads][dim].
///
/// Only here does a token see others, so a trainer that spreads sequences over GPUs passes another
/// function, and the model stays as it is.
using attention = std::function<Tensor(Tensor const&, Tensor const&, Tensor const&)>;

/// Causal attention within sequences of these lengths, which lie one behind the other; kv_head[h]
/// is the head of k and v that head h of q uses. No sequence, and no head, are fine.
[[nodiscard]] inline Tensor causal_attention(Tensor const& q, Tensor const& k, Tensor const& v,
                                             std::span<ballast::tokens const> lengths,
                                             Tensor const& kv_head)
{
  Tensor const queries = q.transpose(0, 1) / std::sqrt(static_cast<double>(q.size(2)));
  Tensor const keys = k.index_select(1, kv_head).transpose(0, 1);
  Tensor const values = v.index_select(1, kv_head).transpose(0, 1);
  // Also without a sequence the output depends on the queries, so that the backward pass makes the
  // same exchanges on every rank.
  std::vector<Tensor> outputs = {q.narrow(0, 0, 0)};
  std::int64_t first = 0;
  for (ballast::tokens const length : lengths) {
    auto const rows = [&](Tensor const& all) { return all.narrow(1, first, length); };
    Tensor const future = torch::ones({length, length}, torch::kBool).triu(1);
    Tensor const scores = torch::matmul(rows(queries), rows(keys).transpose(1, 2))
                              .masked_fill(future, -std::numeric_limits<double>::infinity());
    outputs.push_back(torch::matmul(scores.softmax(2), rows(values)).transpose(0, 1));
    first += length;
  }
  return torch::cat(outputs);
}

[[nodiscard]] inline torch::nn::Linear linear(std::int64_t from, std::int64_t to)
{
  return torch::nn::Linear(torch::nn::LinearOptions(from, to).bias(false));
}

[[nodiscard]] inline torch::nn::LayerNorm norm(std::int64_t width)
{
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}));
}

/// One layer: attention, then a feed-forward network.
struct layer : torch::nn::Module {
  explicit layer(transformer_shape const& model) : shape(model) {}

  Tensor forward(Tensor x, Tensor const& angles, attention const& attend)
  {
    auto const split = [&](Tensor const& all, std::uint32_t heads) {
      return all.view({x.size(0), heads, shape.head_dim});
    };
    Tensor const y = attention_norm(x);
    Tensor const attended =
        attend(rotate(split(query(y), shape.heads), angles),
               rotate(split(key(y), shape.kv_heads), angles), split(value(y), shape.kv_heads));
    x = x + output(attended.flatten(1));
    return x + down(torch::gelu(up(ffn_norm(x))));
  }

  /// Turns the two halves of each head into each other: rotary position embedding.
  [[nodiscard]] static Tensor rotate(Tensor const& heads, Tensor const& angles)
  {
    auto const halves = heads.chunk(2, 2);
    Tensor const cos = angles.cos();
    Tensor const sin = angles.sin();
    return torch::cat({halves[0] * cos - halves[1] * sin, halves[1] * cos + halves[0] * sin}, 2);
  }

  transformer_shape shape;
  std::int64_t width = shape.hidden;
  std::int64_t query_width = std::int64_t{shape.heads} * shape.head_dim;
  std::int64_t kv_width = std::int64_t{shape.kv_heads} * shape.head_dim;
  torch::nn::LayerNorm attention_norm = register_module("attention_norm", norm(width));
  torch::nn::Linear query = register_module("query", linear(width, query_width));
  torch::nn::Linear key = register_module("key", linear(width, kv_width));
  torch::nn::Linear value = register_module("value", linear(width, kv_width));
  torch::nn::Linear output = register_module("output", linear(query_width, width));
  torch::nn::LayerNorm ffn_norm = register_module("ffn_norm", norm(width));
  torch::nn::Linear up = register_module("up", linear(width, shape.ffn_hidden));
  torch::nn::Linear down = register_module("down", linear(shape.ffn_hidden, width));
};

/// The decoder, in the three parts that a balanced trainer calls one by one: a token is embedded
/// and its loss taken where it was read, and in between it goes through the layers where it is
/// computed.
struct transformer : torch::nn::Module {
  explicit transformer(transformer_shape const& model) : shape(model)
  {
    for (std::uint32_t each = 0; each < shape.layers; ++each) {
      stack->push_back(std::make_shared<layer>(shape));
    }
  }

  /// Tokens [rows] to activations [rows][hidden].
  Tensor embed(Tensor const& token) { return embedding(token); }

  /// Activations [rows][hidden] of tokens at these positions [rows] of their sequences.
  Tensor layers(Tensor x, Tensor const& positions, attention const& attend)
  {
    std::int64_t const dim = shape.head_dim;
    Tensor const exponents = torch::arange(0, dim, 2) / dim;
    Tensor const angles = positions.view({-1, 1, 1}) * torch::pow(10000.0, -exponents);
    for (auto const& each : *stack) { x = each->as<layer>()->forward(x, angles, attend); }
    return x;
  }

  /// Activations [rows][hidden] to logits [rows][vocabulary].
  Tensor logits(Tensor const& x) { return head(head_norm(x)); }

  transformer_shape shape;
  torch::nn::Embedding embedding =
      register_module("embedding", torch::nn::Embedding(shape.vocabulary, shape.hidden));
  torch::nn::ModuleList stack = register_module("layers", torch::nn::ModuleList());
  torch::nn::LayerNorm head_norm = register_module("head_norm", norm(shape.hidden));
  torch::nn::Linear head = register_module("head", linear(shape.hidden, shape.vocabulary));
};

}  // namespace trainer
