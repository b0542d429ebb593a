#include <ballast/pipeline/activation_memory.hpp>  // first: proves it is self-contained

#include "../support/numbered_order.hpp"
#include "../support/random_schedules.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/core/random.hpp>
#include <ballast/pipeline/gpipe.hpp>
#include <ballast/pipeline/one_forward_one_backward.hpp>
#include <ballast/pipeline/pipeline_times.hpp>
#include <ballast/pipeline/simulate.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace {

using ballast::activation_memory;
using ballast::compiled_schedule;
using ballast::memory_level;
using ballast::microbatch_id;
using ballast::pass;
using ballast::pipeline_rank;
using ballast::pipeline_times;
using ballast::stage_graph;
using ballast::stage_id;
using ballast::time_units;
using ballast_test::numbered_order;
using testing::ElementsAre;

// The activations of one microbatch on one stage.
struct lifetime {
  std::size_t rank = 0;
  std::uint64_t bytes = 0;
  time_units from = 0;
  time_units until = 0;
};

// Oracle: forwards and backwards matched by a look at all pairs of tasks, as the definition says.
std::vector<lifetime> lifetimes(compiled_schedule const& schedule,
                                ballast::pipeline_timeline const& timeline,
                                std::vector<microbatch_id> const& order,
                                std::vector<std::uint64_t> const& bytes)
{
  auto const& stages = schedule.stages();
  std::vector<lifetime> all;
  for (std::size_t task = 0; task < schedule.tasks().size(); ++task) {
    auto const& [position, stage, direction] = schedule.tasks()[task];
    if (direction == pass::backward) { continue; }
    ballast::pipeline_task const back{position, stage, pass::backward};
    auto const found = std::ranges::find(schedule.tasks(), back) - schedule.tasks().begin();
    std::size_t const last = stages[stage].backward ? static_cast<std::size_t>(found) : task;
    std::size_t const row = ballast::to_index(order[position]);
    all.push_back({ballast::to_index(stages[stage].rank),
                   bytes[row * stages.stages() + ballast::to_index(stage)], timeline.start[task],
                   timeline.end[last]});
  }
  return all;
}

// What each rank keeps during [now, now + 1).
std::vector<std::uint64_t> kept_at(time_units now, std::size_t ranks,
                                   std::vector<lifetime> const& all)
{
  std::vector<std::uint64_t> kept(ranks, 0);
  for (lifetime const& each : all) {
    if (each.from <= now && now < each.until) { kept[each.rank] += each.bytes; }
  }
  return kept;
}

std::uint64_t level_at(time_units now, std::vector<memory_level> const& levels)
{
  std::uint64_t bytes = 0;
  for (memory_level const& level : levels) {
    if (level.since <= now) { bytes = level.bytes; }
  }
  return bytes;
}

TEST(ActivationMemory, IsWhatASweepOverAllTimesSees)  // Ensures (1) (2) (3)
{
  ballast::random_source random(21);
  for (int trial = 0; trial < 150; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const [stages, listed] = ballast_test::random_pipeline(random);
    auto const schedule = compiled_schedule::make(stages, listed).value();
    time_units const shortest = trial % 2;  // tasks that take no time among them, or none
    pipeline_times times(listed.microbatches, stages.stages());
    for (auto& time : times.rows) {
      time = {random.between(shortest, 2), random.between(shortest, 3)};
    }
    std::vector<std::uint64_t> bytes(times.rows.size());
    for (auto& size : bytes) { size = random.below(4); }
    auto order = numbered_order(listed.microbatches);
    random.shuffle(std::span(order));
    auto const timeline = ballast::simulate(schedule, times, order);
    auto const memory = activation_memory(schedule, timeline, order, bytes);

    ASSERT_EQ(memory.size(), stages.ranks());
    auto const all = lifetimes(schedule, timeline, order, bytes);
    std::vector<std::uint64_t> highest(stages.ranks(), 0);
    for (time_units now = -1; now <= timeline.makespan; ++now) {
      auto const kept = kept_at(now, stages.ranks(), all);
      for (std::size_t rank = 0; rank < memory.size(); ++rank) {
        ASSERT_EQ(level_at(now, memory[rank].levels), kept[rank])
            << "rank " << rank << " at " << now;
        highest[rank] = std::max(highest[rank], kept[rank]);
      }
    }
    for (std::size_t rank = 0; rank < memory.size(); ++rank) {
      auto const& [peak, levels] = memory[rank];
      if (shortest > 0) {
        EXPECT_EQ(peak, highest[rank]);
      } else {
        EXPECT_GE(peak, highest[rank]);
      }
      for (std::size_t at = 0; at < levels.size(); ++at) {
        EXPECT_NE(levels[at].bytes, at == 0 ? 0 : levels[at - 1].bytes);
        if (at > 0) { EXPECT_GT(levels[at].since, levels[at - 1].since); }
      }
      if (!levels.empty()) { EXPECT_EQ(levels.back().bytes, 0U); }
    }
  }
}

