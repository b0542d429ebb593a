// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../support/counted_allocations.hpp"
#include "traffic.hpp"  // defines: ballast_test::{traffic, random_traffic, message}

#include <gtest/gtest.h>
#include <ballast/comm/collective_check.hpp>
#include <ballast/comm/communicator.hpp>
#include <ballast/core.hpp>

#include <chrono>
#include <cstring>
#include <ostream>
#include <thread>

namespace ballast_test {

/// What every communicator promises, for each model to run as it runs its ranks: as threads or as
/// processes.
///
/// A check is a function that every rank of a group calls at the same time; it reports by EXPECT_
/// and goes on, so that a rank which finds a fault does not leave its peers waiting. The lists say
/// which checks there are: a model loops over those that it promises, and a new check reaches all.
///
///   data_checks()         all models
///   mismatch_checks()     models that compare sizes before bytes move
///   steady_state_checks() models whose program counts nothing but their own allocations; to be
///                         linked with support/counted_allocations.cpp
///   expect_broken()       after a rank did not come, or left: how that came about is the model's
///                         affair, what the others then see is not
///
/// `Buffer` is an array of bytes, made by its size, that the host and the model both reach; the
/// content of a new one is unspecified.
template <ballast::communicator C, class Buffer = std::vector<std::byte>>
struct conformance {
  struct check {
    char const* name;
    void (*run)(C&);

    friend void PrintTo(check const& self, std::ostream* out) { *out << self.name; }
  };

  static std::vector<check> data_checks()
  {
    return {{"RankAndSize", rank_and_size},
            {"AllGather", all_gather},
            {"AllToAllVUneven", uneven},
            {"AllToAllVOneDirection", one_direction},
            {"AllToAllVSilentRanks", silent_ranks},
            {"AllToAllVSelfOnly", self_only},
            {"AllToAllVNothing", nothing},
            {"AllToAllVLarge", large},
            {"Broadcast", broadcast},
            {"BarrierSeparates", barrier_separates},
            {"SplitOddEven", split_odd_even},
            {"SplitAllSame", split_all_same},
            {"SplitAllDifferent", split_all_different},
            {"SplitNested", split_nested},
            {"SplitUnequalNumbersOfCalls", split_unequal_numbers_of_calls},
            {"ScratchKeepsContent", scratch_keeps_content},
            {"ScratchMovesBytes", scratch_moves_bytes},
            {"ManySmallCalls", many_small_calls}};
  }

  static std::vector<check> mismatch_checks()
  {
    return {{"DifferentOperations", different_operations},
            {"DifferentOperationsInTwoParties", different_operations_in_two_parties},
            {"DifferentAllGatherSizes", different_all_gather_sizes},
            {"DifferentBroadcastRoots", different_broadcast_roots},
            {"DifferentBroadcastSizes", different_broadcast_sizes},
            {"DifferentContents", different_contents},
            {"DifferentCounts", different_counts},
            {"CountAgainstZero", count_against_zero},
            {"CountAgainstItself", count_against_itself},
            {"DifferentCountsOfSeveralPairs", different_counts_of_several_pairs}};
  }

  static std::vector<check> steady_state_checks()
  {
    return {{"SteadyStateAllocatesNothing", steady_state_allocates_nothing}};
  }

  /// For the ranks that are there when others are not: the first call finds out, all further calls
  /// give the same error.
  static void expect_broken(C& comm, ballast::error_code code,
                            std::vector<ballast::rank_id> const& ranks)
  {
    std::size_t const size = comm.size();
    std::vector<std::size_t> const counts(size, 1);
    Buffer one(1), send(size), receive(size);
    auto const first = complete(comm, comm.all_gather(one, receive));
    if (first) {
      ADD_FAILURE() << "went on without ranks that are not there";
      return;
    }
    EXPECT_EQ(first.error().code, code) << first.error().message;
    EXPECT_EQ(first.error().ranks, ranks) << first.error().message;
    auto const expect_same = [&](auto const& called) {
      EXPECT_FALSE(called);
      if (!called) { EXPECT_TRUE(called.error() == first.error()) << called.error().message; }
    };
    expect_same(comm.barrier());
    expect_same(comm.all_to_all_v(send, counts, receive, counts));
    expect_same(comm.broadcast(one, ballast::rank_id{0}));
    expect_same(comm.all_gather(one, receive));
    expect_same(comm.split(0));
    expect_same(comm.wait());
  }

