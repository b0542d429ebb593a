// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../support/counted_allocations.hpp"
#include "../support/test.hpp"
#include "traffic.hpp"  // defines: ballast_test::{traffic, random_traffic, message}

#include <ballast/comm/communicator.hpp>

#include <ostream>

namespace ballast_test {

/// What every point-to-point communicator promises, in the manner of conformance.hpp: each check is
/// called by all ranks of a group at the same time.
///
///   data_checks()         all models
///   host_checks()         models whose transfers need no stream: transfers beside collective
///                         operations, and transfers that are cancelled
///   mismatch_checks()     models that compare sizes
///   steady_state_checks() as in conformance.hpp
template <ballast::point_to_point C, class Buffer = std::vector<std::byte>>
struct transfer_checks {
  struct check {
    char const* name;
    void (*run)(C&);

    friend void PrintTo(check const& self, std::ostream* out) { *out << self.name; }
  };

  static std::vector<check> data_checks()
  {
    return {{"Ring", ring},
            {"AllPairs", all_pairs},
            {"MessagesInOrder", messages_in_order},
            {"ToItself", to_itself},
            {"ThroughOneRank", through_one_rank}};
  }

  static std::vector<check> host_checks()
  {
    return {{"SenderLeavesWhileTheReceiverSleeps", sender_leaves},
            {"BesideCollectives", beside_collectives},
            {"WhileTheReceiverIsInACollective", while_in_a_collective},
            {"Cancelled", cancelled}};
  }

  static std::vector<check> mismatch_checks()
  {
    return {{"DifferentMessages", different_messages}, {"LongerMessages", longer_messages}};
  }

  static std::vector<check> steady_state_checks()
  {
    return {{"SteadyStateAllocatesNothing", steady_state_allocates_nothing}};
  }

  /// Every rank sends every other one a message; what became of the first wait that failed.
  static ballast::result<void> exchange_with_all(C& comm, std::size_t bytes)
  {
    thread_local Buffer own, in;  // which stay as long as the library below
    std::vector<ballast::transfer_id> under_way;
    own.resize(bytes);
    in.resize(bytes * comm.size());
    auto const begun = [&](ballast::result<ballast::transfer_id> const& id) {
      if (id) { under_way.push_back(*id); }
      return id ? ballast::result<void>() : ballast::result<void>(tl::unexpected(id.error()));
    };
    ballast::result<void> done;
    for (std::size_t peer = 0; peer < comm.size() && done; ++peer) {
      auto const id = ballast::to_id<ballast::rank_id>(peer);
      if (id == comm.rank()) { continue; }
      done = begun(comm.receive(std::span(in).subspan(peer * bytes, bytes), id));
      if (done) { done = begun(comm.send(own, id)); }
    }
    if (done) { done = comm.start(); }
    for (auto const id : under_way) {
      if (done) {
        done = comm.wait_for(id);
      } else {
        (void)comm.cancel(id);
      }
    }
    return done;
  }

 private:
  static std::size_t index_of(C const& comm) { return to_index(comm.rank()); }
  static ballast::rank_id id_of(std::size_t rank) { return ballast::to_id<ballast::rank_id>(rank); }

  static ballast::transfer_id begun(ballast::result<ballast::transfer_id> const& id)
  {
    EXPECT_TRUE(id) << id.error().message;
    return id.value_or(ballast::transfer_id{});
  }

  static void expect_done(ballast::result<void> const& done)
  {
    EXPECT_TRUE(done) << done.error().message;
  }

  static void expect_message(message expected, std::span<std::byte const> bytes)
  {
    EXPECT_EQ(expected.first_difference(bytes), bytes.size())
        << "of the bytes from rank " << expected.from << " to rank " << expected.to;
  }

