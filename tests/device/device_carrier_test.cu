// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/device_carrier.cuh>

#include "gpu_test.hpp"
#include "ranks_on_one_gpu.hpp"

#include <gtest/gtest.h>
#include <ballast/comm/thread_communicator.hpp>
#include <ballast/core.hpp>
#include <ballast/gpu/copy_engine_communicator.hpp>
#include <ballast/gpu/device_memory.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/route.hpp>
#include <ballast/route/route_plan.hpp>
#include <ballast/route/row_array.hpp>

namespace {

using DeviceCarrierOnDevice = ballast_test::gpu_test;
using ballast::rows_of;
using row_values = std::vector<float>;

// Two plans a step, the second larger, so that memory grows while the first is in use.
TEST_F(DeviceCarrierOnDevice, CarriesWhatTheOneOfTheHostDoes)  // Ensures (1)
{
  constexpr std::size_t ranks = 4;
  constexpr std::size_t width = 5;
  std::array<std::vector<ballast::route_plan>, 2> plans;
  for (std::size_t each = 0; each < plans.size(); ++each) {
    std::vector<ballast::tokens> lengths;
    std::vector<ballast::rank_id> source, owner;
    for (std::size_t sample = 0; sample < 9 * (each + 1); ++sample) {
      lengths.push_back(static_cast<ballast::tokens>(3 + 7 * sample % 31));
      source.push_back(ballast::to_id<ballast::rank_id>(sample % ranks));
      owner.push_back(ballast::to_id<ballast::rank_id>(sample * sample % ranks));
    }
    auto const before = ballast::place(lengths, source, ranks);
    auto const after = ballast::place(lengths, owner, ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      plans[each].push_back(
          ballast::plan_route(before, after, ballast::to_id<ballast::rank_id>(rank)));
    }
  }
  auto const numbered = [](ballast::route_plan const& plan) {
    row_values all(static_cast<std::size_t>(plan.rows_before) * width);
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i] = static_cast<float>(100'000 * (to_index(plan.rank) + 1) + i);
    }
    return all;
  };
  std::array<std::vector<row_values>, 2> expected{std::vector<row_values>(ranks),
                                                  std::vector<row_values>(ranks)};
  ballast::run_ranks(ranks, [&](ballast::thread_communicator& comm) {
    ballast::host_carrier carrier(comm);
    for (std::size_t each = 0; each < plans.size(); ++each) {
      auto const& plan = plans[each][to_index(comm.rank())];
      auto& there = expected[each][to_index(comm.rank())];
      there.resize(static_cast<std::size_t>(plan.rows_after) * width);
      ASSERT_TRUE(carrier.route(plan, rows_of(numbered(plan), there, width)));
    }
  });
  ballast_test::run_ranks_on_one_gpu(ranks, [&](ballast::copy_engine_communicator<>& comm) {
    ballast::device_carrier carrier(comm);
    for (int step = 0; step < 3; ++step) {
      EXPECT_TRUE(ballast_test::done(carrier.begin_step()));
      for (std::size_t each = 0; each < plans.size(); ++each) {
        auto const& plan = plans[each][to_index(comm.rank())];
        row_values const own = numbered(plan);
        auto const& ought = expected[each][to_index(comm.rank())];
        auto const x = to_device(own);
        auto const there = to_device(row_values(ought.size()));
        auto const copied = to_device(row_values(ought.size()));
        auto const back = to_device(row_values(own.size()));
        EXPECT_TRUE(
            ballast_test::done(carrier.route(plan, rows_of(x.span(), there.span(), width))));
        EXPECT_TRUE(ballast_test::done(carrier.copy(rows_of(there.span(), copied.span(), width))));
        EXPECT_TRUE(ballast_test::done(
            carrier.reverse_route(plan, rows_of(copied.span(), back.span(), width))));
        EXPECT_TRUE(ballast_test::done(carrier.wait()));
        EXPECT_EQ(to_host(copied), ought);
        EXPECT_EQ(to_host(back), own);
      }
    }
  });
}

}  // namespace
