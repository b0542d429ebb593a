// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "block_weights.hpp"  // defines: block::{shape, parameters, random_parameters}
#include "gradient_sum.hpp"   // defines: block::sum_over_ranks
#include "tensor_block.hpp"   // defines: block::{tensor_part, tensor_block}

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

/// A small multimodal model of transformer blocks, cut into stages and over tensor ranks as any
/// layout says: an encoder of images, each of which attends to itself, a causal LLM whose rows are a
/// sample's encoded images and then its text, and maybe a generator of images, each of which
/// attends to itself, of a sample's last rows. LLM and generator have the loss |y|^2 / 2.
namespace pipeline_model {

using block::values;

inline constexpr block::shape shape{
    .width = 8, .query_heads = 8, .kv_heads = 4, .head_dim = 2, .hidden = 16};
inline constexpr ballast::tokens image_rows = 2;

/// The samples of a step: how many images each has, how many rows of text, and how many images are
/// generated of it, which have no more rows than it has in the LLM.
struct step {
  std::vector<ballast::tokens> images;
  std::vector<ballast::tokens> text;
  std::vector<ballast::tokens> generated;
  std::uint64_t number = 0;

  /// In a module: 0 is the encoder, 1 the LLM, 2 the generator.
  [[nodiscard]] ballast::tokens rows(std::size_t sample, std::size_t module) const
  {
    return module == 0   ? image_rows * images[sample]
           : module == 1 ? image_rows * images[sample] + text[sample]
                         : image_rows * generated[sample];
  }
};

/// How the model is cut: blocks of each module, and stages of it, which are numbered module after
/// module.
struct model_stages {
  struct part {
    std::size_t module = 0;
    std::size_t first = 0;  ///< of its blocks, among those of all modules
    std::size_t count = 0;
    bool is_first = true;  ///< of its module
    bool is_last = true;
  };

  std::vector<std::uint32_t> layers;
  std::vector<std::uint32_t> pp;

  [[nodiscard]] std::size_t all_layers() const
  {
    return std::accumulate(layers.begin(), layers.end(), std::size_t{0});
  }
  [[nodiscard]] part operator[](std::size_t stage) const
  {
    std::size_t before = 0;
    std::size_t module = 0;
    for (; stage >= pp[module]; ++module) {
      stage -= pp[module];
      before += layers[module];
    }
    auto const own =
        ballast::chunk_of(layers[module], pp[module], static_cast<std::uint32_t>(stage));
    return {module, before + static_cast<std::size_t>(own.first),
            static_cast<std::size_t>(own.count), stage == 0, stage + 1 == pp[module]};
  }
  /// What goes over the links of a schedule of these stages: the rows of the encoder, or of the
  /// module that gets them.
  [[nodiscard]] ballast::tokens rows(step const& of, std::size_t sample,
                                     ballast::stage_link const& link) const
  {
    auto const from = (*this)[to_index(link.from)].module;
    return of.rows(sample, from == 0 ? 0 : (*this)[to_index(link.to)].module);
  }
};

/// What a rank computes; `Tensor` is the communicator of the ranks that share a stage with it.
/// Gradients are kept sample by sample and added up in their order, so that they have the same bits
/// on any layout without tensor ranks.
template <class Tensor>
class rank_model {
 public:
  rank_model(ballast::pipeline_setup const& setup, model_stages cut, ballast::rank_id rank,
             Tensor& tensor)
      : gradients(cut.all_layers()),
        cut_(std::move(cut)),
        place_(setup.grid.place(rank)),
        tensor_(tensor),
        part_(shape, setup.grid[place_.module].tensor, place_.tensor)
  {
    auto const& stages = setup.schedule.stages();
    std::size_t own = place_.pipeline;  // among the pipeline ranks of all modules
    for (std::uint32_t module = 0; module < place_.module; ++module) {
      own += setup.grid[module].pipeline;
    }
    for (std::size_t stage = 0; stage < stages.stages(); ++stage) {
      if (to_index(stages[ballast::to_id<ballast::stage_id>(stage)].rank) != own) { continue; }
      for (std::size_t layer = cut_[stage].first; layer < cut_[stage].first + cut_[stage].count;
           ++layer) {
        weights_.emplace(layer, part_.cut(block::random_parameters(shape, layer + 1)));
      }
    }
  }

  /// The samples of the next step, and what each microbatch is to take beside computing, in
  /// nanoseconds; none: nothing.
  void begin(step const& samples, ballast::pipeline_plan const& plan,
             std::vector<ballast::stage_time> sleeps = {})
  {
    step_ = &samples;
    plan_ = &plan;
    sleeps_ = std::move(sleeps);
    losses_.assign(2 * samples.images.size(), 0);
    by_sample_.clear();
  }