  static void ring(C& comm)
  {
    std::size_t const self = index_of(comm);
    std::size_t const next = (self + 1) % comm.size();
    std::size_t const before = (self + comm.size() - 1) % comm.size();
    for (std::size_t const bytes : {0U, 1U, 1000U, 70'001U, 1'048'579U}) {
      Buffer out(bytes), in(bytes);
      message{bytes, self, next}.write(out);
      auto const sent = begun(comm.send(out, id_of(next)));
      auto const received = begun(comm.receive(in, id_of(before)));
      expect_done(comm.start());
      expect_done(comm.wait_for(received));
      expect_message({bytes, before, self}, in);
      expect_done(comm.wait_for(sent));
    }
  }

  // Random sizes between all, a rank with itself too, waited for in random order.
  static void all_pairs(C& comm)
  {
    std::size_t const self = index_of(comm);
    ballast::random_source random(77);
    ballast::random_source own(self);
    for (std::uint64_t trial = 0; trial < 10; ++trial) {
      auto const bytes = random_traffic(random, comm.size(), 5000);
      auto const sizes_out = bytes.sent_by(self);
      auto const sizes_in = bytes.received_by(self);
      std::vector<Buffer> out, in;
      std::vector<ballast::transfer_id> transfers;
      for (std::size_t peer = 0; peer < comm.size(); ++peer) {
        out.emplace_back(sizes_out[peer]);
        in.emplace_back(sizes_in[peer]);
        message{trial, self, peer}.write(out.back());
        transfers.push_back(begun(comm.receive(in.back(), id_of(peer))));
        transfers.push_back(begun(comm.send(out.back(), id_of(peer))));
      }
      expect_done(comm.start());
      for (std::size_t left = transfers.size(); left > 0; --left) {
        std::swap(transfers[left - 1], transfers[own.below(left)]);
        expect_done(comm.wait_for(transfers[left - 1]));
      }
      for (std::size_t peer = 0; peer < comm.size(); ++peer) {
        expect_message({trial, peer, self}, in[peer]);
      }
    }
  }

  // Several under way between the same two ranks, an empty one among them; the last is waited for
  // first.
  static void messages_in_order(C& comm)
  {
    std::size_t const self = index_of(comm);
    std::size_t const peer = self ^ 1U;
    if (peer >= comm.size()) { return; }
    std::array<std::size_t, 5> const sizes = {10, 20'000, 0, 10, 300};
    std::vector<Buffer> out, in;
    std::vector<ballast::transfer_id> sent, received;
    for (std::size_t index = 0; index < sizes.size(); ++index) {
      out.emplace_back(sizes[index]);
      in.emplace_back(sizes[index]);
      message{index, self, peer}.write(out.back());
    }
    for (std::size_t index = 0; index < sizes.size(); ++index) {
      sent.push_back(begun(comm.send(out[index], id_of(peer))));
      received.push_back(begun(comm.receive(in[index], id_of(peer))));
    }
    expect_done(comm.start());
    for (std::size_t index = sizes.size(); index-- > 0;) {
      expect_done(comm.wait_for(received[index]));
      expect_message({index, peer, self}, in[index]);
      expect_done(comm.wait_for(sent[index]));
    }
  }

  static void to_itself(C& comm)
  {
    Buffer out(333), in(333);
    message{1, index_of(comm), 0}.write(out);
    auto const sent = begun(comm.send(out, comm.rank()));
    auto const received = begun(comm.receive(in, comm.rank()));
    expect_done(comm.start());
    expect_done(comm.wait_for(sent));
    expect_done(comm.wait_for(received));
    expect_message({1, index_of(comm), 0}, in);
  }

  // What rank 0 gathers it sends on: two starts, the second of what the first has brought.
  static void through_one_rank(C& comm)
  {
    std::size_t const self = index_of(comm);
    std::size_t const size = comm.size();
    Buffer own(100), there(100), all(100 * size);
    message{5, self, 0}.write(own);
    if (self > 0) {
      auto const sent = begun(comm.send(own, id_of(0)));
      expect_done(comm.start());
      auto const received = begun(comm.receive(there, id_of(0)));
      expect_done(comm.start());
      expect_done(comm.wait_for(received));
      std::size_t const from = size - self;  // whose message rank 0 sends on to it
      expect_message({5, from, 0}, there);
      expect_done(comm.wait_for(sent));
      return;
    }
    std::vector<ballast::transfer_id> gathered, sent;
    for (std::size_t peer = 1; peer < size; ++peer) {
      gathered.push_back(begun(comm.receive(std::span(all).subspan(100 * peer, 100), id_of(peer))));
    }
    expect_done(comm.start());
    for (auto const id : gathered) { expect_done(comm.wait_for(id)); }
    for (std::size_t peer = 1; peer < size; ++peer) {
      sent.push_back(
          begun(comm.send(std::span(all).subspan(100 * (size - peer), 100), id_of(peer))));
    }
    expect_done(comm.start());
    for (auto const id : sent) { expect_done(comm.wait_for(id)); }
  }

  // If the sender did not leave, the receiver would wait for it in the barrier until the deadline.
  static void sender_leaves(C& comm)
  {
    std::size_t const self = index_of(comm);
    std::size_t const peer = self ^ 1U;
    bool const paired = peer < comm.size();
    Buffer bytes(3'000'000);  // more than any library sends ahead
    ballast::transfer_id own{};
    if (paired && self % 2 == 0) {
      message{9, self, peer}.write(bytes);
      own = begun(comm.send(bytes, id_of(peer)));
      expect_done(comm.start());
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    expect_done(comm.barrier());
    if (!paired) { return; }
    if (self % 2 == 1) {
      own = begun(comm.receive(bytes, id_of(peer)));
      expect_done(comm.start());
    }
    expect_done(comm.wait_for(own));
    if (self % 2 == 1) { expect_message({9, peer, self}, bytes); }
  }

  static void beside_collectives(C& comm)
  {
    std::size_t const self = index_of(comm);
    std::size_t const next = (self + 1) % comm.size();
    std::size_t const before = (self + comm.size() - 1) % comm.size();
    Buffer out(5000), in(5000), word(8), words(8 * comm.size());
    message{3, self, next}.write(out);
    message{4, self, 0}.write(word);
    auto const received = begun(comm.receive(in, id_of(before)));
    expect_done(comm.all_gather(word, words));
    auto const sent = begun(comm.send(out, id_of(next)));
    auto part = comm.split(static_cast<std::uint32_t>(self % 2));
    EXPECT_TRUE(part);
    for (std::size_t peer = 0; peer < comm.size(); ++peer) {
      expect_message({4, peer, 0}, std::span(words).subspan(8 * peer, 8));
    }
    if (part) {  // whose ranks have numbers of their own
      Buffer own(10), theirs(10);
      std::size_t const place = to_index(part->rank());
      std::size_t const peers = part->size();
      message{6, place, (place + 1) % peers}.write(own);
      auto const there = begun(part->send(own, id_of((place + 1) % peers)));
      auto const here = begun(part->receive(theirs, id_of((place + peers - 1) % peers)));
      expect_done(part->wait_for(here));
      expect_message({6, (place + peers - 1) % peers, place}, theirs);
      expect_done(part->wait_for(there));
    }
    while (!comm.is_done(received).value_or(true)) { std::this_thread::yield(); }
    expect_done(comm.wait_for(received));
    expect_message({3, before, self}, in);
    expect_done(comm.wait_for(sent));
  }

  // The sender waits for a receiver that has begun to receive, and waits in a part of the group.
  static void while_in_a_collective(C& comm)
  {
    std::size_t const self = index_of(comm);
    std::size_t const peer = self ^ 1U;
    auto part = comm.split(0);
    EXPECT_TRUE(part);
    if (!part) { return; }
    Buffer bytes(3'000'000);
    ballast::transfer_id received{};
    if (peer < comm.size() && self % 2 == 0) {
      message{7, self, peer}.write(bytes);
      expect_done(comm.wait_for(begun(comm.send(bytes, id_of(peer)))));
    } else if (self % 2 == 1) {
      received = begun(comm.receive(bytes, id_of(peer)));
    }
    expect_done(part->barrier());
    if (self % 2 == 0) { return; }
    expect_done(comm.wait_for(received));
    expect_message({7, peer, self}, bytes);
  }

  // A receive for which no send comes; the next message is for the next receive.
  static void cancelled(C& comm)
  {
    std::size_t const self = index_of(comm);
    std::size_t const next = (self + 1) % comm.size();
    std::size_t const before = (self + comm.size() - 1) % comm.size();
    Buffer out(20), in(20), unwanted(50);
    auto const idle = begun(comm.receive(unwanted, id_of(before)));
    EXPECT_FALSE(comm.is_done(idle).value_or(true));
    EXPECT_TRUE(comm.cancel(idle));
    expect_done(comm.barrier());
    message{8, self, next}.write(out);
    auto const received = begun(comm.receive(in, id_of(before)));
    auto const sent = begun(comm.send(out, id_of(next)));
    expect_done(comm.wait_for(received));
    expect_message({8, before, self}, in);
    expect_done(comm.wait_for(sent));
    expect_done(comm.barrier());
  }

  static void different_messages(C& comm)
  {
    std::size_t const self = index_of(comm);
    std::size_t const peer = self ^ 1U;
    if (peer >= comm.size()) { return; }
    for (std::size_t const bytes : {99U, 101U, 0U}) {
      Buffer out(100), in(bytes), same(40);
      auto const sent = begun(comm.send(out, id_of(peer)));
      auto const received = begun(comm.receive(in, id_of(peer)));
      expect_done(comm.start());
      auto const done = comm.wait_for(received);
      EXPECT_FALSE(done);
      if (!done) {
        EXPECT_EQ(done.error().code, ballast::error_code::mismatch) << done.error().message;
        EXPECT_EQ(done.error().ranks, std::vector{id_of(peer)});
      }
      (void)comm.wait_for(sent);
      auto const again = begun(comm.send(std::span(out).first(40), id_of(peer)));
      auto const well = begun(comm.receive(same, id_of(peer)));
      expect_done(comm.start());
      expect_done(comm.wait_for(well));
      expect_done(comm.wait_for(again));
    }
  }

  // Nothing is written past the end of an array, and the next message is the next receive's.
  static void longer_messages(C& comm)
  {
    std::size_t const self = index_of(comm);
    std::size_t const peer = self ^ 1U;
    if (peer >= comm.size()) { return; }
    constexpr std::byte guard{0xa5};
    for (std::size_t const sent : {1U, 2U, 100U, 4'096U, 5'000U, 70'000U, 1'048'576U}) {
      for (std::size_t const expected : {sent - 1, sent / 2, std::size_t{0}}) {
        Buffer out(sent), in(sent), next(sent), following(sent);
        message{11, self, peer}.write(out);
        message{12, self, peer}.write(next);
        std::fill(in.begin(), in.end(), guard);
        auto const longer = begun(comm.send(out, id_of(peer)));
        auto const well = begun(comm.send(next, id_of(peer)));
        auto const received = begun(comm.receive(std::span(in).first(expected), id_of(peer)));
        auto const then = begun(comm.receive(following, id_of(peer)));
        expect_done(comm.start());
        auto const done = comm.wait_for(received);
        EXPECT_EQ(done.has_value() ? ballast::error_code{} : done.error().code,
                  ballast::error_code::mismatch);
        expect_done(comm.wait_for(then));
        expect_message({12, peer, self}, following);
        (void)comm.wait_for(longer);
        expect_done(comm.wait_for(well));
        auto const past = std::span(in).subspan(expected);
        EXPECT_EQ(std::count(past.begin(), past.end(), guard), std::ssize(past)) << sent;
      }
    }
  }

  static void steady_state_allocates_nothing(C& comm)
  {
    std::size_t const self = index_of(comm);
    Buffer out(3000), in(3000 * comm.size());
    std::vector<ballast::transfer_id> transfers(2 * comm.size());
    std::size_t before = 0;
    for (int round = 0; round < 12; ++round) {
      if (round == 8) {
        expect_done(comm.barrier());
        before = allocations();
      }
      // Each begins with another peer; in the first rounds some have more under way than later.
      std::size_t begun_transfers = 0;
      for (std::size_t step = 0; step < comm.size(); ++step) {
        std::size_t const to = (self + step) % comm.size();
        std::size_t const from = (self + comm.size() - step) % comm.size();
        transfers[begun_transfers++] = begun(comm.send(out, id_of(to)));
        transfers[begun_transfers++] =
            begun(comm.receive(std::span(in).subspan(3000 * from, 3000), id_of(from)));
      }
      expect_done(comm.start());
      for (auto const id : transfers) { expect_done(comm.wait_for(id)); }
      expect_done(comm.barrier());
    }
    EXPECT_EQ(allocations(), before);
    expect_done(comm.barrier());
  }
};

}  // namespace ballast_test
