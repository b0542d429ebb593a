// SPDX-License-Identifier: Apache-2.0
// The phases of multimodal steps over processes, planned in a thread of each.

#include <ballast/runtime/orchestrator.hpp>

#include "../support/orchestrated_steps.hpp"
#include "../support/test.hpp"
#include "mpi_world.hpp"

namespace {

TEST(MpiThreads, MayPlanTheNextStepOfAnOrchestrator)
{
  auto comm = ballast_test::over_world();
  if (!comm.serves_threads()) { GTEST_SKIP() << "MPI serves a single thread here"; }
  EXPECT_EQ(ballast_test::wrong_arrays_of_jobs(comm, /*seed=*/20240607, /*jobs=*/4, /*steps=*/25),
            0U);
  ballast_test::world_barrier();
}

}  // namespace
