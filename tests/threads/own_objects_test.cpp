// SPDX-License-Identifier: Apache-2.0
// What each thread has to itself, and that the library has nothing besides: no globals, no statics
// that change, no threads of its own but those of schedulers. What several threads may read at the
// same time: the thread sanitizer reports a write among these. That what the library calls may call
// the library. Which threads may call a communicator; what all communicators promise is in
// comm/conformance.hpp.
#include "../../examples/common/baselines/karmarkar_karp.hpp"
#include "../../examples/common/by_name/any_order_policy.hpp"
#include "../../examples/common/by_name/any_policy.hpp"
#include "../../examples/common/by_name/parse_order_policy.hpp"
#include "../../examples/common/by_name/parse_policy.hpp"
#include "../support/pipelines.hpp"
#include "../support/test.hpp"

#include <ballast/comm/gather_samples.hpp>
#include <ballast/comm/thread_communicator.hpp>
#include <ballast/cost/cost_spec.hpp>
#include <ballast/partition.hpp>
#include <ballast/pipeline.hpp>
#include <ballast/route.hpp>
#include <ballast/runtime/online_scheduler.hpp>
#include <ballast/text/read_file.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/workload/synthetic_lengths.hpp>

#include <deque>
#include <latch>
#include <mutex>

namespace {

using ballast::bag_id;
using ballast::cost_units;
using ballast::one_gpu_bags;
using ballast::rank_id;
using ballast::thread_communicator;
using ballast::tokens;
using ballast::workspace;
using testing::Each;
using namespace ballast::literals;

// Calls f(0), f(1), ... on a thread each, which all begin together, and returns their values in
// this order once all have returned.
template <class F>
auto at_once(std::size_t threads, F const& f)
{
  std::deque<decltype(f(threads))> values(threads);  // a vector of bool would share words
  std::latch begin(static_cast<std::ptrdiff_t>(threads));
  {
    std::vector<std::jthread> running;
    running.reserve(threads);
    for (std::size_t thread = 0; thread < threads; ++thread) {
      running.emplace_back([&, thread] {
        begin.arrive_and_wait();
        values[thread] = f(thread);
      });
    }
  }
  return values;
}

constexpr auto squared = [](tokens length) { return length * length; };

std::vector<tokens> random_lengths(std::uint64_t seed)
{
  std::vector<tokens> lengths(40);
  ballast::random_source random(seed);
  for (tokens& length : lengths) { length = random.between(4, 900); }
  return lengths;
}

// Of microbatches on stages that forward takes so long, by the number of the microbatch.
template <class Forward>
ballast::pipeline_times times_by_number(std::size_t microbatches, std::size_t stages,
                                        ballast::time_units backward, Forward forward)
{
  return {microbatches, stages, [&](std::size_t at, std::size_t) {
            return ballast::stage_time{static_cast<ballast::time_units>(forward(at)), backward};
          }};
}

TEST(OwnObjects, LetALoaderPlanTheNextStepDuringThisOne)
{
  auto const lengths_of = [](std::uint64_t step) { return random_lengths(step); };
  std::vector<std::uint64_t> carried_out;
  auto const carry_out = [&](ballast::partition_plan const& plan) {
    carried_out.push_back(plan.digest());
  };
  auto const bags = one_gpu_bags(4);
  // [next_step]
  std::array<ballast::partition_plan, 2> plans;  // of this step and of the next
  ballast::workspace of_loader;
  auto const plan_step = [&](std::size_t step) {  // writes the plan that nobody reads now
    or_throw(ballast::partition_into(plans[step % 2], of_loader, lengths_of(step), bags, squared));
  };
  plan_step(0);
  for (std::size_t step = 0; step < 4; ++step) {
    std::jthread const loader(plan_step, step + 1);
    carry_out(plans[step % 2]);
  }  // waits for the loader
  // [next_step]
  ASSERT_EQ(carried_out.size(), 4U);
  for (std::size_t step = 0; step < 4; ++step) {
    auto const alone = ballast::partition(lengths_of(step), bags, squared);
    EXPECT_EQ(carried_out[step], alone->digest()) << "step " << step;
  }
}

TEST(OwnObjects, LetThreadsParseAtTheSameTime)
{
  auto const parse = [](std::size_t) {
    return by_name::parse_policy("refine(karmarkar_karp)").has_value() &&
           !by_name::parse_policy("refine(").has_value() &&
           ballast::parse_bags("g1n4+g4n1").has_value() &&
           ballast::parse_cost_spec("transformer:d=3072,gamma=0.405").has_value();
  };
  EXPECT_THAT(at_once(4, parse), Each(true));
}

TEST(OwnObjects, LetThreadsReadFilesOfTheirOwn)
{
  auto const copy = [](std::size_t thread) {
    std::string const path = testing::TempDir() + "ballast_threads_" + std::to_string(thread);
    std::string const content(1000 + thread, 'x');
    std::ofstream(path) << content;
    return ballast::read_file(path).value_or("") == content &&
           !ballast::read_file(path + "/missing").has_value();
  };
  EXPECT_THAT(at_once(4, copy), Each(true));
}

TEST(OwnObjects, AreUsedByOneThreadAfterAnother)
{
  ballast::partition_plan plan;
  workspace memory;
  std::mutex mine;
  auto const lengths = random_lengths(7);
  auto const alone = ballast::partition(lengths, one_gpu_bags(4), squared)->digest();
  auto const digests = at_once(4, [&](std::size_t) {
    std::lock_guard const lock(mine);
    auto const done = ballast::partition_into(plan, memory, lengths, one_gpu_bags(4), squared);
    return done ? plan.digest() : 0;
  });
  EXPECT_THAT(digests, Each(alone));
}

TEST(OwnObjects, CallProjectionsAndPoliciesOnTheThreadThatPlans)
{
  auto const caller = std::this_thread::get_id();
  std::vector<tokens> const lengths{9, 5, 7, 1};
  std::vector<tokens> asked;
  bool elsewhere = false;
  auto const cost = [&](tokens length) {
    asked.push_back(length);
    elsewhere = elsewhere || std::this_thread::get_id() != caller;
    return length;
  };
  ASSERT_TRUE(ballast::partition(lengths, one_gpu_bags(2), cost));
  EXPECT_EQ(asked, lengths) << "once for each sample, in order";
  EXPECT_FALSE(elsewhere);
}

TEST(OwnObjects, CopiesOfARandomSourceGoOnByThemselves)
{
  ballast::random_source const source(5);
  auto const draw = [&](std::size_t) {
    ballast::random_source own = source;
    return std::array{own(), own(), own()};
  };
  EXPECT_THAT(at_once(4, draw), Each(draw(0)));
}

// One model: its own ranks, bags, costs, plans and workspaces. Returns the rows that ranks compute.
std::vector<tokens> train_model(std::size_t ranks, std::uint64_t seed)
{
  return ballast::run_ranks(ranks, [&](thread_communicator& comm) {
    auto const bags = one_gpu_bags(comm.size());
    workspace memory;
    ballast::partition_plan plan;
    ballast::placement as_read;
    ballast::placement as_planned;
    tokens rows = 0;
    for (std::uint64_t step = 0; step < 3; ++step) {
      auto const lengths = random_lengths(seed + step);
      std::vector<rank_id> const reader(lengths.size(), rank_id{0});
      or_throw(ballast::partition_into(plan, memory, lengths, bags, squared, {},
                                       ballast::longest_processing_time{}));
      ballast::place(as_read, lengths, reader, comm.size());
      or_throw(ballast::place(as_planned, plan, bags));
      auto const route = ballast::plan_route(as_read, as_planned, comm.rank());
      std::vector<std::int32_t> x(static_cast<std::size_t>(route.rows_before));
      std::vector<std::int32_t> there(static_cast<std::size_t>(route.rows_after));
      std::iota(x.begin(), x.end(), 0);
      or_throw(ballast::route(comm, route, memory, ballast::rows_of(x, there)));
      rows += route.rows_after + (there.empty() ? 0 : there.front());
    }
    return rows;
  });
}

// Its plan is the thread that it ran on.
struct planner_that_tells_its_thread {
  using plan_type = std::thread::id;
  ballast::result<void> operator()(std::thread::id& plan, std::span<tokens const>, std::uint64_t,
                                   std::uint64_t, std::span<std::uint32_t const>) const
  {
    plan = std::this_thread::get_id();
    return {};
  }
};

TEST(OwnObjects, PlannersRunOnTheThreadOfTheirScheduler)
{
  ballast::online_scheduler first(planner_that_tells_its_thread{});
  ballast::online_scheduler second(planner_that_tells_its_thread{});
  auto const thread_of = [](auto& next) {
    or_throw(next.submit({}));
    return *next.take().value();
  };
  auto const of_first = thread_of(first);
  EXPECT_NE(of_first, std::this_thread::get_id());
  EXPECT_NE(of_first, thread_of(second));
  std::jthread([&] { EXPECT_EQ(thread_of(first), of_first); }).join();  // another caller
}

TEST(OwnObjects, LetTwoModelsTrainInOneProcess)
{
  auto const trained = at_once(
      2, [](std::size_t model) { return model == 0 ? train_model(2, 100) : train_model(3, 200); });
  EXPECT_EQ(trained[0], train_model(2, 100));
  EXPECT_EQ(trained[1], train_model(3, 200));
}

constexpr std::size_t readers = 4;

ballast::bag_layout shared_bags()
{
  return ballast::lay_out(*ballast::parse_bags("g1n4+g4n1"), 8).value();
}

TEST(SharedObjects, PoliciesCostModelsAndLayoutsServeSeveralThreadsAtOnce)
{
  auto const lengths = random_lengths(20260101);
  auto const bags = shared_bags();
  auto const cost = "transformer:d=3072,gamma=0.405"_cost;
  ballast::refine const policy{ballast::longest_processing_time{}};
  auto const plan = [&](std::size_t) {
    return ballast::partition(lengths, bags, cost, {}, policy)->digest();
  };
  EXPECT_THAT(at_once(readers, plan), Each(plan(0)));
}

TEST(SharedObjects, CopiesOfAnAnyPolicyShareThePolicy)
{
  auto const lengths = random_lengths(20260101);
  auto const bags = shared_bags();
  auto const policy = by_name::parse_policy("refine(kk)").value();
  auto const plan = [&](std::size_t thread) {
    std::vector<by_name::any_policy> const copies(1 + thread, policy);
    return ballast::partition(
               lengths, bags, [](tokens length) { return length; }, {}, copies[thread])
        ->digest();
  };
  EXPECT_THAT(at_once(readers, plan), Each(plan(0)));
}

TEST(SharedObjects, PlansAndPlacementsAreReadBySeveralThreadsAtOnce)
{
  auto const lengths = random_lengths(20260101);
  auto const bags = shared_bags();
  auto const plan = ballast::partition(lengths, bags, [](tokens length) { return length; }).value();
  std::vector<rank_id> readers_of(lengths.size());
  for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
    readers_of[sample] = ballast::to_id<rank_id>(sample % bags.gpus());
  }
  auto const as_read = ballast::place(lengths, readers_of, bags.gpus());
  auto const as_planned = ballast::place(plan, bags).value();

