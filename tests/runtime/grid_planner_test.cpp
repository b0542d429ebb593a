// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/grid_balancer.hpp>  // first: proves it is self-contained

#include "../support/counted_allocations.hpp"
#include "../support/test.hpp"

#include <ballast/comm/gather_samples.hpp>
#include <ballast/comm/thread_communicator.hpp>
#include <ballast/cost/cost_literal.hpp>
#include <ballast/partition/grid/partition_grid.hpp>
#include <ballast/partition/grid/refine_grid.hpp>
#include <ballast/runtime/online_scheduler.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <stdexcept>

namespace grids_planned_ahead {

using ballast::error_code;
using ballast::grid_balancer;
using ballast::grid_plan;
using ballast::grid_planner;
using ballast::grid_step_options;
using ballast::online_scheduler;
using ballast::rank_id;
using ballast::refine_grid;
using ballast::shape_bucket;
using ballast::shape_buckets;
using ballast::thread_communicator;
using ballast::to_index;
using ballast::tokens;
using ballast::operator""_cost;
using testing::HasSubstr;

constexpr auto layer_cost = "transformer:d=16,gamma=0.405"_cost;
using planner = grid_planner<ballast::quadratic_cost, refine_grid<>>;
static_assert(ballast::step_planner<planner>);

std::vector<tokens> drawn_lengths(std::size_t samples, std::uint64_t seed)
{
  ballast::random_source random(seed);
  std::vector<tokens> lengths(samples);
  for (tokens& length : lengths) { length = random.between(2, 60); }
  return lengths;
}

TEST(GridPlanner, PlansTheGridOfCorrectedCosts)  // Ensures (1)
{
  grid_planner plans(3, layer_cost, refine_grid{}, {.grid = {.most_weight = 70}});
  std::vector<std::uint32_t> factors(shape_buckets, ballast::unchanged_factor);
  for (std::uint32_t length = 30; length < 40; ++length) { factors[length] *= 3; }
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    auto const lengths = drawn_lengths(5 + seed, seed);
    grid_plan plan;
    ASSERT_TRUE(plans(plan, lengths, 1, seed, {}));
    auto const expected =
        ballast::partition_grid(lengths, 3, {.most_weight = 70}, refine_grid{}, layer_cost);
    EXPECT_EQ(plan.digest(), expected->digest());

    ASSERT_TRUE(plans(plan, lengths, 1, seed, factors));
    auto const corrected = ballast::partition_grid(
        lengths, 3, {.most_weight = 70}, refine_grid{},
        [](tokens length) { return (length >= 30 && length < 40 ? 3 : 1) * layer_cost(length); });
    EXPECT_EQ(plan.digest(), corrected->digest());
  }
}

using text_and_image = std::array<tokens, 2>;

TEST(GridPlanner, TakesSamplesOfSeveralSizes)
{
  auto const cost = [](text_and_image const& sample) { return sample[0] + 3 * sample[1]; };
  constexpr grid_step_options<text_and_image> options{
      .grid = {.most_weight = 40},
      .length_of = [](text_and_image const& sample) { return sample[0] + sample[1]; },
      .kind_of = [](text_and_image const& sample) -> std::int64_t { return sample[1] > 0; }};
  grid_planner plans(2, cost, refine_grid{}, options);
  std::vector<tokens> const sizes{10, 0, 20, 0, 10, 30, 5, 30, 30, 0};
  grid_plan plan;
  ASSERT_TRUE(plans(plan, sizes, 1, 0, {}));
  EXPECT_EQ(plan.weights, (std::vector<std::int64_t>{10, 20, 40, 35, 30}));
  EXPECT_EQ(plan.costs[2], 100);
  ASSERT_EQ(plan.kinds.size(), 2U);
  EXPECT_NE(plan.kinds[0], plan.kinds[1]);
  auto const odd = plans(plan, std::span(sizes).first(3), 1, 1, {});
  EXPECT_EQ(odd.error().message, "sizes has 3 entries, no whole number of samples of 2");
}

TEST(GridPlanner, RefusesWhatCannotBePlanned)
{
  grid_planner plans(2, layer_cost, refine_grid{}, {.grid = {.most_weight = 70}});
  grid_plan plan;
  auto const refused = [&](std::vector<tokens> const& sizes, std::size_t factors) {
    std::vector<std::uint32_t> const all(factors, ballast::unchanged_factor);
    auto const done = plans(plan, sizes, 1, 0, all);
    return done ? std::string() : done.error().message;
  };
  EXPECT_THAT(refused({5}, 7), HasSubstr("factors has 7 entries for 864 shapes"));
  EXPECT_THAT(refused({5, -1}, shape_buckets), HasSubstr("sample 1 has a length of -1"));
  EXPECT_THAT(refused({5, 71}, 0), HasSubstr("sample 1 of weight 71 is above the cap"));
  EXPECT_EQ(refused({}, shape_buckets), "");
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  grid_planner large(2, [](tokens) { return most; }, refine_grid{});
  EXPECT_FALSE(large(plan, std::vector<tokens>{1}, 1, 0, {}));
}

TEST(GridPlannerDeathTest, RefusesHomes)
{
  EXPECT_DEATH(planner(2, layer_cost, refine_grid{}, {.homes = true}), "not known ahead");
}

TEST(GridPlanner, AllocatesNothingInTheSteadyState)  // Ensures (2)
{
  grid_planner plans(2, layer_cost, refine_grid{}, {.grid = {.most_weight = 70}});
  auto const lengths = drawn_lengths(40, 9);
  grid_plan plan;
  for (int step = 0; step < 4; ++step) {
    std::size_t const before = ballast_test::allocations_of_thread();
    ASSERT_TRUE(plans(plan, lengths, 1, 0, {}));
    if (step > 1) { EXPECT_EQ(ballast_test::allocations_of_thread(), before); }
  }
}

