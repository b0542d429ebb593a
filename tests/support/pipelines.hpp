// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/pipeline/stage_graph.hpp>

namespace ballast_test {

[[nodiscard]] constexpr ballast::stage_link link(std::uint32_t from, std::uint32_t to,
                                                 ballast::time_units transfer = 0)
{
  return {ballast::stage_id{from}, ballast::stage_id{to}, transfer};
}

/// The pass of a microbatch, by its position in the order, through a stage.
[[nodiscard]] constexpr ballast::pipeline_task forward(std::uint32_t position, std::uint32_t stage)
{
  return {position, ballast::stage_id{stage}, ballast::pass::forward};
}
[[nodiscard]] constexpr ballast::pipeline_task backward(std::uint32_t position, std::uint32_t stage)
{
  return {position, ballast::stage_id{stage}, ballast::pass::backward};
}

/// Microbatches in the order in which they are numbered.
[[nodiscard]] inline std::vector<ballast::microbatch_id> numbered_order(std::size_t microbatches)
{
  std::vector<ballast::microbatch_id> order(microbatches);
  for (std::size_t at = 0; at < microbatches; ++at) {
    order[at] = ballast::to_id<ballast::microbatch_id>(at);
  }
  return order;
}

/// A schedule of a chain in which each rank has `chunks` stages: 1F1B, interleaved where several.
[[nodiscard]] inline ballast::compiled_schedule chain_schedule(std::size_t ranks,
                                                               std::size_t microbatches,
                                                               std::size_t chunks = 1,
                                                               ballast::time_units transfer = 0)
{
  auto const stages = ballast::chain_of_stages(ranks * chunks, ranks, transfer);
  return ballast::compiled_schedule::make(stages, ballast::interleaved_one_forward_one_backward{},
                                          microbatches)
      .value();
}

/// GPipe on any stages.
[[nodiscard]] inline ballast::compiled_schedule gpipe_of(ballast::stage_graph const& stages,
                                                         std::size_t microbatches)
{
  return ballast::compiled_schedule::make(stages, ballast::gpipe{}, microbatches).value();
}

/// A chain whose first stages are an encoder and whose last ones a generator.
[[nodiscard]] inline ballast::stage_graph named_chain(std::size_t stages, std::size_t ranks,
                                                      std::size_t encoder, std::size_t generator,
                                                      ballast::time_units transfer = 0)
{
  auto const chain = ballast::chain_of_stages(stages, ranks, transfer);
  std::vector<ballast::pipeline_stage> named;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    named.push_back(chain[ballast::to_id<ballast::stage_id>(stage)]);
    if (stage < encoder) {
      named.back().part = ballast::model_part::encoder;
    } else if (stage + generator >= stages) {
      named.back().part = ballast::model_part::generator;
    }
  }
  return ballast::stage_graph::make(std::move(named), {chain.links().begin(), chain.links().end()})
      .value();
}

/// A chain that is dealt to the ranks in turn, or goes up them and down again; every backward is in two
/// parts, or none.
[[nodiscard]] inline ballast::stage_graph linked_stages(std::size_t stages, bool split,
                                                        ballast::time_units transfer,
                                                        auto const& rank_of)
{
  std::vector<ballast::pipeline_stage> all(stages);
  std::vector<ballast::stage_link> links;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    std::size_t const rank = rank_of(stage);
    all[stage].rank = ballast::to_id<ballast::pipeline_rank>(rank);
    all[stage].weights = split;
    if (stage == 0) { continue; }
    bool const is_sent = rank != rank_of(stage - 1);
    links.push_back({ballast::to_id<ballast::stage_id>(stage - 1),
                     ballast::to_id<ballast::stage_id>(stage), is_sent ? transfer : 0});
  }
  return ballast::stage_graph::make(std::move(all), std::move(links)).value();
}
[[nodiscard]] inline ballast::stage_graph split_chain(std::size_t stages, std::size_t ranks,
                                                      ballast::time_units transfer = 0)
{
  return linked_stages(stages, true, transfer, [=](std::size_t stage) { return stage % ranks; });
}
[[nodiscard]] inline ballast::stage_graph split_v(std::size_t ranks,
                                                  ballast::time_units transfer = 0,
                                                  bool split = true)
{
  return linked_stages(2 * ranks, split, transfer,
                       [=](std::size_t stage) { return std::min(stage, 2 * ranks - 1 - stage); });
}

/// A module of a chain: stages, each on a rank of its own, and the virtual ones that each has.
struct chained_unit {
  std::size_t stages = 1;
  std::size_t virtual_stages = 1;
  bool backward = true;
};

