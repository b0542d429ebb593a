// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/exchange_heads.cuh>
#include <ballast/cuda/prepared_heads.cuh>

#include "../route/bag_arrays.hpp"
#include "staged_on_host.hpp"

#include <gtest/gtest.h>
#include <ballast/comm/thread_communicator.hpp>
#include <ballast/gpu/streams.hpp>

#include <chrono>

namespace {

using ballast::device_heads;
using ballast::head_array;
using ballast::heads_of;
using ballast::prepared_heads;
using ballast::result;
using ballast::thread_communicator;
using ballast::tokens;
using ballast_test::bag_case;

// A bag whose stream is never used.
template <class Threads>
struct streamed : Threads {
  explicit streamed(Threads threads) : Threads(std::move(threads)) {}

  [[nodiscard]] cudaStream_t stream() const { return nullptr; }
  [[nodiscard]] result<streamed> split(std::uint32_t colour)
  {
    return Threads::split(colour).map([](Threads part) { return streamed(std::move(part)); });
  }
};
using streamed_threads = streamed<thread_communicator>;

static_assert(ballast::stream_communicator<streamed_threads>);
static_assert(ballast::detail::head_mover<ballast::detail::device_head_mover>);

/// A plan that was staged and that no kernel reads.
struct staged_bag : ballast_test::staged_on_host<ballast::ulysses_plan> {
  std::vector<std::byte> temporary;

  explicit staged_bag(bag_case const& bag)
      : staged_on_host({static_cast<std::uint32_t>(bag.lengths.size()), bag.gpus, bag.query_heads,
                        bag.kv_heads}),
        temporary(1 << 20)
  {
    hold(bag.plan());
  }
};

streamed_threads member_of(std::size_t gpus)
{
  return streamed_threads(
      std::move(thread_communicator::make(gpus, std::chrono::milliseconds(200)).front()));
}

// What is made for an exchange of one array, without memory of a device.
prepared_heads made_for(staged_bag& bag, head_array const& array)
{
  return {*bag, 0, device_heads(std::array{array}), {}};
}

TEST(ExchangeHeads, OfABagOfOneInPlaceIsNothing)
{
  staged_bag bag({1, {5, 3}, 2});
  streamed_threads comm = member_of(1);
  std::vector<int> x{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  auto const before = x;
  auto const ready = made_for(bag, heads_of(x, x, 2, 1));
  EXPECT_TRUE(ballast::to_heads(comm, ready, {}, heads_of(x, x, 2, 1)));
  EXPECT_TRUE(ballast::to_tokens(comm, ready, {}, heads_of(x, x, 2, 1)));
  EXPECT_EQ(x, before);
}

TEST(ExchangeHeads, TellsWhatCudaRefused)
{
  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0) {
    GTEST_SKIP() << "there is a CUDA device, which refuses nothing";
  }
  staged_bag bag({2, {4}, 2});
  streamed_threads comm = member_of(2);
  std::vector<float> const own(4);
  std::vector<float> whole(4);
  auto const array = heads_of(own, whole, 2, 1);
  auto const ready = made_for(bag, array);
  EXPECT_NE(ready.prepare(nullptr), cudaSuccess);
  auto const moved = ballast::to_heads(comm, ready, bag.temporary, array);
  ASSERT_FALSE(moved);
  EXPECT_EQ(moved.error().code, ballast::error_code::transport);
  EXPECT_TRUE(moved.error().message.starts_with("packing on the device failed with code "))
      << moved.error().message;
}

TEST(ExchangeHeadsDeathTest, RejectsWhatDoesNotFit)
{
  staged_bag bag({2, {4}, 2});
  streamed_threads comm = member_of(2);
  std::vector<float> const own(4);
  std::vector<float> whole(4);
  std::vector<float> more(5);
  auto const ready = made_for(bag, heads_of(own, whole, 2, 1));
  auto const to_heads = [&](std::span<std::byte> temporary, head_array const& array) {
    (void)ballast::to_heads(comm, ready, temporary, array);
  };
  EXPECT_DEATH(to_heads(bag.temporary, heads_of(more, whole, 2, 1)), "bytes in `from`");
  EXPECT_DEATH(to_heads(bag.temporary, heads_of(own, more, 2, 1)), "bytes in `to`");
  EXPECT_DEATH(to_heads({}, heads_of(own, whole, 2, 1)), "do not fit the temporary storage");
  std::vector<float> all(8);
  EXPECT_DEATH(to_heads(bag.temporary, heads_of(own, all, 1, 2)), "not as many of the same shapes");
  streamed_threads larger = member_of(3);
  EXPECT_DEATH((void)ballast::to_heads(larger, ready, bag.temporary), "the plan is for a bag of ");
}

}  // namespace
