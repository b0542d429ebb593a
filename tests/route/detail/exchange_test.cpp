// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/detail/exchange.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/comm/run_ranks.hpp>
#include <ballast/comm/thread_communicator.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/workspace.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace {

using ballast::result;
using ballast::thread_communicator;
using ballast::to_index;
using ballast::workspace;
using ballast::detail::run_exchange;
using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

using call_names = std::vector<std::string>;

// Notes what it is asked to do, sends its rank in each byte, and fails where it is told to.
class noting_mover : public ballast::detail::host_messages<thread_communicator> {
 public:
  noting_mover(thread_communicator& comm, call_names& done, std::vector<std::byte>& came,
               std::string failing = "")
      : host_messages(comm), rank_(comm.rank()), done_(done), came_(came), failing_(failing)
  {}

  result<void> pack(std::span<std::byte> outgoing)
  {
    std::ranges::fill(outgoing, static_cast<std::byte>(to_index(rank_)));
    return note("pack");
  }
  result<void> keep() { return note("keep"); }
  result<void> arrive()
  {
    EXPECT_TRUE(host_messages::arrive());
    return note("arrive");
  }
  result<void> unpack(std::span<std::byte const> incoming)
  {
    came_.assign(incoming.begin(), incoming.end());
    return note("unpack");
  }

 private:
  result<void> note(std::string const& name)
  {
    done_.push_back(name);
    if (name != failing_) { return {}; }
    return ballast::fail(ballast::error_code::transport, 7, name);
  }

  ballast::rank_id rank_;
  call_names& done_;
  std::vector<std::byte>& came_;
  std::string failing_;
};

// Rank 0 sends three bytes to rank 1, and nothing goes back.
constexpr auto three_to_one = [](std::size_t rank) {
  return [rank](std::span<std::size_t> sent, std::span<std::size_t> received) {
    std::ranges::fill(sent, std::size_t{0});
    std::ranges::fill(received, std::size_t{0});
    if (rank == 0) { sent[1] = 3; }
    if (rank == 1) { received[0] = 3; }
  };
};

TEST(Exchange, RunsItsOperationsInOrderAndBringsTheMessages)
{
  ballast::run_ranks(2, [](thread_communicator& comm) {
    std::size_t const rank = to_index(comm.rank());
    call_names done;
    std::vector<std::byte> came;
    workspace memory;
    EXPECT_TRUE(run_exchange(comm, memory, three_to_one(rank), noting_mover(comm, done, came)));
    EXPECT_THAT(done, ElementsAre("pack", "keep", "arrive", "unpack"));
    EXPECT_EQ(came.size(), rank == 1 ? 3U : 0U);
    EXPECT_THAT(came, Each(std::byte{0}));
  });
}

TEST(Exchange, EndsWithTheFirstFailureOfTheMover)
{
  call_names const all{"pack", "keep", "arrive", "unpack"};
  for (std::size_t failing = 0; failing < all.size(); ++failing) {
    auto comms = thread_communicator::make(1);
    call_names done;
    std::vector<std::byte> came;
    workspace memory;
    auto const moved = run_exchange(comms[0], memory, three_to_one(2),
                                    noting_mover(comms[0], done, came, all[failing]));
    ASSERT_FALSE(moved);
    EXPECT_EQ(moved.error().message, all[failing]);
    EXPECT_EQ(done,
              call_names(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(failing) + 1));
  }
}

TEST(Exchange, UnpacksNothingWhereSizesDiffer)
{
  ballast::run_ranks(2, [](thread_communicator& comm) {
    call_names done;
    std::vector<std::byte> came;
    workspace memory;
    auto const moved = run_exchange(comm, memory, three_to_one(0), noting_mover(comm, done, came));
    ASSERT_FALSE(moved);
    EXPECT_EQ(moved.error().code, ballast::error_code::mismatch);
    EXPECT_THAT(done, ElementsAre("pack"));
    EXPECT_THAT(came, IsEmpty());
  });
}

}  // namespace
