// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_EXAMPLES_COMMON_TRANSFORMER_BLOCK_HPP
#define BALLAST_EXAMPLES_COMMON_TRANSFORMER_BLOCK_HPP

#include "block_math.hpp"

#include <ballast/comm/concepts.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/ulysses.hpp>
#include <ballast/route/ulysses_exchange.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace block {

struct shape {
  std::size_t width = 16;
  std::uint32_t query_heads = 4;
  std::uint32_t kv_heads = 2;
  std::size_t head_dim = 4;
  std::size_t hidden = 32;
};

/// The parameters of a block, or their gradients.
struct parameters {
  explicit parameters(shape const& s)
      : norm(s.width),
        query(s.width * s.query_heads * s.head_dim),
        key(s.width * s.kv_heads * s.head_dim),
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

/// A rank's activations in a placement: numbers that depend on the sample and the token alone.
inline values pixels(ballast::placement const& where, ballast::rank_id rank, std::size_t width)
{
  values x;
  for (std::size_t sample = 0; sample < where.size(); ++sample) {
    for (ballast::piece const& each : where[ballast::to_id<ballast::sample_id>(sample)]) {
      if (each.rank != rank) { continue; }
      for (ballast::tokens token = each.first; token < each.first + each.count; ++token) {
        ballast::random_source random(sample * 1'000'003 + static_cast<std::uint64_t>(token));
        for (std::size_t i = 0; i < width; ++i) {
          x.push_back(static_cast<double>(random.between(-1000, 1000)) / 1000);
        }
      }
    }
  }
  return x;
}

/// y = h + mlp(norm(h)) with h = x + attention(norm(x)), over the sequences of a compute bag:
/// causal grouped-query attention within each sequence, the GPUs of the bag sharing it by Ulysses.
///
/// A rank calls forward() and then backward() with what it has of the bag: chunks of its sequences,
/// one row per token. Both are collective in the bag.
template <ballast::communicator C>
class transformer_block {
 public:
  transformer_block(shape const& s, parameters const& weights, C& bag)
      : s_(s), weights_(weights), bag_(bag)
  {}

  ballast::result<void> forward(ballast::ulysses_plan const& plan, in x, out y)
  {
    plan_ = plan;
    x_.assign(x.begin(), x.end());
    std::size_t const rows = x.size() / s_.width;
    normed_ = values(x.size());
    rms_norm(x, weights_.norm, normed_);
    values q(rows * query_width()), k(rows * kv_width()), v(k.size()), o(q.size());
    linear(normed_, weights_.query, s_.width, query_width(), q);
    linear(normed_, weights_.key, s_.width, kv_width(), k);
    linear(normed_, weights_.value, s_.width, kv_width(), v);

    q_ = whole(s_.query_heads);
    k_ = whole(s_.kv_heads);
    v_ = whole(s_.kv_heads);
    values whole_o = whole(s_.query_heads);
    if (auto moved = to_heads(bag_, plan_, memory_, queries(q, q_), keys(k, k_), keys(v, v_));
        !moved) {
      return moved;
    }
    for_each_head([&](std::size_t rows_of, auto const& query, auto const& key) {
      attention(query(in(q_)), key(in(k_)), key(in(v_)), rows_of, s_.head_dim, query(out(whole_o)));
    });
    if (auto moved = to_tokens(bag_, plan_, memory_, queries(whole_o, o)); !moved) { return moved; }

    attended_ = o;
    h_ = x_;
    linear(o, weights_.output, query_width(), s_.width, h_);
    hidden_normed_ = values(x.size());
    rms_norm(h_, weights_.hidden_norm, hidden_normed_);
    up_ = values(rows * s_.hidden);
    linear(hidden_normed_, weights_.up, s_.width, s_.hidden, up_);
    activated_ = values(up_.size());
    silu(up_, activated_);
    std::ranges::copy(h_, y.begin());
    linear(activated_, weights_.down, s_.hidden, s_.width, y);
    return {};
  }