  /// Ranks that stay away, for two ranks or more: the first, the last, every other, all but one.
  static std::vector<std::vector<ballast::rank_id>> absences(std::size_t ranks)
  {
    std::vector<std::vector<ballast::rank_id>> sets(4);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      auto const id = ballast::to_id<ballast::rank_id>(rank);
      if (rank == 0) { sets[0].push_back(id); }
      if (rank + 1 == ranks) { sets[1].push_back(id); }
      if (rank % 2 == 1) { sets[2].push_back(id); }
      if (rank != ranks / 2) { sets[3].push_back(id); }
    }
    return sets;
  }

 private:
  static constexpr std::byte untouched{0xee};

  static std::size_t index_of(C const& comm) { return to_index(comm.rank()); }

  /// What the call, and where calls only join a queue the wait for it, gave.
  static ballast::result<void> complete(C& comm, ballast::result<void> const& called)
  {
    return called ? comm.wait() : called;
  }

  static void expect_done(C& comm, ballast::result<void> const& called)
  {
    auto const done = complete(comm, called);
    EXPECT_TRUE(done) << done.error().message;
  }

  static void expect_message(message expected, std::span<std::byte const> bytes)
  {
    EXPECT_EQ(expected.first_difference(bytes), bytes.size())
        << "of the bytes from rank " << expected.from << " to rank " << expected.to;
  }

  static void expect_untouched(std::span<std::byte const> bytes)
  {
    EXPECT_TRUE(std::ranges::all_of(bytes, [](std::byte b) { return b == untouched; }));
  }

  /// One exchange, every byte of it compared.
  static void exchange(C& comm, traffic const& bytes, std::uint64_t salt)
  {
    std::size_t const self = index_of(comm);
    auto const send_bytes = bytes.sent_by(self);
    auto const receive_bytes = bytes.received_by(self);
    Buffer send(total(send_bytes)), receive(total(receive_bytes));
    exchange(comm, salt, send, send_bytes, receive, receive_bytes);
  }

  static void exchange(C& comm, std::uint64_t salt, std::span<std::byte> send,
                       std::vector<std::size_t> const& send_bytes, std::span<std::byte> receive,
                       std::vector<std::size_t> const& receive_bytes)
  {
    std::size_t const self = index_of(comm);
    std::size_t offset = 0;
    for (std::size_t peer = 0; peer < comm.size(); ++peer) {
      message{salt, self, peer}.write(send.subspan(offset, send_bytes[peer]));
      offset += send_bytes[peer];
    }
    std::fill(receive.begin(), receive.end(), untouched);
    expect_done(comm, comm.all_to_all_v(send, send_bytes, receive, receive_bytes));
    std::fill(send.begin(), send.end(), std::byte{0xdd});  // it may be changed at once
    offset = 0;
    for (std::size_t peer = 0; peer < comm.size(); ++peer) {
      expect_message({salt, peer, self}, receive.subspan(offset, receive_bytes[peer]));
      offset += receive_bytes[peer];
    }
  }

  static void gather(C& comm, std::size_t bytes, std::uint64_t salt)
  {
    Buffer send(bytes), receive(bytes * comm.size());
    message{salt, index_of(comm), 0}.write(send);
    std::fill(receive.begin(), receive.end(), untouched);
    expect_done(comm, comm.all_gather(send, receive));
    std::fill(send.begin(), send.end(), std::byte{0xdd});
    for (std::size_t rank = 0; rank < comm.size(); ++rank) {
      expect_message({salt, rank, 0}, std::span(receive).subspan(rank * bytes, bytes));
    }
  }

