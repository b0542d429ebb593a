// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/step_balancer.cuh>

#include "gpu_test.hpp"
#include "ranks_on_one_gpu.hpp"

#include <gtest/gtest.h>
#include <ballast/comm/thread_communicator.hpp>
#include <ballast/core.hpp>
#include <ballast/gpu/copy_engine_communicator.hpp>
#include <ballast/gpu/device_memory.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/topology/bag_layout.hpp>

namespace {

using ballast::rows_of;
using ballast::to_index;
using ballast::tokens;

using communicator = ballast::copy_engine_communicator<>;

class StepBalancerOnDevice : public ballast_test::gpu_test {
 protected:
  static constexpr std::size_t ranks = 4;
  static constexpr std::uint32_t heads = 3;
  static constexpr std::size_t dim = 5;
  static constexpr ballast::longest_processing_time policy{};
  static constexpr ballast::step_options<> options{.query_heads = heads};
  static constexpr auto cost = [](tokens length) { return length * length + 40 * length; };

  using lengths_of_ranks = std::vector<std::vector<tokens>>;

  /// Steps that grow, so that memory of the device has to grow with them, and shrink again.
  static std::vector<lengths_of_ranks> steps()
  {
    ballast::random_source random(5);
    std::vector<lengths_of_ranks> all;
    for (std::int64_t const most : {2, 9, 40, 3}) {
      lengths_of_ranks step(ranks);
      for (auto& own : step) {
        own.resize(static_cast<std::size_t>(random.between(0, most)));
        for (tokens& length : own) { length = random.between(4, 50); }
      }
      all.push_back(step);
    }
    return all;
  }

  static std::vector<float> numbered(std::size_t rows, ballast::rank_id rank)
  {
    std::vector<float> all(rows * heads * dim);
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i] = static_cast<float>(1'000'000 * (to_index(rank) + 1) + i);
    }
    return all;
  }

  static ballast::bag_layout bags()
  {
    auto const machine = ballast::cluster_of(ranks, ranks).value();
    return ballast::lay_out(ballast::parse_bags("g2n1+g1n2").value(), machine).value();
  }

  /// What a rank has after each exchange of a step: route, to_heads, to_tokens, reverse_route.
  using moved = std::array<std::vector<float>, 4>;
};

// Ensures (1)
TEST_F(StepBalancerOnDevice, MovesWhatTheOneOfTheHostMoves)
{
  auto const all = steps();
  std::vector<std::vector<moved>> expected(ranks);
  ballast::run_ranks(ranks, [&](ballast::thread_communicator& comm) {
    ballast::step_balancer balancer(comm, bags(), cost, policy, options);
    for (auto const& step : all) {
      ASSERT_TRUE(balancer.plan(step[to_index(comm.rank())]));
      auto const x = numbered(balancer.rows_read(), comm.rank());
      moved to;
      to[0].resize(balancer.rows_computed() * heads * dim);
      to[1].resize(balancer.heads().heads_of_sequences(balancer.gpu(), heads) * dim);
      to[2].resize(to[0].size());
      to[3].resize(x.size());
      ASSERT_TRUE(balancer.route(rows_of(x, to[0], heads * dim)));
      ASSERT_TRUE(balancer.to_heads(ballast::heads_of(to[0], to[1], heads, dim)));
      ASSERT_TRUE(balancer.to_tokens(ballast::heads_of(to[1], to[2], heads, dim)));
      ASSERT_TRUE(balancer.reverse_route(rows_of(to[2], to[3], heads * dim)));
      EXPECT_EQ(to[3], x);
      expected[to_index(comm.rank())].push_back(to);
    }
  });
  ballast_test::run_ranks_on_one_gpu(ranks, [&](communicator& comm) {
    ballast::device_step_balancer balancer(comm, bags(), cost, policy, options);
    for (std::size_t step = 0; step < all.size(); ++step) {
      SCOPED_TRACE(step);
      std::size_t const rank = to_index(comm.rank());
      ASSERT_TRUE(ballast_test::done(balancer.plan(all[step][rank])));
      auto const x = to_device(numbered(balancer.rows_read(), comm.rank()));
      std::vector<std::int32_t> seqlens(balancer.cu_seqlens().size());
      auto expected_seqlens = seqlens;
      balancer.heads().write_cu_seqlens(expected_seqlens);
      EXPECT_EQ(cudaMemcpyAsync(seqlens.data(), balancer.cu_seqlens().data(),
                                balancer.cu_seqlens().size_bytes(), cudaMemcpyDeviceToHost,
                                balancer.bag_comm().stream()),
                cudaSuccess);
      moved const& host = expected[rank][step];
      std::array<ballast::device_array<float>, 4> to;
      for (std::size_t i = 0; i < to.size(); ++i) {
        to[i] = to_device(std::vector<float>(host[i].size(), -1));
      }
      auto const wide = [](auto const& from, auto const& there) {
        return rows_of(from.span(), there.span(), heads * dim);
      };
      auto const with_heads = [](auto const& from, auto const& there) {
        return ballast::heads_of(from.span(), there.span(), heads, dim);
      };
      EXPECT_TRUE(ballast_test::done(balancer.route(wide(x, to[0]))));
      EXPECT_TRUE(ballast_test::done(balancer.to_heads(with_heads(to[0], to[1]))));
      EXPECT_TRUE(ballast_test::done(balancer.to_tokens(with_heads(to[1], to[2]))));
      EXPECT_TRUE(ballast_test::done(balancer.reverse_route(wide(to[2], to[3]))));
      EXPECT_TRUE(ballast_test::done(comm.wait()));
      EXPECT_EQ(seqlens, expected_seqlens);
      for (std::size_t i = 0; i < to.size(); ++i) { EXPECT_EQ(to_host(to[i]), host[i]) << i; }
    }
  });
}

// The balancer ends while its exchanges are queued: their memory outlives them.
TEST_F(StepBalancerOnDevice, WaitsInItsDestructorForWhatUsesItsMemory)  // Ensures (4)
{
  auto const all = steps();
  ballast_test::run_ranks_on_one_gpu(ranks, [&](communicator& comm) {
    std::vector<float> host;
    ballast::device_array<float> x, there, back;
    {
      ballast::device_step_balancer balancer(comm, bags(), cost, policy, options);
      for (std::size_t const step : {0U, 2U}) {  // the second needs more memory
        ASSERT_TRUE(ballast_test::done(balancer.plan(all[step][to_index(comm.rank())])));
        host = numbered(balancer.rows_read(), comm.rank());
        x = to_device(host);
        back = to_device(std::vector<float>(host.size(), -1));
        there = to_device(std::vector<float>(balancer.rows_computed() * heads * dim));
        EXPECT_TRUE(balancer.route(rows_of(x.span(), there.span(), heads * dim)));
        EXPECT_TRUE(balancer.reverse_route(rows_of(there.span(), back.span(), heads * dim)));
      }
    }
    EXPECT_TRUE(ballast_test::done(comm.wait()));
    EXPECT_EQ(to_host(back), host);
  });
}

TEST_F(StepBalancerOnDevice, RefusesExchangesWithoutAPlan)
{
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto comms = communicator::make(std::array{stream()});
  ASSERT_TRUE(comms);
  ballast::device_step_balancer balancer(comms->front(), ballast::one_gpu_bags(1), cost, policy);
  EXPECT_DEATH(static_cast<void>(balancer.route()), "there is no plan");
  ASSERT_TRUE(balancer.plan({}));
  EXPECT_DEATH(static_cast<void>(balancer.to_heads()), "query_heads is 0");
}

}  // namespace
