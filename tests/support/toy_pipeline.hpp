// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/pipeline/plan_schedule.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/route/unit_plan.hpp>
#include <ballast/runtime/pipeline_runner.hpp>
#include <ballast/runtime/pipeline_setup.hpp>
#include <ballast/topology/process_grid.hpp>

#include <cmath>
#include <functional>
#include <map>
#include <stdexcept>

/// A model of one weight a stage, small enough that one rank by itself computes a whole pipeline's
/// losses and gradients sample by sample, and made so that every number of every row matters.
namespace toy {

using ballast::microbatch_id;
using ballast::stage_id;
using ballast::to_id;
using ballast::to_index;

/// A pipeline to run: setup, samples, an order, and the stages that share a weight.
struct job {
  ballast::pipeline_setup setup;
  ballast::pipeline_plan plan;
  std::vector<microbatch_id> order;
  std::vector<stage_id> sharing = {};

  [[nodiscard]] bool shares(std::size_t stage) const
  {
    return std::find(sharing.begin(), sharing.end(), to_id<stage_id>(stage)) != sharing.end();
  }
  [[nodiscard]] double weight(std::size_t stage) const
  {
    return 0.5 + 0.125 * static_cast<double>(shares(stage) ? to_index(sharing[0]) : stage);
  }
};

inline double share(std::size_t link, std::size_t at)
{
  return 1.0 / static_cast<double>(2 + link + at % 7);
}
inline double phase(std::size_t link, std::size_t at)
{
  return 0.25 * static_cast<double>(link) + 0.5 * static_cast<double>(at % 11);
}

using rows_in = std::vector<std::span<double const>>;  // of a sample, by link
using rows_out = std::vector<std::span<double>>;

inline double mixed(std::size_t sample, std::size_t stage, rows_in const& in)
{
  double sum = 0.01 * static_cast<double>(sample + 3 * stage + 1);
  for (std::size_t k = 0; k < in.size(); ++k) {
    for (std::size_t at = 0; at < in[k].size(); ++at) { sum += share(k, at) * in[k][at]; }
  }
  return sum;
}

/// Returns the loss of the sample, which has one where nothing follows.
inline double forward(job const& all, std::size_t sample, std::size_t stage, rows_in const& in,
                      rows_out const& out)
{
  double const sum = all.weight(stage) * mixed(sample, stage, in);
  for (std::size_t k = 0; k < out.size(); ++k) {
    for (std::size_t at = 0; at < out[k].size(); ++at) {
      out[k][at] = std::sin(sum + phase(k, at));
    }
  }
  return out.empty() ? sum * sum : 0;
}

/// Returns the gradient of the weight.
inline double backward(job const& all, std::size_t sample, std::size_t stage, rows_in const& in,
                       rows_in const& gradient, rows_out const& into, double part = 1)
{
  double const before = mixed(sample, stage, in);
  double const sum = all.weight(stage) * before;
  double of_sum = gradient.empty() ? 2 * sum : 0;
  for (std::size_t k = 0; k < gradient.size(); ++k) {
    for (std::size_t at = 0; at < gradient[k].size(); ++at) {
      of_sum += gradient[k][at] * std::cos(sum + phase(k, at));
    }
  }
  for (std::size_t k = 0; k < into.size(); ++k) {
    for (std::size_t at = 0; at < into[k].size(); ++at) {
      into[k][at] = part * (of_sum * all.weight(stage) * share(k, at));
    }
  }
  return of_sum * before;
}

/// Gradients by stage and sample: summed in whatever order, they are the model's.
using gradients = std::map<std::pair<std::size_t, std::size_t>, double>;

/// Where the links into and out of a stage are among all.
inline std::vector<std::size_t> links_of(ballast::stage_graph const& stages, stage_id stage,
                                         bool into)
{
  std::vector<std::size_t> found;
  for (std::size_t link = 0; link < stages.links().size(); ++link) {
    if ((into ? stages.links()[link].to : stages.links()[link].from) == stage) {
      found.push_back(link);
    }
  }
  return found;
}

/// One rank by itself.
struct result_of_one_rank {
  gradients found;
  double loss = 0;

