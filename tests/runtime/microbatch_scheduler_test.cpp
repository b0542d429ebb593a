#include <ballast/runtime/microbatch_scheduler.hpp>  // first: proves it is self-contained

#include "../support/all_assignments.hpp"
#include "../support/counted_allocations.hpp"
#include "../support/pipelines.hpp"
#include "../support/random_modules.hpp"
#include "../support/test.hpp"
#include "scheduled_steps.hpp"

#include <ballast/parallelism/search_layouts.hpp>
#include <ballast/parallelism/simulate_layout.hpp>
#include <ballast/pipeline.hpp>
#include <ballast/runtime/online_scheduler.hpp>
#include <ballast/runtime/schedule_layout.hpp>  // first: proves it is self-contained

namespace {

using ballast::insertion;
using ballast::microbatch_scheduler;
using ballast::sample_id;
using ballast::scheduled_step;
using ballast::scheduler_setup;
using ballast::shape_buckets;
using ballast::stage_time;
using ballast::tokens;
using ballast::unchanged_factor;
using ballast_test::draw_sizes;
using ballast_test::simulated_makespan;
using ballast_test::small_setup;
using ballast_test::square_times;
using testing::HasSubstr;

template <class Order = insertion>
auto scheduler_of(scheduler_setup setup, Order order = {})
{
  return microbatch_scheduler<2, square_times, Order>::make(std::move(setup), {}, std::move(order))
      .value();
}

/// Two encoders of two stages that feed three LLMs of one, in each of `groups` groups.
scheduler_setup unequal_setup(std::uint32_t groups, std::size_t microbatches)
{
  std::vector<ballast::pipeline_stage> stages(7);
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    stages[stage].rank = ballast::to_id<ballast::pipeline_rank>(stage);
  }
  std::vector<ballast::stage_link> links;
  auto const link = [&](std::size_t from, std::size_t to) {
    links.push_back(
        {ballast::to_id<ballast::stage_id>(from), ballast::to_id<ballast::stage_id>(to)});
  };
  for (std::size_t encoder = 0; encoder < 2; ++encoder) {
    link(2 * encoder, 2 * encoder + 1);
    for (std::size_t llm = 4; llm < 7; ++llm) { link(2 * encoder + 1, llm); }
  }
  auto const graph = ballast::stage_graph::make(stages, links).value();
  return {ballast::compiled_schedule::make(graph, ballast::one_forward_one_backward{}, microbatches)
              .value(),
          {{2 * groups, {5, 4}}, {3 * groups, {7}}},
          ballast::no_limit,
          40'000};
}

/// Every sample is in one microbatch of each module, of one group and position; times are their
/// sums.
void expect_whole(scheduled_step<2> const& step, std::span<tokens const> sizes,
                  std::span<std::uint32_t const> factors = {})
{
  std::vector<std::array<std::pair<std::size_t, std::size_t>, 2>> where(sizes.size() / 2);
  std::size_t found = 0;
  for (std::size_t module = 0; module < 2; ++module) {
    std::size_t const of_group = step.replicas[module] / step.pipelines();
    for (std::size_t replica = 0; replica < step.replicas[module]; ++replica) {
      for (std::size_t position = 0; position < step.microbatches; ++position) {
        stage_time sum;
        for (sample_id const sample : step.microbatch(module, replica, position)) {
          where[to_index(sample)][module] = {replica / of_group, position};
          ++found;
          stage_time own = square_times{}(sizes.subspan(2 * to_index(sample)).first<2>())[module];
          if (!factors.empty()) {
            auto const factor =
                factors[module * shape_buckets +
                        ballast::shape_bucket(sizes[2 * to_index(sample) + module])];
            own.forward = own.forward * factor / unchanged_factor;
            own.backward = own.backward * factor / unchanged_factor;
          }
          sum = {sum.forward + own.forward, sum.backward + own.backward};
        }
        auto const& times = step.times[replica / of_group];
        stage_time in_plan;
        for (std::size_t stage = 0; stage < step.stages.size(); ++stage) {
          auto const& place = step.stages[stage];
          if (place.module != module || place.replica != replica % of_group) { continue; }
          auto const& part = times[ballast::to_id<ballast::microbatch_id>(position)][stage];
          in_plan = {in_plan.forward + part.forward, in_plan.backward + part.backward};
        }
        EXPECT_EQ(in_plan, sum) << "module " << module << " replica " << replica;
      }
    }
  }
  EXPECT_EQ(found, sizes.size());
  for (auto const& [encoder, llm] : where) { EXPECT_EQ(encoder, llm); }
}

TEST(MicrobatchScheduler, PutsEverySampleInOneMicrobatch)  // Ensures (1)
{
  auto small = scheduler_of(small_setup(4, 8));
  auto unequal = scheduler_of(unequal_setup(3, 5));
  scheduled_step<2> step;
  for (std::size_t const samples : {0U, 1U, 7U, 31U, 32U, 200U}) {
    SCOPED_TRACE(samples);
    auto const sizes = draw_sizes(samples, samples);
    ASSERT_TRUE(small(step, sizes, 1, 0, {}));
    EXPECT_EQ(step.pipelines(), 4U);
    EXPECT_EQ(step.ranks(), 16U);
    expect_whole(step, sizes);
    EXPECT_LE(step.largest_load_bound, step.largest_load);
    EXPECT_EQ(step.makespan, simulated_makespan(small_setup(4, 8).schedule, step.times));
    EXPECT_EQ(step.uncorrected, step.makespan);
    ASSERT_TRUE(unequal(step, sizes, 1, 0, {}));
    EXPECT_EQ(step.pipelines(), 3U);
    EXPECT_EQ(step.microbatches, 5U);
    expect_whole(step, sizes);
  }
}

TEST(MicrobatchScheduler, MakesMicrobatchesAndReplicasEven)
{
  auto setup = small_setup(4, 16);
  setup.simulated_tasks = 0;
  auto scheduler = scheduler_of(std::move(setup));
  scheduled_step<2> step;
  ASSERT_TRUE(scheduler(step, draw_sizes(2048, 3), 1, 0, {}));
  EXPECT_EQ(step.makespan, step.even_makespan);
  EXPECT_LE(step.largest_load_gap(), 0.01);
  std::vector<ballast::time_units> work;
  for (auto const& of_group : step.times) {
    ballast::time_units sum = 0;
    for (auto const& [forward, backward] : of_group.rows) { sum += forward + backward; }
    work.push_back(sum);
  }
  auto const [least, most] = std::ranges::minmax(work);
  EXPECT_LE(static_cast<double>(most), 1.01 * static_cast<double>(least));
}

/// The most tokens that a replica of the last module holds at once.
tokens most_held(scheduled_step<2> const& step, std::vector<tokens> const& sizes)
{
  tokens most = 0;
  for (std::size_t replica = 0; replica < step.replicas[1]; ++replica) {
    for (std::size_t position = 0; position < step.microbatches; ++position) {
      tokens held = 0;
      for (sample_id const sample : step.microbatch(1, replica, position)) {
        held += sizes[2 * to_index(sample) + 1];
      }
      most = std::max(most, held);
    }
  }
  return most;
}

TEST(MicrobatchScheduler, KeepsToWhatAReplicaHolds)  // Ensures (2)
{
  for (bool const equal : {true, false}) {
    auto setup = equal ? small_setup(3, 6) : unequal_setup(2, 6);
    setup.most_per_gpu = 4000;
    auto scheduler = scheduler_of(std::move(setup));
    scheduled_step<2> step;
    auto const sizes = draw_sizes(60, 5);
    ASSERT_TRUE(scheduler(step, sizes, 1, 0, {}));
    EXPECT_LE(most_held(step, sizes), 4000);
    EXPECT_EQ(scheduler(step, draw_sizes(600, 5), 1, 0, {}).error().code,
              ballast::error_code::infeasible);
  }
}

/// Oracle: whether there is a way to fill four microbatches of 1,000 tokens.
bool can_hold(std::vector<tokens> const& sizes)
{
  std::vector<tokens> own;
  for (std::size_t at = 1; at < sizes.size(); at += 2) { own.push_back(sizes[at]); }
  return ballast_test::least_of_all(
             own.size(), 4,
             [&](ballast_test::assignment const& owner) {
               auto const held = ballast_test::sums_of(owner, own, std::vector<tokens>(4, 0));
               return std::ranges::max(held) <= 1000 ? std::optional(0) : std::nullopt;
             })
      .has_value();
}

TEST(MicrobatchScheduler, RefusesOnlyWhatNoPlanHolds)  // Ensures (2), against all plans
{
  ballast::random_source random(31);
  auto setup = small_setup(1, 2);  // two replicas of the last module in a group
  auto const graph = ballast::stage_graph::make(
      {{ballast::pipeline_rank{0}}, {ballast::pipeline_rank{1}}, {ballast::pipeline_rank{2}}},
      {{ballast::stage_id{0}, ballast::stage_id{1}}, {ballast::stage_id{0}, ballast::stage_id{2}}});
  setup.schedule =
      ballast::compiled_schedule::make(*graph, ballast::one_forward_one_backward{}, 2).value();
  setup.modules = {{1, {1}}, {2, {1}}};
  setup.most_per_gpu = 1000;
  auto of_one = setup;
  of_one.schedule =
      ballast::compiled_schedule::make(*graph, ballast::one_forward_one_backward{}, 1).value();
  auto scheduler = scheduler_of(std::move(setup));
  scheduled_step<2> step;
  // Heaviest first, 500 and 400 leave 100 that nothing fills.
  std::vector<tokens> const full{1, 500, 1, 400, 1, 400, 1, 300, 1, 200, 1, 200};
  ASSERT_TRUE(scheduler_of(std::move(of_one))(step, full, 1, 0, {}));
  EXPECT_EQ(most_held(step, full), 1000);
  int planned = 0;
  int refused = 0;
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<tokens> sizes{1, 900, 1, 600, 1, 600, 1, 600, 1, 300, 1, 300, 1, 300};
    for (std::size_t at = 1; trial > 0 && at < sizes.size(); at += 2) {
      sizes[at] = 100 * random.between(2, 9);
    }
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const done = scheduler(step, sizes, 1, 0, {});
    ASSERT_EQ(done.has_value(), can_hold(sizes));
    ++(done ? planned : refused);
    if (!done) { continue; }
    EXPECT_LE(step.largest_load_bound, step.largest_load);
    EXPECT_LE(most_held(step, sizes), 1000);
    expect_whole(step, sizes);
  }
  EXPECT_GE(planned, 50);
  EXPECT_GE(refused, 20);
}

