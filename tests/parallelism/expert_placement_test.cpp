// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/share_experts.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"

namespace expert_placement_test {

TEST(ExpertPlacement, HasADigestOfItsPlaces)
{
  ballast::expert_placement one;
  one.experts.push_back(ballast::expert_id{0});
  one.experts.end_row();
  one.experts.end_row();
  ballast::expert_placement other;
  other.experts.end_row();
  other.experts.push_back(ballast::expert_id{0});
  other.experts.end_row();
  EXPECT_NE(one.digest(), other.digest());
  EXPECT_EQ(one.digest(), ballast::expert_placement(one).digest());
}

}  // namespace expert_placement_test