  auto const read = [&](std::size_t) {
    auto total = static_cast<double>(plan.digest() % 1000) + plan.gap();
    for (auto const samples : plan.samples) { total += static_cast<double>(samples.size()); }
    for (std::size_t rank = 0; rank < bags.gpus(); ++rank) {
      auto const route = ballast::plan_route(as_read, as_planned, ballast::to_id<rank_id>(rank));
      total += static_cast<double>(route.kept.size() + route.sent.rows().size());
    }
    auto const volume = ballast::measure_route(as_read, as_planned, *ballast::cluster_of(8));
    return total + static_cast<double>(volume.ranks.size() + as_planned.digest() % 1000);
  };
  EXPECT_THAT(at_once(readers, read), Each(read(0)));
}

TEST(SharedObjects, UlyssesPlansAreReadBySeveralThreadsAtOnce)
{
  ballast::ulysses_plan plan;
  plan.assign(random_lengths(20260101), 4, 12);
  auto const read = [&](std::size_t) {
    tokens rows = 0;
    for (std::uint32_t gpu = 0; gpu < plan.gpus(); ++gpu) {
      plan.for_each_chunk(
          gpu, [&](ballast::ulysses_plan::bag_chunk const& each) { rows += each.count; });
      rows += plan.share(gpu, 4).count + plan.rows(gpu);
    }
    return rows + static_cast<tokens>(plan.digest() % 1000);
  };
  EXPECT_THAT(at_once(readers, read), Each(read(0)));
}