  /// Writes the gradient of x and adds to those of the parameters.
  ballast::result<void> backward(in dy, out dx, parameters& gradients)
  {
    values dactivated(activated_.size()), dup(up_.size()), dhidden_normed(x_.size());
    values dh(dy.begin(), dy.end());
    linear_gradient(activated_, weights_.down, s_.hidden, s_.width, dy, dactivated, gradients.down);
    silu_gradient(up_, dactivated, dup);
    linear_gradient(hidden_normed_, weights_.up, s_.width, s_.hidden, dup, dhidden_normed,
                    gradients.up);
    rms_norm_gradient(h_, weights_.hidden_norm, dhidden_normed, dh, gradients.hidden_norm);

    values do_(attended_.size()), dnormed(x_.size());
    linear_gradient(attended_, weights_.output, query_width(), s_.width, dh, do_, gradients.output);
    values whole_do = whole(s_.query_heads), whole_dq = whole_do;
    values whole_dk = whole(s_.kv_heads), whole_dv = whole_dk;
    if (auto moved = to_heads(bag_, plan_, memory_, queries(do_, whole_do)); !moved) {
      return moved;
    }
    for_each_head([&](std::size_t rows_of, auto const& query, auto const& key) {
      attention_gradient(query(in(q_)), key(in(k_)), key(in(v_)), rows_of, s_.head_dim,
                         query(in(whole_do)), query(out(whole_dq)), key(out(whole_dk)),
                         key(out(whole_dv)));
    });
    std::size_t const rows = x_.size() / s_.width;
    values dq(rows * query_width()), dk(rows * kv_width()), dv(dk.size());
    if (auto moved = to_tokens(bag_, plan_, memory_, queries(whole_dq, dq), keys(whole_dk, dk),
                               keys(whole_dv, dv));
        !moved) {
      return moved;
    }
    linear_gradient(normed_, weights_.query, s_.width, query_width(), dq, dnormed, gradients.query);
    linear_gradient(normed_, weights_.key, s_.width, kv_width(), dk, dnormed, gradients.key);
    linear_gradient(normed_, weights_.value, s_.width, kv_width(), dv, dnormed, gradients.value);
    rms_norm_gradient(x_, weights_.norm, dnormed, dh, gradients.norm);
    std::ranges::copy(dh, dx.begin());
    return {};
  }

 private:
  [[nodiscard]] std::size_t query_width() const { return s_.query_heads * s_.head_dim; }
  [[nodiscard]] std::size_t kv_width() const { return s_.kv_heads * s_.head_dim; }

  [[nodiscard]] ballast::chunk share(std::uint32_t heads) const
  {
    return plan_.share(static_cast<std::uint32_t>(to_index(bag_.rank())), heads);
  }

  /// An array of whole sequences with this GPU's share of the heads.
  [[nodiscard]] values whole(std::uint32_t heads) const
  {
    return values(static_cast<std::size_t>(plan_.rows() * share(heads).count) * s_.head_dim);
  }

  [[nodiscard]] ballast::head_array queries(in from, out to) const
  {
    return ballast::heads_of(from, to, s_.query_heads, s_.head_dim);
  }
  [[nodiscard]] ballast::head_array keys(in from, out to) const
  {
    return ballast::heads_of(from, to, s_.kv_heads, s_.head_dim);
  }

  /// Calls visit(rows, query, key) for every sequence and each of this GPU's query heads, where
  /// query(array) and key(array) are that head's part of an array with query or with key heads.
  template <class Visit>
  void for_each_head(Visit const& visit) const
  {
    ballast::chunk const query_share = share(s_.query_heads);
    ballast::chunk const key_share = share(s_.kv_heads);
    auto const part = [this](std::size_t first_row, std::int64_t heads, std::int64_t head) {
      return [=, dim = s_.head_dim]<class T>(std::span<T> array) {
        std::size_t const stride = static_cast<std::size_t>(heads) * dim;
        return head_view<T>{array.subspan(first_row * stride), stride,
                            static_cast<std::size_t>(head) * dim};
      };
    };
    std::size_t first_row = 0;
    for (ballast::tokens const length : plan_.lengths()) {
      for (std::int64_t head = 0; head < query_share.count; ++head) {
        std::int64_t const key = plan_.head_used_by(query_share.first + head, s_.kv_heads);
        visit(static_cast<std::size_t>(length), part(first_row, query_share.count, head),
              part(first_row, key_share.count, key - key_share.first));
      }
      first_row += static_cast<std::size_t>(length);
    }
  }

  shape s_;
  parameters const& weights_;
  C& bag_;
  ballast::workspace memory_;
  ballast::ulysses_plan plan_;
  values x_, normed_, q_, k_, v_, attended_, h_, hidden_normed_, up_, activated_;
};

}  // namespace block

#endif  // BALLAST_EXAMPLES_COMMON_TRANSFORMER_BLOCK_HPP
