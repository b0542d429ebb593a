// SPDX-License-Identifier: Apache-2.0
// What stands on transfers and operations, over processes: random steps, of which every process draws
// the same ones. What it does where ranks fail its own tests say, over threads.
#include <ballast/route/unit_exchange.hpp>

#include "../route/sharded_steps.hpp"  // defines: ballast_test::{random_sharded_step, random_delays, ...}
#include "../route/unit_steps.hpp"  // defines: ballast_test::{unit_step, random_unit_step, ...}
#include "../support/test.hpp"
#include "../support/toy_pipeline.hpp"  // defines: toy::{draw, stage, result_of_one_rank, ...}
#include "mpi_world.hpp"                // defines: ballast_test::{over_world, world_size, ...}

#include <ballast/comm/mpi_communicator.hpp>
#include <ballast/cost/cost_spec.hpp>
#include <ballast/partition/greedy_knapsack.hpp>
#include <ballast/route/sharded_exchange.hpp>
#include <ballast/runtime/pipeline_runner.hpp>
#include <ballast/runtime/pipeline_setup.hpp>
#include <ballast/runtime/step_balancer.hpp>
#include <ballast/topology/bag_layout.hpp>

namespace {

using ballast::operator""_cost;
using ballast::rows_of;
using ballast::tokens;
using ballast_test::over_world;
using ballast_test::world_rank;
using ballast_test::world_size;

TEST(MpiUnitExchange, MovesEveryByteAndBackBetweenRandomUnits)
{
  std::size_t const size = world_size();
  if (size < 2) { return; }
  auto comm = over_world();
  ballast::unit_exchange exchange;
  ballast::random_source random(1919);
  int const trials = size == 8 ? 200 : 100;
  for (int trial = 0; trial < trials && !HasFailure(); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = ballast_test::random_unit_step(random, size, size);
    std::vector<std::size_t> const widths{1 + random.below(20), 16};
    ballast_test::step_arrays const arrays(step.from, step.to, widths, random);
    expect_unit_exchange(comm, step, arrays, exchange);
  }
  EXPECT_TRUE(comm.barrier());
}

// Every process is late at places of its own.
void expect_unsharded_steps(int steps, std::uint64_t seed)
{
  auto comm = over_world();
  std::array<ballast::sharded_exchange<>, 2> exchanges{ballast::sharded_exchange(1),
                                                       ballast::sharded_exchange(8)};
  ballast::random_source random(seed);
  for (int trial = 0; trial < steps && !testing::Test::HasFailure(); ++trial) {
    SCOPED_TRACE(testing::Message() << "step " << trial);
    auto const step = ballast_test::random_sharded_step(random, world_size());
    auto const place = static_cast<std::size_t>(trial);
    auto const done =
        expect_unsharded_step(comm, step, exchanges[place % 2],
                              ballast_test::random_delays(place * 8 + to_index(comm.rank())));
    ASSERT_TRUE(done) << done.error().message;
  }
  EXPECT_TRUE(comm.barrier());
}

TEST(MpiShardedExchange, EqualsTheUnshardedStepBitForBit)
{
  expect_unsharded_steps(ballast_test::trials_of(200), 813);
}

// A test of its own, since processes that wait for each other keep all cores busy.
TEST(MpiShardedSteps, EqualTheUnshardedStepsBitForBit)
{
  expect_unsharded_steps(ballast_test::trials_of(2000), 816);
}

TEST(MpiPipelineRunner, HasTheGradientsOfOneRankBitForBit)
{
  std::size_t const size = world_size();
  auto comm = over_world();
  ballast::random_source random(4545);
  for (int trial = 0; trial < (size == 8 ? 200 : 50) && !HasFailure(); ++trial) {
    auto job = toy::draw(random, size);
    while (job.setup.grid.ranks() != size) { job = toy::draw(random, size); }
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto runner = ballast::pipeline_runner<>::make(job.setup, comm.rank()).value();
    ballast::or_throw(runner.plan(job.plan));
    toy::stage stage(job, comm.rank());
    ballast::or_throw(runner.run(comm, job.order, stage));
    toy::result_of_one_rank alone(job);
    EXPECT_EQ(runner.loss(), alone.loss);
    for (auto const& [where, gradient] : stage.found) { EXPECT_EQ(gradient, alone.found[where]); }
    double shared = stage.of_shared();
    ballast::or_throw(ballast::add_shared_gradients(
        comm, job.setup.grid, job.setup.schedule.stages(), job.sharing, std::span(&shared, 1)));
    std::erase_if(alone.found, [&](auto const& each) {
      return !std::ranges::count(job.order, job.plan.microbatch[each.first.second]);
    });
    if (stage.shares()) {
      EXPECT_EQ(shared, alone.of_shared(job, job.setup.grid.place(comm.rank()).data));
    }
  }
}

TEST(MpiPipelineRunner, CarriesOutPlannedSchedulesWithinTheirMemory)
{
  std::size_t const size = world_size();
  auto comm = over_world();
  ballast::random_source random(6365);
  for (int trial = 0; trial < ballast_test::trials_of(50) && !HasFailure(); ++trial) {
    auto const job = toy::draw_split(random, size);
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto runner = ballast::pipeline_runner<>::make(job.setup, comm.rank()).value();
    ballast::or_throw(runner.plan(job.plan));
    toy::split_stage stage(job, comm.rank());
    ballast::or_throw(runner.run(comm, job.order, stage));
    std::size_t const rank = toy::pipeline_rank_of(job, comm.rank());
    EXPECT_EQ(stage.most_kept, job.peak[rank]);
    EXPECT_LE(stage.most_kept, job.memory.most[rank]);
    toy::result_of_one_rank alone(job);
    EXPECT_EQ(runner.loss(), alone.loss);
    auto const mine = job.setup.grid.place(comm.rank());
    for (auto const& [where, gradient] : alone.found) {
      auto const module =
          toy::result_of_one_rank::module_of(job, ballast::to_id<ballast::stage_id>(where.first));
      auto const of = job.setup.schedule.stages()[ballast::to_id<ballast::stage_id>(where.first)];
      bool const is_here =
          to_index(of.rank) == rank &&
          toy::result_of_one_rank::replica_of(job.plan, module, where.second) == mine.data;
      EXPECT_EQ(stage.found.count(where), is_here ? 1U : 0U);
      if (is_here) { EXPECT_EQ(stage.found[where], gradient); }
    }
  }
}

// The first half of the job is one bag, the others are bags of one.
ballast::bag_layout half_and_ones()
{
  auto const half = static_cast<std::uint32_t>((world_size() + 1) / 2);
  std::vector<ballast::bag> bags{{ballast::rank_id{0}, half}};
  for (std::size_t rank = half; rank < world_size(); ++rank) {
    bags.push_back({ballast::to_id<ballast::rank_id>(rank), 1});
  }
  return ballast::bag_layout(bags);
}

TEST(MpiStepBalancer, BringsEveryRowToWhereItIsComputedAndHome)
{
  auto comm = over_world();
  ballast::step_balancer balancer(comm, half_and_ones(), "transformer:d=16"_cost,
                                  ballast::greedy_knapsack{}, {.query_heads = 3});
  ballast::random_source random(world_rank());
  for (int step = 0; step < 5; ++step) {
    std::vector<tokens> read(static_cast<std::size_t>(random.between(0, 4)));
    for (tokens& length : read) { length = random.between(8, 60); }
    ASSERT_TRUE(balancer.plan(read));
    std::vector<std::int32_t> x(balancer.rows_read() * 3, static_cast<std::int32_t>(world_rank()));
    std::vector<std::int32_t> there(balancer.rows_computed() * 3);
    std::vector<std::int32_t> whole(balancer.heads().heads_of_sequences(balancer.gpu(), 3));
    std::vector<std::int32_t> back(x.size());
    std::vector<std::int32_t> there_again(there.size());
    ASSERT_TRUE(balancer.route(rows_of(x, there, 3)));
    ASSERT_TRUE(balancer.to_heads(ballast::heads_of(there, whole, 3, 1)));
    ASSERT_TRUE(balancer.to_tokens(ballast::heads_of(whole, there_again, 3, 1)));
    ASSERT_TRUE(balancer.reverse_route(rows_of(there_again, back, 3)));
    EXPECT_EQ(there_again, there);
    EXPECT_EQ(back, x);
  }
}

}  // namespace
