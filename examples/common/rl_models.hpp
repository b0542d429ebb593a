// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gradient_sum.hpp"
#include "phase_model.hpp"
#include "sharded_block.hpp"
#include "sharded_timeline.hpp"

#include <ballast/comm/communicator.hpp>
#include <ballast/core.hpp>
#include <ballast/route/sharded_packs.hpp>
#include <ballast/runtime/orchestrated_step.hpp>

#include <cmath>
#include <map>
#include <tuple>

/// The models of reinforcement learning, small: what a rank computes between the exchanges of rows.
namespace rl_models {

constexpr block::shape policy_shape{.query_heads = 8, .kv_heads = 2, .head_dim = 4};
constexpr block::shape value_shape{.query_heads = 4, .kv_heads = 2, .head_dim = 4};
constexpr std::size_t width = policy_shape.width;

/// The log-probability of each token, from the policy's output.
inline block::values log_probabilities(block::in y)
{
  block::values logs(y.size() / width);
  for (std::size_t at = 0; at < y.size(); ++at) {
    logs[at / width] -= y[at] * y[at] / (2.0 * width);
  }
  return logs;
}

/// All of them on one rank: blocks of one layer. `alone` is a group of this rank by itself.
template <ballast::point_to_point C>
class all_models {
 public:
  all_models(C& comm, C& alone) : vision(1, 4, alone), comm_(comm), reward_(2, 1, alone)
  {
    reference.add(0.1, block::random_parameters(policy_shape, 4).flat());
  }

  block::phase_model<C> vision;  ///< of four patches it makes a token
  block::parameters policy = block::random_parameters(policy_shape, 3);
  block::parameters reference = policy;
  std::vector<timelines::sharded_moment> moments;
  double changed_ratios = 0;  ///< tokens whose ratio was not exactly 1

  /// Log-probabilities of tokens, forward alone.
  [[nodiscard]] block::values logs(block::parameters const& weights,
                                   ballast::sharded_packs const& packs, block::in x)
  {
    block::values y(x.size());
    or_throw(layer(policy_shape, weights, packs).forward(x, y));
    return log_probabilities(y);
  }

  /// For each row, the reward of its answer, and by how much it is above the mean of the answers to
  /// its question, all of which this rank has.
  [[nodiscard]] block::values rewards(ballast::orchestrated_step const& step, std::size_t pass,
                                      block::in x)
  {
    auto const& [lengths, groups] = std::tie(step.passes[pass].own_lengths, step.groups);
    auto const y = reward_.forward(lengths, x);
    auto const own =
        step.passes[pass].planned.samples[ballast::to_id<ballast::bag_id>(to_index(comm_.rank()))];
    std::map<std::int64_t, std::pair<double, double>> sums;  // and counts, of each group
    block::values rewards;
    std::size_t row = 0;
    for (ballast::sample_id const each : own) {
      row += static_cast<std::size_t>(step.lengths[to_index(each)]);
      rewards.push_back(y[(row - 1) * width]);  // what the last token says
      auto& [sum, count] = sums[groups[to_index(each)]];
      sum += rewards.back();
      ++count;
    }
    block::values judged;
    for (std::size_t each = 0; each < own.size(); ++each) {
      auto const [sum, count] = sums[groups[to_index(own[each])]];
      for (ballast::tokens token = 0; token < lengths[each]; ++token) {
        judged.insert(judged.end(), {rewards[each], rewards[each] - sum / count});
      }
    }
    return judged;
  }

  /// The policy, forward and backward: its loss is -advantage x ratio, and how far it went from the
  /// reference. Turns x into its gradient.
  double update_policy(ballast::sharded_packs const& packs, block::out x, block::in old,
                       block::in far, block::in judged)
  {
    auto model = layer(policy_shape, policy, packs);
    block::values y(x.size());
    or_throw(model.forward(x, y));
    double loss = 0;
    auto const now = log_probabilities(y);
    for (std::size_t row = 0; row < now.size(); ++row) {
      double const ratio = std::exp(now[row] - old[row]);
      double const away = now[row] - far[row];
      double const advantage = judged[2 * row + 1];
      changed_ratios += ratio == 1 ? 0 : 1;
      loss += away * away / 20 - advantage * ratio;
      double const slope = away / 10 - advantage * ratio;
      for (std::size_t i = row * width; i < (row + 1) * width; ++i) { y[i] *= -slope / width; }
    }
    or_throw(model.backward(y, x, policy_gradients_));
    return loss;
  }

  /// The value model, forward and backward: its value of a token is the mean of its output.
  double update_value(ballast::sharded_packs const& packs, block::in x, block::in judged)
  {
    auto model = layer(value_shape, value_, packs);
    block::values y(x.size()), dx(x.size());
    or_throw(model.forward(x, y));
    double loss = 0;
    for (std::size_t row = 0; row < y.size() / width; ++row) {
      auto const one = std::span(y).subspan(row * width, width);
      double const off = std::reduce(one.begin(), one.end()) / width - judged[2 * row];
      loss += off * off / 2;
      std::ranges::fill(one, off / width);
    }
    or_throw(model.backward(y, dx, value_gradients_));
    return loss;
  }

  /// Adds up the gradients of all ranks, and takes a step of the policy and the value model.
  [[nodiscard]] block::values learn()
  {
    auto sum = block::sum_over_ranks(comm_, policy_gradients_.flat());
    policy.add(-1e-6, sum);
    auto const of_value = block::sum_over_ranks(comm_, value_gradients_.flat());
    value_.add(-1e-6, of_value);
    auto const of_vision = block::sum_over_ranks(comm_, vision.gradients());
    sum.insert(sum.end(), of_value.begin(), of_value.end());
    sum.insert(sum.end(), of_vision.begin(), of_vision.end());
    policy_gradients_ = block::parameters(policy_shape);
    value_gradients_ = block::parameters(value_shape);
    return sum;
  }

 private:
  using recorder = timelines::sharded_recorder;

  [[nodiscard]] block::sharded_block<C, recorder> layer(block::shape const& shape,
                                                        block::parameters const& weights,
                                                        ballast::sharded_packs const& packs)
  {
    return {shape, weights, comm_, packs, recorder{moments}};
  }

  C& comm_;
  block::phase_model<C> reward_;
  block::parameters value_ = block::random_parameters(value_shape, 5);
  block::parameters policy_gradients_{policy_shape};
  block::parameters value_gradients_{value_shape};
};

}  // namespace rl_models
