// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "block_weights.hpp"      // defines: block::{shape, parameters, random_parameters}
#include "gradient_sum.hpp"       // defines: block::sum_over_ranks
#include "sharded_block.hpp"      // defines: block::sharded_block
#include "transformer_block.hpp"  // defines: block::transformer_block

#include <ballast/comm/communicator.hpp>
#include <ballast/core.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/sharded_packs.hpp>
#include <ballast/route/ulysses.hpp>
#include <ballast/runtime/orchestrated_step.hpp>
#include <ballast/runtime/pipeline_runner.hpp>
#include <ballast/runtime/pipeline_setup.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/device_groups.hpp>
#include <ballast/topology/process_grid.hpp>

#include <functional>
#include <map>
#include <tuple>

/// A small model of videos and texts in stages, each a transformer block on several GPUs: those of
/// the encoder share whole videos in bags, those of a stage of the LLM share sequences, each to a
/// degree of its own. The last stage has the loss |y|^2 / 2.
namespace staged_model {

using namespace ballast;
using block::values;

inline constexpr block::shape shape;
inline constexpr std::size_t stages = 4;

/// Rows that go together from an encoder's GPU to one of the LLM; of texts, those that lie there.
struct moved_rows {
  std::array<rank_id, 2> rank{};
  std::array<tokens, 2> row{};
  tokens count = 0;
  bool encoded = false;
};

/// A microbatch as it was planned, and what this rank has of it before the pipeline runs.
struct microbatch {
  orchestrated_step step;
  values videos;
  values sequences;  // with texts, and room for what the encoder makes
  std::vector<moved_rows> moved = {};

  /// In the order of the LLM's rows.
  void find_moved()
  {
    auto const& [videos_of, texts] = std::tie(step.modalities[0], step.modalities[1]);
    for (std::size_t part = 0; part < videos_of.parts.size(); ++part) {
      auto const id = to_id<sample_id>(part);
      for (piece const& from : videos_of.as_encoded[id]) {
        for (piece const& to : videos_of.as_needed[id]) {
          tokens const first = std::max(from.first, to.first);
          tokens const end = std::min(from.first + from.count, to.first + to.count);
          if (first >= end) { continue; }
          moved.push_back({{from.rank, to.rank},
                           {from.row + first - from.first, to.row + first - to.first},
                           end - first,
                           true});
        }
      }
    }
    for (piece const& to : texts.as_needed.pieces()) {
      moved.push_back({{rank_id{0}, to.rank}, {0, to.row}, to.count});
    }
    std::ranges::sort(moved, {},
                      [](auto const& each) { return std::pair(each.rank[1], each.row[1]); });
  }
};

/// What the pipeline moves: from the encoder what it has made, from stage to stage all rows.
inline pipeline_plan plan_of(pipeline_setup const& setup, std::span<microbatch const> all)
{
  std::vector<microbatch_id> of_rows;
  std::vector<moved_rows> rows;
  for (std::size_t number = 0; number < all.size(); ++number) {
    rows.insert(rows.end(), all[number].moved.begin(), all[number].moved.end());
    of_rows.resize(rows.size(), to_id<microbatch_id>(number));
  }
  auto const links = setup.schedule.stages().links();
  return pipeline_plan{}.fill(
      setup, of_rows,
      [&](std::size_t each, std::size_t link) {
        return links[link].from == stage_id{0} && !rows[each].encoded ? 0 : rows[each].count;
      },
      [&](std::size_t each, std::size_t module) {
        return setup.grid.place(rows[each].rank[module]).data;
      });
}

/// What a rank computes. `stage` has the ranks of its stage, `bag` those of its bag.
template <point_to_point C>
class rank_model {
 public:
  rank_model(C& comm, bag_layout const& bags, device_groups const& groups, std::uint32_t gpu,
             C& stage, C& bag)
      : rank_(comm.rank()), bags_(bags), groups_(groups), gpu_{gpu}, stage_(stage), bag_(bag)
  {
    for (std::size_t each = 0; each < weights_.size(); ++each) {
      weights_[each] = block::random_parameters(shape, each + 1);
    }
  }

  void begin(std::span<microbatch const> data)
  {
    data_ = data;
    for (values& each : gradients) { each.assign(block::parameters(shape).flat().size(), 0); }
  }

