// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "block_math.hpp"
#include "block_weights.hpp"

#include <ballast/core.hpp>

namespace block {

/// Where the MLP of a block is: behind attention with a norm of its own, as in FLUX's blocks of two
/// streams, or beside it, of the same rows, as in those of one.
enum class mlp { behind_attention, beside_attention };

/// The parameters by which a block treats one stream of tokens, or their gradients.
struct stream_parameters {
  stream_parameters(shape const& s, mlp where)
      : modulation(s.width * s.width * (where == mlp::behind_attention ? 6 : 3)),
        query(s.width * s.query_width()),
        key(s.width * s.kv_width()),
        value(key.size()),
        output(query.size()),
        up(s.width * s.hidden),
        down(up.size())
  {}

  values modulation, query, key, value, output, up, down;

  [[nodiscard]] std::array<values*, 7> all()
  {
    return {&modulation, &query, &key, &value, &output, &up, &down};
  }
};

/// Of a block: one for each of its streams.
using block_parameters = std::vector<stream_parameters>;

/// A block with weights of their own for text and picture, and one where they are the same.
inline std::vector<block_parameters> zero_parameters(shape const& s)
{
  return {block_parameters(2, {s, mlp::behind_attention}),
          block_parameters(1, {s, mlp::beside_attention})};
}

inline std::vector<values*> all_of(std::vector<block_parameters>& model)
{
  std::vector<values*> all;
  for (block_parameters& each : model) {
    for (stream_parameters& stream : each) {
      for (values* const one : stream.all()) { all.push_back(one); }
    }
  }
  return all;
}

/// All parameters, one after the other.
inline values flat(std::vector<block_parameters>& model)
{
  values joined;
  for (values const* each : all_of(model)) {
    joined.insert(joined.end(), each->begin(), each->end());
  }
  return joined;
}

/// The same on every rank.
inline std::vector<block_parameters> random_model(shape const& s, std::uint64_t seed)
{
  ballast::random_source random(seed);
  auto model = zero_parameters(s);
  for (values* const each : all_of(model)) {
    for (double& value : *each) { value = static_cast<double>(random.between(-300, 300)) / 1000; }
  }
  return model;
}

/// What the condition of each sequence makes of it: some rows of `width`. part(row, p) is the p-th
/// of the sequence that a token belongs to.
struct modulation {
  std::size_t width;
  std::size_t parts;
  std::vector<std::size_t> sequence;  // of each token

  template <class T>
  [[nodiscard]] std::span<T> part(std::span<T> of, std::size_t row, std::size_t p) const
  {
    return of.subspan((sequence[row] * parts + p) * width, width);
  }

  /// y = x (1 + scale) + shift
  void shift_and_scale(in of, std::size_t p, in x, out y) const
  {
    for (std::size_t at = 0; at < x.size(); ++at) {
      std::size_t const row = at / width, i = at % width;
      y[at] = x[at] * (1 + part(of, row, p + 1)[i]) + part(of, row, p)[i];
    }
  }
  void shift_and_scale_gradient(in of, std::size_t p, in x, in dy, out dx, out dof) const
  {
    for (std::size_t at = 0; at < x.size(); ++at) {
      std::size_t const row = at / width, i = at % width;
      dx[at] += dy[at] * (1 + part(of, row, p + 1)[i]);
      part(dof, row, p)[i] += dy[at];
      part(dof, row, p + 1)[i] += dy[at] * x[at];
    }
  }

  /// y += gate x
  void gate(in of, std::size_t p, in x, out y) const
  {
    for (std::size_t at = 0; at < x.size(); ++at) {
      y[at] += part(of, at / width, p)[at % width] * x[at];
    }
  }
  void gate_gradient(in of, std::size_t p, in x, in dy, out dx, out dof) const
  {
    for (std::size_t at = 0; at < x.size(); ++at) {
      dx[at] += part(of, at / width, p)[at % width] * dy[at];
      part(dof, at / width, p)[at % width] += x[at] * dy[at];
    }
  }
};

/// What a block does with the tokens of one stream: all but attention. With the shift, scale and
/// gate that silu(condition) gives by one matrix,
///
///     n = norm(x) (1 + scale) + shift;  q, k, v = n query, n key, n value
///     behind  h = x + gate (o output);  y = h + gate' mlp(norm(h) (1 + scale') + shift')
///     beside  y = x + gate (o output + mlp(n))
///
/// Call enter(), leave(), and then their gradients in the opposite order.
class adaptive_stream {
 public:
  /// Borrows the weights.
  adaptive_stream(shape const& s, mlp where, stream_parameters const& weights)
      : s_(s), where_(where), weights_(weights)
  {}

