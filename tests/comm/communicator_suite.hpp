// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../support/counted_allocations.hpp"
#include "../support/hand_moved_clock.hpp"
#include "../support/test.hpp"
#include "../support/time_limits.hpp"
#include "conformance.hpp"      // defines: ballast_test::conformance
#include "out_of_memory.hpp"    // defines: ballast_test::exchange_without_memory
#include "transfer_checks.hpp"  // defines: ballast_test::transfer_checks

#include <ballast/comm/communicator.hpp>

#include <latch>

namespace ballast_test {

/// What a model of the list has unless it says otherwise, beside
///
///   static std::vector<std::size_t> sizes();   of the groups that are tried
///
/// and how ranks run: where they are threads
///
///   struct group {                             what a job has, for as long as its communicators
///     group(std::size_t ranks, std::chrono::milliseconds deadline);
///     std::vector<communicator> comms;
///   };
///
/// and where they are processes a function that calls body(communicator) in each, and fails the test
/// where one of them does:
///
///   static void run(std::size_t ranks, auto body);
template <class C, class Buffer = std::vector<std::byte>>
struct communicator_model {
  using communicator = C;
  using buffer = Buffer;
  static constexpr bool compares = true;   // sizes, before bytes move
  static constexpr bool meets = false;     // in memory: all know who left or came late
  static constexpr bool names_all = true;  // that have not come
  static constexpr bool counts = true;     // nothing but ballast allocates in the program
  static void expect_nothing_left() {}     // when groups have gone
};

template <class Check>
void add(std::vector<Check>& all, std::vector<Check> const& more)
{
  all.insert(all.end(), more.begin(), more.end());
}

/// What is known of a communicator, whatever it stands on.
template <class Model>
class Communicators : public testing::Test {
 protected:
  using communicator = typename Model::communicator;
  using buffer = typename Model::buffer;
  using checks = conformance<communicator, buffer>;
  using rank_list = std::vector<ballast::rank_id>;

  static constexpr bool of_threads = requires { typename Model::group; };

  void TearDown() override { Model::expect_nothing_left(); }

  /// Calls body(rank's communicator) on a thread per rank, where it ends.
  template <class Body>
  static void on_ranks(std::vector<communicator>& comms, Body const& body)
  {
    std::vector<std::jthread> threads;
    for (communicator& each : comms) {
      threads.emplace_back([&body, own = std::move(each)]() mutable { body(own); });
    }
  }

  template <class Body>
  static void on_ranks(std::size_t ranks, Body const& body)
  {
    if constexpr (of_threads) {
      typename Model::group all(ranks, time_bound);
      on_ranks(all.comms, body);
    } else {
      Model::run(ranks, body);
    }
  }

  /// Runs all checks, on groups of all sizes.
  template <class Check>
  static void pass(std::vector<Check> const& all)
  {
    for (std::size_t const size : Model::sizes()) {
      on_ranks(size, [&](communicator& comm) {
        for (Check const& check : all) {
          SCOPED_TRACE(testing::Message()
                       << check.name << ", rank " << to_index(comm.rank()) << " of " << size);
          check.run(comm);
        }
      });
    }
  }

  static bool is_in(rank_list const& ranks, ballast::rank_id rank)
  {
    return std::ranges::count(ranks, rank) > 0;
  }