/// A chain of stages of one module, each on a rank of its own, in each of `groups` pipelines.
scheduler_setup chain_setup(std::uint32_t groups, std::uint32_t stages, std::size_t microbatches)
{
  auto const chain = ballast::joined_stages({.encoders = {}, .llm = {stages}, .generators = {}});
  return {.schedule = ballast::compiled_schedule::make(*chain, ballast::one_forward_one_backward{},
                                                       microbatches)
                          .value(),
          .modules = {{groups, std::vector<std::uint32_t>(stages, 1)}}};
}

/// Every stage takes as long as the sample has tokens, and twice as long backward.
struct token_times {
  std::int64_t stages = 1;

  std::array<stage_time, 1> operator()(std::span<tokens const, 1> sizes) const
  {
    return {stage_time{stages * sizes[0], 2 * stages * sizes[0]}};
  }
};

ballast::time_units planned_makespan(scheduler_setup setup, std::vector<tokens> const& sizes)
{
  auto const stages = static_cast<std::int64_t>(setup.modules[0].layers.size());
  auto const schedule = setup.schedule;
  auto scheduler = microbatch_scheduler<1, token_times>::make(std::move(setup), {stages}).value();
  scheduled_step<1> step;
  EXPECT_TRUE(scheduler(step, sizes, 1, 0, {}));
  EXPECT_LE(step.makespan, step.even_makespan);
  for (std::size_t group = 0; group < step.pipelines(); ++group) {
    ballast::pipeline_times times(step.microbatches, step.stages.size());
    for (ballast::microbatch_id const position : ballast_test::numbered_order(step.microbatches)) {
      for (sample_id const sample : step.microbatch(0, group, to_index(position))) {
        for (stage_time& each : times[position]) {
          each.forward += sizes[to_index(sample)];
          each.backward += 2 * sizes[to_index(sample)];
        }
      }
    }
    EXPECT_EQ(times, step.times[group]);
  }
  EXPECT_EQ(step.makespan, simulated_makespan(schedule, step.times));
  return step.makespan;
}

