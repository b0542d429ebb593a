// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/data/data_setup.hpp>

#include "../../support/test.hpp"

namespace {

TEST(DataBatch, BeginsEmpty)
{
  ballast::data_batch const batch;
  EXPECT_EQ(batch.step, nullptr);
  EXPECT_TRUE(batch.own.empty());
}

}  // namespace
