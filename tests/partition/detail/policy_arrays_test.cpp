// SPDX-License-Identifier: Apache-2.0
#include <ballast/partition/detail/policy_arrays.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace {

using ballast::detail::expect_policy_arrays;

struct policy_call {
  std::vector<ballast::cost_units> costs = {3, 2, 1};
  std::vector<std::uint32_t> gpus = {1, 1};
  std::vector<ballast::cost_units> loads = {0, 0};
  std::vector<ballast::bag_id> owner = std::vector(3, ballast::bag_id{2});

  void check() const { expect_policy_arrays({costs, {}, {}, gpus, gpus}, loads, owner); }
};

TEST(PolicyArrays, AreAcceptedWhereTheyFit)
{
  policy_call{}.check();
}

TEST(PolicyArraysDeathTest, AreNamedWhereTheyDoNot)
{
  EXPECT_DEATH((policy_call{.gpus = {}, .loads = {}}.check()), "without bags: `loads` is empty");
  EXPECT_DEATH((policy_call{.loads = {0}}.check()), "`loads` of 1 bags for a problem of 2");
  EXPECT_DEATH((policy_call{.owner = {}}.check()), "`owner` of 0 samples for a problem of 3");
}

}  // namespace
