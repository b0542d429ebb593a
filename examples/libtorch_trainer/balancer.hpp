// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ballast_functions.hpp"
#include "job_communicator.hpp"
#include "model.hpp"

#include <ballast/ballast.hpp>
#include <ballast/runtime.hpp>

#include <cstddef>
#include <span>
#include <utility>

namespace trainer {

/// What a sample costs where it is computed: the layers, without embedding and head.
[[nodiscard]] inline ballast::quadratic_cost layer_cost(ballast::transformer_shape shape)
{
  shape.vocabulary = 0;
  return require(ballast::gamma_corrected(require(ballast::forward_flops(shape)), 1.0)).cost;
}

/// What a training loop adds to be balanced: a plan for each step, and the layers run as it says.
class balancer {
 public:
  /// Collective over `ranks`, the GPUs of `bags`.
  balancer(job_communicator& ranks, ballast::bag_layout bags,
           ballast::transformer_shape const& shape)
      : shape_(shape)
  {
    exchange_ = c10::make_intrusive<exchange_plan>(
        require(ranks.split(0)), std::move(bags), layer_cost(shape),
        ballast::step_options<>{.query_heads = shape.heads});
  }

  /// Plans the step for which this rank has read samples of these lengths. Collective.
  ///
  /// Expects     the backward pass of the step before is done.
  void plan(std::span<ballast::tokens const> lengths) { require(exchange_->step.plan(lengths)); }

  /// Runs the layers where the plan says. The result lies as the activations that were read.
  [[nodiscard]] Tensor layers(transformer& model, Tensor const& read, Tensor const& positions) const
  {
    auto const moved = route_to_bags::apply(exchange_, read, positions);
    auto const in_bag = [this](Tensor const& q, Tensor const& k, Tensor const& v) {
      return attend(q, k, v);
    };
    return route_back::apply(exchange_, model.layers(moved[0], moved[1], in_bag));
  }

  /// Work of this rank in the planned step, in cost units.
  [[nodiscard]] double work() const
  {
    auto const& step = exchange_->step;
    auto const load = step.planned().loads[ballast::to_index(step.bag())];
    return static_cast<double>(load) / step.bags()[step.bag()].gpus;
  }

  /// Tokens that this rank has read for another one to compute.
  [[nodiscard]] ballast::tokens tokens_sent() const
  {
    ballast::tokens sum = 0;
    for (ballast::tokens const rows : exchange_->step.to_compute().sent.rows()) { sum += rows; }
    return sum;
  }

 private:
  [[nodiscard]] Tensor attend(Tensor const& q, Tensor const& k, Tensor const& v) const
  {
    auto const& step = exchange_->step;
    Tensor const kv_head = kv_head_of(shape_);
    if (step.heads().gpus() == 1) { return causal_attention(q, k, v, step.lengths(), kv_head); }
    ballast::chunk const own = exchange_->share(shape_.heads);
    Tensor const own_kv_head =
        kv_head.narrow(0, own.first, own.count) - exchange_->share(shape_.kv_heads).first;
    auto const heads = tokens_to_heads::apply(exchange_, q, k, v);
    return heads_to_tokens::apply(
        exchange_, causal_attention(heads[0], heads[1], heads[2], step.lengths(), own_kv_head));
  }

  ballast::transformer_shape shape_;
  exchange_plan_pointer exchange_;
};

}  // namespace trainer
