#include <ballast/runtime/online_scheduler.hpp>  // first: proves it is self-contained

#include "../support/counted_allocations.hpp"
#include "../support/test.hpp"
#include "scheduled_steps.hpp"

#include <ballast/pipeline/order_search.hpp>
#include <ballast/runtime/microbatch_scheduler.hpp>
#include <ballast/runtime/scheduled_step.hpp>

#include <atomic>
#include <new>
#include <stdexcept>

namespace {

using ballast::bag_id;
using ballast::error_code;
using ballast::online_scheduler;
using ballast::sample_id;
using ballast::scheduled_step;
using ballast::shape_bucket;
using ballast::tokens;
using ballast_test::draw_sizes;
using ballast_test::small_setup;
using testing::ElementsAre;
using testing::HasSubstr;

using small_scheduler = ballast::microbatch_scheduler<2, ballast_test::square_times,
                                                      ballast::local_search<ballast::insertion>>;

small_scheduler scheduler_of_small_setup()
{
  return small_scheduler::make(small_setup(2, 4), ballast_test::square_times{},
                               {.inner = {}, .evaluations = 200})
      .value();
}

/// Sums the sizes, refuses a step that begins with -1 and throws where it begins with -2.
struct summing_planner {
  using plan_type = std::int64_t;

  std::atomic<bool> const* may_go_on = nullptr;

  ballast::result<void> operator()(std::int64_t& plan, std::span<tokens const> sizes,
                                   std::uint64_t seed, std::uint64_t number,
                                   std::span<std::uint32_t const> factors) const
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
  constexpr std::size_t of_batch = ballast_test::is_sanitized ? 12 : 40;
  auto const batch = [](std::uint64_t step) { return draw_sizes(of_batch, step); };
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
      .schedule = ballast::compiled_schedule(stages, one_forward_one_backward, microbatches),
      .modules = {{replicas, {8}}, {replicas, {10, 10, 9}}},  // layers of each stage
      .most_per_gpu = 20'000};                                // tokens that a GPU can hold
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
  EXPECT_EQ(trained, 3 * of_batch);
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
  for (int trial = 0; trial < ballast_test::trials_of(50); ++trial) {
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

// Two groups of one replica of module 0 and two of module 1, two microbatches each; six samples.
scheduled_step<2> two_groups()
{
  scheduled_step<2> step;
  step.number = 4;
  step.microbatches = 2;
  step.stages = {{0, 0, 1, 1}, {1, 0, 1, 1}, {1, 1, 1, 1}};
  step.times.assign(2, ballast::pipeline_times(2, 3));
  step.replicas = {2, 4};
  step.owner[0] = {bag_id{0}, bag_id{3}, bag_id{1}, bag_id{2}, bag_id{3}, bag_id{0}};
  step.owner[1] = {bag_id{0}, bag_id{6}, bag_id{3}, bag_id{5}, bag_id{7}, bag_id{1}};
  step.samples[0].collect(step.owner[0], 4);
  step.samples[1].collect(step.owner[1], 8);
  return step;
}

TEST(ScheduledStep, SaysWhatEachReplicaComputesAtEachPosition)  // Ensures (1)
{
  auto const step = two_groups();
  EXPECT_EQ(step.pipelines(), 2U);
  EXPECT_EQ(step.ranks(), 6U);
  EXPECT_THAT(step.microbatch(0, 0, 0), ElementsAre(sample_id{0}, sample_id{5}));
  EXPECT_THAT(step.microbatch(0, 1, 1), ElementsAre(sample_id{1}, sample_id{4}));
  EXPECT_THAT(step.microbatch(1, 0, 0), ElementsAre(sample_id{0}));
  EXPECT_THAT(step.microbatch(1, 1, 0), ElementsAre(sample_id{5}));
  EXPECT_THAT(step.microbatch(1, 1, 1), ElementsAre(sample_id{2}));
  EXPECT_THAT(step.microbatch(1, 0, 1), testing::IsEmpty());
  EXPECT_THAT(step.microbatch(1, 3, 1), ElementsAre(sample_id{4}));
}

TEST(ScheduledStep, HasADigestOfAllThatRanksHaveToAgreeOn)
{
  auto const step = two_groups();
  EXPECT_EQ(step.digest(), two_groups().digest());
  auto other = step;
  other.number = 5;
  EXPECT_NE(other.digest(), step.digest());
  other = step;
  other.owner[1][2] = bag_id{2};
  EXPECT_NE(other.digest(), step.digest());
  other = step;
  other.makespan = 1;
  EXPECT_NE(other.digest(), step.digest());
}

TEST(ScheduledStep, SaysHowFarItIsFromTheBound)
{
  auto step = two_groups();
  step.largest_load = 103;
  step.largest_load_bound = 100;
  EXPECT_DOUBLE_EQ(step.largest_load_gap(), 0.03);
  EXPECT_EQ(scheduled_step<2>{}.largest_load_gap(), 0);
}

TEST(ScheduledStepDeathTest, HasNoOtherMicrobatches)  // Expects
{
  auto const step = two_groups();
  EXPECT_DEATH((void)step.microbatch(0, 2, 0), "microbatch 0 of replica 2 of module 0");
}

TEST(SchedulerSetup, HasAsManyGroupsAsItsReplicasShare)
{
  EXPECT_EQ(small_setup(6, 4).groups(2), 6U);
  EXPECT_EQ(ballast::scheduler_setup::module_spread{}.all_layers(), 1U);
  EXPECT_EQ(small_setup(1, 4).modules[1].all_layers(), 29U);
}

TEST(SchedulerSetup, SaysWhatIsWrong)  // Errors
{
  auto setup = small_setup(2, 4);
  EXPECT_THAT(setup.groups(1).error().message, HasSubstr("a scheduler of 1 module was given 2"));
  setup.modules[1].layers = {0, 0, 0};
  EXPECT_EQ(setup.groups(2).error().position, 1U);
  setup = small_setup(2, 4);
  setup.modules[0].replicas = 0;
  EXPECT_EQ(setup.groups(2).error().code, error_code::out_of_range);
  setup.modules[0].replicas = 4;
  EXPECT_THAT(setup.groups(2).error().message,
              HasSubstr("5 stages in each of 2 groups of replicas, and the schedule has 4"));
}

static_assert(shape_bucket(0) == 0 && shape_bucket(63) == 63);
static_assert(shape_bucket(64) == 64 && shape_bucket(65) == 64 && shape_bucket(66) == 65);
static_assert(shape_bucket(127) == 95 && shape_bucket(128) == 96);

TEST(ShapeBucket, GrowsWithTheSize)  // Ensures (1)
{
  for (tokens size = 1; size < 100'000; ++size) {
    std::uint32_t const before = shape_bucket(size - 1);
    EXPECT_GE(shape_bucket(size), before);
    EXPECT_LE(shape_bucket(size), before + 1);
  }
}

TEST(ShapeBucket, IsBelowTheirNumber)  // Ensures (2)
{
  EXPECT_EQ(shape_bucket(ballast::longest_sample), ballast::shape_buckets - 1);
}

TEST(ShapeBucketDeathTest, RefusesSizesThatNoSampleHas)  // Expects
{
  EXPECT_DEATH((void)shape_bucket(-1), "a sample of size -1 has no shape");
}

}  // namespace
