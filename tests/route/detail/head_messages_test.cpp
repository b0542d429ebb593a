// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/detail/head_messages.hpp>

#include "../../support/counted_allocations.hpp"
#include "../bag_arrays.hpp"  // defines: ballast_test::{bag_case, random_bag, whole_array, ...}

#include <gtest/gtest.h>
#include <ballast/comm/run_ranks.hpp>
#include <ballast/comm/thread_communicator.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/random.hpp>
#include <ballast/route/head_array.hpp>
#include <ballast/route/sharded_packs.hpp>
#include <ballast/route/ulysses_exchange.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace {

using ballast::head_array;
using ballast::rank_id;
using ballast::sharded_pack;
using ballast::thread_communicator;
using ballast::detail::head_direction;
using ballast_test::bag_case;
using ballast_test::whole_array;

using host_messages = ballast::detail::head_messages<std::allocator<std::byte>>;

/// The pack of one GPU of a bag, whose GPUs are the ranks from 1 on.
sharded_pack pack_of(bag_case const& bag, std::uint32_t gpu)
{
  return {ballast::group_id{9}, {rank_id{1}, bag.gpus}, gpu, 0, bag.plan()};
}

// There and back, in arrays with fewer heads too, among the ranks of a larger job.
TEST(HeadMessages, MoveHeadsByTheirDefinition)
{
  ballast::random_source random(71);
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    bag_case const bag = ballast_test::random_bag(random, 6);
    auto const number = [&](std::size_t) { return random.between(-99, 99); };
    std::array const heads{bag.query_heads, ballast_test::random_heads(random, bag)};
    whole_array<float> const queries(bag, heads[0], 3, number);
    whole_array<float> const keys(bag, heads[1], 2, number);
    ballast::run_ranks(bag.gpus + 2, [&](thread_communicator& comm) {
      std::size_t const rank = to_index(comm.rank());
      if (rank < 1 || rank > bag.gpus || bag.gpus == 1) { return; }
      auto const gpu = static_cast<std::uint32_t>(rank - 1);
      auto const pack = pack_of(bag, gpu);
      auto const q = queries.tokens_of(gpu);
      auto const k = keys.tokens_of(gpu);
      auto q_whole = queries.heads_of(gpu);
      auto k_whole = keys.heads_of(gpu);
      auto const wanted_q = q_whole;
      auto const wanted_k = k_whole;
      q_whole.assign(q_whole.size(), -1);
      k_whole.assign(k_whole.size(), -1);
      host_messages messages{std::allocator<std::byte>()};
      std::array const there{ballast::heads_of(q, q_whole, heads[0], 3),
                             ballast::heads_of(k, k_whole, heads[1], 2)};
      ASSERT_TRUE(messages.begin(comm, pack, head_direction::to_heads, there));
      ASSERT_TRUE(messages.end(comm, pack, head_direction::to_heads, there));
      EXPECT_EQ(q_whole, wanted_q);
      EXPECT_EQ(k_whole, wanted_k);

      std::vector<float> q_back(q.size(), -1), k_back(k.size(), -1);
      std::array const back{ballast::heads_of(q_whole, q_back, heads[0], 3),
                            ballast::heads_of(k_whole, k_back, heads[1], 2)};
      ASSERT_TRUE(messages.begin(comm, pack, head_direction::to_tokens, back));
      ASSERT_TRUE(messages.end(comm, pack, head_direction::to_tokens, back));
      EXPECT_EQ(q_back, q);
      for (std::size_t at = 0; at < k.size(); ++at) {  // each copy of a head is added
        auto const head = static_cast<std::uint32_t>(at / 2 % heads[1]);
        EXPECT_EQ(k_back[at], k[at] * static_cast<float>(bag.copies(head, heads[1])));
      }
    });
  }
}

TEST(HeadMessages, AllocateOnlyForLargerMessages)  // Ensures (2)
{
  bag_case const large{2, {40, 8}, 4};
  bag_case const small{2, {5}, 4};
  ballast::run_ranks(2, [&](thread_communicator& comm) {
    auto const gpu = static_cast<std::uint32_t>(to_index(comm.rank()));
    std::array packs{pack_of(large, gpu), pack_of(small, gpu)};
    for (sharded_pack& pack : packs) { pack.group.first = rank_id{0}; }
    std::vector<double> from(48 * 4), to(48 * 4);
    host_messages messages{std::allocator<std::byte>()};
    std::size_t before = 0;
    for (int round = 0; round < 4; ++round) {
      EXPECT_TRUE(comm.barrier());
      if (round == 2) { before = ballast_test::allocations(); }
      for (sharded_pack const& pack : packs) {
        auto const rows = static_cast<std::size_t>(pack.rows()) * 4;
        std::array const arrays{ballast::heads_of(
            std::span(from).first(rows), std::span(to).first(pack.heads_of_sequences(4)), 4, 1)};
        EXPECT_TRUE(messages.begin(comm, pack, head_direction::to_heads, arrays));
        EXPECT_TRUE(messages.end(comm, pack, head_direction::to_heads, arrays));
      }
    }
    EXPECT_TRUE(comm.barrier());
    EXPECT_EQ(ballast_test::allocations(), before);
    EXPECT_TRUE(comm.barrier());
  });
}

// After a failure the memory can be freed, and the messages used again on another communicator.
TEST(HeadMessages, AreReleasedAfterAFailure)  // Ensures (1)
{
  bag_case const bag{2, {12}, 2};
  std::vector<host_messages> messages;
  for (int rank = 0; rank < 2; ++rank) { messages.emplace_back(std::allocator<std::byte>()); }
  for (bool const fails : {true, false}) {
    ballast::run_ranks(
        3,
        [&](thread_communicator& comm) {
          std::size_t const rank = to_index(comm.rank());
          if (rank == 0 || (fails && rank == 2)) { return; }
          auto& own = messages[rank - 1];
          auto const pack = pack_of(bag, static_cast<std::uint32_t>(rank - 1));
          std::vector<int> from(static_cast<std::size_t>(pack.rows()) * 2, 7);
          std::vector<int> to(pack.heads_of_sequences(2));
          std::array const arrays{ballast::heads_of(from, to, 2, 1)};
          auto done = own.begin(comm, pack, head_direction::to_heads, arrays);
          if (done) { done = own.end(comm, pack, head_direction::to_heads, arrays); }
          EXPECT_EQ(done.has_value(), !fails);
          if (!done) { own.release(comm); }
          if (done) { EXPECT_EQ(to, std::vector<int>(to.size(), 7)); }
        },
        std::chrono::seconds(5));
  }
}

}  // namespace