/// The virtual stages of one unit after the other, dealt to the unit's ranks in turn.
inline ballast::stage_graph chain_of_units(std::vector<chained_unit> const& units)
{
  std::vector<ballast::pipeline_stage> stages;
  std::vector<ballast::stage_link> links;
  std::size_t first_rank = 0;
  for (chained_unit const& unit : units) {
    for (std::size_t each = 0; each < unit.stages * unit.virtual_stages; ++each) {
      auto const stage = ballast::to_id<ballast::stage_id>(stages.size());
      if (!stages.empty()) {
        links.push_back({ballast::to_id<ballast::stage_id>(stages.size() - 1), stage});
      }
      stages.push_back(
          {ballast::to_id<ballast::pipeline_rank>(first_rank + each % unit.stages), unit.backward});
    }
    first_rank += unit.stages;
  }
  return ballast::stage_graph::make(std::move(stages), links).value();
}

inline std::vector<chained_unit> random_units(ballast::random_source& random)
{
  std::vector<chained_unit> units(1 + random.below(4));
  for (chained_unit& unit : units) {
    unit.stages = 1 + random.below(6);
    if (unit.stages > 1 && random.below(2) == 0) { unit.virtual_stages = 2 + random.below(3); }
  }
  return units;
}

/// The most bytes of activations that the simulated pipeline keeps, rank by rank, where each
/// microbatch takes `bytes` on each virtual stage.
inline std::vector<std::uint64_t> simulated_peaks(std::vector<chained_unit> const& units,
                                                  std::size_t microbatches,
                                                  std::vector<std::uint64_t> const& bytes)
{
  auto const stages = chain_of_units(units);
  auto const schedule = ballast::compiled_schedule::make(
                            stages, ballast::interleaved_one_forward_one_backward{}, microbatches)
                            .value();
  ballast::pipeline_times const times(microbatches, stages.stages());
  auto const order = numbered_order(microbatches);
  std::vector<ballast::held_bytes> all;
  for (std::size_t each = 0; each < microbatches * bytes.size(); ++each) {
    all.push_back({bytes[each % bytes.size()]});
  }
  std::vector<std::uint64_t> peaks;
  for (auto const& rank :
       activation_memory(schedule, simulate(schedule, times, order), order, all)) {
    peaks.push_back(rank.peak_bytes);
  }
  return peaks;
}

/// Stages and a schedule for them that does not deadlock.
struct random_pipeline_case {
  ballast::stage_graph stages;
  ballast::pipeline_schedule schedule;
};

/// Up to ten stages with links drawn at random, on as many ranks or fewer in any order. A stage
/// that only stages without backward feed may have none itself.
[[nodiscard]] inline ballast::stage_graph random_stages(ballast::random_source& random,
                                                        bool one_stage_per_rank)
{
  std::size_t const count = 1 + random.below(10);
  std::size_t const ranks = one_stage_per_rank ? count : 1 + random.below(count);
  std::vector<ballast::pipeline_rank> rank_of(count);
  for (std::size_t stage = 0; stage < count; ++stage) {
    rank_of[stage] =
        ballast::to_id<ballast::pipeline_rank>(stage < ranks ? stage : random.below(ranks));
  }
  random.shuffle(std::span(rank_of));
  std::uint64_t const links_in_ten = 1 + random.below(9);
  std::uint64_t const frozen_in_ten = random.below(6);
  std::vector<ballast::pipeline_stage> stages(count);
  std::vector<ballast::stage_link> links;
  for (std::size_t stage = 0; stage < count; ++stage) {
    bool frozen = random.below(10) < frozen_in_ten;
    for (std::size_t from = 0; from < stage; ++from) {
      if (random.below(10) >= links_in_ten) { continue; }
      frozen = frozen && !stages[from].backward;
      links.push_back({ballast::to_id<ballast::stage_id>(from),
                       ballast::to_id<ballast::stage_id>(stage), random.between(0, 9)});
    }
    stages[stage] = {rank_of[stage], !frozen};
  }
  return ballast::stage_graph::make(std::move(stages), links).value();
}

/// Up to three encoders, of which any may be frozen, an LLM and up to two generators.
[[nodiscard]] inline ballast::stage_graph random_modules(ballast::random_source& random)
{
  ballast::joined_modules modules;
  modules.transfer = random.between(0, 9);
  modules.encoders.resize(random.below(4));
  for (auto& encoder : modules.encoders) { encoder = {1 + random.below(3), random.below(3) != 0}; }
  modules.llm.stages = 1 + random.below(4);
  modules.generators.resize(random.below(3));
  for (auto& generator : modules.generators) { generator.stages = 1 + random.below(2); }
  return ballast::joined_stages(modules).value();
}

