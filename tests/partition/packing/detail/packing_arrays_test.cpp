// SPDX-License-Identifier: Apache-2.0
#include <ballast/partition/packing/detail/packing_arrays.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

void check_packing(std::size_t samples, std::size_t ordered, std::size_t owned)
{
  std::vector<std::int64_t> const weights(samples, 1);
  std::vector<ballast::priced_sample> const order(ordered);
  std::vector<ballast::bag_id> const owner(owned);
  ballast::detail::expect_packing_arrays({weights, order, 1}, owner);
}

TEST(PackingArrays, AreAcceptedWhereTheyFit)
{
  check_packing(3, 3, 3);
  check_packing(0, 0, 0);
}

TEST(PackingArraysDeathTest, AreNamedWhereTheyDoNot)
{
  EXPECT_DEATH(check_packing(3, 3, 2), "`owner` of 2 samples for a problem of 3");
  EXPECT_DEATH(check_packing(3, 2, 3), "`heaviest_first` of 2 samples for a problem of 3");
}

}  // namespace