TEST(ActivationMemory, IsBoundedByTheStagesInOneForwardOneBackwardAndByTheMicrobatchesInGPipe)
{
  for (std::size_t stages = 1; stages <= 8; ++stages) {
    for (std::size_t microbatches = 0; microbatches <= 12; ++microbatches) {
      SCOPED_TRACE(testing::Message() << stages << " stages, " << microbatches << " microbatches");
      auto const chain = ballast::chain_of_stages(stages, stages, 1);
      pipeline_times times(microbatches, stages);
      std::ranges::fill(times.rows, ballast::stage_time{2, 3});
      std::vector<std::uint64_t> const one(times.rows.size(), 1);
      auto const order = numbered_order(microbatches);
      auto const peaks = [&](auto const& policy) {
        auto const schedule = compiled_schedule::make(chain, policy, microbatches).value();
        return activation_memory(schedule, ballast::simulate(schedule, times, order), order, one);
      };
      auto const steady = peaks(ballast::one_forward_one_backward{});
      auto const all = peaks(ballast::gpipe{});
      for (std::size_t stage = 0; stage < stages; ++stage) {
        EXPECT_EQ(steady[stage].peak_bytes, std::min(stages - stage, microbatches));
        EXPECT_EQ(all[stage].peak_bytes, microbatches);
      }
    }
  }
}

TEST(ActivationMemory, DropsTheActivationsOfAFrozenStageWithItsForward)
{
  auto const stages = stage_graph::make({{pipeline_rank{0}, false}, {pipeline_rank{1}}},
                                        {{stage_id{0}, stage_id{1}, 10}})
                          .value();
  auto const schedule =
      compiled_schedule::make(stages, ballast::one_forward_one_backward{}, 2).value();
  pipeline_times times(2, 2);
  std::ranges::fill(times.rows, ballast::stage_time{5, 8});
  auto const order = numbered_order(2);
  // [activation_memory]
  std::vector<std::uint64_t> const bytes{100, 7,   // of microbatch 0, on the stages 0 and 1
                                         200, 9};  // of microbatch 1
  auto const timeline = ballast::simulate(schedule, times, order);
  auto const memory = ballast::activation_memory(schedule, timeline, order, bytes);
  // [activation_memory]
  EXPECT_EQ(memory[0].peak_bytes, 200U);
  EXPECT_THAT(memory[0].levels,
              ElementsAre(memory_level{0, 100}, memory_level{5, 200}, memory_level{10, 0}));
  EXPECT_EQ(memory[1].peak_bytes, 9U);
  EXPECT_THAT(memory[1].levels,
              ElementsAre(memory_level{15, 7}, memory_level{28, 9}, memory_level{41, 0}));
}

TEST(ActivationMemory, CountsWhatIsKeptForNoTime)  // Ensures (3)
{
  auto const chain = ballast::chain_of_stages(1, 1);
  auto const schedule = compiled_schedule::make(chain, ballast::gpipe{}, 3).value();
  auto const order = numbered_order(3);
  std::vector<std::uint64_t> const bytes{1, 2, 4};
  auto const memory = activation_memory(
      schedule, ballast::simulate(schedule, pipeline_times(3, 1), order), order, bytes);
  EXPECT_EQ(memory[0].peak_bytes, 7U);
  EXPECT_TRUE(memory[0].levels.empty());
}

TEST(ActivationMemory, FillsAllOf64Bits)
{
  auto const chain = ballast::chain_of_stages(1, 1);
  auto const schedule = compiled_schedule::make(chain, ballast::gpipe{}, 2).value();
  pipeline_times times(2, 1);
  std::ranges::fill(times.rows, ballast::stage_time{1, 1});
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  auto const order = numbered_order(2);
  std::vector<std::uint64_t> const bytes{most - 1, 1};
  auto const memory =
      activation_memory(schedule, ballast::simulate(schedule, times, order), order, bytes);
  EXPECT_EQ(memory[0].peak_bytes, most);
  EXPECT_THAT(memory[0].levels, ElementsAre(memory_level{0, most - 1}, memory_level{1, most},
                                            memory_level{3, 1}, memory_level{4, 0}));
}

TEST(ActivationMemoryDeathTest, RefusesBytesOfAnotherShape)
{
  auto const chain = ballast::chain_of_stages(2, 2);
  auto const schedule = compiled_schedule::make(chain, ballast::gpipe{}, 2).value();
  auto const order = numbered_order(2);
  auto const timeline = ballast::simulate(schedule, pipeline_times(2, 2), order);
  std::vector<std::uint64_t> const bytes(3);
  EXPECT_DEATH((void)activation_memory(schedule, timeline, order, bytes),
               "`bytes` has 3 entries for 2 microbatches on 2 stages");
}

}  // namespace
