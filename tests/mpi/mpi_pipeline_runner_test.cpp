// SPDX-License-Identifier: Apache-2.0
// Pipelines whose ranks are processes.
#include <ballast/runtime/pipeline_runner.hpp>

#include <gtest/gtest.h>
#include "../support/toy_pipeline.hpp"  // defines: toy::{draw, stage, result_of_one_rank, ...}
#include "mpi_world.hpp"                // defines: ballast_test::{over_world, world_size}

#include <ballast/comm/mpi_communicator.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/result.hpp>

#include <cstddef>

namespace {

using ballast_test::over_world;
using ballast_test::world_size;

// Every process draws the same pipelines.
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
  }
}

}  // namespace
