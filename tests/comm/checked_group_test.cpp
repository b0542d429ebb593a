// SPDX-License-Identifier: Apache-2.0
// What communicators of pairs have in common, over transfers between threads: MPI's and c10d's own
// tests see what is theirs.
#include <ballast/comm/checked_group.hpp>

#include "../support/test.hpp"
#include "communicator_suite.hpp"  // defines: ballast_test::{Communicators, conformance}

#include <ballast/comm/thread_communicator.hpp>

namespace {

using ballast::rank_id;
using ballast::result;
using ballast::thread_communicator;

/// Messages between threads; what they wait for names who holds them up, as a roll call does.
template <bool CallsRoll>
class thread_pairs {
 public:
  static constexpr bool calls_roll = CallsRoll;
  static constexpr bool keeps_memory = false;

  explicit thread_pairs(thread_communicator comm) : comm_(std::move(comm)) {}

  [[nodiscard]] std::size_t rank() const { return to_index(comm_.rank()); }
  [[nodiscard]] std::size_t size() const { return comm_.size(); }
  [[nodiscard]] thread_communicator& all() { return comm_; }

  [[nodiscard]] result<void> enter(char const*) { return comm_.start(); }
  [[nodiscard]] static std::size_t messages(std::size_t bytes) { return bytes > 0 ? 1 : 0; }
  void expect(std::size_t messages) { room_ = messages; }
  void receive(std::size_t peer, std::span<std::byte> bytes)
  {
    if (!bytes.empty()) { note(comm_.receive(bytes, ballast::to_id<rank_id>(peer))); }
  }
  void send(std::size_t peer, std::span<std::byte const> bytes)
  {
    if (!bytes.empty()) { note(comm_.send(bytes, ballast::to_id<rank_id>(peer))); }
  }
  [[nodiscard]] result<void> wait(char const*)
  {
    for (auto const each : under_way_) {
      if (!failed_) {
        if (auto done = comm_.wait_for(each)) {
          continue;
        } else {
          failed_ = done.error();
        }
      }
      (void)comm_.cancel(each);
    }
    under_way_.clear();
    return failed_ ? result<void>(tl::unexpected(*failed_)) : result<void>();
  }

 private:
  void note(result<ballast::transfer_id> const& begun)
  {
    EXPECT_LT(under_way_.size(), room_) << "more than expected";
    if (begun) {
      under_way_.push_back(*begun);
    } else {
      failed_ = begun.error();
    }
  }

  thread_communicator comm_;
  std::vector<ballast::transfer_id> under_way_;  // in this round
  std::size_t room_ = 0;
  std::optional<ballast::error> failed_;
};

template <bool CallsRoll, bool Verify>
class group_of_pairs : public ballast::checked_group<thread_pairs<CallsRoll>> {
 public:
  explicit group_of_pairs(thread_communicator comm)
      : group_of_pairs::checked_group(comm.size(), Verify, std::move(comm))
  {
    this->open();
  }

  [[nodiscard]] result<group_of_pairs> split(std::uint32_t colour)
  {
    result<thread_communicator> part = tl::unexpected(ballast::error{});
    auto const done = this->run({ballast::collective::split}, {}, {}, [&]() -> result<void> {
      part = this->pairs().all().split(colour);
      return part ? result<void>() : tl::unexpected(part.error());
    });
    if (!done) { return tl::unexpected(done.error()); }
    return group_of_pairs(*std::move(part));
  }