TEST(SharedObjects, SchedulesTimesAndOrderPoliciesServeSeveralThreadsAtOnce)
{
  auto const schedule = ballast_test::chain_schedule(4, 8);
  auto const times = times_by_number(8, 4, 2, [](auto at) { return 1 + at % 3; });
  auto const policy = by_name::parse_order_policy("search").value();
  auto const order = [&](std::size_t) {
    by_name::any_order_policy const copy = policy;
    auto const plan = ballast::order_microbatches(schedule, times, copy).value();
    return plan.makespan + simulate(schedule, times, plan.order).makespan;
  };
  EXPECT_THAT(at_once(readers, order), Each(order(0)));
}

TEST(SharedObjects, HistogramsAreReadBySeveralThreadsAtOnce)
{
  ballast::length_histogram const lengths(random_lengths(20260101));
  auto const read = [&](std::size_t) {
    return lengths.quantile({1, 2}) + static_cast<tokens>(lengths.bins(8).size());
  };
  EXPECT_THAT(at_once(readers, read), Each(read(0)));
}

// A document whose images an encoder computes on two GPUs: what it costs is the time of that.
using images = std::vector<tokens>;

std::vector<images> documents()
{
  return {{5, 5, 4}, {9}, {1, 2, 3, 4}, {7, 7}, {}, {6, 1}};
}

