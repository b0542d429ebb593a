// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/ulysses.hpp>

#include "../support/test.hpp"
#include "bag_arrays.hpp"

#include <cstring>

namespace {

using ballast::heads_of;
using ballast_test::bag_case;
using ballast_test::whole_array;
using testing::ElementsAre;

using byte_list = std::vector<std::byte>;

// Offset and size, in the messages of one GPU, of what it sends to or gets from each peer.
template <class BytesOf>
std::vector<std::size_t> offsets(std::uint32_t gpus, std::uint32_t gpu, BytesOf bytes_of)
{
  std::vector<std::size_t> all{0};
  for (std::uint32_t peer = 0; peer < gpus; ++peer) {
    all.push_back(all.back() + (peer == gpu ? 0 : bytes_of(peer)));
  }
  return all;
}

// All GPUs of a bag in turn, with arrays_of(gpu) for each; messages are carried by hand.
template <class ArraysOf>
void exchange(bag_case const& bag, bool to_heads, ArraysOf arrays_of)
{
  auto const plan = bag.plan();
  std::vector<byte_list> sent(bag.gpus);
  std::vector<std::vector<std::size_t>> sent_at(bag.gpus);
  for (std::uint32_t gpu = 0; gpu < bag.gpus; ++gpu) {
    auto const arrays = arrays_of(gpu);
    sent_at[gpu] = offsets(bag.gpus, gpu, [&](std::uint32_t peer) {
      return ballast::message_bytes(plan, to_heads ? gpu : peer, to_heads ? peer : gpu, arrays);
    });
    sent[gpu].assign(sent_at[gpu].back(), std::byte{0xee});
    (to_heads ? ballast::pack_to_heads : ballast::pack_to_tokens)(plan, gpu, arrays, sent[gpu], 0);
  }
  for (std::uint32_t gpu = 0; gpu < bag.gpus; ++gpu) {
    byte_list received;
    for (std::uint32_t peer = 0; peer < bag.gpus; ++peer) {
      auto const first = sent[peer].begin() + static_cast<std::ptrdiff_t>(sent_at[peer][gpu]);
      auto const last = sent[peer].begin() + static_cast<std::ptrdiff_t>(sent_at[peer][gpu + 1]);
      received.insert(received.end(), first, last);
    }
    auto const arrays = arrays_of(gpu);
    (to_heads ? ballast::unpack_to_heads : ballast::unpack_to_tokens)(plan, gpu, arrays, received,
                                                                      0);
  }
}

// What all GPUs hold of one array on both sides of an exchange.
template <class T>
struct sides {
  std::vector<std::vector<T>> tokens;
  std::vector<std::vector<T>> heads;

  explicit sides(whole_array<T> const& whole)
  {
    for (std::uint32_t gpu = 0; gpu < whole.bag->gpus; ++gpu) {
      tokens.push_back(whole.tokens_of(gpu));
      heads.push_back(whole.heads_of(gpu));
    }
  }
};

template <class T>
std::vector<std::vector<T>> blank(std::vector<std::vector<T>> shaped_like)
{
  for (auto& each : shaped_like) { std::ranges::fill(each, T{}); }
  return shaped_like;
}

// Moving to heads is a matrix of zeros and ones, and moving to tokens its transpose: with whole
// numbers both sides of <to_heads(x), y> = <x, to_tokens(y)> are exact.
RC_GTEST_PROP(PackHeads, ToTokensIsTheAdjointOfToHeads, ())
{
  ballast::random_source random(*rc::gen::arbitrary<std::uint64_t>());
  bag_case const bag = ballast_test::random_bag(random, 8);
  auto const number = [&](std::size_t) { return random.between(-9, 9); };
  whole_array<double> const x(bag, ballast_test::random_heads(random, bag), 2, number);
  sides const x_sides(x);
  auto moved_x = blank(x_sides.heads);
  auto y = x_sides.heads;  // copies of a head differ, as gradients do
  for (auto& of_gpu : y) {
    for (double& element : of_gpu) { element = static_cast<double>(number(0)); }
  }
  auto moved_y = blank(x_sides.tokens);
  exchange(bag, true, [&](std::uint32_t gpu) {
    return std::array{heads_of(x_sides.tokens[gpu], moved_x[gpu], x.heads, x.dim)};
  });
  exchange(bag, false, [&](std::uint32_t gpu) {
    return std::array{heads_of(y[gpu], moved_y[gpu], x.heads, x.dim)};
  });
  auto const product = [](auto const& a, auto const& b) {
    double sum = 0;
    for (std::size_t gpu = 0; gpu < a.size(); ++gpu) {
      for (std::size_t at = 0; at < a[gpu].size(); ++at) { sum += a[gpu][at] * b[gpu][at]; }
    }
    return sum;
  };
  RC_ASSERT(product(moved_x, y) == product(x_sides.tokens, moved_y));
}

TEST(PackHeads, SumsInTheOrderOfTheGpus)
{
  bag_case const bag{4, {4}, 4};
  std::array<double, 4> const parts{1e16, 1, -1e16, 1};  // any other order gives another sum
  std::vector<std::vector<double>> from;
  for (double const part : parts) { from.emplace_back(4, part); }
  std::vector<std::vector<double>> to(4, std::vector<double>(1, -1));
  exchange(bag, false,
           [&](std::uint32_t gpu) { return std::array{heads_of(from[gpu], to[gpu], 1, 1)}; });
  double const in_order = ((parts[0] + parts[1]) + parts[2]) + parts[3];
  ASSERT_NE(in_order, parts[0] + parts[2] + parts[1] + parts[3]);
  for (auto const& own : to) { EXPECT_THAT(own, ElementsAre(in_order)); }
}

TEST(PackHeads, LaysArrayAfterArrayOnMultiplesOfSixteenBytes)
{
  bag_case const bag{2, {2, 3}, 3};  // GPU 0 has tokens 0, 2 and 3 and heads 0 and 1
  auto const plan = bag.plan();
  std::vector<char> const q{'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i'};
  std::vector<std::int16_t> const position{10, 12, 13};
  std::array const arrays{heads_of(q, std::span<char>(), 3, 1),
                          heads_of(position, std::span<std::int16_t>(), 1, 1)};
  ASSERT_EQ(ballast::message_bytes(plan, 0, 1, arrays), 32U);

  byte_list message(32, std::byte{0xee});
  ballast::pack_to_heads(plan, 0, arrays, message);
  byte_list expected(32, std::byte{0});
  std::memcpy(&expected[0], "cfi", 3);  // the third head of each token
  std::memcpy(&expected[16], position.data(), 6);
  EXPECT_EQ(message, expected);
}

TEST(PackHeadsDeathTest, RefusesToSumWhatHasNoSum)
{
  bag_case const bag{2, {2}, 2};
  auto const plan = bag.plan();
  byte_list const from(2);
  byte_list to(1);
  byte_list const message(16);
  std::array const arrays{heads_of(from, to, 1, 1)};
  EXPECT_DEATH(ballast::unpack_to_tokens(plan, 0, arrays, message),
               "the same of the 1 head of array 0");
}

}  // namespace
