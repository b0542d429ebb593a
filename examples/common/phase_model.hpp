// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transformer_block.hpp"

#include <ballast/comm/communicator.hpp>
#include <ballast/core.hpp>
#include <ballast/route/ulysses.hpp>

namespace block {

/// One model of a multimodal trainer on one GPU: a transformer block over whole sequences, then the
/// mean of each `rate` rows of a sequence.
template <ballast::communicator C>
class phase_model {
 public:
  /// `alone` is a group of this rank by itself.
  phase_model(std::uint64_t seed, std::size_t rate, C& alone)
      : weights_(random_parameters(shape_, seed)),
        gradients_(shape_),
        layer_(shape_, weights_, alone),
        rate_(rate)
  {}
  phase_model(phase_model const&) = delete;  // the layer borrows the weights
  phase_model& operator=(phase_model const&) = delete;

  [[nodiscard]] values forward(std::span<ballast::tokens const> lengths, in x)
  {
    heads_.assign(lengths, 1, shape_.query_heads);
    values y(x.size());
    or_throw(layer_.forward(heads_, x, y));
    values pooled;
    for_each_output([&](std::size_t first, std::size_t count) {
      for (std::size_t i = 0; i < shape_.width; ++i) {
        double sum = 0;
        for (std::size_t row = first; row < first + count; ++row) {
          sum += y[row * shape_.width + i];
        }
        pooled.push_back(sum / static_cast<double>(count));
      }
    });
    return pooled;
  }

  /// Returns the gradient of x and adds to those of the parameters.
  [[nodiscard]] values backward(in d_pooled)
  {
    values dy;
    std::size_t output = 0;
    for_each_output([&](std::size_t, std::size_t count) {
      for (std::size_t row = 0; row < count; ++row) {
        for (std::size_t i = 0; i < shape_.width; ++i) {
          dy.push_back(d_pooled[output * shape_.width + i] / static_cast<double>(count));
        }
      }
      ++output;
    });
    values dx(dy.size());
    or_throw(layer_.backward(dy, dx, gradients_));
    return dx;
  }

  [[nodiscard]] values gradients() { return gradients_.flat(); }

 private:
  /// Calls visit(first, count) with the rows of each output.
  template <class Visit>
  void for_each_output(Visit const& visit) const
  {
    std::size_t first = 0;
    for (ballast::tokens const length : heads_.lengths()) {
      std::size_t const end = first + static_cast<std::size_t>(length);
      while (first < end) {
        std::size_t const count = std::min(rate_, end - first);
        visit(first, count);
        first += count;
      }
    }
  }

  shape shape_;
  parameters weights_;
  parameters gradients_;
  transformer_block<C> layer_;
  ballast::ulysses_plan heads_;
  std::size_t rate_;
};

}  // namespace block
