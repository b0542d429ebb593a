// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/prepared_heads.cuh>

#include "../route/bag_arrays.hpp"
#include "gpu_test.hpp"
#include "staged_on_device.hpp"

#include <gtest/gtest.h>
#include <ballast/core.hpp>
#include <ballast/cuda/device_heads.hpp>
#include <ballast/route/head_array.hpp>
#include <ballast/route/ulysses.hpp>

#include <cstring>

namespace {

using ballast::device_heads;
using ballast::head_array;
using ballast::head_shape;
using ballast::tokens;
using ballast::ulysses_plan;
using ballast_test::bag_case;
using ballast_test::device_bytes;

using device_bag = ballast_test::staged_on_device<ulysses_plan>;
using prepared_bag = ballast_test::prepared_on_device<ballast::prepared_heads>;
using byte_vector = std::vector<std::byte>;

// Bits that are a finite number, and not much above 1 if it is of 16 bits, whichever of the four
// types they are taken for. Half of them are close to each other, so that their sums are rounded,
// and some are subnormal.
byte_vector any_numbers(ballast::random_source& random, std::size_t count)
{
  byte_vector all(count, std::byte{0});
  for (std::size_t at = 0; at + 2 <= count; at += 2) {
    auto bits = static_cast<std::uint16_t>(random.below(2) == 0 ? 0x3800 + random.below(0x0800)
                                                                : random.below(0x4000));
    bits = static_cast<std::uint16_t>(bits | random.below(2) << 15);
    std::memcpy(&all[at], &bits, 2);
  }
  return all;
}

/// What the arrays of an exchange are.
struct array_kind {
  head_shape shape;
  void (*add)(std::byte*, std::byte const*, std::size_t);
};

template <class T>
array_kind kind_of(std::uint32_t heads, std::size_t dim)
{
  return {{heads, dim * sizeof(T)}, ballast::detail::add_elements<T>};
}

// One array of each type, wide and narrow ones; the first has all heads, some are replicated.
std::vector<array_kind> random_kinds(ballast::random_source& random, bag_case const& bag)
{
  auto const heads = [&] { return ballast_test::random_heads(random, bag); };
  auto const dim = [&] {
    return random.below(2) == 0 ? 1 + random.below(7) : 8 * (1 + random.below(16));
  };
  return {kind_of<__nv_bfloat16>(bag.query_heads, dim()), kind_of<__nv_bfloat16>(heads(), dim()),
          kind_of<__half>(heads(), dim()), kind_of<float>(heads(), dim()),
          kind_of<double>(heads(), dim())};
}

/// One GPU's arrays of an exchange in the host's memory.
struct host_arrays {
  std::vector<byte_vector> from;
  std::vector<byte_vector> to;
  std::vector<head_array> arrays;

  host_arrays(ballast::random_source& random, ulysses_plan const& plan, std::uint32_t gpu,
              bool to_heads, std::vector<array_kind> const& kinds)
  {
    for (auto const& [shape, add] : kinds) {
      std::size_t const chunks = plan.heads_of_chunks(gpu, shape.heads) * shape.head_bytes;
      std::size_t const sequences = plan.heads_of_sequences(gpu, shape.heads) * shape.head_bytes;
      from.push_back(any_numbers(random, to_heads ? chunks : sequences));
      to.emplace_back(to_heads ? sequences : chunks, std::byte{0xee});
    }
    for (std::size_t index = 0; index < kinds.size(); ++index) {
      arrays.push_back({from[index], to[index], kinds[index].shape, kinds[index].add});
    }
  }
  host_arrays(host_arrays const&) = delete;
  host_arrays& operator=(host_arrays const&) = delete;
};

// The messages of a GPU's own tokens with its peers' heads, or of their tokens with its own.
std::size_t all_message_bytes(ulysses_plan const& plan, std::uint32_t gpu, bool own_tokens,
                              std::span<head_array const> arrays)
{
  std::size_t all = 0;
  for (std::uint32_t peer = 0; peer < plan.gpus(); ++peer) {
    if (peer == gpu) { continue; }
    all +=
        own_tokens ? plan.message_bytes(gpu, peer, arrays) : plan.message_bytes(peer, gpu, arrays);
  }
  return all;
}

void pack_on_host(ulysses_plan const& plan, std::uint32_t gpu, bool to_heads,
                  std::span<head_array const> arrays, byte_vector& messages)
{
  if (to_heads) {
    plan.pack_to_heads(gpu, arrays, messages);
  } else {
    plan.pack_to_tokens(gpu, arrays, messages);
  }
}

void unpack_on_host(ulysses_plan const& plan, std::uint32_t gpu, bool to_heads,
                    std::span<head_array const> arrays, byte_vector& messages)
{
  if (to_heads) {
    plan.unpack_to_heads(gpu, arrays, messages);
  } else {
    plan.unpack_to_tokens(gpu, arrays, messages);
  }
}

class PackHeads : public ballast_test::gpu_test {
 protected:
  void expect_as_on_host(ballast::random_source& random, bag_case const& bag)
  {
    std::vector<std::uint32_t> gpus(bag.gpus);
    std::iota(gpus.begin(), gpus.end(), 0U);
    expect_as_on_host(random, bag, random_kinds(random, bag), gpus);
  }

