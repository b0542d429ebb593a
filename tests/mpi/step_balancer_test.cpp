// SPDX-License-Identifier: Apache-2.0
// One object per step over processes.

#include <ballast/runtime/step_balancer.hpp>

#include "../support/test.hpp"
#include "mpi_world.hpp"

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/cost/cost_literal.hpp>
#include <ballast/partition/greedy_knapsack.hpp>
#include <ballast/topology/bag_layout.hpp>

namespace {

using ballast::operator""_cost;
using ballast::rows_of;
using ballast::tokens;
using ballast_test::over_world;
using ballast_test::world_rank;
using ballast_test::world_size;

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

TEST(MpiThreads, MayPlanTheNextStepOfABalancer)
{
  auto comm = over_world();
  if (!comm.serves_threads()) { GTEST_SKIP() << "MPI serves a single thread here"; }
  auto const bags = ballast::one_gpu_bags(world_size());
  constexpr auto cost = "transformer:d=16"_cost;
  ballast::step_balancer direct(comm, bags, cost);
  ballast::step_balancer ahead(comm, bags, cost);
  auto const read = [](std::size_t step) {  // now and then more than ever before
    return std::vector<tokens>(step * step * (1 + world_rank()), tokens(8 + step % 7));
  };
  ASSERT_TRUE(ahead.submit(read(0)));
  for (std::size_t step = 0; step < 12; ++step) {
    ASSERT_TRUE(ahead.next());
    ASSERT_TRUE(ahead.submit(read(step + 1)));
    ASSERT_TRUE(direct.plan(read(step)));
    EXPECT_EQ(ahead.samples(), direct.samples());
    EXPECT_EQ(ahead.planned().digest(), direct.planned().digest());
  }
  ASSERT_TRUE(ahead.next());
  ballast_test::world_barrier();
}

/// What a rank of the GPUs from `first` on has read, with a row per token that no other has.
struct read_by_gpus {
  std::vector<tokens> lengths;
  std::vector<std::int64_t> rows;

  read_by_gpus(std::size_t first, std::uint32_t gpus)
  {
    for (std::size_t gpu = first; gpu < first + gpus; ++gpu) {
      ballast::random_source random(gpu);
      auto number = static_cast<std::int64_t>(100'000 * gpu);
      for (std::int64_t left = random.between(0, 4); left > 0; --left) {
        lengths.push_back(random.between(8, 60));
        for (tokens row = 0; row < lengths.back(); ++row) { rows.push_back(number++); }
      }
    }
  }
};

// As threads of one GPU each do it.
TEST(MpiStepBalancer, PlansForProcessesOfTwoGpusAsForOneRankPerGpu)
{
  std::size_t const gpus = 2 * world_size();
  std::vector<ballast::bag> spec{{ballast::rank_id{0}, static_cast<std::uint32_t>(gpus - 1)},
                                 {ballast::to_id<ballast::rank_id>(gpus - 1), 1}};
  ballast::bag_layout const bags(spec);
  auto const route = [&](auto& comm, std::uint32_t each) {
    ballast::step_balancer balancer(comm, bags, "transformer:d=16"_cost, ballast::greedy_knapsack{},
                                    {.gpus_per_rank = each});
    read_by_gpus const read(to_index(comm.rank()) * each, each);
    EXPECT_TRUE(balancer.plan(read.lengths));
    std::vector<std::int64_t> there(balancer.rows_computed());
    std::vector<std::int64_t> back(read.rows.size());
    EXPECT_TRUE(balancer.route(rows_of(read.rows, there, 1)));
    EXPECT_TRUE(balancer.reverse_route(rows_of(there, back, 1)));
    EXPECT_EQ(back, read.rows);
    return there;
  };
  auto const of_gpus =
      ballast::run_ranks(gpus, [&](ballast::thread_communicator& comm) { return route(comm, 1); });
  auto comm = over_world();
  auto expected = of_gpus[2 * world_rank()];
  auto const& second = of_gpus[2 * world_rank() + 1];
  expected.insert(expected.end(), second.begin(), second.end());
  EXPECT_EQ(route(comm, 2), expected);
}

TEST(MpiStepBalancer, TellsEveryRankThatOneCannotPlan)
{
  auto comm = over_world();
  std::size_t const last = world_size() - 1;
  ballast::step_options<> options;
  if (world_rank() == last) { options.limits.most_per_gpu = 5; }
  ballast::step_balancer balancer(comm, ballast::one_gpu_bags(world_size()),
                                  "transformer:d=16"_cost, ballast::greedy_knapsack{}, options);
  std::vector<tokens> const read{9, 4};
  auto const refused = balancer.plan(read);
  ASSERT_FALSE(refused.has_value());
  if (world_rank() == last) {
    EXPECT_EQ(refused.error().code, ballast::error_code::infeasible);
  } else {
    EXPECT_EQ(refused.error().code, ballast::error_code::mismatch);
    if (world_size() > 2) {
      EXPECT_THAT(refused.error().ranks,
                  testing::ElementsAre(ballast::to_id<ballast::rank_id>(last)));
    }
  }
  EXPECT_EQ(balancer.plan(read).error().code, refused.error().code);  // and nobody is lost
}

}  // namespace
