// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/data/data_setup.hpp>

#include "../../support/test.hpp"

namespace {

TEST(DataWindows, AreOneStepOfTotalLengthsUnlessToldOtherwise)
{
  ballast::data_windows const windows;
  EXPECT_EQ(windows.steps, 1U);
  EXPECT_EQ(windows.held_back, 0U);
  std::vector<ballast::tokens> const lengths = {3, 4};
  EXPECT_EQ(windows.cost(lengths), 7);
}

TEST(DataWindows, TakeAPolicyAndACost)
{
  auto const first = [](auto lengths) { return 2 * lengths[0]; };
  ballast::data_windows const windows{
      .steps = 2, .held_back = 1, .policy = ballast::even_rounds{}, .cost = first};
  EXPECT_EQ(windows.cost(std::vector<ballast::tokens>{3, 4}), 6);
}

}  // namespace
