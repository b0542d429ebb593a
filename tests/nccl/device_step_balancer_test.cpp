// SPDX-License-Identifier: Apache-2.0
#include "../support/test.hpp"

#include "../support/time_limits.hpp"
#include "nccl_ranks.hpp"

#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/route/head_array.hpp>
#include <ballast/route/row_array.hpp>
#include <ballast/runtime/step_balancer.cuh>
#include <ballast/runtime/step_balancer.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/cluster.hpp>

namespace {

using ballast::rows_of;
using ballast::tokens;

constexpr std::size_t gpus_in_step = 4;
constexpr std::uint32_t heads_in_step = 3;
constexpr std::size_t dim_in_step = 5;
constexpr std::size_t step_width = heads_in_step * dim_in_step;

/// What a rank has after route, to_heads, to_tokens and reverse_route.
template <class Balancer>
std::array<std::vector<float>, 4> moved_by(Balancer& balancer, std::vector<float> const& x)
{
  std::array<std::vector<float>, 4> to;
  to[0].resize(balancer.rows_computed() * step_width);
  to[1].resize(balancer.heads().heads_of_sequences(balancer.gpu(), heads_in_step) * dim_in_step);
  to[2].resize(to[0].size());
  to[3].resize(x.size());
  EXPECT_TRUE(balancer.route(rows_of(x, to[0], step_width)));
  EXPECT_TRUE(balancer.to_heads(ballast::heads_of(to[0], to[1], heads_in_step, dim_in_step)));
  EXPECT_TRUE(balancer.to_tokens(ballast::heads_of(to[1], to[2], heads_in_step, dim_in_step)));
  EXPECT_TRUE(balancer.reverse_route(rows_of(to[2], to[3], step_width)));
  EXPECT_TRUE(balancer.comm().wait());
  return to;
}

// Steps that grow, so that memory of the device has to grow with them, and shrink again.
TEST(DeviceStepBalancer, MovesWhatTheOneOfTheHostMovesAndHasItsSequences)
{
  auto const machine = ballast::cluster_of(gpus_in_step, gpus_in_step).value();
  auto const bags = ballast::lay_out(ballast::parse_bags("g2n1+g1n2").value(), machine).value();
  auto const cost = [](tokens length) { return length * length + 40 * length; };
  ballast::longest_processing_time const policy;
  ballast::step_options<> const options{.query_heads = heads_in_step};
  ballast_test::nccl_ranks ranks(gpus_in_step);
  ranks.run({.deadline = ballast_test::time_bound}, [&](ballast::nccl_communicator<>& comm) {
    ballast::step_balancer host(comm, bags, cost, policy, options);
    ballast::device_step_balancer device(comm, bags, cost, policy, options);
    ballast::random_source random(1 + to_index(comm.rank()));
    for (std::uint64_t const most : {2U, 9U, 40U, 3U}) {
      std::vector<tokens> read(random.below(most + 1));
      for (tokens& length : read) { length = random.between(4, 50); }
      ASSERT_TRUE(host.plan(read));
      ASSERT_TRUE(device.plan(read));
      std::vector<std::int32_t> seqlens(device.heads().lengths().size() + 1);
      host.heads().write_cu_seqlens(seqlens);
      EXPECT_EQ(cudaStreamSynchronize(device.bag_comm().stream()), cudaSuccess);
      EXPECT_THAT(device.cu_seqlens(), testing::ElementsAreArray(seqlens));

      std::vector<float> x(device.rows_read() * step_width);
      for (float& each : x) { each = static_cast<float>(random.below(1'000'000)); }
      auto const moved = moved_by(device, x);
      EXPECT_EQ(moved, moved_by(host, x));
      EXPECT_EQ(moved[3], x);
    }
  });
}

}  // namespace
