// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "block_attention.hpp"  // defines: block::block_attention
#include "block_weights.hpp"    // defines: block::{shape, parameters, block_weights}
#include "gradient_sum.hpp"     // defines: block::sum_over_ranks

#include <ballast/comm/communicator.hpp>
#include <ballast/core.hpp>

#include <stdexcept>

namespace block {

/// What one of several tensor ranks has of a block: some heads and some of the hidden units, which
/// are columns of the matrices that make them and rows of those that take them. All have the norms.
class tensor_part {
 public:
  /// The ranks share key heads, which their query heads follow, and hidden units equally.
  tensor_part(shape const& whole, std::uint32_t ranks, std::uint32_t rank)
      : whole_(whole), own_(whole), rank_(rank)
  {
    if (whole.kv_heads % ranks != 0 || whole.hidden % ranks != 0) {
      throw std::runtime_error("tensor ranks do not divide the heads or the hidden units");
    }
    own_.query_heads /= ranks;
    own_.kv_heads /= ranks;
    own_.hidden /= ranks;
  }

  [[nodiscard]] shape const& own() const { return own_; }

  /// A part of the parameters of a whole block.
  [[nodiscard]] parameters cut(parameters whole) const
  {
    parameters part(own_);
    values const all = whole.flat();
    values own(part.flat().size());
    for_each_number([&](std::size_t at, std::size_t here) { own[here] = all[at]; });
    part.add(1, own);
    return part;
  }

  /// The numbers of a part where a whole block has them, and zeros elsewhere: the sum over all
  /// ranks is the block's. The first rank counts the norms.
  [[nodiscard]] values spread(in part) const
  {
    values all(parameters(whole_).flat().size());
    for_each_number([&](std::size_t at, std::size_t here) { all[at] = part[here]; });
    for (auto const& [first, count] : norms(whole_)) {
      for (std::size_t i = 0; i < count && rank_ > 0; ++i) { all[first + i] = 0; }
    }
    return all;
  }

  /// Where the two norms are among the parameters of a block.
  [[nodiscard]] static std::array<std::pair<std::size_t, std::size_t>, 2> norms(shape const& s)
  {
    std::size_t const heads = 2 * s.width * (s.query_width() + s.kv_width());
    return {{{0, s.width}, {s.width + heads, s.width}}};
  }

 private:
  /// visit(of the whole block, here) for every number of this part, as they lie in flat().
  template <class Visit>
  void for_each_number(Visit const& visit) const
  {
    std::size_t first = 0;
    std::size_t here = 0;
    auto const rows = [&](std::size_t all, std::size_t own, std::size_t width) {
      for (std::size_t i = 0; i < own * width; ++i) {
        visit(first + rank_ * own * width + i, here++);
      }
      first += all * width;
    };
    auto const columns = [&](std::size_t all, std::size_t own) {
      for (std::size_t row = 0; row < whole_.width; ++row) {
        for (std::size_t i = 0; i < own; ++i) {
          visit(first + row * all + rank_ * own + i, here++);
        }
      }
      first += all * whole_.width;
    };
    auto const norm = [&] {
      for (std::size_t i = 0; i < whole_.width; ++i) { visit(first++, here++); }
    };
    norm();
    columns(whole_.query_width(), own_.query_width());
    columns(whole_.kv_width(), own_.kv_width());
    columns(whole_.kv_width(), own_.kv_width());
    rows(whole_.query_width(), own_.query_width(), whole_.width);
    norm();
    columns(whole_.hidden, own_.hidden);
    rows(whole_.hidden, own_.hidden, whole_.width);
  }

