// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/detail/uploaded.cuh>

#include "../support/test.hpp"

namespace {

using ballast::route_plan;
using ballast::staged;

struct fake_shape {
  int elements;
  [[nodiscard]] bool has_shapes_of(fake_shape const& other) const
  {
    return elements == other.elements;
  }
};

/// What is prepared, without a kernel.
struct fake_exchange {
  static inline int prepared = 0;
  static inline cudaError_t answer = cudaSuccess;

  staged<route_plan>& there;
  fake_shape shape;
  std::span<std::byte> memory;
  ballast::side_stream const* side;

  static cudaError_t device_bytes(staged<route_plan>&, fake_shape const& shape, std::size_t& bytes)
  {
    bytes = static_cast<std::size_t>(shape.elements);
    return cudaSuccess;
  }
  [[nodiscard]] cudaError_t prepare(cudaStream_t) const
  {
    ++prepared;
    return answer;
  }
};

route_plan plan_keeping(std::size_t ranges)
{
  route_plan plan;
  plan.sent.start(1);
  plan.received.start(1);
  plan.sent.finish();
  plan.received.finish();
  for (std::size_t range = 0; range < ranges; ++range) { plan.kept.push_back({0, 0, 1}); }
  return plan;
}

struct Uploaded : testing::Test {
  cudaStream_t stream = nullptr;

  void SetUp() override { ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess); }
  void TearDown() override { EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess); }
  /// Uploads before the next plan is staged.
  bool hold(auto& there, route_plan const& plan) const
  {
    return there.upload(plan, stream) && cudaStreamSynchronize(stream) == cudaSuccess;
  }
};

TEST_F(Uploaded, PreparesEachShapeOnceAStep)
{
  ballast::detail::uploaded<fake_exchange, route_plan, fake_shape> there;
  ASSERT_TRUE(hold(there, plan_keeping(3)));
  std::byte memory[8] = {};
  auto const room = [&](auto&, std::size_t bytes) -> ballast::result<std::span<std::byte>> {
    return std::span<std::byte>(memory).first(bytes);
  };
  auto const of = [&](int elements) {
    return there.ready(fake_shape{elements}, stream, room, nullptr);
  };
  auto const* const three = of(3).value();
  EXPECT_EQ(three->memory.size(), 3U);
  EXPECT_EQ(of(5).value()->shape.elements, 5);
  EXPECT_EQ(of(3).value(), three);
  EXPECT_EQ(fake_exchange::prepared, 2);
  ASSERT_TRUE(hold(there, plan_keeping(2)));
  EXPECT_EQ(of(3).value(), three);  // in the memory that it had
  EXPECT_EQ(fake_exchange::prepared, 3);
  fake_exchange::answer = cudaErrorInvalidValue;
  EXPECT_FALSE(of(5));
  fake_exchange::answer = cudaSuccess;
  EXPECT_TRUE(of(5));
}

TEST_F(Uploaded, GrowsWithItsPlans)
{
  ballast::detail::uploaded<fake_exchange, route_plan, fake_shape> there;
  EXPECT_FALSE(there.has_room_for(plan_keeping(0)));
  ASSERT_TRUE(hold(there, plan_keeping(3)));
  EXPECT_TRUE(there.has_room_for(plan_keeping(7)));  // to spare
  EXPECT_FALSE(there.has_room_for(plan_keeping(8)));
  ASSERT_TRUE(hold(there, plan_keeping(8)));
  EXPECT_TRUE(there.has_room_for(plan_keeping(17)));
}

}  // namespace
