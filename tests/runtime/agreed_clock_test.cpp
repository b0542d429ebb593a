// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm/thread_communicator.hpp>
#include <ballast/runtime/agreed_clock.hpp>

#include "../support/test.hpp"
#include "fake_clock.hpp"

#include <stdexcept>

namespace {

using ballast::error_code;
using ballast_test::fake_clock;

static_assert(ballast::profiler_clock<ballast::agreed_clock<ballast::thread_communicator>>);

TEST(AgreedClock, IsThatOfTheSlowestRank)
{
  std::array<std::int64_t, 3> times{};
  std::array<std::int64_t, 3> nows{};
  ballast::run_ranks(3, [&](auto& comm) {
    std::size_t const rank = to_index(comm.rank());
    fake_clock own;
    own.advance(rank == 0 ? 70 : 0);
    ballast::agreed_clock clock(comm, own);
    times[rank] = clock.time([] {}).value();
    nows[rank] = clock.now().value();
  });
  EXPECT_EQ(times, (std::array<std::int64_t, 3>{0, 0, 0}));
  EXPECT_EQ(nows, (std::array<std::int64_t, 3>{1'000'070, 1'000'070, 1'000'070}));
}

// A clock that says what it is given.
struct constant_clock {
  std::int64_t nanoseconds;

  template <class Work>
  ballast::result<std::int64_t> time(Work&& work) const
  {
    work();
    return nanoseconds;
  }
  ballast::result<std::int64_t> now() const { return nanoseconds; }
};

TEST(AgreedClock, TakesTheLongestTime)
{
  std::array<std::int64_t, 4> times{};
  ballast::run_ranks(4, [&](auto& comm) {
    std::size_t const rank = to_index(comm.rank());
    ballast::agreed_clock clock(comm, constant_clock{static_cast<std::int64_t>(10 + rank % 3)});
    times[rank] = clock.time([] {}).value();
  });
  EXPECT_EQ(times, (std::array<std::int64_t, 4>{12, 12, 12, 12}));
}

TEST(AgreedClock, TellsAllRanksWhereOneMakesAnotherCallOrHasNoTime)  // Errors
{
  ballast::run_ranks(3, [&](auto& comm) {
    bool const odd = comm.rank() == ballast::rank_id{1};
    ballast::agreed_clock clock(comm, constant_clock{7});
    auto const expect_told = [](ballast::result<std::int64_t> const& time) {
      ASSERT_FALSE(time);
      EXPECT_EQ(time.error().code, error_code::mismatch);
      EXPECT_THAT(time.error().message,
                  testing::HasSubstr("agreed_clock: ranks disagree on what is timed, or one has no "
                                     "time (rank 1 differs from the others)"));
    };
    expect_told(odd ? clock.now() : clock.time([] {}));
    auto const work = [odd] {
      if (odd) { throw std::runtime_error("no memory for this batch"); }
    };
    auto const told = clock.time(work);
    if (!odd) { expect_told(told); }
    EXPECT_EQ(told.error().code, odd ? error_code::failed : error_code::mismatch);
    EXPECT_THAT(told.error().message, testing::EndsWith("what is timed threw on rank 1: no memory "
                                                        "for this batch"));
    EXPECT_EQ(clock.now().value(), 7);
  });
}

}  // namespace
