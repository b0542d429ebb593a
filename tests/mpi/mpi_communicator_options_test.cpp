// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm/communicator.hpp>

#include "../support/test.hpp"

namespace {

TEST(MpiCommunicatorOptions, CompareSizesAndKeepMessagesBelowTheLimitOfMpi)
{
  ballast::mpi_communicator_options const options;
  EXPECT_EQ(options.deadline, ballast::default_deadline);
  EXPECT_TRUE(options.verify);
  EXPECT_LE(options.largest_message, std::numeric_limits<int>::max());
}

}  // namespace
