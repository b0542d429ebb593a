#include <ballast/pipeline/evaluate_orders.hpp>  // first: proves it is self-contained

#include "../support/counted_allocations.hpp"
#include "../support/pipeline_families.hpp"
#include "../support/pipelines.hpp"
#include "../support/test.hpp"
#include "../support/trials.hpp"

#include <ballast/pipeline/simulate.hpp>

namespace {

using namespace ballast;
using ballast::detail::simd_level;
using ballast_test::chain_schedule;
using ballast_test::random_times;

// What this machine can run: portable code, and the best instructions that it has.
std::vector<simd_level> simd_levels()
{
  std::vector<simd_level> levels{simd_level::portable};
  simd_level const best = ballast::detail::best_simd_level();
  if (best != simd_level::portable) { levels.push_back(best); }
  return levels;
}

std::vector<microbatch_id> random_orders(ballast::random_source& random, std::size_t orders,
                                         std::size_t microbatches)
{
  std::vector<microbatch_id> rows(orders * microbatches);
  for (std::size_t at = 0; at < rows.size(); ++at) {
    rows[at] = ballast::to_id<microbatch_id>(at % microbatches);
  }
  for (std::size_t order = 0; order < orders; ++order) {
    random.shuffle(std::span(rows).subspan(order * microbatches, microbatches));
  }
  return rows;
}

std::vector<time_units> evaluate(compiled_schedule const& schedule, pipeline_times const& times,
                                 std::span<microbatch_id const> orders, std::size_t count,
                                 simd_level level = ballast::detail::best_simd_level())
{
  ballast::workspace memory;
  auto scratch = memory.open();
  order_evaluator evaluator(schedule, times, scratch, level);
  std::vector<time_units> makespans(count, -1);
  evaluator.evaluate_into(makespans, orders);
  return makespans;
}

// Oracle: one order after the other.
std::vector<time_units> simulate_all(compiled_schedule const& schedule, pipeline_times const& times,
                                     std::span<microbatch_id const> orders, std::size_t count)
{
  ballast::workspace memory;
  std::vector<time_units> makespans(count);
  for (std::size_t order = 0; order < count; ++order) {
    makespans[order] = ballast::makespan_of(
        schedule, times, orders.subspan(order * schedule.microbatches(), schedule.microbatches()),
        memory);
  }
  return makespans;
}

void expect_exact(compiled_schedule const& schedule, pipeline_times const& times,
                  std::span<microbatch_id const> orders, std::size_t count)
{
  auto const expected = simulate_all(schedule, times, orders, count);
  for (simd_level const level : simd_levels()) {
    ASSERT_EQ(evaluate(schedule, times, orders, count, level), expected)
        << "level " << static_cast<int>(level);
  }
}

// Times that are narrow, at the edge, wide, and the longest there are: 2^53.
constexpr time_units longest_times[] = {
    0, 1, 1000, time_units{1} << 27, time_units{1} << 32, stage_graph::longest_time};

TEST(OrderEvaluator, AgreesWithTheSimulatorOnAnySchedule)  // Ensures (1)
{
  ballast::random_source random(20240607);
  for (int trial = 0; trial < ballast_test::trials_of(3000); ++trial) {
    auto const [stages, listed] = ballast_test::random_pipeline(random);
    auto const schedule = compiled_schedule::make(stages, listed).value();
    auto const longest = longest_times[random.below(std::size(longest_times))];
    auto const times = random_times(random, schedule, longest);
    ASSERT_TRUE(ballast::check_times(times, schedule));
    std::size_t const count = random.below(37);
    SCOPED_TRACE(testing::Message() << "trial " << trial << " orders " << count);
    expect_exact(schedule, times, random_orders(random, count, schedule.microbatches()), count);
    ASSERT_FALSE(testing::Test::HasFatalFailure());
  }
}

TEST(OrderEvaluator, AgreesWithTheSimulatorOnLongPipelines)
{
  ballast::random_source random(2);
  for (auto const& [family, name] : ballast_test::named_families) {
    SCOPED_TRACE(name);
    auto const schedule = chain_schedule(16, 200, 1, 300);
    auto const times = ballast_test::times_of(family, 200, 16, 1);
    expect_exact(schedule, times, random_orders(random, 50, 200), 50);
  }
}

// One microbatch on one stage takes exactly as long as its two times together.
TEST(OrderEvaluator, ChangesTo64BitsBeforeATimeNeedsThem)
{
  auto const schedule = chain_schedule(1, 1);
  for (time_units const bits : {31, 32, 33, 53}) {
    for (time_units const sum : {(time_units{1} << bits) - 1, time_units{1} << bits}) {
      pipeline_times times(1, 1);
      times.rows = {{sum / 2, sum - sum / 2}};
      EXPECT_EQ(evaluate(schedule, times, std::vector(9, microbatch_id{0}), 9),
                std::vector(9, sum));
      times.rows = {{sum, 0}};
      EXPECT_EQ(evaluate(schedule, times, std::vector(1, microbatch_id{0}), 1),
                std::vector(1, sum));
    }
  }
}

// The first stage is done late enough for the transfer alone to need more than 32 bits.
TEST(OrderEvaluator, CountsTransfersAmongTheTimesThatNeed64Bits)
{
  ballast::random_source random(4);
  constexpr time_units most = (time_units{1} << 31) - 1;
  for (time_units const transfer :
       {most / 6 - 1, most / 6, most / 6 + 1, most - 1, most, most + 1}) {
    auto const schedule = chain_schedule(4, 6, 1, transfer);
    auto const times = random_times(random, schedule, 3);
    expect_exact(schedule, times, random_orders(random, 20, 6), 20);
  }
}

TEST(OrderEvaluator, IsExactBeyondWhatADoubleCounts)
{
  auto const schedule = chain_schedule(3, 40);
  pipeline_times times(40, 3);
  for (std::size_t at = 0; at < times.rows.size(); ++at) {
    auto const odd = static_cast<time_units>(at % 7);
    times.rows[at] = {stage_graph::longest_time - odd, stage_graph::longest_time - 3 * odd};
  }
  ASSERT_TRUE(ballast::check_times(times, schedule));
  ballast::random_source random(3);
  auto const orders = random_orders(random, 17, 40);
  expect_exact(schedule, times, orders, 17);
  EXPECT_GT(evaluate(schedule, times, orders, 17).front(), 40 * stage_graph::longest_time);
}

TEST(OrderEvaluator, TakesNoTimeForNone)
{
  ballast::random_source random(6);
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::size_t const count = 1 + random.below(9);
    auto const schedule = chain_schedule(1 + random.below(6), count, 1, random.between(0, 5));
    auto const times = random_times(random, schedule, longest_times[random.below(5)]);
    // Another microbatch that takes no time, in the place of the one that some positions named.
    auto padded = times;
    std::size_t const gone = random.below(count);
    std::fill_n(padded.rows.begin() + static_cast<std::ptrdiff_t>(gone * times.stages),
                times.stages, ballast::stage_time{});
    auto const orders = random_orders(random, 20, count);
    auto with_none = orders;
    std::ranges::replace(with_none, ballast::to_id<microbatch_id>(gone),
                         ballast::to_id<microbatch_id>(count));
    auto const expected = simulate_all(schedule, padded, orders, 20);
    for (simd_level const level : simd_levels()) {
      ASSERT_EQ(evaluate(schedule, times, with_none, 20, level), expected);
    }
    std::vector<microbatch_id> const nothing(count, ballast::to_id<microbatch_id>(count));
    auto const idle =
        evaluate(schedule, pipeline_times(count, times.stages), std::span(orders).first(count), 1);
    ASSERT_EQ(evaluate(schedule, times, nothing, 1), idle);
  }
}