  explicit result_of_one_rank(job const& all)
  {
    auto const& stages = all.setup.schedule.stages();
    auto const& plan = all.plan;
    std::size_t const links = stages.links().size();
    std::map<std::pair<std::size_t, std::size_t>, double> losses;  // by sample and stage
    for (std::size_t sample = 0; sample < plan.microbatch.size(); ++sample) {
      std::vector<std::vector<double>> rows(links);
      std::vector<std::vector<double>> back(links);
      for (std::size_t link = 0; link < links; ++link) {
        rows[link].resize(static_cast<std::size_t>(plan.rows[link][sample]) *
                          (all.setup.row_bytes[link] / sizeof(double)));
        back[link].resize(rows[link].size());
      }
      auto const views = [&](auto& arrays, std::vector<std::size_t> const& of, auto& to) {
        for (std::size_t const link : of) { to.push_back(arrays[link]); }
      };
      for (std::size_t s = 0; s < stages.stages(); ++s) {
        rows_in in;
        rows_out out;
        views(rows, links_of(stages, to_id<stage_id>(s), true), in);
        views(rows, links_of(stages, to_id<stage_id>(s), false), out);
        losses[{sample, s}] = forward(all, sample, s, in, out);
      }
      for (std::size_t s = stages.stages(); s-- > 0;) {
        if (!stages[to_id<stage_id>(s)].backward) { continue; }
        rows_in in;
        rows_in gradient;
        rows_out into;
        views(rows, links_of(stages, to_id<stage_id>(s), true), in);
        views(back, links_of(stages, to_id<stage_id>(s), false), gradient);
        for (std::size_t const link : links_of(stages, to_id<stage_id>(s), true)) {
          bool const wanted = stages[stages.links()[link].from].backward;
          into.push_back(wanted ? std::span(back[link]) : std::span<double>());
        }
        found[{s, sample}] = backward(all, sample, s, in, gradient, into);
      }
    }
    // As the runner adds them: microbatch, stage, replica, and the replica's samples in order.
    for (std::size_t b = 0; b < plan.microbatches; ++b) {
      if (std::find(all.order.begin(), all.order.end(), to_id<microbatch_id>(b)) ==
          all.order.end()) {
        continue;
      }
      for (std::size_t s = 0; s < stages.stages(); ++s) {
        auto const module = module_of(all, to_id<stage_id>(s));
        for (std::uint32_t data = 0; data < all.setup.grid[module].data; ++data) {
          double of_replica = 0;
          for (std::size_t sample = 0; sample < plan.microbatch.size(); ++sample) {
            if (to_index(plan.microbatch[sample]) == b &&
                replica_of(plan, module, sample) == data) {
              of_replica += losses[{sample, s}];
            }
          }
          loss += of_replica;
        }
      }
    }
  }

  /// Of the weight that stages share: what a replica has of it, stage after stage.
  [[nodiscard]] double of_shared(job const& all, std::uint32_t data) const
  {
    double sum = 0;
    for (stage_id const stage : all.sharing) {
      double of_stage = 0;
      for (auto const& [where, gradient] : found) {
        bool const here = replica_of(all.plan, module_of(all, stage), where.second) == data;
        if (where.first == to_index(stage) && here) { of_stage += gradient; }
      }
      sum += of_stage;
    }
    return sum;
  }

  static std::uint32_t module_of(job const& all, stage_id stage)
  {
    std::size_t rank = to_index(all.setup.schedule.stages()[stage].rank);
    std::uint32_t module = 0;
    while (rank >= all.setup.grid[module].pipeline) { rank -= all.setup.grid[module++].pipeline; }
    return module;
  }
  static std::uint32_t replica_of(ballast::pipeline_plan const& plan, std::uint32_t module,
                                  std::size_t sample)
  {
    return plan.replica[module].empty() ? 0 : plan.replica[module][sample];
  }
};

/// The stages of one rank.
class stage {
 public:
  stage(job const& all, ballast::rank_id rank) : all_(all), place_(all.setup.grid.place(rank)) {}