TEST(MicrobatchScheduler, MakesMicrobatchesUnequalWhereTheStepIsShorter)  // Ensures (5)
{
  auto even = chain_setup(1, 2, 3);
  even.simulated_tasks = 0;
  EXPECT_EQ(planned_makespan(even, std::vector<tokens>(6, 1)), 24);                  // 2 2 2
  EXPECT_EQ(planned_makespan(chain_setup(1, 2, 3), std::vector<tokens>(6, 1)), 23);  // 1 3 2
  // 1 2 4 4 4 4 3 2 take 85; 3 3 3 3 3 3 3 3 take 90.
  EXPECT_LE(planned_makespan(chain_setup(1, 3, 8), std::vector<tokens>(24, 1)), 85);
  EXPECT_EQ(planned_makespan(chain_setup(2, 3, 4), {}), 0);
  EXPECT_EQ(planned_makespan(chain_setup(2, 3, 4), {0, 0, 0}), 0);
}

/// Oracle: the shortest step of all assignments of samples to positions of all pipelines.
ballast::time_units shortest_step(scheduler_setup const& setup, std::vector<tokens> const& sizes)
{
  std::size_t const positions = setup.schedule.microbatches();
  std::size_t const stages = setup.modules[0].layers.size();
  std::size_t const groups = setup.modules[0].replicas;
  auto const order = ballast_test::numbered_order(positions);
  return ballast_test::least_of_all(
             sizes.size(), groups * positions,
             [&](ballast_test::assignment const& place) {
               std::vector<ballast::pipeline_times> times(groups, {positions, stages});
               for (std::size_t sample = 0; sample < place.size(); ++sample) {
                 for (stage_time& each :
                      times[place[sample] / positions][order[place[sample] % positions]]) {
                   each.forward += sizes[sample];
                   each.backward += 2 * sizes[sample];
                 }
               }
               return std::optional(simulated_makespan(setup.schedule, times));
             })
      .value();
}

