// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/device_heads.hpp>

#include "../support/test.hpp"

#include <cuda_fp8.h>

namespace {

using ballast::device_heads;
using ballast::element_type;
using ballast::head_array;
using ballast::heads_of;

template <class T>
element_type type_of_array()
{
  std::vector<T> const from(2);
  std::vector<T> to(2);
  return ballast::device_heads::type_of(heads_of(from, to, 1, 1));
}

void add_bytes(std::byte*, std::byte const*, std::size_t) {}

TEST(ElementType, IsKnownByTheSumOfTheArray)
{
  EXPECT_EQ(type_of_array<__half>(), element_type::fp16);
  EXPECT_EQ(type_of_array<__nv_bfloat16>(), element_type::bf16);
  EXPECT_EQ(type_of_array<float>(), element_type::fp32);
  EXPECT_EQ(type_of_array<double>(), element_type::fp64);
}

TEST(ElementType, IsOtherWhereKernelsHaveNoSum)
{
  EXPECT_EQ(type_of_array<__nv_fp8_e4m3>(), element_type::other);
  EXPECT_EQ(type_of_array<std::uint16_t>(), element_type::other);  // bits, as on the host
  EXPECT_EQ(type_of_array<long double>(), element_type::other);    // added there, and not here
  EXPECT_EQ(ballast::device_heads::type_of({{}, {}, {1, 1}, add_bytes}), element_type::other);
}

TEST(DeviceHeads, HoldWhatTheArraysSay)
{
  std::vector<float> const from(6);
  std::vector<float> to(4);
  std::vector<head_array> const arrays = {{}, heads_of(from, to, 3, 2)};
  device_heads const heads(arrays);
  ASSERT_EQ(heads.size(), 2U);
  EXPECT_EQ(static_cast<void const*>(heads[1].from), from.data());
  EXPECT_EQ(static_cast<void*>(heads[1].to), to.data());
  EXPECT_EQ(heads[1].shape.heads, 3U);
  EXPECT_EQ(heads[1].shape.head_bytes, 8U);
  EXPECT_EQ(heads[1].element, element_type::fp32);
}

TEST(DeviceHeads, TakeEightArraysAndNoArray)
{
  EXPECT_EQ(device_heads(std::vector<head_array>(8)).size(), 8U);
  EXPECT_EQ(device_heads({}).size(), 0U);
}

TEST(DeviceHeadsDeathTest, RejectMoreThanTheyHold)
{
  EXPECT_DEATH(device_heads(std::vector<head_array>(9)), "exchanges 9 arrays, and the most is 8");
}

}  // namespace
