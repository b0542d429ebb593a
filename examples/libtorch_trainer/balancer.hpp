// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_EXAMPLES_LIBTORCH_TRAINER_BALANCER_HPP
#define BALLAST_EXAMPLES_LIBTORCH_TRAINER_BALANCER_HPP

#include "ballast_functions.hpp"
#include "model.hpp"

#include <ballast/partition.hpp>

#include <mpi.h>

#include <cstddef>
#include <cstdint>
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
  /// Collective over `ranks`, the GPUs of `bags`. No rank reads more than `capacity` samples a
  /// step.
  balancer(MPI_Comm ranks, ballast::bag_layout bags, ballast::transformer_shape const& shape,
           std::size_t capacity)
      : bags_(std::move(bags)), cost_(layer_cost(shape)), shape_(shape), capacity_(capacity)
  {
    auto world = require(ballast::mpi_communicator::over(ranks));
    bag_ = bags_.bag_of(world.rank());
    auto own_bag = require(world.split(static_cast<std::uint32_t>(bag_)));
    exchange_ = c10::make_intrusive<exchange_plan>(std::move(world), std::move(own_bag));
  }

  /// Plans the step for which this rank has read samples of these lengths. Collective.
  ///
  /// Expects     the backward pass of the step before is done.
  void plan(std::span<ballast::tokens const> lengths)
  {
    exchange_plan& exchange = *exchange_;
    // [libtorch_plan]
    require(ballast::gather_samples_into(all_, exchange.world, lengths, capacity_));
    require(ballast::partition_into(plan_, memory_, all_.samples, bags_, ballast::greedy_knapsack{},
                                    cost_));
    require(ballast::agree(exchange.world, plan_.digest(), "the plan"));
    read_.assign_whole(all_.samples, all_.source, bags_.gpus());
    require(computed_.assign_chunks(all_.samples, plan_, bags_));
    ballast::plan_route_into(exchange.route, read_, computed_, exchange.world.rank());
    exchange.heads.assign(all_.samples, plan_.samples[bag_], bags_[bag_].gpus, shape_.heads);
    // [libtorch_plan]
  }

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
    return static_cast<double>(plan_.loads[ballast::to_index(bag_)]) / bags_[bag_].gpus;
  }

  /// Tokens that this rank has read for another one to compute.
  [[nodiscard]] ballast::tokens tokens_sent() const
  {
    ballast::tokens sum = 0;
    for (ballast::tokens const rows : exchange_->route.sent.rows()) { sum += rows; }
    return sum;
  }

 private:
  [[nodiscard]] Tensor attend(Tensor const& q, Tensor const& k, Tensor const& v) const
  {
    auto const lengths = exchange_->heads.lengths();
    Tensor const kv_head = kv_head_of(shape_);
    if (exchange_->heads.gpus() == 1) { return causal_attention(q, k, v, lengths, kv_head); }
    ballast::chunk const own = exchange_->share(shape_.heads);
    Tensor const own_kv_head =
        kv_head.narrow(0, own.first, own.count) - exchange_->share(shape_.kv_heads).first;
    auto const heads = tokens_to_heads::apply(exchange_, q, k, v);
    return heads_to_tokens::apply(
        exchange_, causal_attention(heads[0], heads[1], heads[2], lengths, own_kv_head));
  }

  ballast::bag_layout bags_;
  ballast::quadratic_cost cost_;
  ballast::transformer_shape shape_;
  std::size_t capacity_;
  ballast::bag_id bag_{};  // of this rank
  exchange_plan_pointer exchange_;

  // Kept from step to step: planning one no larger than those before allocates nothing.
  ballast::gathered_samples<ballast::tokens> all_;
  ballast::partition_plan plan_;
  ballast::workspace memory_;
  ballast::placement read_;
  ballast::placement computed_;
};

}  // namespace trainer

#endif  // BALLAST_EXAMPLES_LIBTORCH_TRAINER_BALANCER_HPP