TEST(MicrobatchScheduler, FindsTheShortestOfAllSmallSteps)  // Ensures (5), against all assignments
{
  ballast::random_source random(77);
  int const trials = ballast_test::trials_of(40);
  int optimal = 0;
  double worst = 1;
  for (int trial = 0; trial < trials; ++trial) {
    auto const groups = static_cast<std::uint32_t>(random.between(1, 2));
    auto setup =
        chain_setup(groups, static_cast<std::uint32_t>(random.between(2, 4)), groups == 1 ? 4 : 2);
    setup.simulated_tasks = 200'000;
    std::vector<tokens> sizes(6);
    for (tokens& each : sizes) { each = random.between(1, 20); }
    auto const shortest = shortest_step(setup, sizes);
    auto const planned = planned_makespan(setup, sizes);
    ASSERT_GE(planned, shortest);
    optimal += planned == shortest ? 1 : 0;
    worst = std::max(worst, static_cast<double>(planned) / static_cast<double>(shortest));
  }
  EXPECT_GE(optimal, trials * 9 / 10);
  EXPECT_LE(worst, 1.05);
}

TEST(MicrobatchScheduler, DependsOnItsArgumentsAlone)  // Ensures (3)
{
  using ballast::local_search;
  local_search const search{insertion{}, 300};
  auto one = scheduler_of(small_setup(2, 16), search);
  auto other = scheduler_of(small_setup(2, 16), search);
  scheduled_step<2> step;
  std::map<std::uint64_t, std::set<std::uint64_t>> digests;
  for (std::uint64_t const number : {0U, 1U}) {
    auto const sizes = draw_sizes(80, 6);
    ASSERT_TRUE(
        one(step, draw_sizes(33, 8), 1, 9, {}));  // what it planned before has no part in it
    ASSERT_TRUE(one(step, sizes, 1, number, {}));
    auto const first = step.digest();
    ASSERT_TRUE(other(step, sizes, 1, number, {}));
    EXPECT_EQ(step.digest(), first);
    ASSERT_TRUE(other(step, sizes, 2, number, {}));
    EXPECT_NE(step.digest(), first);  // the order is searched from another seed
  }
}