  double forward(ballast::forward_call const& call)
  {
    auto const part = cut_[to_index(call.stage)];
    auto const mine = samples_of(call.microbatch);
    auto& [blocks, sequences, y] = held_[{to_index(call.stage), to_index(call.microbatch)}];
    y = rows_into(call, part, mine);
    for (std::size_t const sample : mine) {
      auto const rows = step_->rows(sample, part.module);
      auto const length = part.module == 1 ? rows : image_rows;
      for (auto left = rows; left > 0; left -= length) { sequences.push_back({sample, length}); }
    }
    std::vector<ballast::tokens> lengths;
    for (auto const& [sample, length] : sequences) { lengths.push_back(length); }
    auto const to = part.module == 1 ? block::attends::to_earlier : block::attends::to_all;
    for (std::size_t layer = part.first; layer < part.first + part.count; ++layer) {
      y = blocks.emplace_back(part_.own(), weights_.at(layer), tensor_, to).forward(lengths, y);
    }
    if (!call.outputs.empty()) {
      auto const leaves = call.template output<double>();
      for_each_leaving(part, mine,
                       [&, &made = y](std::size_t at, std::size_t i) { leaves[at] = made[i]; });
    }
    double loss = 0;
    auto next = y.begin();
    for (std::size_t const sample : mine) {
      if (part.module == 0 || !part.is_last) { continue; }
      double& own = losses_[2 * sample + part.module - 1];
      for (std::size_t left = numbers_of(sample, part.module); left > 0; --left, ++next) {
        own += *next * *next / 2;
      }
      loss += own;
    }
    sleep(call.microbatch, &ballast::stage_time::forward);
    return loss;
  }

  void backward(ballast::backward_call const& call)
  {
    compute_gradients(call, true);
    sleep(call.microbatch, &ballast::stage_time::backward);
  }

  /// Adds up what replicas have, sample after sample, and returns the loss, added up likewise.
  template <class C>
  double add_replicas(C& comm, C& replicas, double /*as the runner has it*/)
  {
    std::size_t const samples = step_->images.size();
    for (auto const& [layer, weights] : weights_) {
      std::size_t const count = block::parameters(part_.own()).flat().size();
      values all(samples * count);
      for (std::size_t sample = 0; sample < samples; ++sample) {
        auto const found = by_sample_.find({layer, sample});
        if (found == by_sample_.end()) { continue; }
        std::ranges::copy(found->second.flat(), std::span(all).subspan(sample * count).begin());
      }
      all = block::sum_over_ranks(replicas, all);  // of one sample only one has any
      gradients[layer].assign(count, 0);
      for (std::size_t at = 0; at < all.size(); ++at) { gradients[layer][at % count] += all[at]; }
    }
    if (place_.tensor > 0) { std::ranges::fill(losses_, 0); }
    double loss = 0;
    for (double const each : block::sum_over_ranks(comm, losses_)) { loss += each; }
    return loss;
  }

  /// The gradients of this rank's layers, in the order of their numbers; the first tensor rank
  /// counts the norms, which all of them have.
  [[nodiscard]] std::vector<ballast::stage_gradient<double>> parts()
  {
    std::vector<ballast::stage_gradient<double>> all;
    for (auto const& [layer, weights] : weights_) {
      auto const number = ballast::to_id<ballast::stage_id>(layer);
      std::size_t next = 0;
      std::span<double> const own = gradients[layer];
      for (auto const& [first, count] : block::tensor_part::norms(part_.own())) {
        all.push_back({number, own.subspan(next, first - next)});
        all.push_back({number, own.subspan(first, count), place_.tensor == 0});
        next = first + count;
      }
      all.push_back({number, own.subspan(next)});
    }
    return all;
  }

  /// Those of whole layers, with zeros where other ranks have them.
  [[nodiscard]] std::vector<values> whole_gradients() const
  {
    std::vector<values> all(gradients.size(), values(block::parameters(shape).flat().size()));
    for (auto const& [layer, weights] : weights_) { all[layer] = part_.spread(gradients[layer]); }
    return all;
  }

  void descend(double rate)
  {
    for (auto& [layer, weights] : weights_) { weights.add(-rate, gradients[layer]); }
  }

  std::vector<values> gradients;  // of each layer; none where others have it

 protected:
  /// The gradients of what came into a stage, and where this is the last use of what it keeps, those
  /// of its weights.
  void compute_gradients(ballast::backward_call const& call, bool is_last)
  {
    auto const part = cut_[to_index(call.stage)];
    auto const mine = samples_of(call.microbatch);
    auto const held = held_.find({to_index(call.stage), to_index(call.microbatch)});
    auto& [blocks, sequences, y] = held->second;
    values dy = part.module > 0 && part.is_last ? y : values(y.size());
    if (!call.output_gradients.empty()) {
      auto const came = call.template output_gradient<double>();
      for_each_leaving(part, mine, [&](std::size_t at, std::size_t i) { dy[i] += came[at]; });
    }
    block::parameters unused(part_.own());
    for (std::size_t layer = part.first + part.count; layer-- > part.first;) {
      auto const gradients_of = [&, &of = sequences](std::size_t at) -> block::parameters& {
        if (!is_last) { return unused; }
        return by_sample_.try_emplace({layer, of[at].first}, part_.own()).first->second;
      };
      dy = blocks[layer - part.first].backward(dy, gradients_of);
    }
    if (!call.input_gradients.empty()) {
      into_gradient(part, mine, dy, call.template input_gradient<double>());
    }
    if (is_last) { held_.erase(held); }
  }