  double forward(ballast::forward_call const& call)
  {
    before(call);
    auto const into = links_of(stages(), call.stage, true);
    auto const out = links_of(stages(), call.stage, false);
    double loss = 0;
    std::vector<std::size_t> used(stages().links().size(), 0);
    for (std::size_t const sample : samples(call.microbatch)) {
      rows_in in;
      rows_out made;
      for (std::size_t k = 0; k < into.size(); ++k) {
        in.push_back(cut(call.input<double>(k), into[k], sample, used));
      }
      for (std::size_t k = 0; k < out.size(); ++k) {
        made.push_back(cut(call.output<double>(k), out[k], sample, used));
      }
      loss += toy::forward(all_, sample, to_index(call.stage), in, made);
    }
    return loss;
  }

  void backward(ballast::backward_call const& call)
  {
    before(call);
    auto const into = links_of(stages(), call.stage, true);
    auto const out = links_of(stages(), call.stage, false);
    std::vector<std::size_t> used(stages().links().size(), 0);
    auto used_again = used;
    for (std::size_t const sample : samples(call.microbatch)) {
      rows_in in;
      rows_in gradient;
      rows_out made;
      for (std::size_t k = 0; k < into.size(); ++k) {
        in.push_back(cut(call.input<double>(k), into[k], sample, used));
        bool const wanted = stages()[stages().links()[into[k]].from].backward;
        made.push_back(wanted ? cut(call.input_gradient<double>(k), into[k], sample, used_again)
                              : std::span<double>());
      }
      for (std::size_t k = 0; k < out.size(); ++k) {
        gradient.push_back(cut(call.output_gradient<double>(k), out[k], sample, used));
      }
      bool const has_part = all_.setup.adds_parts();
      double const part = has_part ? 1.0 / all_.setup.grid[place_.module].tensor : 1.0;
      found[{to_index(call.stage), sample}] =
          toy::backward(all_, sample, to_index(call.stage), in, gradient, made, part);
    }
  }

  /// Whether this rank has one of the stages that share a weight.
  [[nodiscard]] bool shares() const
  {
    return std::any_of(all_.sharing.begin(), all_.sharing.end(), [this](stage_id one) {
      auto const rank = ballast::rank_of_stage(all_.setup.grid, stages(), one, 0);
      auto const place = all_.setup.grid.place(rank);
      return place.module == place_.module && place.pipeline == place_.pipeline;
    });
  }
  /// What it has of that weight.
  [[nodiscard]] double of_shared() const
  {
    double sum = 0;
    for (auto const& [where, gradient] : found) {
      if (all_.shares(where.first)) { sum += gradient; }
    }
    return sum;
  }

  gradients found;
  std::size_t calls = 0;
  std::size_t throws_at = static_cast<std::size_t>(-1);  // its call of this number
  std::function<void(std::size_t)> waits;                // before its call of a number

 private:
  template <class Call>
  void before(Call const&)
  {
    if (waits) { waits(calls); }
    if (calls++ == throws_at) { throw std::runtime_error("out of ink"); }
  }
  [[nodiscard]] ballast::stage_graph const& stages() const { return all_.setup.schedule.stages(); }
  [[nodiscard]] std::vector<std::size_t> samples(microbatch_id microbatch) const
  {
    std::vector<std::size_t> all;
    for (std::size_t sample = 0; sample < all_.plan.microbatch.size(); ++sample) {
      if (all_.plan.microbatch[sample] == microbatch &&
          result_of_one_rank::replica_of(all_.plan, place_.module, sample) == place_.data) {
        all.push_back(sample);
      }
    }
    return all;
  }
  template <class T>
  std::span<T> cut(std::span<T> rows, std::size_t link, std::size_t sample,
                   std::vector<std::size_t>& used) const
  {
    std::size_t const size = static_cast<std::size_t>(all_.plan.rows[link][sample]) *
                             (all_.setup.row_bytes[link] / sizeof(double));
    return rows.subspan(std::exchange(used[link], used[link] + size), size);
  }

