// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/ulysses.hpp>

#include "../support/counted_allocations.hpp"
#include "../support/test.hpp"
#include "bag_arrays.hpp"

#include <ballast/partition/greedy_knapsack.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <cstring>

namespace {

using ballast::chunk;
using ballast::head_shape;
using ballast::heads_of;
using ballast::tokens;
using ballast::ulysses_plan;
using ballast_test::bag_case;
using ballast_test::whole_array;
using testing::ElementsAre;

using byte_list = std::vector<std::byte>;

std::vector<chunk> shares(bag_case const& bag, std::uint32_t heads)
{
  std::vector<chunk> all;
  for (std::uint32_t gpu = 0; gpu < bag.gpus; ++gpu) {
    all.push_back(bag.plan().share(gpu, heads));
  }
  return all;
}

bag_case any_bag()
{
  ballast::random_source random(*rc::gen::arbitrary<std::uint64_t>());
  return ballast_test::random_bag(random, 8);
}

RC_GTEST_PROP(UlyssesPlan, GivesEveryRowToOneGpu, ())  // Ensures (1)
{
  bag_case const bag = any_bag();
  auto const plan = bag.plan();
  auto const owners = bag.row_owners();
  RC_ASSERT(plan.gpus() == bag.gpus);
  RC_ASSERT(plan.rows() == static_cast<tokens>(owners.size()));
  std::size_t seen = 0;
  for (std::uint32_t gpu = 0; gpu < bag.gpus; ++gpu) {
    tokens own_row = 0;
    plan.for_each_chunk(gpu, [&](ulysses_plan::bag_chunk const& part) {
      RC_ASSERT(part.count > 0);
      RC_ASSERT(part.own_row == own_row);  // nothing between the chunks, and they come in order
      own_row += part.count;
      for (tokens row = part.row; row < part.row + part.count; ++row) {
        RC_ASSERT(owners[static_cast<std::size_t>(row)] == gpu);
        ++seen;
      }
    });
    RC_ASSERT(plan.rows(gpu) == own_row);
    RC_ASSERT(plan.heads_of_chunks(gpu, 1) == static_cast<std::size_t>(own_row));
  }
  RC_ASSERT(seen == owners.size());
}

RC_GTEST_PROP(UlyssesPlan, GivesEveryGpuTheHeadsOfTheSplit, ())  // Ensures (2)
{
  bag_case const bag = any_bag();
  auto const heads = *rc::gen::inRange<std::uint32_t>(1, bag.query_heads + 1);
  auto const plan = bag.plan();
  ballast::head_split const split{bag.query_heads, bag.gpus, bag.kv_heads};
  RC_ASSERT(plan.split() == split);
  for (std::uint32_t gpu = 0; gpu < bag.gpus; ++gpu) {
    chunk const share = split.share(gpu, heads);
    RC_ASSERT(plan.share(gpu, heads) == share);
    RC_ASSERT(plan.heads_of_sequences(gpu, heads) ==
              bag.rows() * static_cast<std::size_t>(share.count));
  }
}

RC_GTEST_PROP(UlyssesPlan, CountsWhatIsOnTheWire, ())
{
  bag_case const bag = any_bag();
  auto const few = *rc::gen::inRange<std::uint32_t>(1, bag.query_heads + 1);
  std::array const arrays{head_shape{bag.query_heads, 12}, head_shape{few, 2}};
  auto const plan = bag.plan();
  auto const owners = bag.row_owners();
  std::vector<std::vector<std::uint64_t>> bytes(bag.gpus, std::vector<std::uint64_t>(bag.gpus, 0));
  for (std::uint32_t const from : owners) {
    for (std::uint32_t to = 0; to < bag.gpus; ++to) {
      for (head_shape const array : arrays) {
        for (std::uint32_t head = 0; head < array.heads && from != to; ++head) {
          bytes[from][to] += bag.uses(to, head, array.heads) ? array.head_bytes : 0;
        }
      }
    }
  }
  for (std::uint32_t gpu = 0; gpu < bag.gpus; ++gpu) {
    ballast::ulysses_plan::volume expected;
    for (std::uint32_t peer = 0; peer < bag.gpus; ++peer) {
      expected.bytes_sent += bytes[gpu][peer];
      expected.bytes_received += bytes[peer][gpu];
      expected.messages_sent += bytes[gpu][peer] > 0 ? 1 : 0;
      expected.messages_received += bytes[peer][gpu] > 0 ? 1 : 0;
    }
    RC_ASSERT(plan.to_heads_volume(gpu, arrays) == expected);
  }
}

TEST(UlyssesPlan, ReplicatesHeadsThatSeveralGpusUse)
{
  // Six query heads use two others, three each: the second GPU has query heads of both.
  EXPECT_THAT(shares({4, {}, 6}, 2),
              ElementsAre(chunk{0, 1}, chunk{0, 2}, chunk{1, 1}, chunk{1, 1}));
  EXPECT_THAT(shares({3, {}, 8}, 1), ElementsAre(chunk{0, 1}, chunk{0, 1}, chunk{0, 1}));
  // Llama 3 70B in a bag of 16 GPUs: 64 query heads, 8 key-value heads, each with two GPUs.
  bag_case const large{16, {}, 64};
  for (std::uint32_t gpu = 0; gpu < 16; ++gpu) {
    EXPECT_EQ(large.plan().share(gpu, 8), (chunk{gpu / 2, 1}));
    EXPECT_EQ(large.plan().split().shared(gpu, 8), gpu % 2);
  }
  EXPECT_EQ(large.plan().split().used_by(63, 8), 7);
  EXPECT_FALSE((bag_case{8, {}, 64}.plan().split().replicates(8)));
}

TEST(UlyssesPlan, WritesCuSeqlens)
{
  std::vector<std::int32_t> at(6, -1);
  bag_case{3, {5, 0, 9}, 8}.plan().write_cu_seqlens(at);
  EXPECT_EQ(at, (std::vector<std::int32_t>{0, 5, 5, 14, 14, 14}));
}

TEST(UlyssesPlan, MayBeWithoutTokens)
{
  for (auto const& lengths : {std::vector<tokens>{}, std::vector<tokens>{0, 0}}) {
    auto const plan = bag_case{4, lengths, 8}.plan();
    EXPECT_EQ(plan.rows(), 0);
    EXPECT_EQ(plan.rows(3), 0);
    plan.for_each_chunk(
        0, [](ulysses_plan::bag_chunk const&) { ADD_FAILURE() << "a chunk of nothing"; });
    EXPECT_EQ(plan.to_heads_volume(1, std::array{head_shape{8, 8}}),
              ballast::ulysses_plan::volume{});
  }
}

TEST(UlyssesPlan, HasADigestOfItsOwn)
{
  auto const digest = [](bag_case const& bag) { return bag.plan().digest(); };
  EXPECT_EQ(digest({2, {5, 6}, 4}), digest({2, {5, 6}, 4}));
  EXPECT_NE(digest({2, {5, 6}, 4}), digest({2, {6, 5}, 4}));
  EXPECT_NE(digest({2, {5, 6}, 4}), digest({2, {5, 6, 0}, 4}));
  EXPECT_NE(digest({2, {5, 6}, 4}), digest({4, {5, 6}, 4}));
  EXPECT_NE(digest({2, {5, 6}, 4}), digest({2, {5, 6}, 8}));
  EXPECT_NE(digest({1, {}, 1}), ulysses_plan{}.digest());
}

TEST(UlyssesPlan, IsMadeAnewWithoutAllocating)
{
  ballast::random_source random(20240607);
  ulysses_plan plan;
  plan.assign(std::vector<tokens>(64, 100), 8, 32);
  std::vector<bag_case> steps;
  for (int step = 0; step < 20; ++step) { steps.push_back(ballast_test::random_bag(random, 8)); }
  std::size_t const before = ballast_test::allocations();
  for (bag_case const& step : steps) { plan.assign(step.lengths, step.gpus, step.query_heads); }
  EXPECT_EQ(ballast_test::allocations(), before);
  EXPECT_EQ(plan, steps.back().plan());
}

TEST(UlyssesPlan, LaysShortSequencesOutAsAPlacementDoes)
{
  for (std::uint32_t const gpus : {1U, 2U, 4U, 8U}) {
    std::vector<tokens> lengths;
    for (tokens length = 0; length <= gpus + 1; ++length) { lengths.push_back(length); }
    ballast::bag_layout const bags =
        ballast::bag_layout(std::vector<ballast::bag>{{ballast::rank_id{0}, gpus}})
            .with_short_samples(ballast::short_samples::admitted);
    auto const placed = ballast::place(lengths, std::vector<ballast::bag_id>(lengths.size()), bags);
    auto const plan = bag_case{gpus, lengths, 8}.plan();
    for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) {
      EXPECT_EQ(plan.rows(gpu), placed.rows(ballast::rank_id{gpu})) << gpus << " GPUs, " << gpu;
    }
    EXPECT_EQ(plan.rows(gpus - 1), gpus == 1 ? 3 : 2) << "a token of each of the two longest";
  }
}