  /// The options of a rank, compared.
  [[nodiscard]] result<void> compare(std::array<std::uint64_t, 2> const& values)
  {
    return this->compare_options(std::array{"verify", "deadline"}, values);
  }
};

/// In the list of communicators that the suite runs over.
template <bool CallsRoll, bool Verify>
struct pairs_of_threads : ballast_test::communicator_model<group_of_pairs<CallsRoll, Verify>> {
  static std::vector<std::size_t> sizes() { return {1, 2, 3, 4, 7, 8}; }
  static constexpr bool compares = Verify;
  static constexpr bool names_all = false;
  struct group {
    group(std::size_t ranks, std::chrono::milliseconds deadline)
    {
      for (auto& each : thread_communicator::make(ranks, deadline)) {
        comms.emplace_back(std::move(each));
      }
    }
    std::vector<group_of_pairs<CallsRoll, Verify>> comms;
  };
};

/// Calls body(communicator) on each of so many ranks.
template <bool CallsRoll, class Body>
void on_pairs(std::size_t ranks, Body const& body)
{
  ballast::run_ranks(ranks, [&](thread_communicator& own) {
    group_of_pairs<CallsRoll, true> comm(std::move(own));
    body(comm);
  });
}

/// Of rank 0 of two: memory runs out before it sends, and the peer's message still comes, at the
/// last moment at which it can.
class late_pairs {
 public:
  static constexpr bool calls_roll = false;
  static constexpr bool keeps_memory = false;

  late_pairs() = default;
  ~late_pairs()
  {
    for (std::span<std::byte> const each : expected_) { std::ranges::fill(each, std::byte{1}); }
  }
  late_pairs(late_pairs&&) = delete;

  [[nodiscard]] static std::size_t rank() { return 0; }
  [[nodiscard]] static std::size_t size() { return 2; }
  [[nodiscard]] static result<void> enter(char const*) { return {}; }
  [[nodiscard]] static std::size_t messages(std::size_t) { return 1; }
  static void expect(std::size_t) {}
  void receive(std::size_t, std::span<std::byte> bytes) { expected_.push_back(bytes); }
  static void send(std::size_t, std::span<std::byte const>) { throw std::bad_alloc(); }
  [[nodiscard]] static result<void> wait(char const*) { return {}; }

 private:
  std::vector<std::span<std::byte>> expected_;
};

struct late_group : ballast::checked_group<late_pairs> {
  late_group() : checked_group(2, true) { open(); }
};

TEST(CheckedGroup, KeepsWhatPeersSendToUntilItHasLeft)  // the address sanitizer sees what it reads
{
  late_group comm;
  EXPECT_THROW((void)comm.barrier(), std::bad_alloc);
}

TEST(CheckedGroup, NamesTheFirstOptionThatDiffers)
{
  auto const compares = [](auto& comm) {
    bool const other = comm.rank() == rank_id{2};
    EXPECT_TRUE(comm.compare({1, 500}));
    auto const done = comm.compare({1, other ? 501U : 500U});
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().ranks, std::vector{rank_id{2}});
    EXPECT_THAT(done.error().message, testing::HasSubstr("the option deadline"));
    EXPECT_THAT(comm.compare({other ? 0U : 1U, other ? 501U : 500U}).error().message,
                testing::HasSubstr("the option verify"));
    EXPECT_TRUE(comm.barrier());
  };
  on_pairs<true>(4, compares);
  on_pairs<false>(4, compares);
}

// After an exception nobody knows what has moved.
TEST(CheckedGroup, IsBrokenByARankWhoseMoveThrew)  // Ensures (3)
{
  if (!ballast_test::allocations_can_fail()) { GTEST_SKIP() << "operator new is a sanitizer's"; }
  on_pairs<true>(1, [](auto& comm) {
    EXPECT_TRUE(comm.barrier());
    auto const throws = [&] {
      ballast_test::failing_allocation const failing(1);
      (void)comm.split(0);
    };
    EXPECT_THROW(throws(), std::bad_alloc);
    auto const done = comm.wait();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().ranks, std::vector{rank_id{0}});
    EXPECT_EQ(comm.barrier().error(), done.error());
  });
}

}  // namespace

namespace ballast_test {

using checked_groups = testing::Types<pairs_of_threads<true, true>, pairs_of_threads<true, false>,
                                      pairs_of_threads<false, true>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Pairs, Communicators, checked_groups);
INSTANTIATE_TYPED_TEST_SUITE_P(Pairs, CommunicatorsOfThreads, checked_groups);

}  // namespace ballast_test
