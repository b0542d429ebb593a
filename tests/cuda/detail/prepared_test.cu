// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/detail/prepared.cuh>

#include "../../route/bag_arrays.hpp"
#include "../staged_on_host.hpp"

#include <gtest/gtest.h>
#include <ballast/core.hpp>
#include <ballast/cuda/prepared_heads.cuh>
#include <ballast/cuda/prepared_route.cuh>

namespace {

using ballast::device_heads;
using ballast::device_rows;
using ballast::heads_of;
using ballast::prepared_heads;
using ballast_test::bag_case;
using ballast_test::staged_on_host;

// Nothing here reaches a device.
TEST(PreparedDeathTest, OfHeadsRejectsBeforeAnythingIsQueued)
{
  staged_on_host<ballast::ulysses_plan> bag({1, 2, 2});
  bag.hold(bag_case{2, {4}, 2}.plan());
  std::vector<std::byte> const from(4);
  std::vector<std::byte> to(2);
  alignas(16) std::byte messages[32];
  device_heads const shared(std::vector{heads_of(from, to, 1, 1)});  // a head that both GPUs have
  prepared_heads const ready(*bag, 0, shared, {});
  EXPECT_DEATH((void)ready.unpack(false, shared, messages, nullptr),
               "several GPUs have the same of the 1 head of array 0");
  EXPECT_DEATH((void)ready.pack(true, shared, messages + 8, nullptr),
               "do not begin at a multiple of 16 bytes");
  EXPECT_DEATH(prepared_heads(*bag, 2, shared, {}), "GPU 2 of a bag of 2");
  bag.hold(bag_case{2, {40}, 2}.plan());
  EXPECT_DEATH((void)ready.prepare(nullptr), "and the exchange was made for 2");
}

TEST(PreparedDeathTest, OfRowsRejectsBeforeAnythingIsQueued)
{
  staged_on_host<ballast::route_plan> there({.ranks = 2, .ranges = 3});
  device_rows const one(std::array{ballast::row_array{{}, {}, 4}});
  ballast::prepared_route const ready(*there, one, {});
  alignas(16) std::byte messages[32];
  EXPECT_DEATH((void)ready.pack(true, device_rows({}), messages, nullptr),
               "not as many of the same shapes");
  EXPECT_DEATH((void)ready.unpack(true, one, messages + 8, nullptr),
               "do not begin at a multiple of 16 bytes");
  EXPECT_EQ(ready.prepare(nullptr), cudaErrorInvalidValue);  // in no memory
}

}  // namespace
