// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "block_math.hpp"    // defines: block::{values, in, out, linear, rms_norm, silu, ...}
#include "gradient_sum.hpp"  // defines: block::sum_over_ranks

#include <ballast/core.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/runtime/pipeline_runner.hpp>
#include <ballast/runtime/pipeline_setup.hpp>
#include <ballast/topology/process_grid.hpp>

#include <chrono>
#include <map>
#include <thread>

/// A small multimodal model in stages: an encoder of images, an LLM of two stages whose rows are a
/// sample's encoded images and then its text, and, where the schedule has a fourth stage, a
/// generator of a sample's last rows. Each stage is y = x + mlp(norm(x)), row by row; the LLM's
/// last and the generator have the loss |y|^2 / 2.
namespace pipeline_model {

using block::values;

inline constexpr std::size_t width = 8;
inline constexpr std::size_t hidden = 16;
inline constexpr std::size_t stages = 4;
inline constexpr ballast::tokens sequence =
    12;  // rows of a sample in the LLM that a generator follows
inline constexpr ballast::tokens generated = 3;  // of which the generator gets the last

/// The samples of a step: how many rows each has of images, and in the LLM.
struct step {
  std::vector<ballast::tokens> images;
  std::vector<ballast::tokens> lengths;
  std::size_t microbatches = 0;
  std::uint64_t number = 0;

  step(std::size_t count, std::size_t samples_of_each, std::uint64_t step_number)
      : microbatches(count), number(step_number)
  {
    ballast::random_source random(step_number);
    for (std::size_t left = count * samples_of_each; left > 0; --left) {
      bool const has_many = random.below(3) == 0;
      images.push_back(static_cast<ballast::tokens>(random.below(has_many ? 10 : 3)));
    }
    lengths.assign(images.size(), sequence);
  }

  [[nodiscard]] ballast::tokens rows(std::size_t sample, std::size_t link) const
  {
    return link == 0 ? images[sample] : link == 1 ? lengths[sample] : generated;
  }

  /// Samples one after the other in the microbatches, and in turn on the replicas of each module.
  [[nodiscard]] ballast::pipeline_plan plan(ballast::pipeline_setup const& setup) const
  {
    std::vector<ballast::microbatch_id> microbatch;
    for (std::size_t sample = 0; sample < images.size(); ++sample) {
      microbatch.push_back(
          ballast::to_id<ballast::microbatch_id>(sample * microbatches / images.size()));
    }
    return ballast::pipeline_plan{}.fill(
        setup, microbatch,
        [this](std::size_t sample, std::size_t link) { return rows(sample, link); });
  }

  /// Nanoseconds as they are modelled: 1 ms for each row of images, as many for each stage of the
  /// LLM as a mean sample has, and half of that in the generator; backward twice as long. Replicas
  /// wait for the slowest.
  [[nodiscard]] ballast::pipeline_times times(ballast::pipeline_setup const& setup) const
  {
    auto const planned = plan(setup);
    return {microbatches, stages, [&](std::size_t microbatch, std::size_t stage) {
              std::vector<ballast::time_units> of_replica(setup.grid[0].data, 0);
              for (std::size_t sample = 0; sample < images.size(); ++sample) {
                if (to_index(planned.microbatch[sample]) == microbatch) {
                  of_replica[planned.replica[0][sample]] += 1'000'000 * images[sample];
                }
              }
              ballast::time_units const language = 5'000'000;
              ballast::time_units const forward = stage == 0  ? std::ranges::max(of_replica)
                                                  : stage < 3 ? language
                                                              : language / 2;
              return ballast::stage_time{forward, 2 * forward};
            }};
  }
};

/// What a rank computes; `Tensor` is the communicator of the ranks that share a stage with it. Each
/// has a part of the hidden units.
template <class Tensor>
class rank_model {
 public:
  rank_model(ballast::process_grid const& grid, ballast::rank_id rank, Tensor& tensor)
      : place_(grid.place(rank)),
        tensor_(tensor),
        units_(ballast::chunk_of(hidden, grid[place_.module].tensor, place_.tensor))
  {
    for (std::size_t stage = 0; stage < stages; ++stage) {
      ballast::random_source random(stage + 77);
      for (auto* const weights : {&up_[stage], &down_[stage]}) {
        for (double& each : *weights) {
          each = static_cast<double>(random.between(-500, 500)) / 1e3;
        }
      }
    }
  }

