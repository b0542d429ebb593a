// SPDX-License-Identifier: Apache-2.0
// Units that exchange samples over MPI.
#include <ballast/route/unit_exchange.hpp>

#include "../route/unit_steps.hpp"  // defines: ballast_test::{unit_step, random_unit_step, ...}
#include "../support/test.hpp"
#include "mpi_world.hpp"  // defines: ballast_test::{over_world, shared_flag, world_barrier, ...}

#include <ballast/comm/mpi_communicator.hpp>

#include <iterator>

namespace {

using ballast::error_code;
using ballast::rank_id;
using ballast::rows_of;
using ballast::tokens;
using ballast::unit_exchange;
using ballast::unit_strategy;
using ballast_test::over_world;
using ballast_test::unit_step;
using ballast_test::world_barrier;
using ballast_test::world_size;
using namespace std::chrono_literals;

// Every process draws the same units and the same bytes.
TEST(MpiUnitExchange, MovesEveryByteAndBackBetweenRandomUnits)
{
  std::size_t const size = world_size();
  if (size < 2) { return; }
  auto comm = over_world();
  unit_exchange exchange;
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

/// Half of the processes, but for one, and the rest.
unit_step halves(std::vector<tokens> const& lengths)
{
  auto const senders = static_cast<std::uint32_t>((world_size() - 1) / 2);
  auto const receivers = static_cast<std::uint32_t>(world_size() - senders);
  return {{senders, 1, 1}, {receivers, 1, 1}, lengths};
}

// Large messages, three of them: MPI sends nothing of that kind ahead.
TEST(MpiUnitExchange, LetsSendersLeaveWhileReceiversSleep)
{
  if (world_size() < 3) { return; }
  auto comm = over_world();
  unit_step const step = halves(std::vector<tokens>(12, 20'000));
  bool const sends = to_index(comm.rank()) < step.senders.size();
  for (unit_strategy const strategy : ballast::all_unit_strategies) {
    auto const plan = plan_units(step.from, step.to, step.units(), strategy, comm.rank());
    std::vector<double> x(static_cast<std::size_t>(plan.rows_before()));
    std::vector<double> there(static_cast<std::size_t>(plan.rows_after()));
    unit_exchange exchange;
    ballast_test::shared_flag senders_left;
    if (!sends) { EXPECT_TRUE(senders_left.wait()); }
    for (int microbatch = 0; microbatch < 3; ++microbatch) {
      x.assign(x.size(), microbatch);
      EXPECT_TRUE(exchange.forward(comm, plan, rows_of(x, there)));
      EXPECT_EQ(std::ranges::count(there, microbatch), std::ssize(there));
    }
    if (comm.rank() == rank_id{0}) { senders_left.raise(); }
    EXPECT_TRUE(exchange.finish(comm));
    EXPECT_TRUE(comm.barrier());
  }
}

// A rank does not come. All others name it, in this call or in their next.
TEST(MpiUnitExchange, NamesADeadRankToAll)
{
  std::size_t const size = world_size();
  if (size < 3) { return; }
  unit_step const step = halves(std::vector<tokens>(12, 50));
  // A sender; the rank that gathers; another receiver.
  std::vector<std::size_t> ranks{0, step.senders.size(), size - 1};
  if (size != 8) { ranks.resize(1); }
  for (std::size_t const dead : ranks) {
    for (unit_strategy const strategy : ballast::all_unit_strategies) {
      SCOPED_TRACE(testing::Message() << name_of(strategy) << ", rank " << dead << " is dead");
      ballast_test::clock_of_processes clock(size - 1);
      auto comm = over_world({.deadline = 2s});
      if (to_index(comm.rank()) != dead) {
        clock.waits_until(comm.deadline());
        auto const plan = plan_units(step.from, step.to, step.units(), strategy, comm.rank());
        std::vector<int> x(static_cast<std::size_t>(plan.rows_before()));
        std::vector<int> y(static_cast<std::size_t>(plan.rows_after()));
        unit_exchange exchange;
        auto done = exchange.forward(comm, plan, rows_of(x, y));
        if (done) { done = exchange.backward(comm, plan, rows_of(y, x)); }
        if (done) { done = exchange.finish(comm); }
        if (done) { done = comm.barrier(); }  // whoever has nothing to do with it
        EXPECT_FALSE(done);
        if (!done) {
          EXPECT_EQ(done.error().code, error_code::timed_out);
          EXPECT_EQ(done.error().ranks, std::vector{ballast::to_id<rank_id>(dead)})
              << done.error().message;
        }
      }
      world_barrier();
    }
  }
}

}  // namespace
