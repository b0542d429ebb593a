// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/data/data_setup.hpp>

#include "../../support/test.hpp"

namespace {

using ballast::data_step;

TEST(DataStep, HasARowOfLengthsForEachSample)
{
  data_step const step{.modules = 2, .samples = {7, 9}, .lengths = {1, 2, 3, 4}};
  EXPECT_THAT(step.lengths_of(1), testing::ElementsAre(3, 4));
}

TEST(DataStep, HasADigestOfWhatTrainsAndNotOfWhoComputesIt)
{
  data_step const step{.number = 4, .samples = {7, 9}, .lengths = {1, 2}};
  data_step other = step;
  other.owner = {ballast::rank_id{1}, ballast::rank_id{0}};
  other.news = {"loader 1 was lost"};
  EXPECT_EQ(step.digest(), other.digest());
  other.lengths[1] = 3;
  EXPECT_NE(step.digest(), other.digest());
}

}  // namespace