  /// The samples of the next step, and what its tasks are to take beside computing; null: nothing.
  void begin(step const& samples, ballast::pipeline_plan const& plan,
             ballast::pipeline_times const* sleeps = nullptr)
  {
    step_ = &samples;
    plan_ = &plan;
    sleeps_ = sleeps;
    for (auto& each : gradients) { each.assign(2 * width * hidden, 0); }
  }

  double forward(ballast::forward_call const& call)
  {
    values const x = rows_into(call);
    values const y = compute(to_index(call.stage), x);
    if (!call.outputs.empty()) { leaving(call.stage, y, call.output<double>(), false); }
    if (sleeps_ != nullptr) { sleep((*sleeps_)[call.microbatch][to_index(call.stage)].forward); }
    double loss = 0;
    if (to_index(call.stage) >= 2) {
      for (double const each : y) { loss += each * each / 2; }
    }
    return loss;
  }

  void backward(ballast::backward_call const& call)
  {
    std::size_t const stage = to_index(call.stage);
    values const x = rows_into(call);
    values dy = stage >= 2 ? compute(stage, x) : values(x.size());
    if (!call.output_gradients.empty()) {
      values const came(call.output_gradient<double>().begin(),
                        call.output_gradient<double>().end());
      leaving(call.stage, dy, came, true);
    }
    values const dx = gradient(stage, x, dy);
    if (!call.input_gradients.empty()) { into_gradient(call, dx); }
    if (sleeps_ != nullptr) { sleep((*sleeps_)[call.microbatch][stage].backward); }
  }

  void descend(double rate)
  {
    for (std::size_t stage = 0; stage < stages; ++stage) {
      for (std::size_t i = 0; i < width * hidden; ++i) {
        up_[stage][i] -= rate * gradients[stage][i];
        down_[stage][i] -= rate * gradients[stage][width * hidden + i];
      }
    }
  }

  std::array<values, stages> gradients;  // of each stage's weights; zeros where others have them

 private:
  static void sleep(ballast::time_units time)
  {
    std::this_thread::sleep_for(std::chrono::nanoseconds(time));
  }

  template <class Visit>
  void for_each_sample(ballast::microbatch_id microbatch, Visit const& visit) const
  {
    for (std::size_t sample = 0; sample < step_->images.size(); ++sample) {
      bool const mine = plan_->replica[place_.module][sample] == place_.data;
      if (mine && plan_->microbatch[sample] == microbatch) { visit(sample); }
    }
  }

  void append_drawn(values& x, std::size_t sample, ballast::tokens rows, std::uint64_t kind) const
  {
    ballast::random_source random((step_->number * 1000 + sample) * 2 + kind);
    for (std::size_t left = static_cast<std::size_t>(rows) * width; left > 0; --left) {
      x.push_back(static_cast<double>(random.between(-1000, 1000)) / 1000);
    }
  }

  template <class Call>
  [[nodiscard]] values rows_into(Call const& call) const
  {
    values x;
    auto const came = call.inputs.empty() ? block::in() : call.template input<double>();
    if (to_index(call.stage) >= 2) { return {came.begin(), came.end()}; }
    std::size_t next = 0;
    for_each_sample(call.microbatch, [&](std::size_t sample) {
      ballast::tokens const images = step_->images[sample];
      if (to_index(call.stage) == 0) { return append_drawn(x, sample, images, 0); }
      auto const encoded = came.subspan(next, static_cast<std::size_t>(images) * width);
      x.insert(x.end(), encoded.begin(), encoded.end());
      next += encoded.size();
      append_drawn(x, sample, step_->lengths[sample] - images, 1);
    });
    return x;
  }

  void into_gradient(ballast::backward_call const& call, block::in dx) const
  {
    auto const to = call.input_gradient<double>();
    if (to_index(call.stage) >= 2) { return void(std::ranges::copy(dx, to.begin())); }
    std::size_t next = 0;
    std::size_t row = 0;
    for_each_sample(call.microbatch, [&](std::size_t sample) {
      auto const rows = static_cast<std::size_t>(step_->images[sample]);
      std::ranges::copy(dx.subspan(row * width, rows * width), to.subspan(next).begin());
      next += rows * width;
      row += static_cast<std::size_t>(step_->lengths[sample]);
    });
  }

