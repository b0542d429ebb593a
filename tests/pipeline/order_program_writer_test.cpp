#include <ballast/pipeline/order_program_writer.hpp>  // first: proves it is self-contained

#include "../support/random_schedules.hpp"

#include <gtest/gtest.h>
#include <ballast/pipeline/pipeline_times.hpp>
#include <ballast/pipeline/simulate.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace {

using ballast::compiled_schedule;
using ballast::microbatch_id;
using ballast::time_units;
using ballast::detail::no_column;
using ballast::detail::no_time;
using ballast::detail::order_program;
using ballast::detail::order_program_writer;

std::vector<microbatch_id> random_order(ballast::random_source& random, std::size_t count)
{
  std::vector<microbatch_id> order(count);
  for (std::size_t at = 0; at < count; ++at) { order[at] = ballast::to_id<microbatch_id>(at); }
  random.shuffle(std::span(order));
  return order;
}

ballast::pipeline_times random_times(ballast::random_source& random,
                                     compiled_schedule const& schedule, time_units longest)
{
  ballast::pipeline_times times(schedule.microbatches(), schedule.stages().stages());
  for (auto& time : times.rows) { time = {random.between(0, longest), random.between(0, longest)}; }
  return times;
}

// What column `column` is for: every pass that a stage has is one column.
std::optional<time_units> time_of(order_program const& program,
                                  ballast::pipeline_times const& times, microbatch_id microbatch,
                                  std::size_t column)
{
  auto const found = std::ranges::find(program.columns, column);
  if (found == program.columns.end()) { return std::nullopt; }
  auto const at = static_cast<std::size_t>(found - program.columns.begin());
  auto const& time = times[microbatch][at / 2];
  return at % 2 == 0 ? time.forward : time.backward;
}

// Runs a program for one order, and fails where it breaks what it promises.
time_units interpret(order_program const& program, ballast::pipeline_times const& times,
                     std::span<microbatch_id const> order)
{
  std::vector<std::optional<time_units>> slots(program.slots);  // nothing: has not been written
  slots.at(no_time) = 0;
  std::size_t loaded = 0;
  std::size_t done = 0;
  for (auto const& beat : program.beats) {
    EXPECT_LE(loaded, beat.loads);
    EXPECT_LE(done, beat.steps);
    for (; loaded < beat.loads; ++loaded) {
      auto const& load = program.loads[loaded];
      for (std::size_t i = 0; i < load.to.size(); ++i) {
        auto const time = time_of(program, times, order[load.position], 4 * load.group + i);
        EXPECT_EQ(time.has_value(), load.to[i] != no_time);
        slots.at(load.to[i]) = time.value_or(0);
      }
    }
    for (; done < beat.steps; ++done) {
      auto const& step = program.steps[done];
      EXPECT_NE(step.end, no_time);
      for (auto const read : {step.first, step.second, step.duration}) {
        EXPECT_NE(step.end, read);            // Ensures (1)
        EXPECT_TRUE(slots.at(read)) << done;  // Ensures (2)
      }
      slots.at(step.end) =
          std::max(*slots[step.first], *slots[step.second] + step.transfer) + *slots[step.duration];
    }
  }
  EXPECT_EQ(loaded, program.loads.size());
  EXPECT_EQ(done, program.steps.size());
  return slots.at(program.makespan).value_or(-1);
}

TEST(OrderProgramWriter, WritesWhatComputesTheMakespan)  // Ensures (1) (2) (3)
{
  ballast::random_source random(20240607);
  ballast::workspace memory;
  for (int trial = 0; trial < 2000; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const [stages, listed] = ballast_test::random_pipeline(random);
    auto const schedule = compiled_schedule::make(stages, listed).value();
    auto const times = random_times(random, schedule, trial % 3 == 0 ? 1 : 1000);
    auto const order = random_order(random, schedule.microbatches());
    auto scratch = memory.open();
    auto const program = order_program_writer(schedule, scratch)();
    ASSERT_EQ(interpret(program, times, order),
              ballast::makespan_of(schedule, times, order, memory));
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

TEST(OrderProgramWriter, GivesEveryPassOfAStageAColumn)
{
  auto const stages =
      ballast::stage_graph::make({{ballast::pipeline_rank{0}, false}, {ballast::pipeline_rank{1}}},
                                 {{ballast::stage_id{0}, ballast::stage_id{1}, 0}})
          .value();
  auto const schedule =
      compiled_schedule::make(stages, ballast::one_forward_one_backward{}(stages, 3).value())
          .value();
  ballast::workspace memory;
  auto scratch = memory.open();
  auto const program = order_program_writer(schedule, scratch)();
  EXPECT_EQ(std::vector(program.columns.begin(), program.columns.end()),
            (std::vector<std::uint32_t>{0, no_column, 1, 2}));
  EXPECT_EQ(program.groups, 1U);
  EXPECT_EQ(program.loads.size(), 3U);
}

TEST(OrderProgramWriter, UsesSlotsAgain)  // Ensures (4)
{
  ballast::workspace memory;
  for (std::size_t const stages : {1U, 4U, 8U, 32U}) {
    auto const chain = ballast::chain_of_stages(stages, stages);
    std::array<std::size_t, 2> slots{};
    for (std::size_t i = 0; i < 2; ++i) {
      std::size_t const microbatches = i == 0 ? 64 : 640;
      auto const schedule =
          compiled_schedule::make(chain,
                                  ballast::one_forward_one_backward{}(chain, microbatches).value())
              .value();
      auto scratch = memory.open();
      slots[i] = order_program_writer(schedule, scratch)().slots;
    }
    EXPECT_EQ(slots[0], slots[1]);
    EXPECT_LE(slots[0], 6 * stages + 10);
  }
}

}  // namespace