  void sleep(ballast::microbatch_id microbatch,
             ballast::time_units ballast::stage_time::* pass) const
  {
    if (!sleeps_.empty()) { sleep(sleeps_[to_index(microbatch)].*pass); }
  }

  static void sleep(ballast::time_units nanoseconds)
  {
    std::this_thread::sleep_for(std::chrono::nanoseconds(nanoseconds));
  }

 private:
  /// What a stage keeps of a microbatch until its backward.
  struct kept {
    std::vector<block::tensor_block<Tensor>> blocks;
    std::vector<std::pair<std::size_t, ballast::tokens>> sequences;  // sample and length
    values y;
  };

  [[nodiscard]] std::vector<std::size_t> samples_of(ballast::microbatch_id microbatch) const
  {
    std::vector<std::size_t> mine;
    for (std::size_t sample = 0; sample < step_->images.size(); ++sample) {
      if (plan_->replica[place_.module][sample] == place_.data &&
          plan_->microbatch[sample] == microbatch) {
        mine.push_back(sample);
      }
    }
    return mine;
  }

  [[nodiscard]] std::size_t numbers_of(std::size_t sample, std::size_t module) const
  {
    return static_cast<std::size_t>(step_->rows(sample, module)) * shape.width;
  }

  /// visit(on the link, here) for every number that leaves a stage: of the LLM's last stage those
  /// of which images are generated, of others all.
  template <class Visit>
  void for_each_leaving(model_stages::part const& part, std::span<std::size_t const> mine,
                        Visit const& visit) const
  {
    std::size_t at = 0;
    std::size_t end = 0;
    for (std::size_t const sample : mine) {
      std::size_t const all = numbers_of(sample, part.module);
      end += all;
      std::size_t const leaving = part.module == 1 && part.is_last ? numbers_of(sample, 2) : all;
      for (std::size_t left = leaving; left > 0; --left) { visit(at++, end - left); }
    }
  }

  /// What has come into a stage; into the first of encoder and LLM also what is drawn for samples:
  /// images, and text behind the images that have come.
  template <class Call>
  [[nodiscard]] values rows_into(Call const& call, model_stages::part const& part,
                                 std::span<std::size_t const> mine) const
  {
    auto const came = call.inputs.empty() ? block::in() : call.template input<double>();
    if (!part.is_first || part.module == 2) { return {came.begin(), came.end()}; }
    values x;
    std::size_t next = 0;
    for (std::size_t const sample : mine) {
      std::size_t const encoded = part.module == 1 ? numbers_of(sample, 0) : 0;
      auto const rows = came.subspan(next, encoded);
      x.insert(x.end(), rows.begin(), rows.end());
      next += encoded;
      ballast::random_source random((step_->number * 1000 + sample) * 2 + part.module);
      for (std::size_t left = numbers_of(sample, part.module) - encoded; left > 0; --left) {
        x.push_back(static_cast<double>(random.between(-1000, 1000)) / 1000);
      }
    }
    return x;
  }

  /// The gradient of what has come into a stage.
  void into_gradient(model_stages::part const& part, std::span<std::size_t const> mine,
                     block::in dx, block::out to) const
  {
    bool const is_joined = part.module == 1 && part.is_first;
    std::size_t next = 0;
    std::size_t first = 0;
    for (std::size_t const sample : mine) {
      std::size_t const came = numbers_of(sample, is_joined ? 0 : part.module);
      std::ranges::copy(dx.subspan(first, came), to.subspan(next).begin());
      next += came;
      first += numbers_of(sample, part.module);
    }
  }

  model_stages cut_;
  ballast::grid_place place_;
  Tensor& tensor_;
  block::tensor_part part_;
  std::map<std::size_t, block::parameters> weights_;  // of each layer that is here
  std::map<std::pair<std::size_t, std::size_t>, block::parameters> by_sample_;  // gradients
  std::map<std::pair<std::size_t, std::size_t>, kept> held_;  // by stage and microbatch
  std::vector<double> losses_;  // of each sample in the LLM and in the generator
  step const* step_ = nullptr;
  ballast::pipeline_plan const* plan_ = nullptr;
  std::vector<ballast::stage_time> sleeps_;
};

/// The same with backwards in two parts. The second computes all of the backward again, where a
/// large model would keep what the first has computed.
template <class Tensor>
class split_model : public rank_model<Tensor> {
 public:
  using rank_model<Tensor>::rank_model;

  /// What the second part of each microbatch is to take, in nanoseconds.
  void sleep_for_weights(std::vector<ballast::time_units> nanoseconds)
  {
    weights_ = std::move(nanoseconds);
  }

  void backward_inputs(ballast::backward_call const& call)
  {
    this->compute_gradients(call, false);
    this->sleep(call.microbatch, &ballast::stage_time::backward);
  }
  void backward_weights(ballast::backward_call const& call)
  {
    this->compute_gradients(call, true);
    this->sleep(weights_[to_index(call.microbatch)]);
  }

 private:
  std::vector<ballast::time_units> weights_;
};

}  // namespace pipeline_model
