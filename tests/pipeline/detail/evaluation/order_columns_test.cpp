#include <ballast/pipeline/detail/evaluation/order_columns.hpp>  // first: proves it is self-contained

#include "../../../support/compiled_schedules.hpp"

#include <gtest/gtest.h>
#include <ballast/pipeline/one_forward_one_backward.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace {

using ballast::compiled_schedule;
using ballast::pipeline_times;
using ballast::detail::no_column;
using ballast_test::chain_schedule;

std::vector<std::uint32_t> numbers(compiled_schedule const& schedule, pipeline_times const& times)
{
  ballast::workspace memory;
  auto scratch = memory.open();
  std::vector<std::uint32_t> tasks(schedule.tasks().size());
  std::iota(tasks.begin(), tasks.end(), 0U);
  auto const columns = ballast::detail::number_columns(schedule, times, tasks, scratch);
  std::uint32_t count = 0;
  for (std::uint32_t const number : columns.numbers) {
    if (number != no_column) { count = std::max(count, number + 1); }
  }
  EXPECT_EQ(count, columns.count);
  for (auto const& task : schedule.tasks()) {
    EXPECT_EQ(
        columns[task],
        columns.numbers[2 * to_index(task.stage) + (task.pass == ballast::pass::backward ? 1 : 0)]);
  }
  return {columns.numbers.begin(), columns.numbers.end()};
}

TEST(OrderColumns, GiveEveryPassANumberInTheOrderOfUse)
{
  auto const stages =
      ballast::stage_graph::make({{ballast::pipeline_rank{0}, false}, {ballast::pipeline_rank{1}}},
                                 {{ballast::stage_id{0}, ballast::stage_id{1}, 0}})
          .value();
  auto const schedule =
      compiled_schedule::make(stages, ballast::one_forward_one_backward{}, 3).value();
  pipeline_times times(3, 2);
  times.rows = {{1, 0}, {2, 4}, {1, 0}, {3, 5}, {1, 0}, {2, 4}};
  EXPECT_EQ(numbers(schedule, times), (std::vector<std::uint32_t>{0, no_column, 1, 2}));
}

TEST(OrderColumns, AreSharedByPassesThatAreAlikeForEveryMicrobatch)
{
  pipeline_times times(2, 3);
  times.rows = {{1, 2}, {3, 4}, {3, 4},  //
                {5, 6}, {7, 8}, {7, 8}};
  EXPECT_EQ(numbers(chain_schedule(3, 2), times), (std::vector<std::uint32_t>{0, 3, 1, 2, 1, 2}));
  times.rows.back().backward = 7;  // the last microbatch tells the last two stages apart
  EXPECT_EQ(numbers(chain_schedule(3, 2), times), (std::vector<std::uint32_t>{0, 4, 1, 3, 1, 2}));
  times.rows = std::vector(6, ballast::stage_time{9, 9});
  EXPECT_EQ(numbers(chain_schedule(3, 2), times), std::vector<std::uint32_t>(6, 0));
}

TEST(OrderColumns, AreNoneWithoutAMicrobatch)
{
  EXPECT_EQ(numbers(chain_schedule(2, 0), pipeline_times(0, 2)), std::vector(4, no_column));
}

}  // namespace
