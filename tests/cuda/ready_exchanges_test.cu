// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/detail/ready_exchanges.cuh>

#include <gtest/gtest.h>
#include <ballast/core.hpp>

namespace {

struct width {
  int elements;
  [[nodiscard]] bool has_shapes_of(width const& other) const { return elements == other.elements; }
};

struct counted_plan {
  int prepared = 0;
  cudaError_t answer = cudaSuccess;
};

// What is prepared, without a device.
struct prepared_width {
  counted_plan& plan;
  width shape;
  std::span<std::byte> memory;
  ballast::side_stream const* side;

  static cudaError_t device_bytes(counted_plan const&, width const& shape, std::size_t& bytes)
  {
    bytes = static_cast<std::size_t>(shape.elements);
    return cudaSuccess;
  }
  [[nodiscard]] cudaError_t prepare(cudaStream_t) const
  {
    ++plan.prepared;
    return plan.answer;
  }
};

TEST(ReadyExchanges, PreparesEachShapeOnceAStep)
{
  ballast::detail::ready_exchanges<prepared_width, width> ready;
  counted_plan plan;
  std::byte memory[8] = {};
  auto const room = [&](auto&, std::size_t bytes) -> ballast::result<std::span<std::byte>> {
    return std::span<std::byte>(memory).first(bytes);
  };
  auto const of = [&](int elements) {
    return ready.of(width{elements}, nullptr, room, nullptr, plan);
  };
  auto const* const three = of(3).value();
  EXPECT_EQ(three->memory.size(), 3U);
  EXPECT_EQ(of(5).value()->shape.elements, 5);
  EXPECT_EQ(of(3).value(), three);
  EXPECT_EQ(plan.prepared, 2);
  ready.outdate();
  EXPECT_EQ(of(3).value(), three);  // in the memory that it had
  EXPECT_EQ(plan.prepared, 3);
  plan.answer = cudaErrorInvalidValue;
  EXPECT_FALSE(of(5));
  plan.answer = cudaSuccess;
  EXPECT_TRUE(of(5));
}

}  // namespace