/// Lengths that a rank reads for a step.
std::vector<tokens> read_by(rank_id rank, std::uint64_t step)
{
  std::uint64_t const of_rank = 100 * step + to_index(rank);
  return drawn_lengths(of_rank * 7 % 9, of_rank);
}

TEST(GridPlanner, PlansAheadWhatTheBalancerPlansAtOnce)
{
  constexpr std::uint64_t steps = 8;
  constexpr grid_step_options<> options{.grid = {.most_weight = 70}};
  auto const bags = ballast::one_gpu_bags(3);
  ballast::run_ranks(3, [&](thread_communicator& comm) {
    std::vector<std::uint64_t> at_once;
    std::vector<std::uint64_t> ahead;
    grid_balancer direct(comm, bags, layer_cost, refine_grid{}, options);
    for (std::uint64_t step = 0; step < steps; ++step) {
      or_throw(direct.plan(read_by(comm.rank(), step)));
      at_once.push_back(direct.planned().digest());
    }
    // [ahead]
    ballast::gathered_samples<tokens> all;
    auto const lengths_of_all_ranks = [&](std::uint64_t step) -> std::vector<tokens> const& {
      or_throw(ballast::gather_samples_into(all, comm, read_by(comm.rank(), step), 256));
      return all.samples;
    };
    grid_balancer balancer(comm, bags, layer_cost, refine_grid{}, options);
    online_scheduler next(grid_planner(bags.size(), layer_cost, refine_grid{}, options));
    or_throw(next.submit(lengths_of_all_ranks(0)));
    for (std::uint64_t step = 0; step < steps; ++step) {
      auto const grid = next.take();                          // planned while the last step ran
      or_throw(next.submit(lengths_of_all_ranks(step + 1)));  // planned while this one runs
      or_throw(balancer.plan(read_by(comm.rank(), step), grid));
      ahead.push_back(balancer.planned().digest());  // and the slots, as above
    }
    // [ahead]
    EXPECT_EQ(ahead, at_once);
    EXPECT_EQ(next.hand_overs(), steps);
    // Rows go where they go in a step that is planned at once.
    or_throw(direct.plan(read_by(comm.rank(), steps)));
    or_throw(balancer.plan(read_by(comm.rank(), steps), next.take()));
    ASSERT_EQ(balancer.microbatches(), direct.microbatches());
    for (std::size_t slot = 0; slot < direct.microbatches(); ++slot) {
      EXPECT_EQ(balancer.rows_computed(slot), direct.rows_computed(slot));
      EXPECT_EQ(balancer.loss_weight(slot), direct.loss_weight(slot));
    }
  });
}

TEST(GridPlanner, TellsEveryRankThatTheCostOfOneThrew)
{
  auto const bags = ballast::one_gpu_bags(3);
  auto const told = ballast::run_ranks(3, [&](thread_communicator& comm) {
    auto const cost = [throws = comm.rank() == rank_id{1}](tokens length) {
      if (throws && length == 13) { throw std::runtime_error("thirteen"); }
      return length;
    };
    grid_balancer balancer(comm, bags, cost, refine_grid{});
    online_scheduler next(grid_planner(3, cost, refine_grid{}));
    or_throw(next.submit(std::vector<tokens>{13, 13, 13}));
    auto const first = balancer.plan(std::vector<tokens>{13}, next.take());
    or_throw(next.submit(std::vector<tokens>{12, 12, 12}));
    EXPECT_TRUE(balancer.plan(std::vector<tokens>{12}, next.take()));
    return first;
  });
  for (std::size_t rank = 0; rank < 3; ++rank) { ASSERT_FALSE(told[rank].has_value()); }
  EXPECT_EQ(told[1].error().code, error_code::failed);
  EXPECT_EQ(told[1].error().message, "planning step 0 threw: thirteen");
  for (std::size_t const rank : {0U, 2U}) {
    EXPECT_EQ(told[rank].error().code, error_code::mismatch);
    EXPECT_THAT(told[rank].error().ranks, testing::ElementsAre(rank_id{1}));
    EXPECT_THAT(told[rank].error().message, HasSubstr("has none: planning step 0 threw: thirteen"));
  }
}

TEST(GridPlanner, GridsOfOtherSamplesAreRefusedOnEveryRank)
{
  ballast::run_ranks(2, [](thread_communicator& comm) {
    grid_balancer balancer(comm, ballast::one_gpu_bags(2), layer_cost, refine_grid{},
                           {.grid = {.weight_multiple = 8}});
    auto const refused = [&](std::size_t ranks, std::vector<tokens> const& lengths) {
      grid_plan const plan =
          ballast::partition_grid(lengths, ranks, {.weight_multiple = 8}, refine_grid{}, layer_cost)
              .value();
      auto const done = balancer.plan(std::vector<tokens>{20}, &plan);
      return done ? std::string() : done.error().message;
    };
    EXPECT_THAT(refused(2, {20, 20, 20}), HasSubstr("3 samples on 2 ranks"));
    EXPECT_THAT(refused(3, {20, 20}), HasSubstr("2 samples on 3 ranks"));
    EXPECT_THAT(refused(2, {20, 30}), HasSubstr("a sample 1 of weight 32, and the one that was"));
    EXPECT_EQ(refused(2, {20, 20}), "");
  });
}

}  // namespace grids_planned_ahead