  double forward(forward_call const& call)
  {
    auto const number = to_index(call.stage);
    microbatch const& now = data_[to_index(call.microbatch)];
    auto& [encoder, packs, layer, y] = held_[{number, to_index(call.microbatch)}];
    if (number == 0) {
      encoder.emplace(shape, weights_[0], bag_);
      auto const& planned = now.step.modalities[0].planned;
      bag_id const own = bags_.bag_of(gpu_);
      ulysses_plan heads;
      heads.assign(planned.lengths, planned.samples[own], bags_[own].gpus, shape.query_heads);
      y.resize(now.videos.size());
      or_throw(encoder->forward(heads, now.videos, y));
      auto const leaves = call.output<double>();
      for_each_row(now, 0, [&](std::size_t row, std::size_t at) { leaves[at] = y[row]; });
      return 0;
    }
    auto const came = call.input<double>();
    values x = number == 1 ? now.sequences : values(came.begin(), came.end());
    if (number == 1) {
      for_each_row(now, 1, [&](std::size_t row, std::size_t at) { x[row] = came[at]; });
    }
    packs.assign(now.step.sharded, groups_, gpu_, shape.query_heads, shape.kv_heads);
    layer.emplace(shape, weights_[number], stage_, packs);
    y.resize(x.size());
    or_throw(layer->forward(x, y));
    if (!call.outputs.empty()) { return std::ranges::copy(y, call.output<double>().begin()), 0; }
    double loss = 0;
    for (double const each : y) { loss += each * each / 2; }
    return loss;
  }

  void backward(backward_call const& call)
  {
    auto const number = to_index(call.stage);
    microbatch const& now = data_[to_index(call.microbatch)];
    auto& [encoder, packs, layer, y] = held_[{number, to_index(call.microbatch)}];
    block::parameters own(shape);
    values dy(y.size()), dx(y.size());
    auto const came = call.output_gradients.empty() ? block::in(y) : call.output_gradient<double>();
    if (number == 0) {
      for_each_row(now, 0, [&](std::size_t row, std::size_t at) { dy[row] = came[at]; });
      or_throw(encoder->backward(dy, dx, own));
    } else {
      or_throw(layer->backward(came, dx, own));
      auto const leaves = call.input_gradient<double>();
      if (number > 1) { std::ranges::copy(dx, leaves.begin()); }
      if (number == 1) {
        for_each_row(now, 1, [&](std::size_t row, std::size_t at) { leaves[at] = dx[row]; });
      }
    }
    std::ranges::transform(gradients[number], own.flat(), gradients[number].begin(), std::plus{});
    held_.erase({number, to_index(call.microbatch)});
  }

  /// Adds up what replicas have; the loss is as the runner has it.
  double add_replicas(C&, C& replicas, double loss)
  {
    for (values& each : gradients) { each = block::sum_over_ranks(replicas, each); }
    return loss;
  }
  [[nodiscard]] std::vector<stage_gradient<double>> parts()
  {
    std::vector<stage_gradient<double>> all;
    for (std::size_t stage = 0; stage < stages; ++stage) {
      all.push_back({to_id<stage_id>(stage), gradients[stage]});
    }
    return all;
  }
  [[nodiscard]] std::vector<values> whole_gradients() const
  {
    return {gradients.begin(), gradients.end()};
  }

  void descend(double rate)
  {
    for (std::size_t each = 0; each < weights_.size(); ++each) {
      weights_[each].add(-rate, gradients[each]);
    }
  }

  std::array<values, stages> gradients;  // of each stage; zeros of others

 private:
  /// What a stage keeps of a microbatch until its backward.
  struct kept {
    std::optional<block::transformer_block<C>> encoder;
    sharded_packs packs;
    std::optional<block::sharded_block<C>> layer;
    values y;
  };

  /// visit(of this rank's array, on the link) for each number that goes from the encoder (side 0)
  /// to the LLM (side 1) here.
  template <class Visit>
  void for_each_row(microbatch const& now, std::size_t side, Visit const& visit) const
  {
    std::size_t at = 0;
    for (moved_rows const& each : now.moved) {
      if (!each.encoded || each.rank[side] != rank_) { continue; }
      auto const first = static_cast<std::size_t>(each.row[side]) * shape.width;
      auto const end = first + static_cast<std::size_t>(each.count) * shape.width;
      for (std::size_t row = first; row < end; ++row) { visit(row, at++); }
    }
  }

  rank_id rank_;
  bag_layout const& bags_;
  device_groups const& groups_;
  rank_id gpu_;  // of the module's
  C& stage_;
  C& bag_;
  std::span<microbatch const> data_;
  std::array<block::parameters, stages> weights_{block::parameters(shape), block::parameters(shape),
                                                 block::parameters(shape),
                                                 block::parameters(shape)};
  std::map<std::pair<std::size_t, std::size_t>, kept> held_;
};

}  // namespace staged_model