  job const& all_;
  ballast::grid_place place_;
};

/// A pipeline drawn at random: chains with each schedule, or encoders and generators around an LLM;
/// at most `most_ranks` ranks.
inline job draw(ballast::random_source& random, std::size_t most_ranks)
{
  using namespace ballast;
  auto const below = [&](std::size_t most) { return static_cast<std::size_t>(random.below(most)); };
  std::size_t microbatches = 1 + below(9);
  bool const joined = below(2) == 0;
  bool const uses_tensor = below(3) == 0;
  while (true) {
    std::vector<unit_sizes> sizes;
    result<compiled_schedule> schedule = tl::unexpected(error{});
    if (joined) {
      joined_modules modules;
      auto const add = [&](std::size_t stages) {
        sizes.push_back({static_cast<std::uint32_t>(1 + below(3)),
                         static_cast<std::uint32_t>(stages),
                         uses_tensor ? static_cast<std::uint32_t>(1 + below(2)) : 1U});
        return stages;
      };
      for (std::size_t left = below(3); left > 0; --left) {
        modules.encoders.push_back({add(1 + below(2)), below(2) == 0});
      }
      modules.llm = {add(1 + below(3)), true};
      for (std::size_t left = below(2); left > 0; --left) {
        modules.generators.push_back({add(1 + below(2)), true});
      }
      auto const stages = joined_stages(modules).value();
      schedule = below(3) == 0
                     ? compiled_schedule::make(stages, gpipe{}, microbatches)
                     : compiled_schedule::make(stages, one_forward_one_backward{}, microbatches);
    } else {
      auto const ranks = 1 + below(std::min<std::size_t>(most_ranks, 8));
      sizes.push_back({static_cast<std::uint32_t>(1 + below(2)), static_cast<std::uint32_t>(ranks),
                       uses_tensor ? static_cast<std::uint32_t>(1 + below(2)) : 1U});
      switch (below(3)) {
        case 0:
          schedule = compiled_schedule::make(chain_of_stages(ranks * (1 + below(3)), ranks),
                                             gpipe{}, microbatches);
          break;
        case 1:
          schedule = compiled_schedule::make(chain_of_stages(ranks, ranks),
                                             one_forward_one_backward{}, microbatches);
          break;
        default:
          schedule = compiled_schedule::make(chain_of_stages(ranks * (2 + below(2)), ranks),
                                             interleaved_one_forward_one_backward{}, microbatches);
      }
    }
    if (!schedule) {
      microbatches = 1 + below(9);
      continue;
    }
    auto grid = process_grid::make(sizes).value();
    if (grid.ranks() > most_ranks) { continue; }
    job drawn{{std::move(grid), *std::move(schedule)}, {}, {}};
    std::size_t const links = drawn.setup.schedule.stages().links().size();
    for (std::size_t link = 0; link < links; ++link) {
      drawn.setup.row_bytes.push_back(sizeof(double) * (1 + below(3)));
    }
    drawn.setup.strategy = unit_plan::strategies[below(3)];
    drawn.setup.ahead = below(4);
    std::size_t const planned = microbatches + below(2);  // one may be left out
    std::vector<microbatch_id> of_sample;
    for (std::size_t b = 0; b < planned; ++b) {
      of_sample.insert(of_sample.end(), below(5), to_id<microbatch_id>(b));
      drawn.order.push_back(to_id<microbatch_id>(b));
    }
    auto const rows_of = [&](std::size_t, std::size_t) { return below(4); };
    if (below(4) == 0) {
      drawn.plan.fill(drawn.setup, of_sample, rows_of);
    } else {
      drawn.plan.fill(drawn.setup, of_sample, rows_of, [&](std::size_t, std::size_t module) {
        return below(drawn.setup.grid[static_cast<std::uint32_t>(module)].data);
      });
    }
    drawn.plan.microbatches = planned;
    random.shuffle(std::span(drawn.order));
    drawn.order.resize(microbatches);
    auto const& stages = drawn.setup.schedule.stages();
    stage_id const embedding{static_cast<std::uint32_t>(below(stages.stages()))};
    stage_id const head{static_cast<std::uint32_t>(below(stages.stages()))};
    auto const sizes_of = [&](stage_id stage) {
      return drawn.setup.grid[result_of_one_rank::module_of(drawn, stage)];
    };
    if (embedding < head && stages[embedding].rank != stages[head].rank &&
        stages[embedding].backward && stages[head].backward &&
        sizes_of(embedding).data == sizes_of(head).data &&
        sizes_of(embedding).tensor == sizes_of(head).tensor) {
      drawn.sharing = {embedding, head};
    }
    bool is_local = false;
    for (auto const& link : stages.links()) {
      is_local = is_local || stages[link.from].rank == stages[link.to].rank;
    }
    if (!is_local && below(2) == 0) {
      drawn.setup.tensor = pipeline_setup::tensor_gradients::float64_parts;
    }
    return drawn;
  }
}

/// A chain of stages on as many ranks, whose microbatches have one sample of so many rows.
inline job chain_job(std::size_t stages, std::size_t microbatches, ballast::tokens rows = 3)
{
  auto schedule =
      ballast::compiled_schedule::make(ballast::chain_of_stages(stages, stages),
                                       ballast::one_forward_one_backward{}, microbatches)
          .value();
  auto grid = ballast::process_grid::make({{1, static_cast<std::uint32_t>(stages), 1}}).value();
  job job{{std::move(grid), std::move(schedule)}, {}, {}};
  job.setup.row_bytes.assign(stages - 1, sizeof(double));
  for (std::size_t b = 0; b < microbatches; ++b) {
    job.order.push_back(ballast::to_id<microbatch_id>(b));
  }
  job.plan.fill(job.setup, job.order, [rows](std::size_t, std::size_t) { return rows; });
  std::reverse(job.order.begin(), job.order.end());
  return job;
}

/// A job whose schedule is planned: some stages split their backwards, and ranks keep at most so many
/// bytes.
struct split_job : job {
  ballast::pipeline_memory memory;
  std::vector<std::uint64_t> peak = {};  ///< of each pipeline rank, as the schedule is simulated
};

/// The stages of one rank, whose gradients of weights come from the second part of the backward
/// alone. Counts the bytes that they keep.
class split_stage : public stage {
 public:
  split_stage(split_job const& all, ballast::rank_id rank) : stage(all, rank), split_(all) {}