cost_units time_of(images const& each, workspace& memory)
{
  ballast::partition_plan plan;
  auto const done =
      ballast::partition_into(plan, memory, each, one_gpu_bags(2), [](tokens of) { return of; });
  return done ? plan.makespan.numerator : -1;
}

std::vector<cost_units> expected_costs()
{
  return {9, 9, 5, 7, 0, 6};
}

constexpr auto tokens_in = [](images const& each) {
  tokens all = 0;
  for (tokens const of : each) { all += of; }
  return all;
};

TEST(Reentrancy, ACostMayPlanWithAPlanOfItsOwn)
{
  workspace memory;
  workspace of_cost;
  ballast::partition_plan plan;
  auto const cost = [&](images const& each) { return time_of(each, of_cost); };
  ASSERT_TRUE(ballast::partition_into(plan, memory, documents(), one_gpu_bags(2), cost, tokens_in));
  EXPECT_EQ(plan.costs, expected_costs());
}

TEST(Reentrancy, ACostMayPlanInTheWorkspaceOfItsCaller)
{
  workspace memory;
  ballast::partition_plan plan;
  auto const cost = [&](images const& each) { return time_of(each, memory); };
  ASSERT_TRUE(ballast::partition_into(plan, memory, documents(), one_gpu_bags(2), cost, tokens_in));
  EXPECT_EQ(plan.costs, expected_costs());
  EXPECT_EQ(plan.makespan, (ballast::ratio{18, 1}));
}

TEST(Reentrancy, ALengthMayPlan)
{
  workspace of_length;
  auto const length = [&](images const& each) { return time_of(each, of_length); };
  auto const plan = ballast::partition(documents(), one_gpu_bags(2), tokens_in, length).value();
  EXPECT_EQ(plan.costs, (std::vector<cost_units>{14, 9, 10, 14, 0, 7}));
}

// Runs two policies one after another in its caller's workspace, and keeps the better plan.
struct better_of_two {
  void operator()(ballast::partition_problem const& problem, std::span<cost_units> loads,
                  std::span<bag_id> owner, workspace& memory) const
  {
    auto scratch = memory.open();
    auto const other_loads = scratch.take<cost_units>(loads.size());
    auto const other_owner = scratch.take<bag_id>(owner.size());
    std::ranges::copy(loads, other_loads.begin());
    std::ranges::copy(owner, other_owner.begin());
    ballast::longest_processing_time{}(problem, loads, owner, memory);
    baselines::karmarkar_karp{}(problem, other_loads, other_owner, memory);
    if (std::ranges::max(other_loads) < std::ranges::max(loads)) {
      std::ranges::copy(other_loads, loads.begin());
      std::ranges::copy(other_owner, owner.begin());
    }
  }
};

TEST(Reentrancy, APolicyMayRunPoliciesInItsWorkspace)
{
  std::vector<tokens> const lengths{8, 7, 6, 5, 4};
  auto const plan = [&](std::size_t) {
    auto const made =
        ballast::partition(lengths, one_gpu_bags(2), std::identity{}, {}, better_of_two{});
    return made ? made->makespan.numerator : 0;
  };
  EXPECT_THAT(at_once(3, plan), Each(cost_units{16}));
}

