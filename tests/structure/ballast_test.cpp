// SPDX-License-Identifier: Apache-2.0
#include <ballast/ballast.hpp>

#include "../support/test.hpp"

namespace {

TEST(Ballast, BringsTheVersionAndTheVocabularyWithOneInclude)
{
  static_assert(BALLAST_VERSION > 0);
  EXPECT_EQ(ballast::to_index(ballast::rank_id{3}), 3U);
}

}  // namespace