  double forward(ballast::forward_call const& call)
  {
    kept_ += held(call).held;
    most_kept = std::max(most_kept, kept_);
    if (!stages()[call.stage].backward) { kept_ -= held(call).held; }
    return stage::forward(call);
  }
  void backward_inputs(ballast::backward_call const& call)
  {
    auto const without = found;
    stage::backward(call);
    found = without;
    if (stages()[call.stage].weights) { kept_ -= held(call).held - held(call).for_weights; }
  }
  void backward_weights(ballast::backward_call const& call)
  {
    std::vector<std::vector<double>> again;
    std::vector<std::span<std::byte>> gradients_again;
    again.reserve(call.inputs.size());
    for (std::size_t link = 0; link < call.inputs.size(); ++link) {
      again.emplace_back(call.template input<double>(link).size());
      gradients_again.push_back(std::as_writable_bytes(std::span(again.back())));
    }
    ballast::backward_call whole = call;
    whole.input_gradients = gradients_again;
    stage::backward(whole);
    kept_ -= stages()[call.stage].weights ? held(call).for_weights : held(call).held;
  }
  [[nodiscard]] std::uint64_t kept() const { return kept_; }

  std::uint64_t most_kept = 0;

 private:
  [[nodiscard]] ballast::stage_graph const& stages() const
  {
    return split_.setup.schedule.stages();
  }
  template <class Call>
  [[nodiscard]] ballast::held_bytes held(Call const& call) const
  {
    return split_.memory.held[to_index(call.microbatch) * stages().stages() + to_index(call.stage)];
  }

