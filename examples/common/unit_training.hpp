// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formula_profile.hpp"    // defines: dflop_models::profile_of
#include "pipeline_model.hpp"     // defines: pipeline_model::{step, rank_model, model_stages, ...}
#include "pipeline_training.hpp"  // defines: pipeline_model::{trained, finish_step}

#include <ballast/comm/communicator.hpp>
#include <ballast/core.hpp>
#include <ballast/cost.hpp>
#include <ballast/parallelism.hpp>
#include <ballast/pipeline.hpp>
#include <ballast/route.hpp>
#include <ballast/runtime.hpp>
#include <ballast/topology.hpp>

#include <cstdio>
#include <string_view>

/// A job that is small enough for eight ranks, on the units that a search found for it: ranks
/// compute a small model's gradients, and sleep for the times of a large one.
namespace unit_training {

using namespace ballast;

inline constexpr std::uint32_t ranks = 8;
inline constexpr tokens tokens_of_row = 128;  // of the large LLM, for a row of the small one

/// Some layers of a large model, by formulas, at degrees of tensor parallelism up to one.
inline module_profile first_layers(char const* name, transformer_shape shape, std::uint32_t layers,
                                   tokens item, std::uint32_t most_tp)
{
  shape.layers = layers;
  shape.vocabulary = 0;
  auto profile = dflop_models::profile_of(name, shape, item);
  std::erase_if(profile.degrees, [&](profiled_degree const& each) { return each.tp > most_tp; });
  return profile;
}

/// A step of units as it is planned: microbatches are numbered by their positions, and times of
/// each group of replicas have a row for each position, in picoseconds.
struct planned_step {
  pipeline_plan samples;
  std::vector<pipeline_times> times;
  time_units makespan = 0;
};

class unit_job {
 public:
  /// Encoder, LLM and maybe a generator, and samples for so many steps; GPUs have so much memory.
  unit_job(std::vector<module_profile> modules, std::uint32_t batch, std::size_t steps,
           std::uint64_t memory)
      : modules_(std::move(modules))
  {
    random_source random(13);
    for (std::size_t left = steps * batch; left > 0; --left) {
      auto const images = static_cast<tokens>(random.below(4));
      auto const rows =
          images * pipeline_model::image_rows + 1 + static_cast<tokens>(random.below(6));
      sizes_.insert(sizes_.end(), {images, rows * tokens_of_row});
      if (modules_.size() == 2) { continue; }
      sizes_.push_back(
          std::min(static_cast<tokens>(random.below(3)), rows / pipeline_model::image_rows));
    }
    problem.modules = modules_;
    problem.sizes = sizes_;
    problem.global_batch = batch;
    problem.kinds[0].gpus = ranks;
    problem.kinds[0].memory_bytes = memory;
    problem.kinds[0].speed = {1, 4};  // of the host, which has few cores for all ranks
  }
  unit_job(unit_job const&) = delete;
  unit_job& operator=(unit_job const&) = delete;

  [[nodiscard]] std::size_t steps() const
  {
    return sizes_.size() / modules_.size() / problem.global_batch;
  }
  /// Those of a step, the steps in turn.
  [[nodiscard]] std::span<tokens const> sizes_of(std::size_t number) const
  {
    std::size_t const count = problem.global_batch * modules_.size();
    return std::span(sizes_).subspan(number % steps() * count, count);
  }
  [[nodiscard]] pipeline_model::step step_of(std::size_t number) const
  {
    pipeline_model::step step;
    step.number = number;
    auto const own = sizes_of(number);
    for (std::size_t at = 0; at < own.size(); at += modules_.size()) {
      step.images.push_back(own[at]);
      step.text.push_back(own[at + 1] / tokens_of_row - pipeline_model::image_rows * own[at]);
      step.generated.push_back(modules_.size() == 2 ? 0 : own[at + 2]);
    }
    return step;
  }

  /// The blocks and stages of the small model: a block for each layer.
  [[nodiscard]] pipeline_model::model_stages stages() const
  {
    pipeline_model::model_stages all;
    for (std::size_t module = 0; module < modules_.size(); ++module) {
      all.layers.push_back(modules_[module].layers);
      all.pp.push_back(layout.modules[module].pp);
    }
    return all;
  }
  [[nodiscard]] process_grid grid() const
  {
    std::vector<unit_sizes> all;
    for (module_layout const& each : layout.modules) { all.push_back({each.dp, each.pp, each.tp}); }
    return process_grid::make(all).value();
  }
  [[nodiscard]] pipeline_setup setup(unit_strategy strategy) const
  {
    joined_modules joined{.encoders = {{layout.modules[0].pp}}, .llm = {layout.modules[1].pp}};
    if (modules_.size() == 3) { joined.generators = {{layout.modules[2].pp}}; }
    auto const graph = joined_stages(joined).value();
    return {grid(),
            compiled_schedule::make(graph, one_forward_one_backward{}, layout.microbatches).value(),
            std::vector(graph.links().size(), pipeline_model::shape.width * sizeof(double)),
            strategy};
  }
  [[nodiscard]] std::vector<microbatch_id> in_order() const
  {
    std::vector<microbatch_id> all;
    for (std::uint32_t at = 0; at < layout.microbatches; ++at) { all.push_back(microbatch_id{at}); }
    return all;
  }