TEST(MicrobatchScheduler, PricesWhatItKnowsToBeSlow)
{
  auto setup = small_setup(2, 8);
  setup.simulated_tasks = 0;  // chance has no part in which of two plans is shorter
  auto scheduler = scheduler_of(setup);
  scheduled_step<2> step;
  auto const sizes = draw_sizes(64, 7);
  std::vector<std::uint32_t> factors(std::size_t{2} * shape_buckets, unchanged_factor);
  for (std::size_t shape = 130; shape < 170; ++shape) {
    factors[shape_buckets + shape] = 2 * unchanged_factor;
  }
  ASSERT_TRUE(scheduler(step, sizes, 1, 0, factors));
  expect_whole(step, sizes, factors);
  EXPECT_TRUE(step.corrected);
  EXPECT_LT(step.makespan, step.uncorrected);

  // What the plan of uncorrected costs takes at corrected ones, computed by hand.
  auto plain = scheduler_of(std::move(setup));
  scheduled_step<2> uncorrected;
  ASSERT_TRUE(plain(uncorrected, sizes, 1, 0, {}));
  std::fill(factors.begin(), factors.end(), unchanged_factor);
  scheduled_step<2> same;
  ASSERT_TRUE(scheduler(same, sizes, 1, 0, factors));
  EXPECT_EQ(same.digest(), uncorrected.digest());
  EXPECT_EQ(same.uncorrected, uncorrected.makespan);
}

