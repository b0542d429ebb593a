// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/device_carrier.cuh>

#include "../route/instances.hpp"    // defines: ballast_test::random_step
#include "../route/step_arrays.hpp"  // defines: ballast_test::step_arrays
#include "gpu_test.hpp"
#include "ranks_on_one_gpu.hpp"

#include <gtest/gtest.h>
#include <ballast/core.hpp>
#include <ballast/gpu/copy_engine_communicator.hpp>
#include <ballast/route/route_plan.hpp>
#include <ballast/route/row_array.hpp>

namespace {

using DeviceCarrierOnDevice = ballast_test::gpu_test;
using ballast::row_array;

// Two plans a step, the second larger, so that memory grows while the first is in use.
TEST_F(DeviceCarrierOnDevice, CarriesRowsThereAndBack)  // Ensures (1)
{
  constexpr std::size_t ranks = 4;
  constexpr std::size_t width = 20;
  ballast::random_source random(20250302);
  std::vector<ballast_test::random_step> plans;
  std::vector<ballast_test::step_arrays> data;
  for (std::size_t const samples : {9U, 18U}) {
    plans.emplace_back(samples, ballast::one_gpu_bags(ranks), random);
    data.emplace_back(plans.back().read, plans.back().computed, std::vector{width}, random);
  }
  ballast_test::run_ranks_on_one_gpu(ranks, [&](ballast::copy_engine_communicator<>& comm) {
    std::size_t const rank = to_index(comm.rank());
    ballast::device_carrier carrier(comm);
    for (int step = 0; step < 3; ++step) {
      EXPECT_TRUE(ballast_test::done(carrier.begin_step()));
      for (std::size_t each = 0; each < plans.size(); ++each) {
        auto const plan = ballast::plan_route(plans[each].read, plans[each].computed, comm.rank());
        auto const x = to_device(data[each].before(rank)[0]);
        auto const there = to_device(data[each].unwritten(rank)[0]);
        auto const copied = to_device(data[each].unwritten(rank)[0]);
        auto const back = to_device(data[each].unwritten_before(rank)[0]);
        EXPECT_TRUE(
            ballast_test::done(carrier.route(plan, row_array{x.span(), there.span(), width})));
        EXPECT_TRUE(
            ballast_test::done(carrier.copy(row_array{there.span(), copied.span(), width})));
        EXPECT_TRUE(ballast_test::done(
            carrier.reverse_route(plan, row_array{copied.span(), back.span(), width})));
        EXPECT_TRUE(ballast_test::done(carrier.wait()));
        EXPECT_EQ(to_host(copied), data[each].after(rank)[0]);
        EXPECT_EQ(to_host(back), data[each].before(rank)[0]);
      }
    }
  });
}

}  // namespace
