// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/exchange_heads.cuh>

#include "../route/bag_arrays.hpp"
#include "gpu_test.hpp"
#include "ranks_on_one_gpu.hpp"
#include "staged_on_device.hpp"

#include <gtest/gtest.h>
#include <ballast/core.hpp>
#include <ballast/gpu/copy_engine_communicator.hpp>
#include <ballast/gpu/device_memory.hpp>
#include <ballast/route/head_array.hpp>

namespace {

using ballast::head_array;
using ballast::heads_of;
using ballast::to_index;
using ballast_test::bag_case;
using ballast_test::device_bytes;
using ballast_test::done;
using ballast_test::whole_array;

using device_bag = ballast_test::staged_on_device<ballast::ulysses_plan>;
using prepared_bag = ballast_test::prepared_on_device<ballast::prepared_heads>;
using communicator = ballast::copy_engine_communicator<>;

using ExchangeHeads = ballast_test::gpu_test;

// Whole numbers, which no sum rounds; and queries that come back as they went.
TEST_F(ExchangeHeads, TakesHeadsThereAndBack)
{
  ballast::random_source random(20240607);
  for (int trial = 0; trial < 16; ++trial) {
    bag_case const bag = ballast_test::random_bag(random, 8);
    SCOPED_TRACE(testing::Message() << "trial " << trial << ", " << bag.gpus << " GPUs");
    auto const same = [](std::size_t index) { return index; };
    whole_array<double> const q(bag, bag.query_heads, 1 + random.below(64), same);
    whole_array<float> const k(bag, ballast_test::random_heads(random, bag), 4, same);
    whole_array<float> const sums(bag, k.heads, k.dim, [&](std::size_t index) {
      auto const head = static_cast<std::uint32_t>(index / k.dim % k.heads);
      return k.elements[index] * static_cast<float>(bag.copies(head, k.heads));
    });
    ballast_test::run_ranks_on_one_gpu(bag.gpus, [&](communicator& comm) {
      auto const gpu = static_cast<std::uint32_t>(to_index(comm.rank()));
      device_bag device({static_cast<std::uint32_t>(bag.lengths.size()) + 1, bag.gpus,
                         bag.query_heads, bag.kv_heads});
      auto& heads = *device;
      auto const q_own = to_device(q.tokens_of(gpu));
      auto const k_own = to_device(k.tokens_of(gpu));
      auto const q_whole = to_device(std::vector<double>(q.heads_of(gpu).size(), -1));
      auto const k_whole = to_device(std::vector<float>(k.heads_of(gpu).size(), -1));
      auto const q_back = to_device(std::vector<double>(q_own.size(), -1));
      auto const k_back = to_device(std::vector<float>(k_own.size(), -1));
      ASSERT_TRUE(heads.stage(bag.plan()));
      ASSERT_EQ(heads.upload(comm.stream()), cudaSuccess);
      head_array const q_there = heads_of(q_own.span(), q_whole.span(), q.heads, q.dim);
      head_array const k_there = heads_of(k_own.span(), k_whole.span(), k.heads, k.dim);
      device_bytes const temporary(ballast::exchange_bytes(heads, gpu, q_there, k_there));
      prepared_bag const prepared(heads, gpu, ballast::device_heads(std::array{q_there, k_there}));
      auto const& ready = *prepared;
      ASSERT_EQ(ready.prepare(comm.stream()), cudaSuccess);
      EXPECT_TRUE(done(ballast::to_heads(comm, ready, temporary.span(), q_there, k_there)));
      EXPECT_TRUE(done(ballast::to_tokens(
          comm, ready, temporary.span(), heads_of(q_whole.span(), q_back.span(), q.heads, q.dim),
          heads_of(k_whole.span(), k_back.span(), k.heads, k.dim))));
      EXPECT_TRUE(done(comm.wait()));
      EXPECT_EQ(to_host(q_whole), q.heads_of(gpu));
      EXPECT_EQ(to_host(k_whole), k.heads_of(gpu));
      EXPECT_EQ(to_host(q_back), q.tokens_of(gpu));
      EXPECT_EQ(to_host(k_back), sums.tokens_of(gpu));
    });
  }
}

TEST_F(ExchangeHeads, OfAStepIsQueued)
{
  bag_case const of_step{2, {6, 0, 9}, 4};
  whole_array<float> const q_all(of_step, 4, 8, [](std::size_t index) { return index; });
  whole_array<float> const k_all(of_step, 2, 8, [](std::size_t index) { return index + 0.5F; });
  ballast_test::run_ranks_on_one_gpu(2, [&](communicator& bag) {
    auto const gpu = static_cast<std::uint32_t>(to_index(bag.rank()));
    auto const plan = of_step.plan();
    auto const q = to_device(q_all.tokens_of(gpu));
    auto const k = to_device(k_all.tokens_of(gpu));
    ballast::device_array<float> const q_whole(plan.heads_of_sequences(gpu, 4) * 8);
    ballast::device_array<float> const k_whole(plan.heads_of_sequences(gpu, 2) * 8);
    ballast::device_array<float> const dq(q.size());
    ballast::device_array<float> const dk(k.size());
    // [staged_heads]
    ballast::ulysses_bound const most{.sequences = 64, .gpus = 2, .query_heads = 4};
    std::size_t const bytes = ballast::staged<ballast::ulysses_plan>::bytes(most);
    ballast::device_array<std::byte> const tables(bytes);
    std::vector<std::byte, ballast::pinned_allocator<std::byte>> pinned(bytes);
    ballast::staged<ballast::ulysses_plan> heads(most, tables.span(), pinned);

    auto const staged = heads.stage(plan);  // every step
    cudaError_t const uploaded = heads.upload(bag.stream());
    auto const queries = heads_of(q.span(), q_whole.span(), 4, 8);
    auto const keys = heads_of(k.span(), k_whole.span(), 2, 8);
    ballast::device_array<std::byte> const temporary(  // for messages
        ballast::exchange_bytes(heads, gpu, queries, keys));
    ballast::device_heads const shapes(std::array{queries, keys});
    std::size_t places = 0;  // bytes of what is prepared for arrays of these shapes
    cudaError_t const sized = ballast::prepared_heads::device_bytes(heads, gpu, shapes, places);
    ballast::device_array<std::byte> const memory(places);
    ballast::prepared_heads const ready(heads, gpu, shapes, memory.span());
    cudaError_t const prepared = ready.prepare(bag.stream());

    auto const there =
        ballast::to_heads(bag, ready, temporary.span(), queries, keys);  // each layer
    auto const back =                                                    // and its gradient
        ballast::to_tokens(bag, ready, temporary.span(), heads_of(q_whole.span(), dq.span(), 4, 8),
                           heads_of(k_whole.span(), dk.span(), 2, 8));
    // [staged_heads]
    EXPECT_EQ(sized, cudaSuccess);
    EXPECT_EQ(prepared, cudaSuccess);
    EXPECT_EQ(uploaded, cudaSuccess);
    EXPECT_TRUE(staged && there && back);
    EXPECT_TRUE(bag.wait());
    EXPECT_EQ(to_host(q_whole), q_all.heads_of(gpu));
    EXPECT_EQ(to_host(k_whole), k_all.heads_of(gpu));
    EXPECT_EQ(to_host(dq), q_all.tokens_of(gpu));
    EXPECT_EQ(to_host(dk), k_all.tokens_of(gpu));
  });
}

TEST_F(ExchangeHeads, OfABagOfOneCopiesOnce)
{
  bag_case const bag{1, {5, 3}, 2};
  ballast_test::run_ranks_on_one_gpu(1, [&](communicator& comm) {
    device_bag device({2, 1, 2});
    ASSERT_TRUE(device->stage(bag.plan()));
    std::vector<float> numbers;
    for (int each = 0; each < 16; ++each) { numbers.push_back(static_cast<float>(each)); }
    auto const x = to_device(numbers);
    auto const y = to_device(std::vector<float>(16));
    std::array const arrays{heads_of(x.span(), y.span(), 2, 1), heads_of(x.span(), x.span(), 2, 1)};
    prepared_bag const ready(*device, 0U, ballast::device_heads(arrays));
    EXPECT_TRUE(done(ballast::to_heads(comm, *ready, {}, arrays[0], arrays[1])));
    EXPECT_TRUE(done(comm.wait()));
    EXPECT_EQ(to_host(y), numbers);
    EXPECT_EQ(to_host(x), numbers);
  });
}

}  // namespace
