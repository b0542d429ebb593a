// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "adaptive_stream.hpp"
#include "block_math.hpp"
#include "block_weights.hpp"
#include "ulysses_attention.hpp"

#include <ballast/comm/communicator.hpp>
#include <ballast/core.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/ulysses.hpp>

namespace block {

/// Of each row of a rank: its sequence among those of the rank's bag, and its stream.
struct token_rows {
  std::vector<std::size_t> sequence;
  std::vector<std::size_t> stream;  ///< 0: text, which a sequence begins with; 1: a picture
};

/// text_of(sample) is how many tokens of text it begins with.
template <class TextOf>
token_rows token_rows_of(ballast::placement const& where, ballast::rank_id rank,
                         std::span<ballast::sample_id const> of_bag, TextOf const& text_of)
{
  token_rows rows;
  for (std::size_t sequence = 0; sequence < of_bag.size(); ++sequence) {
    for (ballast::piece const& each : where[of_bag[sequence]]) {
      if (each.rank != rank) { continue; }
      for (ballast::tokens token = each.first; token < each.first + each.count; ++token) {
        rows.sequence.push_back(sequence);
        rows.stream.push_back(token < text_of(of_bag[sequence]) ? 0 : 1);
      }
    }
  }
  return rows;
}

/// A block of a diffusion transformer, in the manner of FLUX: all tokens of a sequence attend to
/// each other, and a condition of the sequence (its timestep and text) shifts, scales and gates
/// what the block does to them. Text and picture have weights of their own, or the same ones.
///
/// Call forward() and then backward(); both are collective in the bag.
template <ballast::communicator C>
class adaptive_block {
 public:
  /// Borrows the weights.
  adaptive_block(shape const& s, block_parameters const& weights, C& bag)
      : s_(s), attention_(s, bag, attends::to_all)
  {
    mlp const where = weights.size() == 1 ? mlp::beside_attention : mlp::behind_attention;
    for (stream_parameters const& each : weights) { streams_.emplace_back(s, where, each); }
  }

  ballast::result<void> forward(ballast::ulysses_plan const& plan, token_rows const& rows, in x,
                                in conditions, out y)
  {
    rows_.assign(streams_.size(), {});
    for (std::size_t row = 0; row < rows.stream.size(); ++row) {
      rows_[streams_.size() == 1 ? 0 : rows.stream[row]].push_back(row);
    }
    values q(rows.stream.size() * s_.query_width()), k(rows.stream.size() * s_.kv_width());
    values v(k.size()), o(q.size());
    for (std::size_t stream = 0; stream < streams_.size(); ++stream) {
      values own_q(rows_[stream].size() * s_.query_width());
      values own_k(rows_[stream].size() * s_.kv_width()), own_v(own_k.size());
      std::vector<std::size_t> sequences;
      for (std::size_t const row : rows_[stream]) { sequences.push_back(rows.sequence[row]); }
      streams_[stream].enter(own(stream, x), sequences, conditions, own_q, own_k, own_v);
      put(stream, own_q, q);
      put(stream, own_k, k);
      put(stream, own_v, v);
    }
    if (auto attended = attention_.forward(plan, q, k, v, o); !attended) { return attended; }
    for (std::size_t stream = 0; stream < streams_.size(); ++stream) {
      values own_y(rows_[stream].size() * s_.width);
      streams_[stream].leave(own(stream, o), own_y);
      put(stream, own_y, y);
    }
    return {};
  }

  /// Writes the gradient of x, and adds to those of the conditions and of the parameters.
  ballast::result<void> backward(in dy, out dx, out dconditions, block_parameters& gradients)
  {
    std::size_t const rows = dy.size() / s_.width;
    values do_(rows * s_.query_width()), dq(do_.size()), dk(rows * s_.kv_width()), dv(dk.size());
    for (std::size_t stream = 0; stream < streams_.size(); ++stream) {
      values own_do(rows_[stream].size() * s_.query_width());
      streams_[stream].leave_gradient(own(stream, dy), own_do, gradients[stream]);
      put(stream, own_do, do_);
    }
    if (auto attended = attention_.backward(do_, dq, dk, dv); !attended) { return attended; }
    for (std::size_t stream = 0; stream < streams_.size(); ++stream) {
      values own_dx(rows_[stream].size() * s_.width);
      streams_[stream].enter_gradient(own(stream, dq), own(stream, dk), own(stream, dv), own_dx,
                                      dconditions, gradients[stream]);
      put(stream, own_dx, dx);
    }
    return {};
  }

