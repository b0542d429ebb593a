// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/copy_tuning.hpp>

#include <gtest/gtest.h>

namespace {

using ballast::copy_tuning;
using ballast::measured_copies;
using ballast::tuning_of;

constexpr copy_tuning table[] = {
    {0, 0, false, 4096, 1},      {80, 0, false, 4096, 2}, {80, 1024, true, 4096, 3},
    {80, 65536, false, 8192, 4}, {90, 0, false, 4096, 5}, {90, 4096, false, 4096, 6},
};

constexpr unsigned row(int capability, std::size_t mean_bytes)
{
  return tuning_of(table, capability, mean_bytes).blocks_per_multiprocessor;
}

static_assert(row(75, 1 << 20) == 1);
static_assert(row(80, 0) == 2);
static_assert(row(86, 1023) == 2);
static_assert(row(86, 1024) == 3);
static_assert(row(89, 1 << 20) == 4);
static_assert(row(90, 4095) == 5);
static_assert(row(120, 1 << 20) == 6);

TEST(CopyTuning, HasARowForEveryDeviceAndMean)
{
  ASSERT_EQ(measured_copies[0].capability, 0);
  copy_tuning const* before = nullptr;
  for (copy_tuning const& here : measured_copies) {
    if (before == nullptr || before->capability != here.capability) {
      EXPECT_EQ(here.mean_bytes, 0U);
    } else {
      EXPECT_LT(before->mean_bytes, here.mean_bytes);
    }
    if (before != nullptr) { EXPECT_LE(before->capability, here.capability); }
    before = &here;
  }
}

}  // namespace
