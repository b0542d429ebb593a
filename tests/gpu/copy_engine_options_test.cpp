// SPDX-License-Identifier: Apache-2.0
#include <ballast/gpu/copy_engine_communicator.hpp>

#include "../support/test.hpp"

#include <ballast/comm/communicator.hpp>

namespace {

TEST(CopyEngineOptions, LeaveTheMultiprocessorsToKernelsAndWaitAsOtherModelsDo)
{
  ballast::copy_engine_options const options;
  EXPECT_EQ(options.deadline, ballast::default_deadline);
  EXPECT_TRUE(options.beside_kernels);
}

}  // namespace
