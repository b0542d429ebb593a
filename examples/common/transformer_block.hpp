// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "block_math.hpp"
#include "block_weights.hpp"
#include "ulysses_attention.hpp"

#include <ballast/comm/communicator.hpp>
#include <ballast/core.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/ulysses.hpp>

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
      : s_(s), weights_(s, weights), attention_(s, bag, attends::to_earlier)
  {}

  ballast::result<void> forward(ballast::ulysses_plan const& plan, in x, out y)
  {
    rows_ = x.size() / s_.width;
    values q(rows_ * s_.query_width()), k(rows_ * s_.kv_width()), v(k.size()), o(q.size());
    weights_.enter(x, q, k, v);
    if (auto attended = attention_.forward(plan, q, k, v, o); !attended) { return attended; }
    weights_.leave(o, y);
    return {};
  }

  /// Writes the gradient of x and adds to those of the parameters.
  ballast::result<void> backward(in dy, out dx, parameters& gradients)
  {
    values do_(rows_ * s_.query_width()), dq(do_.size()), dk(rows_ * s_.kv_width()), dv(dk.size());
    weights_.leave_gradient(dy, do_, gradients);
    if (auto attended = attention_.backward(do_, dq, dk, dv); !attended) { return attended; }
    weights_.enter_gradient(dq, dk, dv, dx, gradients);
    return {};
  }

 private:
  shape s_;
  block_weights weights_;
  ulysses_attention<C> attention_;
  std::size_t rows_ = 0;
};

}  // namespace block