  /// What goes over each link for a sample of a step: what pipeline_plan::fill takes.
  [[nodiscard]] auto rows_of(pipeline_setup const& setup, pipeline_model::step const& step) const
  {
    return [cut = stages(), &setup, &step](std::size_t sample, std::size_t link) {
      return cut.rows(step, sample, setup.schedule.stages().links()[link]);
    };
  }
  /// What the samples of a step take on the stages of each group of replicas, which are those of
  /// layout_pipeline, in picoseconds.
  [[nodiscard]] std::vector<pipeline_times> times_of(pipeline_plan const& plan,
                                                     std::size_t number) const
  {
    layout_pipeline const pipeline(problem, layout);
    std::vector<pipeline_times> all;
    for (std::uint32_t group = 0; group < pipeline.groups(); ++group) {
      all.push_back(pipeline.times_of(
          sizes_of(number), [&](std::size_t module, std::size_t replica, std::size_t microbatch) {
            replica += group * layout.modules[module].dp / pipeline.groups();
            std::vector<sample_id> own;
            for (std::size_t sample = 0; sample < plan.microbatch.size(); ++sample) {
              bool const is_here = plan.replica[module][sample] == replica &&
                                   to_index(plan.microbatch[sample]) == microbatch;
              if (is_here) { own.push_back(to_id<sample_id>(sample)); }
            }
            return own;
          }));
    }
    return all;
  }

  /// Of replicas that exchange nothing with each other.
  [[nodiscard]] std::uint32_t groups() const { return layout_pipeline(problem, layout).groups(); }

  /// Gives the microbatches of each group an order of its own.
  template <order_policy Policy>
  void put_in_order(planned_step& planned, Policy const& policy) const
  {
    auto const schedule = layout_pipeline(problem, layout).schedule().value();
    std::uint32_t const of_group = layout.modules[0].dp / groups();
    for (std::size_t group = 0; group < planned.times.size(); ++group) {
      pipeline_times& times = planned.times[group];
      auto const found = order_microbatches(schedule, times, policy).value();
      planned.makespan = std::max(planned.makespan, found.makespan);
      std::vector<microbatch_id> position(found.order.size());
      for (std::uint32_t at = 0; at < position.size(); ++at) {
        position[to_index(found.order[at])] = microbatch_id{at};
      }
      auto& [count, microbatch, rows, replica] = planned.samples;
      for (std::size_t sample = 0; sample < microbatch.size(); ++sample) {
        if (replica[0][sample] / of_group != group) { continue; }
        microbatch[sample] = position[to_index(microbatch[sample])];
      }
      times = pipeline_times(position.size(), times.stages, [&](std::size_t at, std::size_t stage) {
        return times[found.order[at]][stage];
      });
    }
  }

  /// A step whose microbatches take so long on the stages of each group, by their positions.
  [[nodiscard]] time_units simulate(std::span<pipeline_times const> times) const
  {
    auto const schedule = layout_pipeline(problem, layout).schedule().value();
    time_units step = 0;
    for (pipeline_times const& each : times) {
      step = std::max(step, ballast::simulate(schedule, each, in_order()).makespan);
    }
    return step;
  }

  /// What a rank takes for each microbatch, in nanoseconds, where `times` has a row for each of a
  /// group's, in their order, in picoseconds.
  [[nodiscard]] std::vector<stage_time> taken(std::span<pipeline_times const> times,
                                              grid_place const& place) const
  {
    std::size_t stage = 0;
    auto const here = [&](std::size_t module) {
      return layout.modules[module].dp / static_cast<std::uint32_t>(times.size());
    };
    for (std::uint32_t module = 0; module < place.module; ++module) {
      stage += std::size_t{here(module)} * layout.modules[module].pp;
    }
    std::uint32_t const of_group = here(place.module);
    stage += std::size_t{place.data % of_group} * layout.modules[place.module].pp + place.pipeline;
    std::vector<stage_time> all;
    for (microbatch_id const each : in_order()) {
      auto const [forward, backward] = times[place.data / of_group][each][stage];
      all.push_back({forward / 1'000, backward / 1'000});
    }
    return all;
  }

