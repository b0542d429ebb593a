// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/exchange_heads.cuh>

#include "../route/bag_arrays.hpp"

#include <gtest/gtest.h>
#include <ballast/comm/thread_communicator.hpp>
#include <ballast/cuda/pack_heads.cuh>
#include <ballast/gpu/stream_communicator.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace {

using ballast::device_heads;
using ballast::device_ulysses;
using ballast::head_array;
using ballast::heads_of;
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
struct staged_bag {
  std::vector<tokens> pinned;
  device_ulysses heads;
  std::vector<std::byte> temporary;

  explicit staged_bag(bag_case const& bag)
      : pinned(bag.lengths.size() + 1),
        heads({static_cast<std::uint32_t>(bag.lengths.size()), bag.gpus, bag.query_heads,
               bag.kv_heads},
              {}, std::as_writable_bytes(std::span(pinned))),
        temporary(1 << 20)
  {
    EXPECT_TRUE(heads.stage(bag.plan()));
  }
};

streamed_threads member_of(std::size_t gpus)
{
  return streamed_threads(
      std::move(thread_communicator::make(gpus, std::chrono::milliseconds(200)).front()));
}

TEST(ExchangeHeads, OfABagOfOneInPlaceIsNothing)
{
  staged_bag bag({1, {5, 3}, 2});
  streamed_threads comm = member_of(1);
  std::vector<int> x{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  auto const before = x;
  EXPECT_TRUE(ballast::to_heads(comm, bag.heads, {}, heads_of(x, x, 2, 1)));
  EXPECT_TRUE(ballast::to_tokens(comm, bag.heads, {}, heads_of(x, x, 2, 1)));
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
  auto const need = ballast::exchange_bytes(bag.heads, 0, array);
  ASSERT_FALSE(need);
  EXPECT_EQ(need.error().code, ballast::error_code::transport);
  // A head that both GPUs have, of elements that cannot be added: it may still go to heads.
  EXPECT_FALSE(ballast::exchange_bytes(bag.heads, 0, head_array{{}, {}, {1, 1}}));
  auto const moved = ballast::to_heads(comm, bag.heads, bag.temporary, array);
  ASSERT_FALSE(moved);
  EXPECT_EQ(moved.error().code, ballast::error_code::transport);
  EXPECT_TRUE(moved.error().message.starts_with("pack_to_heads failed with code "))
      << moved.error().message;
}

TEST(ExchangeHeadsDeathTest, RejectsWhatDoesNotFit)
{
  staged_bag bag({2, {4}, 2});
  streamed_threads comm = member_of(2);
  std::vector<float> const own(4);
  std::vector<float> whole(4);
  std::vector<float> more(5);
  auto const to_heads = [&](std::span<std::byte> temporary, head_array const& array) {
    (void)ballast::to_heads(comm, bag.heads, temporary, array);
  };
  EXPECT_DEATH(to_heads(bag.temporary, heads_of(more, whole, 2, 1)), "bytes in `from`");
  EXPECT_DEATH(to_heads(bag.temporary, heads_of(own, more, 2, 1)), "bytes in `to`");
  EXPECT_DEATH(to_heads({}, heads_of(own, whole, 2, 1)), "do not fit the temporary storage");
  streamed_threads larger = member_of(3);
  EXPECT_DEATH((void)ballast::to_heads(larger, bag.heads, bag.temporary),
               "the plan is for a bag of ");
}

TEST(PackHeadsDeathTest, RejectsBeforeAnythingIsQueued)
{
  staged_bag const bag({2, {4}, 2});
  auto const tables = bag.heads.tables();
  std::size_t bytes = 0;
  std::vector<std::byte> const from(4);
  std::vector<std::byte> to(2);
  alignas(16) std::byte messages[32];
  device_heads const shared(std::vector{heads_of(from, to, 1, 1)});  // a head that both GPUs have
  EXPECT_DEATH(
      (void)ballast::unpack_to_tokens(to.data(), bytes, tables, 0, shared, messages, nullptr),
      "several GPUs have the same of the 1 head of array 0");
  EXPECT_DEATH(
      (void)ballast::pack_to_heads(nullptr, bytes, tables, 0, shared, messages + 8, nullptr),
      "do not begin at a multiple of 16 bytes");
  EXPECT_DEATH((void)ballast::pack_to_heads(nullptr, bytes, tables, 2, shared, messages, nullptr),
               "GPU 2 of a bag of 2");
}

}  // namespace
