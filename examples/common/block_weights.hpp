// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "block_math.hpp"

#include <ballast/core.hpp>

namespace block {

struct shape {
  std::size_t width = 16;
  std::uint32_t query_heads = 4;
  std::uint32_t kv_heads = 2;
  std::size_t head_dim = 4;
  std::size_t hidden = 32;

  [[nodiscard]] std::size_t query_width() const { return query_heads * head_dim; }
  [[nodiscard]] std::size_t kv_width() const { return kv_heads * head_dim; }
};

/// The parameters of a block, or their gradients.
struct parameters {
  explicit parameters(shape const& s)
      : norm(s.width),
        query(s.width * s.query_width()),
        key(s.width * s.kv_width()),
        value(key.size()),
        output(query.size()),
        hidden_norm(s.width),
        up(s.width * s.hidden),
        down(up.size())
  {}

  values norm, query, key, value, output, hidden_norm, up, down;

  [[nodiscard]] std::array<values*, 8> all()
  {
    return {&norm, &query, &key, &value, &output, &hidden_norm, &up, &down};
  }

  /// All of them, one after the other.
  [[nodiscard]] values flat()
  {
    values joined;
    for (values const* each : all()) { joined.insert(joined.end(), each->begin(), each->end()); }
    return joined;
  }

  /// Adds to all of them a multiple of what lies as in flat().
  void add(double factor, in flat)
  {
    auto next = flat.begin();
    for (values* each : all()) {
      for (double& one : *each) { one += factor * *next++; }
    }
  }
};

/// The same parameters on every rank.
inline parameters random_parameters(shape const& s, std::uint64_t seed)
{
  ballast::random_source random(seed);
  parameters made(s);
  for (values* each : made.all()) {
    for (double& value : *each) { value = static_cast<double>(random.between(-500, 500)) / 1000; }
  }
  return made;
}

/// What a block does with its weights: all but attention, row by row. Call enter(), leave(), and
/// then their gradients in the opposite order. Ranks that have a part of the weights each call the
/// steps of these, and add up what `part` has between them.
class block_weights {
 public:
  /// Borrows the weights.
  block_weights(shape const& s, parameters const& weights) : s_(s), weights_(weights) {}

  /// q, k and v, which hold zeros, of norm(x).
  void enter(in x, out q, out k, out v)
  {
    x_.assign(x.begin(), x.end());
    normed_ = values(x.size());
    rms_norm(x, weights_.norm, normed_);
    linear(normed_, weights_.query, s_.width, s_.query_width(), q);
    linear(normed_, weights_.key, s_.width, s_.kv_width(), k);
    linear(normed_, weights_.value, s_.width, s_.kv_width(), v);
  }

  /// y = h + mlp(norm(h)) with h = x + o output, where o is what attention made of q, k and v.
  void leave(in o, out y)
  {
    values attended(x_.size()), computed(x_.size());
    leave_attention(o, attended);
    enter_mlp(attended, computed);
    leave_mlp(computed, y);
  }

  /// o output, which is added to `part`.
  void leave_attention(in o, out part)
  {
    attended_.assign(o.begin(), o.end());
    linear(o, weights_.output, s_.query_width(), s_.width, part);
  }

  /// mlp(norm(h)), which is added to `part`, from all that leave_attention has added.
  void enter_mlp(in attended, out part)
  {
    h_ = x_;
    for (std::size_t i = 0; i < h_.size(); ++i) { h_[i] += attended[i]; }
    hidden_normed_ = values(x_.size());
    rms_norm(h_, weights_.hidden_norm, hidden_normed_);
    up_ = values(x_.size() / s_.width * s_.hidden);
    linear(hidden_normed_, weights_.up, s_.width, s_.hidden, up_);
    activated_ = values(up_.size());
    silu(up_, activated_);
    linear(activated_, weights_.down, s_.hidden, s_.width, part);
  }

  void leave_mlp(in computed, out y) const
  {
    for (std::size_t i = 0; i < h_.size(); ++i) { y[i] = h_[i] + computed[i]; }
  }

  /// The gradient of o, which holds zeros; adds to those of the parameters.
  void leave_gradient(in dy, out do_, parameters& gradients)
  {
    values dhidden_normed(x_.size());
    mlp_gradient(dy, dhidden_normed, gradients);
    output_gradient(dy, dhidden_normed, do_, gradients);
  }

  /// The gradient of norm(h), which is added to `part`.
  void mlp_gradient(in dy, out part, parameters& gradients) const
  {
    values dactivated(activated_.size()), dup(up_.size());
    linear_gradient(activated_, weights_.down, s_.hidden, s_.width, dy, dactivated, gradients.down);
    silu_gradient(up_, dactivated, dup);
    linear_gradient(hidden_normed_, weights_.up, s_.width, s_.hidden, dup, part, gradients.up);
  }

  /// The gradient of o, from all that mlp_gradient has added.
  void output_gradient(in dy, in dhidden_normed, out do_, parameters& gradients)
  {
    dh_.assign(dy.begin(), dy.end());
    rms_norm_gradient(h_, weights_.hidden_norm, dhidden_normed, dh_, gradients.hidden_norm);
    linear_gradient(attended_, weights_.output, s_.query_width(), s_.width, dh_, do_,
                    gradients.output);
  }

  /// The gradient of x; adds to those of the parameters.
  void enter_gradient(in dq, in dk, in dv, out dx, parameters& gradients)
  {
    values dnormed(x_.size());
    heads_gradient(dq, dk, dv, dnormed, gradients);
    input_gradient(dnormed, dx, gradients);
  }

  /// The gradient of norm(x), which is added to `part`.
  void heads_gradient(in dq, in dk, in dv, out part, parameters& gradients) const
  {
    linear_gradient(normed_, weights_.query, s_.width, s_.query_width(), dq, part, gradients.query);
    linear_gradient(normed_, weights_.key, s_.width, s_.kv_width(), dk, part, gradients.key);
    linear_gradient(normed_, weights_.value, s_.width, s_.kv_width(), dv, part, gradients.value);
  }

  /// The gradient of x, from all that heads_gradient has added.
  void input_gradient(in dnormed, out dx, parameters& gradients)
  {
    rms_norm_gradient(x_, weights_.norm, dnormed, dh_, gradients.norm);
    std::ranges::copy(dh_, dx.begin());
  }

  /// The bytes of what a row keeps between its forward and its backward pass.
  [[nodiscard]] static std::size_t bytes_of_row(shape const& s)
  {
    return sizeof(double) * (4 * s.width + s.query_width() + 2 * s.hidden);
  }

 private:
  shape s_;
  parameters const& weights_;
  values x_, normed_, attended_, h_, hidden_normed_, up_, activated_, dh_;
};

}  // namespace block
