// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/data/data_setup.hpp>

#include "../../support/test.hpp"

namespace {

TEST(DataDeal, IsTheSameWithTicketAndSample)
{
  EXPECT_EQ((ballast::data_deal{3, 5}), (ballast::data_deal{3, 5}));
  EXPECT_NE((ballast::data_deal{3, 5}), (ballast::data_deal{4, 5}));
}

}  // namespace