  void expect_as_on_host(ballast::random_source& random, bag_case const& bag,
                         std::vector<array_kind> const& kinds,
                         std::vector<std::uint32_t> const& gpus)
  {
    auto const plan = bag.plan();
    device_bag device({static_cast<std::uint32_t>(bag.lengths.size()) + 2, bag.gpus,
                       bag.query_heads, bag.kv_heads});
    ASSERT_TRUE(device->stage(plan));
    ASSERT_EQ(device->upload(stream()), cudaSuccess);
    for (std::uint32_t const gpu : gpus) {
      for (bool const to_heads : {true, false}) {
        SCOPED_TRACE(testing::Message() << "GPU " << gpu << " of " << bag.gpus << ", to "
                                        << (to_heads ? "heads" : "tokens"));
        host_arrays const host(random, plan, gpu, to_heads, kinds);
        std::vector<device_bytes> from;
        std::vector<device_bytes> to;
        std::vector<head_array> arrays;
        for (std::size_t index = 0; index < kinds.size(); ++index) {
          from.push_back(to_device(host.from[index]));
          to.push_back(to_device(host.to[index]));
          arrays.push_back(
              {from.back().span(), to.back().span(), kinds[index].shape, kinds[index].add});
        }
        device_heads const heads(arrays);

        byte_vector sent(all_message_bytes(plan, gpu, to_heads, arrays), std::byte{0xee});
        device_bytes const outgoing = to_device(sent);
        prepared_bag const prepared(*device, gpu, heads);
        ASSERT_EQ(prepared->prepare(stream()), cudaSuccess);
        ASSERT_EQ(prepared->pack(to_heads, heads, outgoing.data(), stream()), cudaSuccess);
        pack_on_host(plan, gpu, to_heads, host.arrays, sent);
        EXPECT_EQ(to_host(outgoing), sent);

        byte_vector received = any_numbers(random, all_message_bytes(plan, gpu, !to_heads, arrays));
        device_bytes const incoming = to_device(received);
        ASSERT_EQ(prepared->unpack(to_heads, heads, incoming.data(), stream()), cudaSuccess);
        unpack_on_host(plan, gpu, to_heads, host.arrays, received);
        for (std::size_t index = 0; index < kinds.size(); ++index) {
          EXPECT_EQ(to_host(to[index]), host.to[index]) << "array " << index;
        }
      }
    }
  }
};

TEST_F(PackHeads, MovesWhatTheHostMoves)
{
  ballast::random_source random(20240607);
  for (int trial = 0; trial < 40; ++trial) {
    expect_as_on_host(random, ballast_test::random_bag(random, 8));
  }
}

// Many tiles to a block, and sums of more words than there are threads in a round.
TEST_F(PackHeads, MovesLongSequencesAsTheHostDoes)
{
  ballast::random_source random(20240607);
  expect_as_on_host(random, {4, {3001, 0, 517, 4}, 6});
  expect_as_on_host(random, {8, {2048}, 8});
  expect_as_on_host(random, {1, {100, 3}, 2});
}

// Blocks that one block of threads finds in several rounds; in the second bag most GPUs have no heads.
TEST_F(PackHeads, OfMoreGpusThanThreadsMovesWhatTheHostMoves)
{
  ballast::random_source random(20240607);
  expect_as_on_host(random, {300, {700, 0, 301}, 600},
                    {kind_of<__nv_bfloat16>(600, 3), kind_of<float>(20, 5)}, {0, 128, 299});
  expect_as_on_host(random, {300, {700, 0, 301}, 100},
                    {kind_of<__nv_bfloat16>(100, 3), kind_of<float>(7, 5), kind_of<double>(1, 1)},
                    {0, 99, 299});
}

TEST_F(PackHeads, MovesNoArraysAndNoTokens)
{
  device_bag device({2, 3, 4});
  ASSERT_EQ(device->upload(stream()), cudaSuccess);
  std::vector<head_array> const one = {{{}, {}, {4, 32}}};
  for (std::size_t const count : {0U, 1U}) {
    device_heads const heads(std::span<head_array const>(one).first(count));
    prepared_bag const prepared(*device, 1, heads);
    EXPECT_EQ(prepared->prepare(stream()), cudaSuccess);
    for (bool const to_heads : {true, false}) {
      EXPECT_EQ(prepared->pack(to_heads, heads, nullptr, stream()), cudaSuccess);
      EXPECT_EQ(prepared->unpack(to_heads, heads, nullptr, stream()), cudaSuccess);
    }
  }
}

// A graph of each movement, which finds other lengths at each replay.
TEST_F(PackHeads, IsReplayedWithOtherLengths)
{
  constexpr std::uint32_t gpu = 1;
  ballast::random_source random(20240607);
  std::vector<bag_case> const bags = {
      {3, {50, 0, 9, 30}, 4}, {3, {}, 4}, {3, {3, 4, 5}, 4}, {3, {80}, 4}};
  std::vector<array_kind> const kinds = {kind_of<__nv_bfloat16>(4, 16),
                                         kind_of<__nv_bfloat16>(1, 16), kind_of<float>(2, 3)};
  ulysses_plan most;  // in rows, of every GPU
  most.assign(std::vector<tokens>{100}, 3, 4);
  device_bag device({4, 3, 4});

  // Only as much of an array as a step has is read and written.
  auto const write_part = [&](device_bytes const& to, byte_vector const& from) {
    byte_vector whole(to.size(), std::byte{0xee});
    std::ranges::copy(from, whole.begin());
    write(to, whole);
  };
  auto const expect_part = [&](device_bytes const& found, byte_vector const& expected) {
    byte_vector whole(found.size(), std::byte{0xee});
    std::ranges::copy(expected, whole.begin());
    EXPECT_EQ(to_host(found), whole);
  };
  for (auto const& [packs, to_heads] :
       {std::pair{true, true}, {true, false}, {false, true}, {false, false}}) {
    SCOPED_TRACE(testing::Message() << (packs ? "packs" : "unpacks") << (to_heads ? " heads" : ""));
    ASSERT_TRUE(device->stage(most));
    host_arrays const sized(random, most, gpu, to_heads, kinds);
    std::vector<device_bytes> from, to;
    std::vector<head_array> arrays;
    for (std::size_t index = 0; index < kinds.size(); ++index) {
      from.emplace_back(sized.from[index].size());
      to.emplace_back(sized.to[index].size());
      arrays.push_back(
          {from.back().span(), to.back().span(), kinds[index].shape, kinds[index].add});
    }
    device_bytes const there(all_message_bytes(most, gpu, packs == to_heads, sized.arrays));
    device_heads const heads(arrays);
    prepared_bag const prepared(*device, gpu, heads);
    auto const& ready = *prepared;
    auto const graph = ballast_test::graph_of(stream(), [&](cudaStream_t captured) {
      cudaError_t error = device->upload(captured);
      if (error == cudaSuccess) { error = ready.prepare(captured); }
      if (error != cudaSuccess) { return error; }
      return packs ? ready.pack(to_heads, heads, there.data(), captured)
                   : ready.unpack(to_heads, heads, there.data(), captured);
    });
    for (bag_case const& bag : bags) {
      SCOPED_TRACE(testing::Message() << bag.lengths.size() << " sequences");
      auto const plan = bag.plan();
      ASSERT_TRUE(device->stage(plan));
      host_arrays const host(random, plan, gpu, to_heads, kinds);
      std::size_t const count = all_message_bytes(plan, gpu, packs == to_heads, host.arrays);
      byte_vector messages =
          packs ? byte_vector(count, std::byte{0xee}) : any_numbers(random, count);
      for (std::size_t index = 0; index < kinds.size(); ++index) {
        write_part(from[index], host.from[index]);
        write_part(to[index], host.to[index]);
      }
      write_part(there, messages);
      ASSERT_EQ(graph.replay(stream()), cudaSuccess);
      (packs ? pack_on_host : unpack_on_host)(plan, gpu, to_heads, host.arrays, messages);
      expect_part(there, messages);
      for (std::size_t index = 0; index < kinds.size(); ++index) {
        expect_part(to[index], host.to[index]);
      }
    }
  }
}

TEST_F(PackHeads, IsPreparedInEnoughMemoryOrNotAtAll)
{
  device_bag device({50, 4, 8});
  std::vector<head_array> const arrays(3, head_array{{}, {}, {8, 2}});
  device_heads const heads(arrays);
  std::uint32_t const gpu = 0;
  std::size_t const count =
      ballast_test::prepared_bytes<ballast::prepared_heads>(*device, gpu, heads);
  device_bytes const memory(count);
  ballast::prepared_heads const ready(*device, 0, heads, memory.span().first(count - 1));
  EXPECT_EQ(ready.prepare(stream()), cudaErrorInvalidValue);
}

}  // namespace