  /// What is kept from the forward pass for the backward pass, in numbers.
  [[nodiscard]] std::size_t kept() const
  {
    std::size_t numbers = attention_.kept();
    for (adaptive_stream const& each : streams_) { numbers += each.kept(); }
    return numbers;
  }

 private:
  /// The rows of a stream, of any width, out of those of all streams.
  [[nodiscard]] values own(std::size_t stream, in all) const
  {
    values some;
    std::size_t const width = width_of(all);
    for (std::size_t const row : rows_[stream]) {
      auto const from = all.subspan(row * width, width);
      some.insert(some.end(), from.begin(), from.end());
    }
    return some;
  }

  /// And back to where they were.
  void put(std::size_t stream, in some, out all) const
  {
    std::size_t const width = width_of(all);
    for (std::size_t i = 0; i < rows_[stream].size(); ++i) {
      std::ranges::copy(some.subspan(i * width, width),
                        all.subspan(rows_[stream][i] * width).begin());
    }
  }

  [[nodiscard]] std::size_t width_of(in all) const
  {
    std::size_t rows = 0;
    for (auto const& each : rows_) { rows += each.size(); }
    return rows == 0 ? 0 : all.size() / rows;
  }

  shape s_;
  std::vector<adaptive_stream> streams_;
  ulysses_attention<C> attention_;
  std::vector<std::vector<std::size_t>> rows_;  // of each stream
};

/// What the forward pass keeps for the backward pass. With the inputs of blocks alone, which is
/// activation checkpointing, each block is computed again before its backward pass.
enum class keep { inputs, everything };

/// Blocks one behind the other. Call forward() and then backward(); both are collective in the bag.
template <ballast::communicator C>
class adaptive_blocks {
 public:
  /// Borrows the weights and the plan.
  adaptive_blocks(shape const& s, std::vector<block_parameters> const& weights, C& bag, keep what,
                  ballast::ulysses_plan const& plan, token_rows rows)
      : s_(s), weights_(weights), bag_(bag), keep_(what), plan_(plan), rows_(std::move(rows))
  {}

  ballast::result<void> forward(in x, in conditions, out y)
  {
    conditions_.assign(conditions.begin(), conditions.end());
    std::ranges::copy(x, y.begin());
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      inputs_.emplace_back(y.begin(), y.end());
      if (auto done = compute(i, y); !done) { return done; }
      if (keep_ == keep::inputs) {
        blocks_.pop_back();
      } else {
        inputs_.pop_back();  // the block has its own copy
      }
    }
    return {};
  }

  /// Writes the gradient of x, and adds to those of the conditions and of the parameters.
  ballast::result<void> backward(in dy, out dx, out dconditions,
                                 std::vector<block_parameters>& gradients)
  {
    values arriving(dy.begin(), dy.end()), y(dy.size());
    for (std::size_t i = weights_.size(); i-- > 0;) {
      if (keep_ == keep::inputs) {  // the forward pass again, with its exchanges
        if (auto done = compute(i, y); !done) { return done; }
        inputs_.pop_back();
      }
      auto const done = blocks_.back().backward(arriving, dx, dconditions, gradients[i]);
      if (!done) { return done; }
      blocks_.pop_back();
      arriving.assign(dx.begin(), dx.end());
    }
    return {};
  }

  /// How many numbers are kept from the forward pass for the backward pass.
  [[nodiscard]] std::size_t kept() const
  {
    std::size_t numbers = 0;
    for (values const& each : inputs_) { numbers += each.size(); }
    for (adaptive_block<C> const& each : blocks_) { numbers += each.kept(); }
    return numbers;
  }

 private:
  /// The forward pass of block i from the last of the inputs.
  ballast::result<void> compute(std::size_t i, out y)
  {
    return blocks_.emplace_back(s_, weights_[i], bag_)
        .forward(plan_, rows_, inputs_.back(), conditions_, y);
  }

  shape s_;
  std::vector<block_parameters> const& weights_;
  C& bag_;
  keep keep_;
  ballast::ulysses_plan const& plan_;
  token_rows rows_;
  values conditions_;
  std::vector<values> inputs_;
  std::vector<adaptive_block<C>> blocks_;
};

}  // namespace block