  static constexpr std::chrono::milliseconds deadline{500};  // which a test has pass
};

TYPED_TEST_SUITE_P(Communicators);

TYPED_TEST_P(Communicators, Conform)
{
  using all = typename TestFixture::checks;
  auto promised = all::data_checks();
  if constexpr (TypeParam::compares) { add(promised, all::mismatch_checks()); }
  if constexpr (TypeParam::counts) { add(promised, all::steady_state_checks()); }
  TestFixture::pass(promised);
}

TYPED_TEST_P(Communicators, ConformBetweenTwoRanks)
{
  using C = typename TestFixture::communicator;
  if constexpr (ballast::point_to_point<C>) {
    using all = transfer_checks<C, typename TestFixture::buffer>;
    auto promised = all::data_checks();
    if constexpr (TypeParam::meets || !TestFixture::of_threads) {
      add(promised, all::host_checks());
      add(promised, all::mismatch_checks());
    }
    if constexpr (TypeParam::counts) { add(promised, all::steady_state_checks()); }
    TestFixture::pass(promised);
  }
}

REGISTER_TYPED_TEST_SUITE_P(Communicators, Conform, ConformBetweenTwoRanks);

/// What is known beside of those whose ranks are threads.
template <class Model>
using CommunicatorsOfThreads = Communicators<Model>;

TYPED_TEST_SUITE_P(CommunicatorsOfThreads);

TYPED_TEST_P(CommunicatorsOfThreads, NameWhoIsMissingAtTheDeadline)
{
  if constexpr (TypeParam::compares && TypeParam::names_all) {
    hand_moved_clock clock;
    for (std::size_t const size : {2U, 5U}) {
      for (auto const& absent : TestFixture::checks::absences(size)) {
        typename TypeParam::group ranks(size, TestFixture::deadline);
        std::latch met(static_cast<std::ptrdiff_t>(size));
        {
          std::vector<std::jthread> threads;
          for (auto& comm : ranks.comms) {
            threads.emplace_back([&] {
              EXPECT_TRUE(comm.barrier());
              met.arrive_and_wait();
              if (comm.rank() == absent.front()) {
                clock.pass_when(size - absent.size(), TestFixture::deadline);
              }
              if (TestFixture::is_in(absent, comm.rank())) { return; }
              TestFixture::checks::expect_broken(comm, ballast::error_code::timed_out, absent);
            });
          }
        }
        for (ballast::rank_id const late : absent) {  // the same error, at once
          if constexpr (TypeParam::meets) {
            TestFixture::checks::expect_broken(ranks.comms[to_index(late)],
                                               ballast::error_code::timed_out, absent);
          }
        }
      }
    }
  }
}

TYPED_TEST_P(CommunicatorsOfThreads, NameWhoLeft)
{
  if constexpr (TypeParam::meets) {
    for (std::size_t const size : {2U, 3U, 8U}) {
      for (auto const& absent : TestFixture::checks::absences(size)) {
        typename TypeParam::group ranks(size, time_bound);
        for (ballast::rank_id const rank : absent) {
          auto const leaving = std::move(ranks.comms[to_index(rank)]);
        }
        std::vector<std::jthread> threads;
        for (std::size_t rank = 0; rank < size; ++rank) {
          if (TestFixture::is_in(absent, ballast::to_id<ballast::rank_id>(rank))) { continue; }
          threads.emplace_back([&comm = ranks.comms[rank], &absent] {
            TestFixture::checks::expect_broken(comm, ballast::error_code::peer_lost, absent);
          });
        }
      }
    }
  }
}

// Rank 3 does not come to its part. The part breaks with the deadline of the whole, and alone.
TYPED_TEST_P(CommunicatorsOfThreads, BreakInPartsAlone)
{
  if constexpr (TypeParam::meets) {
    hand_moved_clock clock;
    typename TypeParam::group ranks(4, TestFixture::deadline);
    std::latch first_part(2);
    std::latch broken(4);
    std::vector<std::jthread> threads;
    for (auto& comm : ranks.comms) {
      threads.emplace_back([&] {
        auto part = comm.split(static_cast<std::uint32_t>(to_index(comm.rank()) / 2));
        ASSERT_TRUE(part);
        if (comm.rank() == ballast::rank_id{2}) {
          auto const met = part->barrier();
          ASSERT_FALSE(met);
          EXPECT_EQ(met.error().code, ballast::error_code::timed_out);
          EXPECT_EQ(met.error().ranks, std::vector{ballast::rank_id{1}});
          EXPECT_THAT(met.error().message, testing::HasSubstr("500 ms"));
        } else if (comm.rank() != ballast::rank_id{3}) {
          EXPECT_TRUE(part->barrier());
          first_part.count_down();
        } else {
          first_part.wait();
          clock.pass_when(1, TestFixture::deadline);
        }
        broken.arrive_and_wait();
        typename TestFixture::buffer own(3), all(12);
        EXPECT_TRUE(comm.all_gather(own, all));
        EXPECT_TRUE(comm.wait());
      });
    }
  }
}

TYPED_TEST_P(CommunicatorsOfThreads, WaitAsLongAsTheClockCounts)
{
  if constexpr (TypeParam::compares) {
    using C = typename TestFixture::communicator;
    auto const longest = std::chrono::milliseconds::max();
    for (auto const none : {longest, longest - std::chrono::milliseconds(1)}) {
      typename TypeParam::group ranks(2, none);
      TestFixture::on_ranks(ranks.comms, [](auto& comm) {
        typename TestFixture::buffer own(1), all(2);
        EXPECT_TRUE(comm.all_gather(own, all));
        EXPECT_TRUE(comm.barrier());
        EXPECT_TRUE(comm.wait());
        if constexpr (ballast::point_to_point<C>) {
          EXPECT_TRUE(
              (transfer_checks<C, typename TestFixture::buffer>::exchange_with_all(comm, 4)));
        }
      });
    }
  }
}

// The rank that lacks memory leaves; where ranks meet it also stays, and the others wait for it.
TYPED_TEST_P(CommunicatorsOfThreads, AnswerWhereverMemoryRunsOut)
{
  if (!allocations_can_fail()) { GTEST_SKIP() << "operator new is a sanitizer's"; }
  if constexpr (TypeParam::compares) {
    using C = typename TestFixture::communicator;
    for (bool const stays : {false, true}) {
      if (stays && !TypeParam::meets) { continue; }
      expect_answers_wherever_memory_runs_out([&](std::size_t n) {
        typename TypeParam::group ranks(3, memory_deadline);
        std::vector<memory_answer> answers(3);
        std::vector<std::thread> threads;
        for (std::size_t rank = 0; rank < 3; ++rank) {
          threads.emplace_back([&, rank] {
            {
              std::optional<C> comm(std::move(ranks.comms[rank]));
              answers[rank] = exchange_without_memory<C, typename TestFixture::buffer>(*comm, n);
              if (stays) { ranks.comms[rank] = *std::move(comm); }
            }
            hand_moved_clock::end_to_act();
          });
        }
        for (std::thread& each : threads) { each.join(); }
        return answers;
      });
    }
  }
}

TYPED_TEST_P(CommunicatorsOfThreads, RefuseArraysOfOtherSizesThanCounts)
{
  if constexpr (TypeParam::compares) {
    using C = typename TestFixture::communicator;
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    auto const with_one_rank = [](auto call) {
      typename TypeParam::group one(1, time_bound);
      (void)call(one.comms[0]);
    };
    typename TestFixture::buffer four(4), five(5);
    std::vector<std::size_t> const count{4}, counts{2, 2};
    EXPECT_DEATH(with_one_rank([&](auto& comm) { return comm.all_gather(four, five); }),
                 "`receive` has 5 bytes, and each of 1 rank sends 4");
    EXPECT_DEATH(
        with_one_rank([&](auto& comm) { return comm.all_to_all_v(five, count, four, count); }),
        "`send` has 5 bytes, and `send_bytes` add up to 4");
    EXPECT_DEATH(
        with_one_rank([&](auto& comm) { return comm.all_to_all_v(four, count, five, count); }),
        "`receive` has 5 bytes, and `receive_bytes` add up to 4");
    EXPECT_DEATH(
        with_one_rank([&](auto& comm) { return comm.all_to_all_v(four, counts, four, counts); }),
        "`send_bytes` has 2 entries");
    EXPECT_DEATH(
        with_one_rank([&](auto& comm) { return comm.broadcast(four, ballast::rank_id{1}); }),
        "the root is rank 1 of 1 rank");
    if constexpr (ballast::point_to_point<C>) {
      EXPECT_DEATH(with_one_rank([&](auto& comm) { return comm.send(four, ballast::rank_id{1}); }),
                   "a transfer with rank 1 of 1 rank");
      EXPECT_DEATH(
          with_one_rank([&](auto& comm) { return comm.receive(four, ballast::rank_id{7}); }),
          "a transfer with rank 7 of 1 rank");
    }
    using std::chrono::milliseconds;
    for (milliseconds const none : {milliseconds(0), milliseconds(-1), milliseconds::min()}) {
      EXPECT_DEATH(typename TypeParam::group(1, none),
                   "ms; give one above 0, milliseconds::max\\(\\) for none");
    }
  }
}

REGISTER_TYPED_TEST_SUITE_P(CommunicatorsOfThreads, NameWhoIsMissingAtTheDeadline, NameWhoLeft,
                            BreakInPartsAlone, WaitAsLongAsTheClockCounts,
                            AnswerWhereverMemoryRunsOut, RefuseArraysOfOtherSizesThanCounts);

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CommunicatorsOfThreads);  // of processes

}  // namespace ballast_test