  split_job const& split_;
  std::uint64_t kept_ = 0;
};

/// A planned schedule of random times on so many ranks: a chain, with replicas or with two chunks a
/// rank in turn or in a V, or a frozen or trained encoder before an LLM.
inline split_job draw_split(ballast::random_source& random, std::size_t ranks)
{
  using namespace ballast;
  auto const below = [&](std::size_t most) { return static_cast<std::size_t>(random.below(most)); };
  std::vector<unit_sizes> sizes;
  std::vector<pipeline_stage> stages;
  std::vector<stage_link> links;
  if (ranks > 1 && below(3) == 0) {
    auto const of_encoder = static_cast<std::uint32_t>(1 + below(ranks - 1));
    auto const of_llm = static_cast<std::uint32_t>(ranks) - of_encoder;
    sizes = {{1, of_encoder, 1}, {1, of_llm, 1}};
    auto const graph =
        joined_stages({.encoders = {{of_encoder, below(2) == 0}}, .llm = {of_llm}}).value();
    for (std::size_t each = 0; each < ranks; ++each) {
      stages.push_back(graph[to_id<stage_id>(each)]);
    }
    links.assign(graph.links().begin(), graph.links().end());
  } else {
    std::size_t const replicas = ranks % 2 == 0 ? 1 + below(2) : 1;
    std::size_t const deep = ranks / replicas;
    sizes = {{static_cast<std::uint32_t>(replicas), static_cast<std::uint32_t>(deep), 1}};
    std::size_t const shape = below(3);
    stages.resize(shape == 0 ? deep : 2 * deep);
    for (std::size_t each = 0; each < stages.size(); ++each) {
      bool const turns = shape == 2 && each >= deep;
      stages[each].rank = to_id<pipeline_rank>(turns ? 2 * deep - 1 - each : each % deep);
      if (each > 0) { links.push_back({to_id<stage_id>(each - 1), to_id<stage_id>(each)}); }
    }
  }
  for (pipeline_stage& each : stages) { each.weights = each.backward && below(4) > 0; }
  stage_graph const graph(stages, links);

  std::size_t const microbatches = 1 + below(8);
  pipeline_times times(microbatches, stages.size(), [&](auto, std::size_t stage) {
    return stage_time{random.between(1, 9), stages[stage].backward ? random.between(1, 9) : 0};
  });
  pipeline_memory memory;
  std::vector<std::uint64_t> least(ranks);
  for (std::size_t b = 0; b < microbatches; ++b) {
    std::vector<std::uint64_t> of_rank(ranks);
    for (std::size_t stage = 0; stage < stages.size(); ++stage) {
      times.weights.push_back(stages[stage].weights ? random.between(1, 9) : 0);
      std::uint64_t const held = 1 + below(9);
      memory.held.push_back({held, below(held + 1)});
      of_rank[to_index(stages[stage].rank)] += held;
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      least[rank] = std::max(least[rank], of_rank[rank]);
    }
  }
  for (std::size_t rank = 0; rank < graph.ranks(); ++rank) {
    memory.most.push_back(least[rank] * (2 + below(6)) / 2);
  }
  auto const planned =
      plan_schedule(graph, times, memory, {.steps = 100'000, .seed = below(99)}).value();
  job const all{{process_grid::make(sizes).value(), compiled_schedule(graph, planned.schedule)},
                {},
                planned.order};
  split_job drawn{all, std::move(memory)};
  auto const timeline = simulate(drawn.setup.schedule, times, drawn.order);
  for (auto const& rank : activation_memory(drawn.setup.schedule, timeline, drawn.order,
                                            std::span<held_bytes const>(drawn.memory.held))) {
    drawn.peak.push_back(rank.peak_bytes);
  }
  for (std::size_t link = 0; link < links.size(); ++link) {
    drawn.setup.row_bytes.push_back(sizeof(double) * (1 + below(3)));
  }
  drawn.setup.ahead = below(4);
  std::vector<microbatch_id> of_sample;
  for (std::size_t b = 0; b < microbatches; ++b) {
    of_sample.insert(of_sample.end(), below(5), to_id<microbatch_id>(b));
  }
  drawn.plan.fill(
      drawn.setup, of_sample, [&](std::size_t, std::size_t) { return below(4); },
      [&](std::size_t, std::size_t module) {
        return below(drawn.setup.grid[static_cast<std::uint32_t>(module)].data);
      });
  drawn.plan.microbatches = microbatches;
  return drawn;
}

/// Where a rank is in its pipeline.
inline std::size_t pipeline_rank_of(job const& all, ballast::rank_id rank)
{
  auto const place = all.setup.grid.place(rank);
  std::size_t own = place.pipeline;
  for (std::uint32_t module = 0; module < place.module; ++module) {
    own += all.setup.grid[module].pipeline;
  }
  return own;
}

}  // namespace toy
