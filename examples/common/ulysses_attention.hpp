// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "block_attention.hpp"
#include "block_math.hpp"
#include "block_weights.hpp"

#include <ballast/comm/communicator.hpp>
#include <ballast/core.hpp>
#include <ballast/route/ulysses.hpp>

namespace block {

/// Grouped-query attention within each sequence of a compute bag, whose GPUs share it by Ulysses.
///
/// A rank calls forward() and then backward() with what it has of the bag: chunks of its sequences,
/// one row per token. Both are collective in the bag.
template <ballast::communicator C>
class ulysses_attention {
 public:
  ulysses_attention(shape const& s, C& bag, attends to) : s_(s), to_(to), bag_(bag) {}

  /// o holds zeros.
  ballast::result<void> forward(ballast::ulysses_plan const& plan, in q, in k, in v, out o)
  {
    plan_ = plan;
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
    return to_tokens(bag_, plan_, memory_, queries(whole_o, o));
  }

  /// dq, dk and dv hold zeros.
  ballast::result<void> backward(in do_, out dq, out dk, out dv)
  {
    values whole_do = whole(s_.query_heads), whole_dq = whole_do;
    values whole_dk = whole(s_.kv_heads), whole_dv = whole_dk;
    if (auto moved = to_heads(bag_, plan_, memory_, queries(do_, whole_do)); !moved) {
      return moved;
    }
    attention_.gradient(plan_.lengths(), q_, k_, v_, whole_do, whole_dq, whole_dk, whole_dv);
    return to_tokens(bag_, plan_, memory_, queries(whole_dq, dq), keys(whole_dk, dk),
                     keys(whole_dv, dv));
  }

  /// What is kept from the forward pass for the backward pass, in numbers.
  [[nodiscard]] std::size_t kept() const { return q_.size() + k_.size() + v_.size(); }

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
      std::int64_t const key = plan_.split().used_by(query_share.first + head, s_.kv_heads);
      keys.push_back(static_cast<std::size_t>(key - key_share.first));
    }
    return {s_.head_dim, static_cast<std::size_t>(key_share.count), std::move(keys), to_};
  }

  shape s_;
  attends to_;
  block_attention attention_;
  C& bag_;
  ballast::workspace memory_;
  ballast::ulysses_plan plan_;
  values q_, k_, v_;
};

}  // namespace block
