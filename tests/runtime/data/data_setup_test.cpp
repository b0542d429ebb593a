// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/data/data_setup.hpp>

#include "../../support/test.hpp"

namespace {

TEST(DataSetup, LeavesOutWhatCannotBeDecodedUnlessToldToStop)
{
  ballast::data_setup const setup{.samples = 3};
  EXPECT_EQ(setup.when_undecodable, ballast::undecodable::left_out);
  EXPECT_EQ(setup.step_samples, 1U);
  EXPECT_GE(setup.fetched_ahead, 1U);
}

}  // namespace