TEST(MicrobatchScheduler, AllocatesNothingInTheSteadyState)  // Ensures (4)
{
  std::vector<std::uint32_t> const factors(std::size_t{2} * shape_buckets, 80'000);
  for (bool const equal : {true, false}) {
    auto setup = equal ? small_setup(3, 6) : unequal_setup(2, 6);
    setup.most_per_gpu = 9000;
    auto scheduler = scheduler_of(std::move(setup));
    scheduled_step<2> step;
    auto const sizes = draw_sizes(100, 5);
    std::size_t before = 0;
    for (int round = 0; round < 3; ++round) {
      before = ballast_test::allocations();
      ASSERT_TRUE(scheduler(step, sizes, 1, 0, factors));
    }
    EXPECT_EQ(ballast_test::allocations(), before);
  }
}

TEST(MicrobatchScheduler, SaysWhatIsWrong)
{
  auto scheduler = scheduler_of(small_setup(2, 4));
  scheduled_step<2> step;
  auto const message = [&](std::vector<tokens> const& sizes,
                           std::vector<std::uint32_t> const& factors = {}) {
    auto const planned = scheduler(step, sizes, 1, 0, factors);
    return planned ? "" : planned.error().message;
  };
  EXPECT_THAT(message({1, 2, 3}),
              HasSubstr("sizes has 3 entries, no whole number of samples of 2 modules"));
  EXPECT_THAT(message({1, 2, 3, -4}), HasSubstr("sample 1 has size -4 in module 1"));
  EXPECT_THAT(message({1, 2}, {5}), HasSubstr("factors has 1 entry for 1728 shapes"));
  EXPECT_THAT(message({1, ballast::longest_sample}), HasSubstr("sample 0 takes no time"));

  using makes = microbatch_scheduler<2, square_times, ballast::given_order>;
  auto setup = small_setup(2, 4);
  setup.modules.pop_back();
  EXPECT_THAT(makes::make(setup, {}).error().message, HasSubstr("2 modules was given 1"));
}

struct layout_job {
  ballast_test::random_model model;
  ballast::layout_problem problem;
};

// An encoder and an LLM on 16 GPUs, steps of 64 samples.
layout_job random_job(std::uint64_t seed)
{
  ballast::random_source random(seed);
  layout_job made{ballast_test::draw_model(random, 2, 128, true, std::uint64_t{80} << 30), {}};
  made.problem.modules = made.model.modules;
  made.problem.sizes = made.model.sizes;
  made.problem.global_batch = 64;
  made.problem.kinds[0].gpus = 16;
  made.problem.kinds[0].memory_bytes = std::uint64_t{80} << 30;
  return made;
}

TEST(ScheduleLayout, PlansShorterStepsThanThoseOfUnbalancedBatches)
{
  std::size_t layouts = 0;
  double scheduled = 0;
  double as_read = 0;
  constexpr std::uint64_t jobs = ballast_test::is_sanitized ? 1 : 12;
  for (std::uint64_t seed = 0; seed < jobs; ++seed) {
    layout_job made = random_job(seed);
    auto const batch = std::span<tokens const>(made.model.sizes).first(128);
    auto const found = ballast::search_layouts(made.problem, batch, {.best = 3});
    if (!found) { continue; }
    for (auto const& [layout, simulated] : found->layouts) {
      auto scheduler = ballast::schedule_layout<2>(made.problem, layout, insertion{});
      ASSERT_TRUE(scheduler) << scheduler.error().message;
      scheduled_step<2> step;
      auto const planned = (*scheduler)(step, batch, 1, 0, {});
      if (!planned) {  // one sample is more than a replica can hold
        EXPECT_EQ(planned.error().code, ballast::error_code::infeasible);
        continue;
      }
      EXPECT_EQ(step.microbatches, layout.microbatches);
      EXPECT_EQ(step.replicas, (std::array{layout.modules[0].dp, layout.modules[1].dp}));
      auto const ran = ballast::simulate_step(made.problem, layout, step, batch).value();
      EXPECT_LE(ran.busy, ran.makespan * 16);
      EXPECT_GT(ran.busy, 0);
      ++layouts;
      scheduled += static_cast<double>(ran.makespan);
      as_read += static_cast<double>(
          ballast::simulate_layout(made.problem, layout, batch, ballast::sample_dealing::as_drawn)
              .value());
    }
  }
  EXPECT_GE(layouts, 5 * jobs / 6);
  EXPECT_LT(scheduled, 0.95 * as_read);
}

TEST(ScheduleLayout, TakesVirtualStages)
{
  layout_job made = random_job(3);
  made.model.modules[1].layers = 8;
  made.problem.kinds[0].memory_bytes = ~std::uint64_t{0};
  ballast::model_layout layout{{{1, 1, 8}, {1, 4, 2}}, 8};
  auto const batch = std::span<tokens const>(made.model.sizes).first(128);
  for (std::uint32_t const virtual_stages : {1U, 2U}) {
    layout.virtual_stages = virtual_stages;
    auto scheduler = ballast::schedule_layout<2>(made.problem, layout, insertion{});
    ASSERT_TRUE(scheduler) << scheduler.error().message;
    scheduled_step<2> step;
    auto const planned = (*scheduler)(step, batch, 1, 0, {});
    ASSERT_TRUE(planned) << planned.error().message;
    EXPECT_EQ(step.stages.size(), 4 + 4 * virtual_stages) << "of a group";
    auto const ran = ballast::simulate_step(made.problem, layout, step, batch).value();
    EXPECT_LE(ran.busy, ran.makespan * 16);
    EXPECT_GT(ran.busy, 0);
  }
}

TEST(ScheduleLayout, RefusesWhatIsNoLayoutOfTheProblem)
{
  layout_job made = random_job(1);
  auto const message = [&](ballast::model_layout const& layout) {
    auto const scheduler = ballast::schedule_layout<2>(made.problem, layout, insertion{});
    return scheduler ? "" : scheduler.error().message;
  };
  EXPECT_NE(message({{{1, 1, 1}, {1, 1, 1}}, 1}), "");  // two of 16 GPUs
  auto const three = ballast::schedule_layout<3>(made.problem, {{}, 1}, insertion{});
  EXPECT_THAT(three.error().message, HasSubstr("of 3 modules was given a problem of 2"));
}

}  // namespace