  shape whole_;
  shape own_;
  std::size_t rank_;
};

/// y = h + mlp(norm(h)) with h = x + attention(norm(x)), over whole sequences, of which each rank
/// of a tensor group computes its heads and hidden units: two all-reduces forward and two backward,
/// as in Megatron-LM. All ranks have the same bits of x, of y and of their gradients.
///
/// Call forward() and then backward(); both are collective in the group.
template <ballast::communicator C>
class tensor_block {
 public:
  /// Borrows this rank's part of the weights.
  tensor_block(shape const& own, parameters const& weights, C& tensor, attends to)
      : s_(own), weights_(weights), tensor_(tensor)
  {
    std::vector<std::size_t> keys;
    for (std::size_t head = 0; head < own.query_heads; ++head) {
      keys.push_back(head * own.kv_heads / own.query_heads);
    }
    attention_ = block_attention(own.head_dim, own.kv_heads, std::move(keys), to);
  }

  /// x has the rows of sequences of these lengths, one after the other.
  [[nodiscard]] values forward(std::span<ballast::tokens const> lengths, in x)
  {
    values attended(x.size()), computed(x.size()), y(x.size());
    for (ballast::tokens const length : lengths) {
      sequence& own = sequences_.emplace_back(s_, weights_, length, rows_);
      rows_ += static_cast<std::size_t>(length);
      values o(own.q.size());
      own.weights.enter(part(x, own), own.q, own.k, own.v);
      attention_.forward(own.length, own.q, own.k, own.v, o);
      own.weights.leave_attention(o, part(out(attended), own));
    }
    add_up(attended);
    for (sequence& own : sequences_) {
      own.weights.enter_mlp(part(in(attended), own), part(out(computed), own));
    }
    add_up(computed);
    for (sequence& own : sequences_) {
      own.weights.leave_mlp(part(in(computed), own), part(out(y), own));
    }
    return y;
  }

  /// Returns the gradient of x, and adds to gradients_of(sequence), those of this rank's weights.
  template <class GradientsOf>
  [[nodiscard]] values backward(in dy, GradientsOf const& gradients_of)
  {
    values dhidden(dy.size()), dnormed(dy.size()), dx(dy.size());
    auto const each = [&](auto const& step) {
      for (std::size_t at = 0; at < sequences_.size(); ++at) {
        step(sequences_[at], gradients_of(at));
      }
    };
    each([&](sequence& own, parameters& gradients) {
      own.weights.mlp_gradient(part(dy, own), part(out(dhidden), own), gradients);
    });
    add_up(dhidden);
    each([&](sequence& own, parameters& gradients) {
      values do_(own.q.size()), dq(own.q.size()), dk(own.k.size()), dv(own.k.size());
      own.weights.output_gradient(part(dy, own), part(in(dhidden), own), do_, gradients);
      attention_.gradient(own.length, own.q, own.k, own.v, do_, dq, dk, dv);
      own.weights.heads_gradient(dq, dk, dv, part(out(dnormed), own), gradients);
    });
    add_up(dnormed);
    each([&](sequence& own, parameters& gradients) {
      own.weights.input_gradient(part(in(dnormed), own), part(out(dx), own), gradients);
    });
    return dx;
  }

 private:
  struct sequence {
    sequence(shape const& s, parameters const& of, ballast::tokens rows, std::size_t first_row)
        : weights(s, of),
          length{rows},
          first(first_row * s.width),
          count(static_cast<std::size_t>(rows) * s.width),
          q(static_cast<std::size_t>(rows) * s.query_width()),
          k(static_cast<std::size_t>(rows) * s.kv_width()),
          v(k.size())
    {}

    block_weights weights;
    std::array<ballast::tokens, 1> length;
    std::size_t first, count;  // of its numbers
    values q, k, v;
  };

  template <class T>
  [[nodiscard]] static std::span<T> part(std::span<T> all, sequence const& own)
  {
    return all.subspan(own.first, own.count);
  }

  void add_up(values& parts) const
  {
    if (tensor_.size() > 1) { parts = sum_over_ranks(tensor_, parts); }
  }

  shape s_;
  parameters const& weights_;
  C& tensor_;
  block_attention attention_;
  std::vector<sequence> sequences_;
  std::size_t rows_ = 0;
};

}  // namespace block