TEST(UlyssesPlan, GivesGpusWithoutAChunkNothingToSend)
{
  auto const plan = bag_case{8, {6}, 8}.plan();
  std::array const arrays{head_shape{8, 16}};
  EXPECT_EQ(plan.rows(5), 1);
  EXPECT_EQ(plan.rows(6), 0);
  EXPECT_EQ(plan.to_heads_volume(6, arrays), (ballast::ulysses_plan::volume{0, 96, 0, 6}));
  EXPECT_EQ(plan.to_heads_volume(0, arrays), (ballast::ulysses_plan::volume{112, 80, 7, 5}));
  plan.for_each_chunk(
      7, [](ulysses_plan::bag_chunk const&) { ADD_FAILURE() << "a chunk of nothing"; });
}

TEST(UlyssesPlanDeathTest, RejectsLengthsThatAreNone)
{
  EXPECT_DEATH((void)(bag_case{4, {-1}, 8}.plan()), "sequence 0 has a length of -1");
  EXPECT_DEATH((void)(bag_case{1, {ballast::longest_sample + 1}, 8}.plan()),
               "sequence 0 has a length of ");
}

TEST(UlyssesPlanDeathTest, RejectsWhatIsNotThere)
{
  EXPECT_DEATH((void)(bag_case{0, {}, 8}.plan()), "the bag has 0 GPUs and 8 query heads");
  EXPECT_DEATH((void)(bag_case{2, {}, 0}.plan()), "the bag has 2 GPUs and 0 query heads");
  auto const plan = bag_case{2, {4}, 4}.plan();
  EXPECT_DEATH((void)plan.rows(2), "GPU 2 of a bag of 2");
  EXPECT_DEATH((void)plan.share(2, 4), "chunk 2 of 2");
  EXPECT_DEATH((void)plan.share(0, 5), "5 heads, which is not from 1 to the 4");
  EXPECT_DEATH((void)plan.share(0, 0), "an array has 0 heads");
  EXPECT_DEATH((void)plan.split().used_by(4, 4), "query head 4 of 4");
  ulysses_plan other;
  EXPECT_DEATH(other.assign(plan.lengths(), std::vector{ballast::sample_id{1}}, 2, 4),
               "holds sample 1, and there are lengths of 1");
}

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
      return plan.message_bytes(to_heads ? gpu : peer, to_heads ? peer : gpu, arrays);
    });
    sent[gpu].assign(sent_at[gpu].back(), std::byte{0xee});
    if (to_heads) {
      plan.pack_to_heads(gpu, arrays, sent[gpu]);
    } else {
      plan.pack_to_tokens(gpu, arrays, sent[gpu]);
    }
  }
  for (std::uint32_t gpu = 0; gpu < bag.gpus; ++gpu) {
    byte_list received;
    for (std::uint32_t peer = 0; peer < bag.gpus; ++peer) {
      auto const first = sent[peer].begin() + static_cast<std::ptrdiff_t>(sent_at[peer][gpu]);
      auto const last = sent[peer].begin() + static_cast<std::ptrdiff_t>(sent_at[peer][gpu + 1]);
      received.insert(received.end(), first, last);
    }
    auto const arrays = arrays_of(gpu);
    if (to_heads) {
      plan.unpack_to_heads(gpu, arrays, received);
    } else {
      plan.unpack_to_tokens(gpu, arrays, received);
    }
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
  ASSERT_EQ(plan.message_bytes(0, 1, arrays), 32U);

  byte_list message(32, std::byte{0xee});
  plan.pack_to_heads(0, arrays, message);
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
  EXPECT_DEATH(plan.unpack_to_tokens(0, arrays, message), "the same of the 1 head of array 0");
}

}  // namespace