  /// The same steps on one rank, which has each module as a stage.
  template <class C>
  [[nodiscard]] pipeline_model::trained train_alone(C& comm, std::size_t count) const
  {
    std::vector<pipeline_stage> const one_rank(modules_.size());
    std::vector<stage_link> links;
    for (std::size_t stage = 1; stage < modules_.size(); ++stage) {
      links.push_back({to_id<stage_id>(stage - 1), to_id<stage_id>(stage)});
    }
    auto const graph = stage_graph::make(one_rank, links).value();
    pipeline_setup const one{
        process_grid::make({{1, 1, 1}}).value(), compiled_schedule::make(graph, gpipe{}, 1).value(),
        std::vector(links.size(), pipeline_model::shape.width * sizeof(double))};
    auto cut = stages();
    cut.pp.assign(modules_.size(), 1);
    auto runner = pipeline_runner<>::make(one, comm.rank()).value();
    pipeline_model::rank_model model(one, cut, comm.rank(), comm);
    pipeline_model::trained all;
    for (std::size_t number = 0; number < count; ++number) {
      auto const step = step_of(number);
      std::vector<microbatch_id> const together(step.images.size(), microbatch_id{0});
      auto const plan = pipeline_plan{}.fill(one, together, [&](auto sample, auto link) {
        return cut.rows(step, sample, graph.links()[link]);
      });
      or_throw(runner.plan(plan));
      model.begin(step, plan);
      or_throw(runner.run(comm, std::vector{microbatch_id{0}}, model));
      pipeline_model::finish_step(all, comm, comm, one.grid, runner.loss(), model);
    }
    return all;
  }

  layout_problem problem;
  model_layout layout;  ///< of which the units are

 private:
  std::vector<module_profile> modules_;
  std::vector<tokens> sizes_;
};

/// Steps as they were planned, simulated with what they take, and measured.
class measured_steps {
 public:
  void note(time_units planned, time_units simulated, time_units measured)
  {
    for (std::size_t at = 0; time_units const step : {planned, simulated, measured}) {
      taken_[at++].push_back(static_cast<double>(step) * 1e-9);
    }
  }
  /// The medians, in milliseconds.
  void print(std::string_view what)
  {
    if (taken_[0].empty()) { return; }
    for (auto& each : taken_) { std::ranges::sort(each); }
    std::size_t const middle = taken_[0].size() / 2;
    std::printf("%.*s: steps of %.1f ms as planned, %.1f as simulated, %.1f as measured\n",
                static_cast<int>(what.size()), what.data(), taken_[0][middle], taken_[1][middle],
                taken_[2][middle]);
  }

 private:
  std::array<std::vector<double>, 3> taken_;
};

/// Every module's units, as "encoder tp 2 pp 1 dp 2".
inline std::string text_of_units(unit_job const& job)
{
  std::string text;
  for (std::size_t module = 0; module < job.layout.modules.size(); ++module) {
    text += (module == 0 ? "" : ", ") + job.problem.modules[module].name + " " +
            text_of(job.layout.modules[module]);
  }
  return text + ", " + std::to_string(job.layout.microbatches) + " microbatches";
}

inline bool has_tensor_ranks(unit_job const& job)
{
  return std::ranges::any_of(job.layout.modules,
                             [](module_layout const& each) { return each.tp > 1; });
}

/// Whether two profiles have units of their own with tensor ranks, and a third has none of them.
inline bool are_told_apart(unit_job const& one, unit_job const& other, unit_job const& without)
{
  return one.layout.modules != other.layout.modules && has_tensor_ranks(one) &&
         has_tensor_ranks(other) && !has_tensor_ranks(without);
}

/// Trains on a job's units: a rank of a thread or process that no unit has does nothing.
/// train(comm) returns what was trained. Returns whether it is what one rank finds: to the bit
/// where no module has tensor ranks, which add up parts of sums; else to 1e-11 of the largest.
template <class C, class Train>
bool is_one_rank(C& comm, unit_job const& job, std::size_t count, Train const& train)
{
  auto const grid = job.grid();
  bool const has_place = to_index(comm.rank()) < grid.ranks();
  auto own = comm.split(has_place ? 0 : 1).value();
  if (!has_place) { return true; }
  double const apart = pipeline_model::difference(own, grid, [&](auto& group, bool alone) {
    if constexpr (std::is_same_v<decltype(group), C&>) {
      if (!alone) { return train(group); }
    }
    return job.train_alone(group, count);
  });
  return has_tensor_ranks(job) ? apart < 1e-11 : apart == 0;
}

}  // namespace unit_training
