#include <ballast/runtime/online_scheduler.hpp>  // first: proves it is self-contained

#include "../support/counted_allocations.hpp"
#include "../support/test.hpp"
#include "scheduled_steps.hpp"

#include <ballast/comm/gather_samples.hpp>
#include <ballast/comm/thread_communicator.hpp>
#include <ballast/pipeline/order_search.hpp>
#include <ballast/runtime/microbatch_scheduler.hpp>

#include <atomic>
#include <new>
#include <stdexcept>

namespace {

using ballast::error_code;
using ballast::online_scheduler;
using ballast::result;
using ballast::tokens;
using ballast_test::draw_sizes;
using ballast_test::small_setup;
using ballast_test::square_times;
using testing::HasSubstr;

using small_scheduler =
    ballast::microbatch_scheduler<2, square_times, ballast::local_search<ballast::insertion>>;

small_scheduler scheduler_of_small_setup()
{
  return small_scheduler::make(small_setup(2, 4), square_times{}, {.inner = {}, .evaluations = 200})
      .value();
}

/// Sums the sizes, refuses a step that begins with -1 and throws where it begins with -2.
struct summing_planner {
  using plan_type = std::int64_t;

  std::atomic<bool> const* may_go_on = nullptr;

  result<void> operator()(std::int64_t& plan, std::span<tokens const> sizes, std::uint64_t seed,
                          std::uint64_t number, std::span<std::uint32_t const> factors) const
  {
    while (may_go_on != nullptr && !may_go_on->load()) { std::this_thread::yield(); }
    if (!sizes.empty() && sizes.front() == -1) {
      return ballast::fail(error_code::infeasible, 7, "this step is refused");
    }
    if (!sizes.empty() && sizes.front() == -2) { throw std::runtime_error("out of luck"); }
    if (!sizes.empty() && sizes.front() == -3) { throw 3; }
    plan = static_cast<std::int64_t>(1000 * seed + 100 * number);
    for (tokens const size : sizes) { plan += size; }
    for (std::uint32_t const factor : factors) { plan += factor; }
    return {};
  }
};

static_assert(ballast::step_planner<summing_planner>);
static_assert(ballast::step_planner<small_scheduler>);

TEST(OnlineScheduler, IsUsedAsDocumented)
{
  auto const batch = [](std::uint64_t step) { return draw_sizes(40, step); };
  std::size_t trained = 0;
  auto const train = [&](std::span<ballast::sample_id const> samples) {
    trained += samples.size();
  };
  constexpr std::uint32_t replicas = 2;
  constexpr std::size_t microbatches = 4;
  // [online]
  // An encoder on one stage and an LLM on three, on each of two replicas.
  auto const stages =
      ballast::joined_stages({.encoders = {{1}}, .llm = {3}, .generators = {}}).value();
  auto const one_forward_one_backward = ballast::one_forward_one_backward{};
  ballast::scheduler_setup setup{
      .schedule =
          ballast::compiled_schedule::make(stages, one_forward_one_backward, microbatches).value(),
      .modules = {{replicas, {8}}, {replicas, {10, 10, 9}}},  // layers of each stage
      .most_per_microbatch = 20'000};                         // tokens that a GPU can hold
  // What a sample of so many tiles and tokens takes in both modules, forward and backward.
  auto const times_of = [](std::span<tokens const, 2> sizes) {
    auto const encoder = 900 * sizes[0];
    auto const llm = 40 * sizes[1] + sizes[1] * sizes[1] / 100;
    return std::array{ballast::stage_time{encoder, 2 * encoder}, ballast::stage_time{llm, 2 * llm}};
  };
  using scheduler = ballast::microbatch_scheduler<2, decltype(times_of)>;
  ballast::online_scheduler next(scheduler::make(std::move(setup), times_of).value());

  or_throw(next.submit(batch(0)));  // tiles and tokens of each sample
  for (std::uint64_t step = 0; step < 3; ++step) {
    auto const* const plan = next.take().value();
    or_throw(next.submit(batch(step + 1)));  // planned while this step runs
    for (std::size_t replica = 0; replica < replicas; ++replica) {
      for (std::size_t position = 0; position < microbatches; ++position) {
        train(plan->microbatch(1, replica, position));  // samples of the LLM's replica
      }
    }
  }
  // [online]
  EXPECT_EQ(trained, 3U * 40);
}

TEST(OnlineScheduler, HandsOverThePlanOfEachStep)  // Ensures (1)
{
  online_scheduler next(scheduler_of_small_setup(), 5);
  auto direct = scheduler_of_small_setup();
  ballast::scheduled_step<2> expected;
  for (std::uint64_t step = 0; step < 6; ++step) {
    auto const sizes = draw_sizes(40 + step, step);
    ASSERT_TRUE(next.submit(sizes));
    auto const plan = next.take();
    ASSERT_TRUE(plan);
    ASSERT_TRUE(direct(expected, sizes, 5, step, {}));
    EXPECT_EQ((*plan)->number, step);
    EXPECT_EQ((*plan)->digest(), expected.digest());
  }
  EXPECT_EQ(next.hand_overs(), 6U);
}

TEST(OnlineScheduler, PlansBesideTheStepThatRuns)
{
  online_scheduler next(summing_planner{}, 0);
  auto const step = [&] {  // which lasts longer than planning the next one
    while (!next.ready()) { std::this_thread::yield(); }
  };
  ASSERT_TRUE(next.submit(std::vector<tokens>{0}));
  for (std::int64_t number = 0; number < 200; ++number) {
    step();
    auto const plan = next.take();
    ASSERT_TRUE(plan);
    ASSERT_TRUE(next.submit(std::vector<tokens>{number + 1}));
    EXPECT_EQ(**plan, 101 * number);  // the next one is written elsewhere
  }
  EXPECT_EQ(next.hand_overs(), 200U);
  EXPECT_EQ(next.waited(), 0U);
}

TEST(OnlineScheduler, CountsHandOversThatWaited)
{
  std::atomic<bool> may_go_on = false;
  online_scheduler next(summing_planner{&may_go_on});
  while (next.waited() == 0) {  // on a busy machine the plan may be there before it is asked for
    may_go_on = false;
    ASSERT_TRUE(next.submit({}));
    std::jthread const releases([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      may_go_on = true;
    });
    EXPECT_TRUE(next.take());
  }
  EXPECT_EQ(next.waited(), 1U);
}

TEST(OnlineScheduler, HandsOverWhatThePlannerRefusesOrThrows)  // Ensures (2)
{
  online_scheduler next(summing_planner{});
  auto const error_of = [&](tokens first) {
    EXPECT_TRUE(next.submit(std::vector<tokens>{first}));
    auto const plan = next.take();
    EXPECT_FALSE(plan);
    return plan ? ballast::error{} : plan.error();
  };
  EXPECT_EQ(error_of(-1), (ballast::error{error_code::infeasible, 7, "this step is refused"}));
  EXPECT_EQ(error_of(-2),
            (ballast::error{error_code::failed, 0, "planning step 1 threw: out of luck"}));
  EXPECT_EQ(error_of(-3).message, "planning step 2 threw: something that is no std::exception");
  ASSERT_TRUE(next.submit(std::vector<tokens>{11}));
  auto const plan = next.take().value();
  EXPECT_EQ(*plan, 1311);
}

TEST(OnlineScheduler, SaysWhatIsCalledInTheWrongOrder)
{
  online_scheduler next(summing_planner{});
  EXPECT_THAT(next.take().error().message, HasSubstr("no step was submitted"));
  ASSERT_TRUE(next.submit({}));
  EXPECT_THAT(next.submit({}).error().message, HasSubstr("step 0 was submitted and not taken"));
  EXPECT_THAT(next.restore("").error().message, HasSubstr("while step 0 is planned"));
  EXPECT_TRUE(next.take());
  EXPECT_EQ(next.take().error().code, error_code::wrong_order);
}

TEST(OnlineScheduler, EndsWhateverItIsAt)  // Ensures (3)
{
  {
    online_scheduler const idle(summing_planner{});
  }
  {
    online_scheduler next(summing_planner{});
    EXPECT_TRUE(next.submit({}));  // planned, and not taken
  }
  for (int trial = 0; trial < 50; ++trial) {
    online_scheduler next(scheduler_of_small_setup());
    EXPECT_TRUE(next.submit(draw_sizes(30, 1)));
  }
}

TEST(OnlineScheduler, AllocatesNothingInTheSteadyState)  // Ensures (4)
{
  online_scheduler next(scheduler_of_small_setup());
  std::vector<std::uint32_t> factors(std::size_t{2} * ballast::shape_buckets, 70'000);
  next.correct(factors);
  std::vector<std::vector<tokens>> steps;
  for (std::uint64_t step = 0; step < 4; ++step) { steps.push_back(draw_sizes(64, 9)); }
  std::size_t before = 0;
  for (std::size_t step = 0; step < 12; ++step) {
    if (step == 4) { before = ballast_test::allocations(); }
    ASSERT_TRUE(next.submit(steps[step % 4]));
    ASSERT_TRUE(next.take());
  }
  EXPECT_EQ(ballast_test::allocations(), before);
}

std::vector<std::uint32_t> factors_at(std::uint64_t step)
{
  if (step % 5 == 0) { return {}; }
  std::vector<std::uint32_t> factors(std::size_t{2} * ballast::shape_buckets,
                                     ballast::unchanged_factor);
  factors[120 + step] = static_cast<std::uint32_t>(ballast::unchanged_factor + 9000 * step);
  return factors;
}

TEST(OnlineScheduler, GoesOnWhereItWasKilled)  // Ensures (5)
{
  constexpr std::uint64_t steps = 12;
  std::string saved;
  std::vector<std::uint64_t> digests;
  {
    online_scheduler next(scheduler_of_small_setup(), 77);
    ASSERT_TRUE(next.submit(draw_sizes(40, 0)));
    for (std::uint64_t step = 0; step < steps; ++step) {
      digests.push_back((*next.take().value()).digest());
      ASSERT_TRUE(next.submit(draw_sizes(40, step + 1)));
      next.correct(factors_at(step));  // learnt while the step ran
      if (step == 5) { saved = next.save(); }
    }
  }
  online_scheduler next(scheduler_of_small_setup());  // of another process
  ASSERT_TRUE(next.restore(saved));
  EXPECT_EQ(next.save(), saved);
  ASSERT_TRUE(next.submit(draw_sizes(40, 6)));
  EXPECT_EQ(next.save(), saved);
  for (std::uint64_t step = 6; step < steps; ++step) {
    EXPECT_EQ((*next.take().value()).digest(), digests[step]) << "step " << step;
    ASSERT_TRUE(next.submit(draw_sizes(40, step + 1)));
    next.correct(factors_at(step));
  }
}

TEST(OnlineScheduler, RefusesStatesThatItDidNotWrite)
{
  online_scheduler next(summing_planner{}, 3);
  next.correct(std::vector<std::uint32_t>{65'536, 5});
  std::string const saved = next.save();
  EXPECT_EQ(saved, "online_scheduler 1\nseed 3\nstep 0\nfactors 2 1 1 5\nagain 0\n");
  for (std::size_t end = 0; end + 1 < saved.size(); ++end) {
    // A shorter last number is a number too.
    EXPECT_FALSE(next.restore(std::string_view(saved).substr(0, end))) << end;
  }
  EXPECT_FALSE(next.restore(saved + "more"));
  EXPECT_EQ(next.restore("online_scheduler 1 seed 3 step -1").error().message,
            "the saved state has '-1' at byte 31 and should have a number from 0 to "
            "9223372036854775807; give what save() returned, of the same version and setup");
  EXPECT_EQ(next.save(), saved);
}

TEST(OnlineScheduler, PlansTheSameOnAllRanks)
{
  auto const ran = ballast::run_ranks(4, [](ballast::thread_communicator& comm) -> result<void> {
    online_scheduler next(scheduler_of_small_setup(), 3);
    if (auto done = next.submit(draw_sizes(50, 0)); !done) { return done; }
    for (std::uint64_t step = 0; step < 10; ++step) {
      auto const plan = next.take();
      if (!plan) { return tl::unexpected(plan.error()); }
      if (auto done = next.submit(draw_sizes(50, step + 1)); !done) { return done; }
      if (auto same = ballast::agree(comm, (*plan)->digest(), "the plan"); !same) { return same; }
    }
    return {};
  });
  for (auto const& rank : ran) { EXPECT_TRUE(rank); }
}

}  // namespace
