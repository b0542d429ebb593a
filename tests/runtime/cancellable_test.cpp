// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/cancellable.hpp>  // first: proves it is self-contained

#include "../route/node_job.hpp"
#include "../support/pipelines.hpp"
#include "../support/random_modules.hpp"
#include "../support/small_orchestration.hpp"
#include "../support/test.hpp"

#include <ballast/parallelism.hpp>
#include <ballast/partition.hpp>
#include <ballast/pipeline.hpp>
#include <ballast/route.hpp>
#include <ballast/sharding.hpp>

#include <atomic>

namespace {

using namespace ballast;

/// Counts how often it was asked, and says stop from one time on.
struct counted_polls {
  std::uint64_t* asked;
  std::uint64_t stop_at;

  bool operator()() const { return (*asked)++ >= stop_at; }
};

template <class T>
error why_not(result<T> const& made)
{
  return made ? error{} : made.error();
}

/// Draws a step; what it returns plans that step.
using step_planner = std::function<std::function<error()>(random_source&)>;

std::vector<std::int64_t> draw_lengths(random_source& random, std::size_t samples)
{
  std::vector<std::int64_t> lengths(samples);
  for (std::int64_t& length : lengths) { length = random.between(1, 1000) * random.between(1, 9); }
  return lengths;
}

step_planner planning_under(placement_limits limits, std::size_t samples)
{
  return [=](random_source& random) {
    std::vector<rank_id> home(samples);
    for (rank_id& rank : home) { rank = to_id<rank_id>(random.below(7)); }
    return [=, lengths = draw_lengths(random, samples)] {
      auto within = limits;
      if (limits.then.what() == second_objective::kind::fewest_moves) { within.home = home; }
      return why_not(partition(lengths, one_gpu_bags(7), std::identity{}, within));
    };
  };
}

std::map<std::string, step_planner> const& planners()
{
  static std::map<std::string, step_planner> const all{
      {"partition", planning_under({}, 90)},
      {"a cap", planning_under({.most_per_gpu = 70'000}, 90)},
      {"equal counts", planning_under({.samples = counts::equal()}, 90)},
      {"fewest moves", planning_under({.then = fewest_moves}, 60)},
      {"level", planning_under({.then = most_level}, 60)},
      {"a small step", planning_under({.samples = counts::filled()}, 15)},
      {"two quantities",
       [](random_source& random) {
         return [lengths = draw_lengths(random, 80)] {
           return why_not(partition(lengths, one_gpu_bags(7), [](std::int64_t length) {
             return cost_vector<2>{length, length * length % 977};
           }));
         };
       }},
      {"pack",
       [](random_source& random) {
         return [lengths = draw_lengths(random, 300)] {
           return why_not(pack(lengths, {.most_per_gpu = 10'000}));
         };
       }},
      {"pack within two caps",
       [](random_source& random) {
         return [lengths = draw_lengths(random, 20), others = draw_lengths(random, 20)] {
           return why_not(pack(lengths, {.most_per_gpu = 10'000,
                                         .also = {{.of = others, .most_per_gpu = 12'000}}}));
         };
       }},
      {"partition_grid",
       [](random_source& random) {
         return [lengths = draw_lengths(random, 90)] {
           return why_not(partition_grid(lengths, one_gpu_bags(4), {.number = 3}, std::identity{},
                                         {.most_per_gpu = 50'000}));
         };
       }},
      {"partition_grid at two speeds",
       [](random_source& random) {
         return [lengths = draw_lengths(random, 40)] {
           std::vector<std::uint32_t> const speeds{3, 2};
           return why_not(partition_grid(lengths, one_gpu_bags(2).with_speeds(speeds),
                                         {.number = 3, .meet = grid_meeting::step},
                                         std::identity{}));
         };
       }},
      {"hybrid_sharding",
       [](random_source& random) {
         return [lengths = draw_lengths(random, 70)] {
           device_groups const groups(node_sizes::equal(2, 8), 8);
           return why_not(hybrid_sharding(lengths, groups,
                                          {.work = {.linear = 8, .quadratic = 1}, .heads = 8}));
         };
       }},
      {"plan_slots",
       [](random_source& random) {
         return [lengths = draw_lengths(random, 70)] {
           return why_not(plan_slots(lengths, node_sizes::equal(2, 8),
                                     {.work = {.linear = 8, .quadratic = 1}, .heads = 8}));
         };
       }},
      {"split_rows",
       [](random_source& random) {
         return [documents = draw_lengths(random, 40)] {
           std::vector<row_mask> const masks = {{}, {.window = 100}};
           return why_not(split_rows(documents, 8, masks));
         };
       }},
      {"order_microbatches",
       [](random_source& random) {
         auto const schedule = ballast_test::chain_schedule(3, 8);
         return [=, times = ballast_test::random_times(random, schedule, 60)] {
           return why_not(order_microbatches(schedule, times, local_search{}));
         };
       }},
      {"exact_order",
       [](random_source& random) {
         auto const schedule = ballast_test::chain_schedule(3, 7);
         return [=, times = ballast_test::random_times(random, schedule, 60)] {
           return why_not(order_microbatches(schedule, times, exact_order{}));
         };
       }},
      {"search_layouts",
       [](random_source& random) {
         return [model = ballast_test::draw_model(random, 2, 16, false, 1 << 20)] {
           layout_problem problem;
           problem.modules = model.modules;
           problem.sizes = model.sizes;
           problem.global_batch = 8;
           problem.kinds[0].gpus = 16;
           problem.kinds[0].memory_bytes = 1 << 22;
           return why_not(search_layouts(problem, std::span(model.sizes).first(16)));
         };
       }},
      {"orchestrate",
       [](random_source&) {
         return [] { return why_not(orchestrate(ballast_test::small_job().problem)); };
       }},
      {"choose_bags",
       [](random_source& random) {
         std::vector<sample_batch> batches(2);
         for (auto& batch : batches) { batch.lengths = draw_lengths(random, 60); }
         return [batches] {
           return why_not(choose_bags(batches, cluster_of({8, 8}).value(),
                                      bag_exchange_work{.once = {0, 900, 900, 900}},
                                      quadratic_cost{.linear = 1000, .quadratic = 1}));
         };
       }},
      {"place_experts",
       [](random_source& random) {
         return [loads = draw_lengths(random, 32)] {
           std::vector<std::uint32_t> const slots(8, 5);
           return why_not(place_experts(loads, slots));
         };
       }},
      {"cut_chain",
       [](random_source& random) {
         std::vector<chain_layer> layers(20);
         for (chain_layer& layer : layers) { layer.cost = random.between(1, 99); }
         return [layers] { return why_not(cut_chain(layers, {.ranks = 3, .chunks = 3})); };
       }},
      {"place_by_node",
       [](random_source& random) {
         std::vector<std::uint32_t> const nodes{4, 4, 4};
         return [job = ballast_test::random_node_job(nodes, one_gpu_bags(12), 50, random)] {
           auto plan = job.plan;
           auto const done = place_by_node(plan, job.read, job.bags, job.machines);
           if (!done) { EXPECT_EQ(plan.digest(), job.plan.digest()); }
           return why_not(done);
         };
       }},
  };
  return all;
}

TEST(Cancellable, HasEveryPlannerReturnThatItWasCancelled)  // Ensures (1)
{
  for (auto const& [name, draw] : planners()) {
    random_source random(11);
    for (int trial = 0; trial < ballast_test::trials_of(8); ++trial) {
      SCOPED_TRACE(testing::Message() << name << ", trial " << trial);
      auto const plan = draw(random);
      std::uint64_t polls = 0;
      {
        cancellable const never(counted_polls{&polls, std::uint64_t{0} - 1});
        EXPECT_EQ(plan().message, "");
      }
      ASSERT_GT(polls, 0U);
      for (std::uint64_t const at : {std::uint64_t{0}, random.below(polls), random.below(polls)}) {
        std::uint64_t asked = 0;
        cancellable const until(counted_polls{&asked, at});
        EXPECT_EQ(plan().code, error_code::cancelled) << "poll " << at << " of " << polls;
        EXPECT_EQ(asked, at + 1) << "it was asked again, or too seldom";
      }
    }
  }
}

TEST(Cancellable, NestsAndEndsWithItsScope)  // Ensures (2) (3)
{
  auto const plan = [] {
    return partition(std::vector<std::int64_t>{3, 2, 1}, one_gpu_bags(2), std::identity{});
  };
  auto const expected = plan().value().digest();
  bool outer = false;
  cancellable const by_outer([&outer] { return outer; });
  {
    cancellable const by_inner([] { return true; });
    EXPECT_EQ(plan().error().code, error_code::cancelled);
  }
  EXPECT_EQ(plan().value().digest(), expected);
  cancellable const by_inner([] { return false; });
  EXPECT_EQ(plan().value().digest(), expected);
  outer = true;
  EXPECT_EQ(plan().error().code, error_code::cancelled);
}

TEST(Cancellable, StopsALongSearchFromAnotherThread)
{
  std::vector<std::int64_t> const lengths(40'000, 3);
  auto const bags = one_gpu_bags(512);
  std::atomic<bool> first_poll = false;
  std::atomic<bool> stop = false;
  std::jthread const caller([&] {
    while (!first_poll) { std::this_thread::yield(); }
    stop = true;
  });
  // [cancel]
  cancellable const until([&] {  // asked now and then by what plans on this thread
    first_poll = true;
    return stop.load();
  });
  auto const plan = partition(lengths, bags, std::identity{}, {.then = most_level});
  // [cancel]
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, error_code::cancelled);
}

}  // namespace
