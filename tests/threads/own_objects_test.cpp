// SPDX-License-Identifier: Apache-2.0
// What each thread has to itself, and that the library has nothing besides: no globals, no statics
// that change, no threads of its own but those of schedulers.
#include "../../examples/common/by_name/parse_policy.hpp"
#include "../support/at_once.hpp"
#include "../support/pipelines.hpp"
#include "../support/test.hpp"

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/cost/cost_spec.hpp>
#include <ballast/partition/exact.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/pipeline/local_search.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/route.hpp>
#include <ballast/runtime/online_scheduler.hpp>
#include <ballast/text/read_file.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <fstream>
#include <mutex>

namespace {

using ballast::rank_id;
using ballast::tokens;
using ballast::workspace;
using ballast_test::at_once;
using testing::Each;

constexpr auto squared = [](tokens length) { return length * length; };

std::vector<tokens> random_lengths(std::uint64_t seed)
{
  std::vector<tokens> lengths(40);
  ballast::random_source random(seed);
  for (tokens& length : lengths) { length = random.between(4, 900); }
  return lengths;
}

// The digests of some steps, planned one after another with one plan and one workspace.
std::vector<std::uint64_t> plan_some_steps(std::uint64_t seed)
{
  std::vector<std::uint64_t> digests;
  ballast::partition_plan plan;
  workspace memory;
  auto const bags = ballast::lay_out(*ballast::parse_bags("g2n2+g1n4"), 8);
  for (std::uint64_t step = 0; step < 5; ++step) {
    auto const done = ballast::partition_into(plan, memory, random_lengths(seed + step), *bags,
                                              ballast::exact{ballast::refine{}, 1000}, squared);
    digests.push_back(done ? plan.digest() : 0);
  }
  return digests;
}

TEST(OwnObjects, LetThreadsPlanAtTheSameTime)
{
  auto const planned = at_once(4, [](std::size_t thread) { return plan_some_steps(thread); });
  for (std::size_t thread = 0; thread < planned.size(); ++thread) {
    EXPECT_EQ(planned[thread], plan_some_steps(thread)) << "thread " << thread;
  }
}

TEST(OwnObjects, LetALoaderPlanTheNextStepDuringThisOne)
{
  auto const lengths_of = [](std::uint64_t step) { return random_lengths(step); };
  std::vector<std::uint64_t> carried_out;
  auto const carry_out = [&](ballast::partition_plan const& plan) {
    carried_out.push_back(plan.digest());
  };
  auto const bags = ballast::one_gpu_bags(4);
  // [next_step]
  std::array<ballast::partition_plan, 2> plans;  // of this step and of the next
  ballast::workspace of_loader;
  auto const plan_step = [&](std::size_t step) {  // writes the plan that nobody reads now
    or_throw(ballast::partition_into(plans[step % 2], of_loader, lengths_of(step), bags,
                                     ballast::refine{}, squared));
  };
  plan_step(0);
  for (std::size_t step = 0; step < 4; ++step) {
    std::jthread const loader(plan_step, step + 1);
    carry_out(plans[step % 2]);
  }  // waits for the loader
  // [next_step]
  ASSERT_EQ(carried_out.size(), 4U);
  for (std::size_t step = 0; step < 4; ++step) {
    auto const alone = ballast::partition(lengths_of(step), bags, ballast::refine{}, squared);
    EXPECT_EQ(carried_out[step], alone->digest()) << "step " << step;
  }
}

TEST(OwnObjects, LetThreadsOrderAtTheSameTime)
{
  auto const order = [](std::size_t) {
    auto const schedule = ballast_test::chain_schedule(3, 8);
    ballast::pipeline_times times(8, 3);
    for (std::size_t at = 0; at < 8; ++at) {
      auto const row = times[ballast::to_id<ballast::microbatch_id>(at)];
      for (auto& stage : row) { stage = {static_cast<ballast::time_units>(1 + at % 5), 3}; }
    }
    return order_microbatches(schedule, times, ballast::local_search{})->makespan;
  };
  EXPECT_THAT(at_once(4, order), Each(order(0)));
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
  auto const alone =
      ballast::partition(lengths, ballast::one_gpu_bags(4), ballast::refine{}, squared)->digest();
  auto const digests = at_once(4, [&](std::size_t) {
    std::lock_guard const lock(mine);
    auto const done = ballast::partition_into(plan, memory, lengths, ballast::one_gpu_bags(4),
                                              ballast::refine{}, squared);
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
  ASSERT_TRUE(ballast::partition(lengths, ballast::one_gpu_bags(2), ballast::refine{}, cost));
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
  return ballast::run_ranks(ranks, [&](ballast::thread_communicator& comm) {
    auto const bags = ballast::one_gpu_bags(comm.size());
    workspace memory;
    ballast::partition_plan plan;
    ballast::placement as_read;
    ballast::placement as_planned;
    tokens rows = 0;
    for (std::uint64_t step = 0; step < 3; ++step) {
      auto const lengths = random_lengths(seed + step);
      std::vector<rank_id> const reader(lengths.size(), rank_id{0});
      or_throw(ballast::partition_into(plan, memory, lengths, bags,
                                       ballast::longest_processing_time{}, squared));
      ballast::place_into(as_read, lengths, reader, comm.size());
      or_throw(ballast::place_into(as_planned, plan, bags));
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

}  // namespace
