// SPDX-License-Identifier: Apache-2.0
#include <ballast/partition/packing/packing_plan.hpp>  // first: proves it is self-contained

#include "../../support/test.hpp"

namespace packing_rules_test {

using namespace ballast;

TEST(PackingRules, AskForNothingByThemselves)
{
  packing_rules const rules;
  EXPECT_EQ(rules.most_samples + 1, 0U) << "no limit";
  EXPECT_EQ(rules.least_bins, 0U);
  EXPECT_EQ(rules.multiple_of, 1U);
  EXPECT_EQ(rules.length_multiple, 1);
  EXPECT_FALSE(rules.is_padded);
}

}  // namespace packing_rules_test