TEST(OrderEvaluator, LetsAnOrderNameAMicrobatchOftenOrNever)
{
  ballast::random_source random(8);
  auto const schedule = chain_schedule(4, 12);
  auto const times = random_times(random, schedule, 100);
  std::vector<microbatch_id> orders(30 * 12);
  for (auto& microbatch : orders) { microbatch = ballast::to_id<microbatch_id>(random.below(12)); }
  expect_exact(schedule, times, orders, 30);
}

TEST(OrderEvaluator, EvaluatesNoOrderAndOrdersOfNoMicrobatch)
{
  auto const some = chain_schedule(3, 2);
  EXPECT_TRUE(evaluate(some, pipeline_times(2, 3), {}, 0).empty());
  auto const none = chain_schedule(3, 0);
  EXPECT_EQ(evaluate(none, pipeline_times(0, 3), {}, 20), std::vector<time_units>(20, 0));
}

TEST(OrderEvaluator, AllocatesNothingInMemoryThatHasSeenTheSame)  // Ensures (2)
{
  ballast::random_source random(9);
  auto const schedule = chain_schedule(8, 64);
  auto const times = random_times(random, schedule, 1000);
  auto const orders = random_orders(random, 50, 64);
  std::vector<time_units> makespans(50);
  ballast::workspace memory;
  std::size_t before = 0;
  for (int step = 0; step < 2; ++step) {
    before = ballast_test::allocations();
    auto scratch = memory.open();
    order_evaluator evaluator(schedule, times, scratch);
    std::size_t const constructed = ballast_test::allocations();
    evaluator.evaluate_into(makespans, orders);
    EXPECT_EQ(ballast_test::allocations(), constructed);
  }
  EXPECT_EQ(ballast_test::allocations(), before);
}

TEST(OrderEvaluator, FindsTheBestOfManyOrders)
{
  auto const schedule = chain_schedule(4, 5);
  pipeline_times times(5, 4);
  for (std::size_t at = 0; at < times.rows.size(); ++at) {
    auto const time = static_cast<time_units>(1 + at * at % 7);
    times.rows[at] = {time, 2 * time};
  }
  std::vector<microbatch_id> order{microbatch_id{0}, microbatch_id{1}, microbatch_id{2},
                                   microbatch_id{3}, microbatch_id{4}};
  // [evaluate]
  ballast::workspace memory;
  auto scratch = memory.open();
  ballast::order_evaluator evaluator(schedule, times, scratch);
  std::vector<microbatch_id> orders;  // one after the other
  for (bool more = true; more; more = std::ranges::next_permutation(order).found) {
    orders.insert(orders.end(), order.begin(), order.end());
  }
  std::vector<ballast::time_units> makespans(orders.size() / order.size());
  evaluator.evaluate_into(makespans, orders);
  // [evaluate]
  ASSERT_EQ(makespans.size(), 120U);
  EXPECT_EQ(makespans, simulate_all(schedule, times, orders, 120));
}

TEST(OrderEvaluatorDeathTest, RefusesMismatchedSpans)
{
  auto const schedule = chain_schedule(2, 3);
  pipeline_times const times(3, 2);
  ballast::workspace memory;
  auto scratch = memory.open();
  order_evaluator evaluator(schedule, times, scratch);
  std::vector<microbatch_id> const orders(4);
  std::vector<time_units> makespans(1);
  EXPECT_DEATH(evaluator.evaluate_into(makespans, orders),
               "`orders` has 4 entries for 1 order of 3 microbatches");
  EXPECT_DEATH(order_evaluator(schedule, pipeline_times(2, 2), scratch), "microbatches");
}

}  // namespace