// Plans with the library inside a policy: samples of the first half apart from those of the second.
struct halves_apart {
  void operator()(ballast::partition_problem const& problem, std::span<cost_units> loads,
                  std::span<bag_id> owner, workspace& memory) const
  {
    std::size_t const half = owner.size() / 2;
    for (std::size_t const first : {std::size_t{0}, half}) {
      std::size_t const count = first == 0 ? half : owner.size() - half;
      ballast::partition_plan plan;
      auto const done = ballast::partition_into(plan, memory, problem.costs.subspan(first, count),
                                                one_gpu_bags(loads.size()), std::identity{});
      if (!done) { return; }
      std::ranges::copy(plan.owner, owner.subspan(first).begin());
      std::ranges::transform(loads, plan.loads, loads.begin(), std::plus{});
    }
  }
};

TEST(Reentrancy, APolicyMayPlanInItsWorkspace)
{
  std::vector<tokens> const lengths{8, 8, 3, 3};
  auto const plan =
      ballast::partition(lengths, one_gpu_bags(2), std::identity{}, {}, halves_apart{}).value();
  EXPECT_EQ(plan.makespan, (ballast::ratio{11, 1}));
}

// Orders with one policy where another does not do better.
struct two_order_policies {
  void operator()(ballast::order_problem const& problem, std::span<ballast::microbatch_id> order,
                  workspace& memory) const
  {
    ballast::order_plan plan;
    auto const done = ballast::order_microbatches_into(plan, memory, problem.schedule,
                                                       problem.times, ballast::interval_filling{});
    if (done && plan.makespan < plan.makespan_given) {
      std::ranges::copy(plan.order, order.begin());
    }
  }
};

TEST(Reentrancy, AnOrderPolicyMayOrderInItsWorkspace)
{
  auto const schedule = ballast_test::chain_schedule(3, 6);
  auto const times = times_by_number(6, 3, 4, [](auto at) { return at % 2 == 0 ? 9 : 1; });
  auto const plan = order_microbatches(schedule, times, two_order_policies{});
  auto const filled = order_microbatches(schedule, times, ballast::interval_filling{});
  ASSERT_TRUE(plan && filled);
  EXPECT_EQ(plan->makespan, std::min(filled->makespan, filled->makespan_given));
}

// What every rank of the group holds after `calls` all-gathers: the sum of what all have sent.
std::uint64_t gather_often(thread_communicator& comm, std::uint64_t first, int calls)
{
  std::uint64_t sum = 0;
  std::vector<std::uint64_t> all(comm.size());
  for (int call = 0; call < calls; ++call) {
    std::uint64_t const own = first + to_index(comm.rank());
    or_throw(
        comm.all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all))));
    for (std::uint64_t const each : all) { sum += each; }
  }
  return sum;
}

TEST(CommunicatorsOfARank, MayBeUsedFromAThreadEach)
{
  auto const sums = ballast::run_ranks(3, [](thread_communicator& comm) {
    auto other = comm.split(0).value();
    std::uint64_t of_other = 0;
    {
      std::jthread const second([&] { of_other = gather_often(other, 1000, 50); });
      EXPECT_EQ(gather_often(comm, 0, 50), 50U * (0 + 1 + 2));
    }
    return of_other;
  });
  EXPECT_THAT(sums, Each(50U * (1000 + 1001 + 1002)));
}

TEST(CommunicatorsOfARank, MayMoveFromThreadToThreadBetweenCalls)
{
  auto const sums = ballast::run_ranks(2, [](thread_communicator& comm) {
    std::uint64_t sum = gather_often(comm, 1, 1);
    std::jthread([&] { sum += gather_often(comm, 1, 1); }).join();
    std::jthread([&, moved = std::move(comm)]() mutable {
      sum += gather_often(moved, 1, 1);
    }).join();
    return sum;
  });
  EXPECT_THAT(sums, Each(3U * (1 + 2)));
}

TEST(CommunicatorsOfARank, AreCalledInOneOrderByAllRanks)
{
  auto const codes = ballast::run_ranks(2, [](thread_communicator& comm) {
    auto const done =
        comm.rank() == ballast::rank_id{0} ? comm.barrier() : ballast::agree(comm, 7, "the plan");
    return done ? ballast::error_code::infeasible : done.error().code;
  });
  EXPECT_THAT(codes, Each(ballast::error_code::mismatch));
}

}  // namespace