  static void broadcast_from(C& comm, std::size_t root, std::size_t bytes, std::uint64_t salt)
  {
    Buffer buffer(bytes);
    std::fill(buffer.begin(), buffer.end(), untouched);
    if (index_of(comm) == root) { message{salt, root, 0}.write(buffer); }
    expect_done(comm, comm.broadcast(buffer, ballast::to_id<ballast::rank_id>(root)));
    expect_message({salt, root, 0}, buffer);
  }

  /// Everyone's word, by rank.
  static std::vector<std::uint64_t> gathered(C& comm, std::uint64_t word)
  {
    Buffer send(sizeof word), receive(sizeof word * comm.size());
    std::memcpy(send.data(), &word, sizeof word);
    expect_done(comm, comm.all_gather(send, receive));
    std::vector<std::uint64_t> words(comm.size());
    std::memcpy(words.data(), receive.data(), receive.size());
    return words;
  }

  /// A new group whose ranks, by their rank in `comm`, are `members`.
  static std::optional<C> split(C& comm, std::uint32_t colour,
                                std::vector<std::uint64_t> const& members)
  {
    auto part = comm.split(colour);
    if (!part) {
      ADD_FAILURE() << part.error().message;
      return std::nullopt;
    }
    EXPECT_EQ(part->size(), members.size());
    EXPECT_EQ(gathered(*part, index_of(comm)), members);
    return std::optional<C>(*std::move(part));
  }

  static std::vector<std::uint64_t> every(std::size_t step, std::size_t first, std::size_t size)
  {
    std::vector<std::uint64_t> ranks;
    for (std::size_t rank = first; rank < size; rank += step) { ranks.push_back(rank); }
    return ranks;
  }

  // ---- Data ----

  static void rank_and_size(C& comm)
  {
    EXPECT_GE(comm.size(), 1U);
    EXPECT_EQ(gathered(comm, index_of(comm)), every(1, 0, comm.size()));
    EXPECT_TRUE(comm.wait());
  }

  static void all_gather(C& comm)
  {
    for (std::size_t const bytes : {0U, 1U, 7U, 64U, 4097U, 65537U}) { gather(comm, bytes, bytes); }
  }

  static void uneven(C& comm)
  {
    ballast::random_source random(20240607);
    for (std::uint64_t trial = 0; trial < 30; ++trial) {
      SCOPED_TRACE(testing::Message() << "trial " << trial);
      exchange(comm, random_traffic(random, comm.size(), 1000), trial);
    }
  }

  static void one_direction(C& comm)
  {
    exchange(comm, traffic(comm.size(), [](auto from, auto to) { return from < to ? to : 0; }), 1);
    exchange(comm, traffic(comm.size(), [](auto from, auto to) { return from > to ? 99 : 0; }), 2);
  }

  static void silent_ranks(C& comm)
  {
    for (std::size_t silent = 0; silent < comm.size(); ++silent) {
      exchange(comm,
               traffic(comm.size(),
                       [=](auto from, auto to) {
                         return from == silent || to == silent ? 0 : 1 + 3 * from + to;
                       }),
               silent);
    }
  }

  static void self_only(C& comm)
  {
    exchange(comm, traffic(comm.size(), [](auto from, auto to) { return from == to ? 333 : 0; }),
             1);
  }

  static void nothing(C& comm)
  {
    exchange(comm, traffic(comm.size(), [](auto, auto) { return 0; }), 1);
  }

  // Two neighbours get more than a socket or a transport's eager buffer holds, the others a byte.
  static void large(C& comm)
  {
    std::size_t const size = comm.size();
    exchange(comm,
             traffic(size,
                     [=](auto from, auto to) -> std::size_t {
                       if (to == (from + 1) % size) { return (1U << 20U) + 3; }
                       return from == (to + 1) % size ? 777'777 : 1;
                     }),
             1);
  }

  static void broadcast(C& comm)
  {
    for (std::size_t root = 0; root < comm.size(); ++root) {
      for (std::size_t const bytes : {0U, 1U, 1000U, 70001U}) {
        broadcast_from(comm, root, bytes, root);
      }
    }
  }