  /// q, k and v hold zeros.
  void enter(values x, std::vector<std::size_t> sequences, in conditions, out q, out k, out v)
  {
    x_ = std::move(x);
    conditions_.assign(conditions.begin(), conditions.end());
    active_ = values(conditions.size());
    silu(conditions, active_);
    by_ = {s_.width, weights_.modulation.size() / s_.width / s_.width, std::move(sequences)};
    of_ = values(conditions.size() * by_.parts);
    linear(active_, weights_.modulation, s_.width, s_.width * by_.parts, of_);
    normed_ = n_ = values(x_.size());
    layer_norm(x_, s_.width, normed_);
    by_.shift_and_scale(of_, 0, normed_, n_);
    linear(n_, weights_.query, s_.width, s_.query_width(), q);
    linear(n_, weights_.key, s_.width, s_.kv_width(), k);
    linear(n_, weights_.value, s_.width, s_.kv_width(), v);
  }

  void leave(values o, out y)
  {
    attended_ = std::move(o);
    added_ = values(x_.size());
    linear(attended_, weights_.output, s_.query_width(), s_.width, added_);
    if (where_ == mlp::beside_attention) {
      mlp_of(n_, added_);
      std::ranges::copy(x_, y.begin());
      by_.gate(of_, 2, added_, y);
      return;
    }
    h_ = x_;
    by_.gate(of_, 2, added_, h_);
    h_normed_ = h_n_ = from_mlp_ = values(x_.size());
    layer_norm(h_, s_.width, h_normed_);
    by_.shift_and_scale(of_, 3, h_normed_, h_n_);
    mlp_of(h_n_, from_mlp_);
    std::ranges::copy(h_, y.begin());
    by_.gate(of_, 5, from_mlp_, y);
  }

  /// The gradient of o, which holds zeros; adds to those of the parameters.
  void leave_gradient(in dy, out do_, stream_parameters& gradients)
  {
    dx_.assign(dy.begin(), dy.end());
    dof_ = values(of_.size());
    dn_ = values(x_.size());
    values dadded(x_.size());
    if (where_ == mlp::beside_attention) {
      by_.gate_gradient(of_, 2, added_, dy, dadded, dof_);
      mlp_gradient(n_, dadded, dn_, gradients);
    } else {
      values dfrom_mlp(x_.size()), dh_n(x_.size()), dh_normed(x_.size());
      by_.gate_gradient(of_, 5, from_mlp_, dy, dfrom_mlp, dof_);
      mlp_gradient(h_n_, dfrom_mlp, dh_n, gradients);
      by_.shift_and_scale_gradient(of_, 3, h_normed_, dh_n, dh_normed, dof_);
      layer_norm_gradient(h_, s_.width, dh_normed, dx_);
      by_.gate_gradient(of_, 2, added_, dx_, dadded, dof_);
    }
    linear_gradient(attended_, weights_.output, s_.query_width(), s_.width, dadded, do_,
                    gradients.output);
  }

  /// The gradient of x; adds to those of the conditions and of the parameters.
  void enter_gradient(in dq, in dk, in dv, out dx, out dconditions, stream_parameters& gradients)
  {
    linear_gradient(n_, weights_.query, s_.width, s_.query_width(), dq, dn_, gradients.query);
    linear_gradient(n_, weights_.key, s_.width, s_.kv_width(), dk, dn_, gradients.key);
    linear_gradient(n_, weights_.value, s_.width, s_.kv_width(), dv, dn_, gradients.value);
    values dnormed(x_.size()), dactive(active_.size());
    by_.shift_and_scale_gradient(of_, 0, normed_, dn_, dnormed, dof_);
    layer_norm_gradient(x_, s_.width, dnormed, dx_);
    std::ranges::copy(dx_, dx.begin());
    linear_gradient(active_, weights_.modulation, s_.width, s_.width * by_.parts, dof_, dactive,
                    gradients.modulation);
    silu_gradient(conditions_, dactive, dconditions);
  }

  /// What is kept from the forward pass for the backward pass, in numbers.
  [[nodiscard]] std::size_t kept() const
  {
    std::size_t numbers = 0;
    for (values const* const each :
         {&x_, &conditions_, &active_, &of_, &normed_, &n_, &attended_, &added_, &h_, &h_normed_,
          &h_n_, &from_mlp_, &up_, &up_active_}) {
      numbers += each->size();
    }
    return numbers;
  }

 private:
  void mlp_of(in x, out y)
  {
    up_ = values(x.size() / s_.width * s_.hidden);
    up_active_ = up_;
    linear(x, weights_.up, s_.width, s_.hidden, up_);
    silu(up_, up_active_);
    linear(up_active_, weights_.down, s_.hidden, s_.width, y);
  }

  void mlp_gradient(in x, in dy, out dx, stream_parameters& gradients)
  {
    values dactive(up_.size()), dup(up_.size());
    linear_gradient(up_active_, weights_.down, s_.hidden, s_.width, dy, dactive, gradients.down);
    silu_gradient(up_, dactive, dup);
    linear_gradient(x, weights_.up, s_.width, s_.hidden, dup, dx, gradients.up);
  }

  shape s_;
  mlp where_;
  stream_parameters const& weights_;
  modulation by_{};
  values x_, conditions_, active_, of_, normed_, n_, attended_, added_;
  values h_, h_normed_, h_n_, from_mlp_;  // where the MLP is behind attention
  values up_, up_active_;
  values dx_, dof_, dn_;
};

}  // namespace block
