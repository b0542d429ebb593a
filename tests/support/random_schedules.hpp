// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_SUPPORT_RANDOM_SCHEDULES_HPP
#define BALLAST_TESTS_SUPPORT_RANDOM_SCHEDULES_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/result.hpp>
#include <ballast/pipeline/gpipe.hpp>
#include <ballast/pipeline/interleaved_one_forward_one_backward.hpp>
#include <ballast/pipeline/joined_stages.hpp>
#include <ballast/pipeline/one_forward_one_backward.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace ballast_test {

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

}  // namespace ballast_test

#endif  // BALLAST_TESTS_SUPPORT_RANDOM_SCHEDULES_HPP