  /// What leaves of y: all rows, or from the LLM those for the generator. Or adds what comes back.
  template <class Own, class Sent>
  static void leaving(ballast::stage_id stage, Own& y, Sent&& sent, bool adds)
  {
    auto const all = static_cast<std::size_t>(sequence) * width;
    auto const part = static_cast<std::size_t>(generated) * width;
    for (std::size_t i = 0; i < sent.size(); ++i) {
      std::size_t const at = to_index(stage) == 2 ? i / part * all + all - part + i % part : i;
      if constexpr (!std::is_const_v<Own>) {
        if (adds) { y[at] += sent[i]; }
      } else {
        if (!adds) { sent[i] = y[at]; }
      }
    }
  }

  [[nodiscard]] values part_of(block::in weights, bool of_columns) const
  {
    values part;
    auto const first = static_cast<std::size_t>(units_.first);
    auto const count = static_cast<std::size_t>(units_.count);
    if (!of_columns) {
      auto const rows = weights.subspan(first * width, count * width);
      return {rows.begin(), rows.end()};
    }
    for (std::size_t i = 0; i < width; ++i) {
      auto const row = weights.subspan(i * hidden + first, count);
      part.insert(part.end(), row.begin(), row.end());
    }
    return part;
  }

  [[nodiscard]] values compute(std::size_t stage, block::in x)
  {
    auto const count = static_cast<std::size_t>(units_.count);
    std::size_t const rows = x.size() / width;
    values normed(x.size()), u(rows * count), a(u.size()), y(x.size());
    block::rms_norm(x, values(width, 1.0), normed);
    block::linear(normed, part_of(up_[stage], true), width, count, u);
    block::silu(u, a);
    block::linear(a, part_of(down_[stage], false), count, width, y);
    if (tensor_.size() > 1) { y = block::sum_over_ranks(tensor_, y); }
    for (std::size_t i = 0; i < y.size(); ++i) { y[i] += x[i]; }
    return y;
  }

  /// Adds to the gradients of the weights; returns this rank's part of that of x.
  [[nodiscard]] values gradient(std::size_t stage, block::in x, block::in dy)
  {
    auto const first = static_cast<std::size_t>(units_.first);
    auto const count = static_cast<std::size_t>(units_.count);
    values const ones(width, 1.0);
    values normed(x.size()), u(x.size() / width * count), a(u.size());
    values da(u.size()), du(u.size()), dnormed(x.size()), dx(x.size()), dones(width);
    values dup(width * count), ddown(width * count);
    block::rms_norm(x, ones, normed);
    block::linear(normed, part_of(up_[stage], true), width, count, u);
    block::silu(u, a);
    block::linear_gradient(a, part_of(down_[stage], false), count, width, dy, da, ddown);
    block::silu_gradient(u, da, du);
    block::linear_gradient(normed, part_of(up_[stage], true), width, count, du, dnormed, dup);
    if (place_.tensor == 0) { dx.assign(dy.begin(), dy.end()); }
    block::rms_norm_gradient(x, ones, dnormed, dx, dones);
    for (std::size_t i = 0; i < width; ++i) {
      for (std::size_t j = 0; j < count; ++j) {
        gradients[stage][i * hidden + first + j] += dup[i * count + j];
        gradients[stage][width * hidden + (first + j) * width + i] += ddown[j * width + i];
      }
    }
    return dx;
  }

  ballast::grid_place place_;
  Tensor& tensor_;
  ballast::chunk units_;  // of the hidden ones
  step const* step_ = nullptr;
  ballast::pipeline_plan const* plan_ = nullptr;
  ballast::pipeline_times const* sleeps_ = nullptr;
  std::array<values, stages> up_ = filled();
  std::array<values, stages> down_ = filled();

  static std::array<values, stages> filled()
  {
    std::array<values, stages> all;
    all.fill(values(width * hidden));
    return all;
  }
};

}  // namespace pipeline_model