  // Processes of one machine share its steady clock, so "before" has a meaning among them.
  static void barrier_separates(C& comm)
  {
    auto const now = [] {
      return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                        std::chrono::nanoseconds(1));
    };
    for (std::size_t late = 0; late < comm.size(); ++late) {
      if (index_of(comm) == late) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }
      std::uint64_t const came = now();
      expect_done(comm, comm.barrier());
      std::uint64_t const left = now();
      EXPECT_LE(std::ranges::max(gathered(comm, came)), std::ranges::min(gathered(comm, left)));
    }
  }

  static void split_odd_even(C& comm)
  {
    std::size_t const parity = index_of(comm) % 2;
    auto part = split(comm, parity == 0 ? 7 : 0xffff'ffffU, every(2, parity, comm.size()));
    if (part) {
      exchange(*part, traffic(part->size(), [](auto from, auto to) { return 5 * from + to; }), 1);
      broadcast_from(*part, part->size() - 1, 100, 2 + parity);
    }
    gather(comm, 33, 4);
    if (part) { gather(*part, 44, 5); }
    part.reset();
    gather(comm, 55, 6);
  }

  static void split_all_same(C& comm)
  {
    auto part = split(comm, 3, every(1, 0, comm.size()));
    if (part) {
      EXPECT_EQ(part->rank(), comm.rank());
      gather(*part, 10, 1);
    }
  }

  static void split_all_different(C& comm)
  {
    std::size_t const self = index_of(comm);
    auto part = split(comm, static_cast<std::uint32_t>(1000 - self), {self});
    if (part) {
      exchange(*part, traffic(1, [](auto, auto) { return 12; }), 1);
    }
  }

  static void split_nested(C& comm)
  {
    std::size_t const self = index_of(comm);
    auto half = split(comm, static_cast<std::uint32_t>(self % 2), every(2, self % 2, comm.size()));
    if (!half) { return; }
    std::size_t const place = index_of(*half);
    auto quarter =
        split(*half, static_cast<std::uint32_t>(place % 2), every(2, place % 2, half->size()));
    if (quarter) { gather(*quarter, 21, 1); }
    half.reset();  // the inner group does not need the outer
    if (quarter) { gather(*quarter, 22, 2); }
    gather(comm, 23, 3);
  }

  static void split_unequal_numbers_of_calls(C& comm)
  {
    std::size_t const parity = index_of(comm) % 2;
    auto part = split(comm, static_cast<std::uint32_t>(parity), every(2, parity, comm.size()));
    if (part) {
      for (std::size_t call = 0; call < (parity == 0 ? 3 : 50); ++call) { gather(*part, 9, call); }
    }
    gather(comm, 9, 100);
  }

  static void scratch_keeps_content(C& comm)
  {
    for (std::size_t const bytes : {0U, 1U, 100U, 5000U, 64U, 100'000U}) {
      std::span<std::byte> const memory = comm.scratch(bytes);
      EXPECT_EQ(memory.size(), bytes);
      if (bytes > 0) { EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % 64, 0U); }
      message const mine{bytes, index_of(comm), 0};
      mine.write(memory);
      gather(comm, 40, bytes);
      exchange(comm, traffic(comm.size(), [](auto from, auto) { return from; }), bytes);
      expect_message(mine, memory);
    }
  }

  static void scratch_moves_bytes(C& comm)
  {
    std::vector<std::size_t> const counts(comm.size(), 50);
    std::span<std::byte> const memory = comm.scratch(100 * comm.size());
    exchange(comm, 1, memory.first(50 * comm.size()), counts, memory.last(50 * comm.size()),
             counts);
  }

  static void many_small_calls(C& comm)
  {
    ballast::random_source random(20240608);
    for (std::uint64_t call = 0; call < 300; ++call) {
      SCOPED_TRACE(testing::Message() << "call " << call);
      std::size_t const bytes = random.below(40);
      std::size_t const root = random.below(comm.size());
      switch (random.below(4)) {
        case 0: gather(comm, bytes, call); break;
        case 1: broadcast_from(comm, root, bytes, call); break;
        case 2: exchange(comm, random_traffic(random, comm.size(), 20), call); break;
        default: expect_done(comm, comm.barrier()); break;
      }
    }
  }

  // ---- Mismatches ----

  /// All ranks get the error, and the communicator can still be used.
  static void expect_mismatch(C& comm, ballast::result<void> const& called,
                              std::vector<std::size_t> const& ranks)
  {
    auto const done = complete(comm, called);
    EXPECT_FALSE(done) << "nobody noticed";
    if (!done) {
      std::vector<std::size_t> named;
      for (ballast::rank_id const rank : done.error().ranks) { named.push_back(to_index(rank)); }
      EXPECT_EQ(done.error().code, ballast::error_code::mismatch) << done.error().message;
      EXPECT_EQ(named, ranks) << done.error().message;
    }
    exchange(comm, traffic(comm.size(), [](auto from, auto to) { return 2 * from + to; }), 77);
  }

  /// call(whether this rank is the odd one out), with each rank as the odd one. Everyone names it;
  /// of two ranks the lowest is right.
  template <class Call>
  static void expect_odd_one_named(C& comm, Call call)
  {
    if (comm.size() < 2) { return; }
    for (std::size_t odd = 0; odd < comm.size(); ++odd) {
      expect_mismatch(comm, call(index_of(comm) == odd), {comm.size() == 2 ? 1 : odd});
    }
  }

  static void different_operations(C& comm)
  {
    Buffer send(4), receive(4 * comm.size());
    expect_odd_one_named(
        comm, [&](bool odd) { return odd ? comm.barrier() : comm.all_gather(send, receive); });
    expect_odd_one_named(comm, [&](bool odd) {
      return odd ? comm.broadcast(receive, ballast::rank_id{0}) : comm.all_gather(send, receive);
    });
  }

  // As many ranks for one operation as for the other: those that differ from rank 0 are named.
  static void different_operations_in_two_parties(C& comm)
  {
    if (comm.size() % 2 != 0) { return; }
    auto const differing = every(2, 1, comm.size());
    Buffer bytes(4);
    expect_mismatch(
        comm, index_of(comm) % 2 == 0 ? comm.barrier() : comm.broadcast(bytes, ballast::rank_id{0}),
        {differing.begin(), differing.end()});
  }

  static void different_all_gather_sizes(C& comm)
  {
    for (std::size_t const other : {0U, 3U, 9U}) {
      expect_odd_one_named(comm, [&](bool odd) {
        std::size_t const bytes = odd ? other : 4;
        Buffer send(bytes), receive(bytes * comm.size());
        std::fill(receive.begin(), receive.end(), untouched);
        auto const done = complete(comm, comm.all_gather(send, receive));
        expect_untouched(receive);
        return done;
      });
    }
  }

  static void different_broadcast_roots(C& comm)
  {
    expect_odd_one_named(comm, [&](bool odd) {
      Buffer buffer(5);
      std::fill(buffer.begin(), buffer.end(), untouched);
      auto const done = complete(comm, comm.broadcast(buffer, ballast::rank_id{odd ? 1U : 0U}));
      expect_untouched(buffer);
      return done;
    });
  }

  static void different_broadcast_sizes(C& comm)
  {
    expect_odd_one_named(comm, [&](bool odd) {
      Buffer bytes(odd ? 6 : 5);
      return complete(comm, comm.broadcast(bytes, ballast::rank_id{0}));
    });
  }

  /// The messages of `wrong` (from, to) are expected with `bytes` where 8 are sent; each end names
  /// the other, and ranks whose messages agree name no rank.
  static void expect_pairs_named(C& comm, std::size_t bytes,
                                 std::vector<std::array<std::size_t, 2>> const& wrong)
  {
    std::size_t const self = index_of(comm);
    std::vector<std::size_t> const send_bytes(comm.size(), 8);
    std::vector<std::size_t> receive_bytes(comm.size(), 8);
    std::vector<std::size_t> named;
    for (auto const [from, to] : wrong) {
      if (to == self) { receive_bytes[from] = bytes; }
      if (from == self || to == self) { named.push_back(from == self ? to : from); }
    }
    std::ranges::sort(named);
    Buffer send(total(send_bytes)), receive(total(receive_bytes));
    std::fill(receive.begin(), receive.end(), untouched);
    auto const done = complete(comm, comm.all_to_all_v(send, send_bytes, receive, receive_bytes));
    expect_untouched(receive);
    expect_mismatch(comm, done, named);
  }

  static void expect_each_pair_named(C& comm, std::size_t bytes)
  {
    std::size_t const size = comm.size();
    for (std::size_t from = 0; from < size && size > 1; ++from) {
      expect_pairs_named(comm, bytes, {{from, (from + 1) % size}});
      expect_pairs_named(comm, bytes, {{(from + 1) % size, from}});
    }
  }

  // Ranks 1 and 4 give another word, of the plan or of the arrays; messages have the same sizes.
  static void different_contents(C& comm)
  {
    std::size_t const size = comm.size();
    std::vector<std::size_t> const counts(size, 3);
    Buffer send(3 * size), receive(3 * size);
    std::vector<ballast::rank_id> differing;
    for (std::size_t const rank : {1U, 4U}) {
      if (rank < size) { differing.push_back(ballast::to_id<ballast::rank_id>(rank)); }
    }
    for (bool const in_arrays : {false, true}) {
      std::uint64_t const usual = ballast::content_word(5, 6);
      std::uint64_t const other =
          in_arrays ? ballast::content_word(5, 7) : ballast::content_word(4, 6);
      bool const differs = std::ranges::count(differing, comm.rank()) > 0;
      std::fill(receive.begin(), receive.end(), untouched);
      auto const done =
          complete(comm, comm.all_to_all_v(send, counts, receive, counts, differs ? other : usual));
      EXPECT_EQ(done.has_value(), differing.empty());
      if (done) { continue; }
      EXPECT_EQ(done.error().code, ballast::error_code::mismatch);
      EXPECT_EQ(done.error().ranks, differing) << done.error().message;
      EXPECT_EQ(done.error().message.find("arrays") != std::string::npos, in_arrays)
          << done.error().message;
      expect_untouched(receive);
    }
    expect_done(comm, comm.all_to_all_v(send, counts, receive, counts, 9));
  }

  static void different_counts(C& comm)
  {
    expect_each_pair_named(comm, 5);
    expect_each_pair_named(comm, 11);
  }

  static void count_against_zero(C& comm) { expect_each_pair_named(comm, 0); }

  static void count_against_itself(C& comm)
  {
    for (std::size_t rank = 0; rank < comm.size(); ++rank) {
      expect_pairs_named(comm, 7, {{rank, rank}});
    }
  }

  static void different_counts_of_several_pairs(C& comm)
  {
    std::size_t const last = comm.size() - 1;
    if (comm.size() < 3) { return; }
    expect_pairs_named(comm, 3, {{0, last}, {1, last}});
    expect_pairs_named(comm, 3, {{last, 0}, {0, 1}});
  }

  // ---- Steady state ----

  static void steady_state_allocates_nothing(C& comm)
  {
    std::size_t const size = comm.size();
    std::vector<std::size_t> const counts(size, 24);
    Buffer send(24 * size), receive(24 * size);
    std::span<std::byte> const out = send;
    std::span<std::byte> const in = receive;
    auto const step = [&] {
      bool const moved = comm.all_gather(out.first(24), in) &&
                         comm.all_to_all_v(out, counts, in, counts) &&
                         comm.broadcast(in, ballast::to_id<ballast::rank_id>(size - 1)) &&
                         comm.scratch(1000).size() == 1000 && comm.wait();
      return comm.barrier() && moved;  // nobody leaves while others are still warming up
    };
    bool all_done = step();
    std::size_t const before = allocations();
    for (int round = 0; round < 20; ++round) { all_done = step() && all_done; }
    std::size_t const after = allocations();
    all_done = comm.barrier() && all_done;  // nobody goes on while others are still counting
    EXPECT_TRUE(all_done);
    EXPECT_EQ(after, before);
  }
};

}  // namespace ballast_test