/// Tasks in any order in which they can be done one after the other, each on its rank: every
/// schedule that does not deadlock comes out sooner or later. O(tasks^2).
[[nodiscard]] inline ballast::pipeline_schedule random_schedule(ballast::random_source& random,
                                                                ballast::stage_graph const& stages,
                                                                std::size_t microbatches)
{
  using ballast::pass;
  std::vector<ballast::pipeline_task> left;
  for (std::size_t stage = 0; stage < stages.stages(); ++stage) {
    auto const id = ballast::to_id<ballast::stage_id>(stage);
    for (std::uint32_t position = 0; position < microbatches; ++position) {
      left.push_back({position, id, pass::forward});
      if (stages[id].backward) { left.push_back({position, id, pass::backward}); }
    }
  }
  auto const waits = [&](ballast::pipeline_task const& task) {
    auto const undone = [&](ballast::stage_id stage, pass direction) {
      return std::ranges::find(left, ballast::pipeline_task{task.position, stage, direction}) !=
             left.end();
    };
    if (task.pass == pass::forward) {
      return std::ranges::any_of(stages.links_into(task.stage), [&](auto const& link) {
        return undone(link.from, pass::forward);
      });
    }
    return undone(task.stage, pass::forward) ||
           std::ranges::any_of(stages.links_out_of(task.stage),
                               [&](auto const& link) { return undone(link.to, pass::backward); });
  };
  ballast::pipeline_schedule schedule{microbatches, {}};
  schedule.ranks.resize(stages.ranks());
  while (!left.empty()) {
    std::size_t at = random.below(left.size());
    while (waits(left[at])) { at = (at + 1) % left.size(); }
    schedule.ranks[ballast::to_index(stages[left[at].stage].rank)].push_back(left[at]);
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return schedule;
}

/// A pipeline of any kind, with up to 12 microbatches: chains, interleaved ones, encoders that join
/// in an LLM, and any other stages; under GPipe, 1F1B, its interleaved form, or an order drawn at
/// random.
[[nodiscard]] inline random_pipeline_case random_pipeline(ballast::random_source& random)
{
  std::size_t const microbatches = random.below(13);
  auto const under = [&](ballast::stage_graph stages, auto const& policy) {
    auto schedule = policy(stages, microbatches).value();
    return random_pipeline_case{std::move(stages), std::move(schedule)};
  };
  auto const any_order = [&](ballast::stage_graph const& stages, std::size_t count) {
    return ballast::result<ballast::pipeline_schedule>(random_schedule(random, stages, count));
  };
  std::size_t const ranks = 1 + random.below(6);
  ballast::time_units const transfer = random.between(0, 9);
  switch (random.below(7)) {
    case 0:
      return under(ballast::chain_of_stages(ranks, ranks, transfer),
                   ballast::one_forward_one_backward{});
    case 1:
      return under(ballast::chain_of_stages(ranks * (1 + random.below(3)), ranks, transfer),
                   ballast::interleaved_one_forward_one_backward{});
    case 2: return under(random_modules(random), ballast::one_forward_one_backward{});
    case 3: return under(random_stages(random, true), ballast::one_forward_one_backward{});
    case 4: return under(random_stages(random, false), ballast::gpipe{});
    case 5: return under(random_modules(random), any_order);
    default: return under(random_stages(random, false), any_order);
  }
}

/// The same for every microbatch on every stage.
[[nodiscard]] inline ballast::pipeline_times equal_times(std::size_t microbatches,
                                                         std::size_t stages,
                                                         ballast::stage_time time)
{
  return {microbatches, stages, [&](std::size_t, std::size_t) { return time; }};
}

/// Every time drawn for itself from 0 to `longest`.
[[nodiscard]] inline ballast::pipeline_times random_times(ballast::random_source& random,
                                                          std::size_t microbatches,
                                                          std::size_t stages,
                                                          ballast::time_units longest)
{
  ballast::pipeline_times times(microbatches, stages);
  for (auto& time : times.rows) { time = {random.between(0, longest), random.between(0, longest)}; }
  return times;
}

/// The same for the microbatches and stages of a schedule.
[[nodiscard]] inline ballast::pipeline_times random_times(
    ballast::random_source& random, ballast::compiled_schedule const& schedule,
    ballast::time_units longest)
{
  return random_times(random, schedule.microbatches(), schedule.stages().stages(), longest);
}

}  // namespace ballast_test
