// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_EXAMPLES_COMMON_TRANSFORMER_BLOCK_HPP
#define BALLAST_EXAMPLES_COMMON_TRANSFORMER_BLOCK_HPP

#include "block_attention.hpp"
#include "block_math.hpp"
#include "block_weights.hpp"

#include <ballast/comm/concepts.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/ulysses.hpp>
#include <ballast/route/ulysses_exchange.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace block {

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
      : s_(s), weights_(s, weights), bag_(bag)
  {}

  ballast::result<void> forward(ballast::ulysses_plan const& plan, in x, out y)
  {
    plan_ = plan;
    rows_ = x.size() / s_.width;
    values q(rows_ * s_.query_width()), k(rows_ * s_.kv_width()), v(k.size()), o(q.size());
    weights_.enter(x, q, k, v);

    q_ = whole(s_.query_heads);
    k_ = whole(s_.kv_heads);
    v_ = whole(s_.kv_heads);
    values whole_o = whole(s_.query_heads);
    if (auto moved = to_heads(bag_, plan_, memory_, queries(q, q_), keys(k, k_), keys(v, v_));
        !moved) {
      return moved;
    }
    attention_ = own_heads();
    attention_.forward(plan_.lengths(), q_, k_, v_, whole_o);
    if (auto moved = to_tokens(bag_, plan_, memory_, queries(whole_o, o)); !moved) { return moved; }
    weights_.leave(o, y);
    return {};
  }

  /// Writes the gradient of x and adds to those of the parameters.
  ballast::result<void> backward(in dy, out dx, parameters& gradients)
  {
    values do_(rows_ * s_.query_width());
    weights_.leave_gradient(dy, do_, gradients);
    values whole_do = whole(s_.query_heads), whole_dq = whole_do;
    values whole_dk = whole(s_.kv_heads), whole_dv = whole_dk;
    if (auto moved = to_heads(bag_, plan_, memory_, queries(do_, whole_do)); !moved) {
      return moved;
    }
    attention_.gradient(plan_.lengths(), q_, k_, v_, whole_do, whole_dq, whole_dk, whole_dv);
    values dq(rows_ * s_.query_width()), dk(rows_ * s_.kv_width()), dv(dk.size());
    if (auto moved = to_tokens(bag_, plan_, memory_, queries(whole_dq, dq), keys(whole_dk, dk),
                               keys(whole_dv, dv));
        !moved) {
      return moved;
    }
    weights_.enter_gradient(dq, dk, dv, dx, gradients);
    return {};
  }

 private:
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

  /// Attention with this GPU's share of the heads.
  [[nodiscard]] block_attention own_heads() const
  {
    ballast::chunk const query_share = share(s_.query_heads);
    ballast::chunk const key_share = share(s_.kv_heads);
    std::vector<std::size_t> keys;
    for (std::int64_t head = 0; head < query_share.count; ++head) {
      std::int64_t const key = plan_.head_used_by(query_share.first + head, s_.kv_heads);
      keys.push_back(static_cast<std::size_t>(key - key_share.first));
    }
    return {s_.head_dim, static_cast<std::size_t>(key_share.count), std::move(keys)};
  }

  shape s_;
  block_weights weights_;
  block_attention attention_;
  C& bag_;
  ballast::workspace memory_;
  ballast::ulysses_plan plan_;
  std::size_t rows_ = 0;
  values q_, k_, v_;
};

}  // namespace block

#endif  // BALLAST_EXAMPLES_COMMON_TRANSFORMER_BLOCK_HPP
