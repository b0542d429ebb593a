#include <ballast/pipeline/detail/evaluation/order_program_writer.hpp>  // first: proves it is self-contained

#include "../../../support/compiled_schedules.hpp"
#include "../../../support/random_schedules.hpp"
#include "../../../support/random_times.hpp"
#include "../../../support/trials.hpp"

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
using ballast::detail::no_time;
using ballast::detail::order_program;
using ballast::detail::order_program_writer;
using ballast_test::chain_schedule;
using ballast_test::random_times;

std::vector<microbatch_id> random_order(ballast::random_source& random, std::size_t count)
{
  std::vector<microbatch_id> order(count);
  for (std::size_t at = 0; at < count; ++at) { order[at] = ballast::to_id<microbatch_id>(at); }
  random.shuffle(std::span(order));
  return order;
}

// Gives some stages the times of another, forward as backward or not.
void make_some_alike(ballast::random_source& random, ballast::pipeline_times& times)
{
  for (std::size_t stage = 1; stage < times.stages; ++stage) {
    auto const kind = random.below(4);
    std::size_t const other = random.below(stage);
    for (std::size_t row = 0; row < times.rows.size(); row += times.stages) {
      auto const& from = times.rows[row + other];
      auto& to = times.rows[row + stage];
      if (kind == 0) { to = from; }
      if (kind == 1) { to.backward = from.forward; }
    }
  }
}

// A time from column `column`: that of any pass that the column is for.
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
      auto const transfer = program.transfers.empty() ? 0 : program.transfers[done];
      EXPECT_NE(step.end, no_time);
      for (auto const read : {step.first, step.second, step.duration}) {
        EXPECT_NE(step.end, read);            // Ensures (1)
        EXPECT_TRUE(slots.at(read)) << done;  // Ensures (2)
      }
      slots.at(step.end) =
          std::max(*slots[step.first], *slots[step.second] + transfer) + *slots[step.duration];
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
  for (int trial = 0; trial < ballast_test::trials_of(2000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const [stages, listed] = ballast_test::random_pipeline(random);
    auto const schedule = compiled_schedule::make(stages, listed).value();
    auto times = random_times(random, schedule, trial % 3 == 0 ? 1 : 1000);
    if (trial % 2 == 0) { make_some_alike(random, times); }
    auto const order = random_order(random, schedule.microbatches());
    auto scratch = memory.open();
    auto const program = order_program_writer(schedule, times, scratch)();
    ASSERT_EQ(interpret(program, times, order),
              ballast::makespan_of(schedule, times, order, memory));
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

TEST(OrderProgramWriter, LoadsTimesThatAreAlikeOnce)  // Ensures (5)
{
  ballast::random_source random(5);
  ballast::workspace memory;
  auto const schedule = chain_schedule(4, 6);
  auto const writes = [&](ballast::pipeline_times const& times) {
    auto scratch = memory.open();
    auto const program = order_program_writer(schedule, times, scratch)();
    auto const order = random_order(random, 6);
    EXPECT_EQ(interpret(program, times, order),
              ballast::makespan_of(schedule, times, order, memory));
    EXPECT_EQ(program.loads.size(), 6 * program.groups);
    return program.groups;
  };
  auto times = random_times(random, schedule, 1000);
  EXPECT_EQ(writes(times), 2U);  // eight columns
  for (std::size_t at = 0; at < times.rows.size(); ++at) {
    if (at % 4 > 1) { times.rows[at] = times.rows[at - 1]; }  // an encoder and three LLM stages
  }
  EXPECT_EQ(writes(times), 1U);
  times.rows.back().forward += 1;
  EXPECT_EQ(writes(times), 2U);  // the last stage has a forward of its own
}

TEST(OrderProgramWriter, HasTransfersWhereSomeTakeTime)
{
  ballast::workspace memory;
  auto scratch = memory.open();
  ballast::pipeline_times const times(5, 3);
  EXPECT_TRUE(order_program_writer(chain_schedule(3, 5), times, scratch)().transfers.empty());
  auto const program = order_program_writer(chain_schedule(3, 5, 1, 7), times, scratch)();
  EXPECT_EQ(program.transfers.size(), program.steps.size());
}

TEST(OrderProgramWriter, JoinsBeatsOfFewSteps)
{
  ballast::workspace memory;
  for (std::size_t const microbatches : {0U, 1U, 3U, 64U}) {
    auto scratch = memory.open();
    ballast::pipeline_times const times(microbatches, 4);
    auto const program = order_program_writer(chain_schedule(4, microbatches), times, scratch)();
    std::size_t begin = 0;
    for (auto const& beat : program.beats) {
      EXPECT_TRUE(beat.steps - begin >= 64 || beat.steps == program.steps.size());
      begin = beat.steps;
    }
    EXPECT_EQ(begin, program.steps.size());
  }
}

TEST(OrderProgramWriter, UsesSlotsAgain)  // Ensures (4)
{
  ballast::workspace memory;
  ballast::random_source random(6);
  for (std::size_t const stages : {1U, 4U, 8U, 32U}) {
    std::array<std::size_t, 2> slots{};
    for (std::size_t i = 0; i < 2; ++i) {
      auto const schedule = chain_schedule(stages, i == 0 ? 64 : 640);
      auto const times = random_times(random, schedule, 1000);
      auto scratch = memory.open();
      slots[i] = order_program_writer(schedule, times, scratch)().slots;
    }
    EXPECT_EQ(slots[0], slots[1]);
    EXPECT_LE(slots[0], (6 * stages + 64) * ballast::detail::fewest_lanes);
  }
}

}  // namespace
