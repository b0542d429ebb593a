// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "block_weights.hpp"      // defines: block::{shape, parameters, random_parameters}
#include "gradient_sum.hpp"       // defines: block::sum_over_ranks
#include "transformer_block.hpp"  // defines: block::transformer_block

#include <ballast/comm/communicator.hpp>
#include <ballast/core.hpp>
#include <ballast/route/ulysses.hpp>
#include <ballast/runtime/data/data_setup.hpp>
#include <ballast/runtime/pipeline_runner.hpp>
#include <ballast/runtime/pipeline_setup.hpp>

#include <cstring>
#include <functional>
#include <map>
#include <tuple>

/// A small model of videos in three stages, a transformer block each: an encoder over frames, and an
/// LLM of two stages over sequences of a video's frames and then its text. Its loss is how far the
/// last stage's rows of a text are from the text. It computes on the bytes that a rank has fetched.
namespace video_stages {

using namespace ballast;
using block::values;

inline constexpr block::shape shape;
inline constexpr std::size_t row_bytes = shape.width * sizeof(double);
inline constexpr std::size_t stages = 3;
enum module_of : std::uint32_t { frames, text };

/// A frame or a text of a step, who has it, and when: the same on every rank.
struct part_of_step {
  std::size_t entry = 0;
  std::uint64_t first = 0;  // byte of the payload
  tokens length = 0;
  bool is_frame = false;
  rank_id rank{};
  std::size_t microbatch = 0;
};

template <point_to_point C>
class rank_model {
 public:
  /// `alone` is a group of this rank by itself.
  explicit rank_model(C& alone) : alone_(alone)
  {
    for (std::size_t stage = 0; stage < stages; ++stage) {
      weights_[stage] = block::random_parameters(shape, stage + 1);
    }
  }

  /// Takes what this rank has fetched of a step, and says what the pipeline moves: from the encoder
  /// frames, between the stages of the LLM all rows. `encoders` is the first module's size.
  [[nodiscard]] pipeline_plan begin(data_batch const& batch, pipeline_setup const& setup,
                                    rank_id rank)
  {
    data_step const& step = *batch.step;
    rank_ = rank;
    parts_.clear();
    fetched_.clear();
    for (values& each : gradients_) { each.assign(block::parameters(shape).flat().size(), 0); }
    for (auto const& own : batch.own) {
      values& rows = fetched_[{own.entry, own.first}];
      rows.resize(own.bytes.size() / sizeof(double));
      std::memcpy(rows.data(), own.bytes.data(), own.bytes.size());
    }
    std::map<std::pair<std::size_t, std::uint64_t>, data_share> shares;  // the first of each part
    for (data_share const& each : step.shares) {
      shares.emplace(std::pair(each.entry, each.first), each);
    }
    std::vector<microbatch_id> microbatch;
    for (std::size_t entry = 0; entry < step.samples.size(); ++entry) {
      std::uint64_t first = 0;
      for (data_part const& part : step.parts_of(entry)) {
        data_share const& share = shares.at({entry, first});
        parts_.push_back(
            {entry, first, part.length, part.module == frames, share.rank, share.microbatch});
        microbatch.push_back(to_id<microbatch_id>(share.microbatch));
        first += part.bytes;
      }
    }
    return pipeline_plan{}.fill(
        setup, microbatch,
        [&](std::size_t part, std::size_t link) {
          return link == 0 && !parts_[part].is_frame ? 0 : parts_[part].length;
        },
        [&](std::size_t part, std::size_t module) {
          bool const encodes = module == 0 && setup.grid.size() > 1 && parts_[part].is_frame;
          return encodes ? setup.grid.place(parts_[part].rank).data : 0;
        });
  }

