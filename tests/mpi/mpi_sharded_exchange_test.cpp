// SPDX-License-Identifier: Apache-2.0
// Sequences that are split to different degrees over processes.
#include <ballast/route/sharded_exchange.hpp>

#include "../route/sharded_steps.hpp"  // defines: ballast_test::{sharded_case, random_delays, ...}
#include "../support/test.hpp"
#include "../support/trials.hpp"
#include "mpi_world.hpp"  // defines: ballast_test::{over_world, world_barrier, world_size}

#include <ballast/comm/mpi_communicator.hpp>
#include <ballast/topology/cluster.hpp>
#include <ballast/topology/device_groups.hpp>

namespace {

using namespace std::chrono_literals;
using ballast::error_code;
using ballast::sharded_exchange;
using ballast_test::over_world;
using ballast_test::sharded_arrays;
using ballast_test::sharded_case;
using ballast_test::world_barrier;
using ballast_test::world_size;

// Every process draws the same steps, and is late at places of its own.
void expect_unsharded_steps(int steps, std::uint64_t seed)
{
  auto comm = over_world();
  std::array<sharded_exchange<>, 2> exchanges{sharded_exchange(1), sharded_exchange(8)};
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

// Messages that MPI does not send ahead, in groups of all sizes.
TEST(MpiShardedExchange, MovesLargeMessages)
{
  auto comm = over_world();
  auto const size = static_cast<std::uint32_t>(world_size());
  ballast::device_groups const all(ballast::node_sizes::equal(1, size), size);
  ballast::random_source random(814);
  std::vector<ballast::group_id> owner;
  for (std::size_t id = 0; id < all.size(); ++id) {
    owner.push_back(ballast::to_id<ballast::group_id>(id));
  }
  sharded_case const step(all, std::vector<ballast::tokens>(owner.size(), 48), owner, 16, 4, 32,
                          random);
  sharded_exchange exchange;
  auto const done = expect_unsharded_step(comm, step, exchange, ballast::ignore_sharded_events{});
  EXPECT_TRUE(done) << done.error().message;
  EXPECT_TRUE(comm.barrier());
}

// A rank does not come. All others name it, in this call or in their next.
TEST(MpiShardedExchange, NamesADeadRankToAll)
{
  auto const size = static_cast<std::uint32_t>(world_size());
  if (size < 2) { return; }
  ballast::random_source random(815);
  ballast::device_groups const all(ballast::node_sizes::equal(1, size), size);
  std::vector const owner{*all.group_of(ballast::rank_id{0}, 2), ballast::group_id{0},
                          *all.group_of(ballast::rank_id{size - 1}, 1)};
  sharded_case const step(all, {20, 5, 5}, owner, 8, 4, 2, random);
  for (std::size_t const dead : {std::size_t{0}, world_size() - 1}) {
    SCOPED_TRACE(testing::Message() << "rank " << dead << " is dead");
    ballast_test::clock_of_processes clock(world_size() - 1);
    auto comm = over_world({.deadline = 2s});
    if (to_index(comm.rank()) != dead) {
      clock.waits_until(comm.deadline());
      sharded_exchange exchange;
      sharded_arrays arrays(step, comm.rank());
      auto done = exchange.forward(comm, arrays.packs, arrays.inputs(), arrays.outputs(),
                                   [&](std::size_t pack) { arrays.compute_forward(pack); });
      if (done) { done = comm.barrier(); }  // whoever has nothing to do with it
      ASSERT_FALSE(done);
      EXPECT_EQ(done.error().code, error_code::timed_out);
      EXPECT_EQ(done.error().ranks, std::vector{ballast::to_id<ballast::rank_id>(dead)})
          << done.error().message;
    }
    world_barrier();
  }
}

}  // namespace