  double forward(forward_call const& call)
  {
    std::size_t const stage = to_index(call.stage);
    auto& [layer, y] = held_[{stage, to_index(call.microbatch)}];
    values x;
    std::vector<tokens> lengths;  // of frames, or of sequences
    auto const came = call.inputs.empty() ? block::in() : call.template input<double>();
    std::size_t next = 0;
    std::size_t entry = ~std::size_t{0};
    for_each_part(call.microbatch, stage, [&](part_of_step const& part) {
      bool const is_next = std::exchange(entry, part.entry) != part.entry;
      if (stage == 0 || is_next) { lengths.push_back(0); }
      lengths.back() += part.length;
      bool const is_fetched = stage == 0 || (stage == 1 && !part.is_frame);
      auto const rows = is_fetched ? block::in(fetched_.at({part.entry, part.first}))
                                   : came.subspan(next, count_of(part));
      x.insert(x.end(), rows.begin(), rows.end());
      next += is_fetched ? 0 : rows.size();
    });
    ulysses_plan heads;
    heads.assign(lengths, 1, shape.query_heads);
    layer.emplace(shape, weights_[stage], alone_);
    y.resize(x.size());
    or_throw(layer->forward(heads, x, y));
    if (!call.outputs.empty()) {
      return std::ranges::copy(y, call.template output<double>().begin()), 0;
    }
    double loss = 0;
    for (double& each : subtract_texts(call.microbatch, y)) { loss += each * each / 2; }
    return loss;
  }

  void backward(backward_call const& call)
  {
    std::size_t const stage = to_index(call.stage);
    auto held = held_.extract({stage, to_index(call.microbatch)});
    auto& [layer, y] = held.mapped();
    auto const dy =
        call.output_gradients.empty() ? block::in(y) : call.template output_gradient<double>();
    values dx(y.size());
    block::parameters own(shape);
    or_throw(layer->backward(dy, dx, own));
    std::ranges::transform(gradients_[stage], own.flat(), gradients_[stage].begin(), std::plus{});
    if (call.input_gradients.empty()) { return; }
    auto leaves = call.template input_gradient<double>().begin();
    std::size_t row = 0;
    for_each_part(call.microbatch, stage, [&](part_of_step const& part) {
      auto const rows = block::in(dx).subspan(row, count_of(part));
      row += rows.size();
      if (stage == 2 || part.is_frame) { leaves = std::ranges::copy(rows, leaves).out; }
    });
  }

  /// Adds up the gradients of all ranks, and takes a step: all ranks have all weights.
  values descend(C& comm, double rate)
  {
    values all;
    for (values const& each : gradients_) { all.insert(all.end(), each.begin(), each.end()); }
    all = block::sum_over_ranks(comm, all);
    for (std::size_t stage = 0; stage < stages; ++stage) {
      std::size_t const size = all.size() / stages;
      weights_[stage].add(-rate, block::in(all).subspan(stage * size, size));
    }
    return all;
  }

 private:
  /// What a stage keeps of a microbatch until its backward.
  struct kept {
    std::optional<block::transformer_block<C>> layer;
    values y;
  };

  [[nodiscard]] static std::size_t count_of(part_of_step const& part)
  {
    return static_cast<std::size_t>(part.length) * shape.width;
  }

  /// In the order of the stage's rows: of the encoder the frames of this rank, else all.
  template <class Visit>
  void for_each_part(microbatch_id microbatch, std::size_t stage, Visit const& visit) const
  {
    for (part_of_step const& part : parts_) {
      bool const here = stage > 0 || (part.is_frame && part.rank == rank_);
      if (here && part.microbatch == to_index(microbatch)) { visit(part); }
    }
  }

  /// The rows of texts less their texts; others are zero: the gradient of the loss.
  values& subtract_texts(microbatch_id microbatch, values& y) const
  {
    std::size_t row = 0;
    for_each_part(microbatch, 2, [&](part_of_step const& part) {
      auto const rows = std::span(y).subspan(row, count_of(part));
      row += rows.size();
      if (part.is_frame) { return void(std::ranges::fill(rows, 0)); }
      std::ranges::transform(rows, fetched_.at({part.entry, part.first}), rows.begin(),
                             std::minus{});
    });
    return y;
  }

  C& alone_;
  rank_id rank_{};
  std::vector<part_of_step> parts_;
  std::map<std::pair<std::size_t, std::uint64_t>, values> fetched_;  // by entry and first byte
  std::map<std::pair<std::size_t, std::size_t>, kept> held_;         // by stage and microbatch
  std::array<block::parameters, stages> weights_{block::parameters(shape), block::parameters(shape),
                                                 block::parameters(shape)};
  std::array<values, stages> gradients_;
};

}  // namespace video_stages
