// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm/thread_meeting.hpp>

#include "../support/test.hpp"
#include "../support/time_limits.hpp"

#include <atomic>
#include <stdexcept>

namespace {

using ballast::call_offer;
using ballast::collective;
using ballast::thread_meeting;
using ballast_test::time_bound;

template <class Run>
void on_threads(std::size_t ranks, Run run)
{
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < ranks; ++rank) { threads.emplace_back(run, rank); }
}

TEST(ThreadMeeting, TakesWhenAllAreHereAndGoesWhenAllHaveTaken)  // Ensures (1)
{
  constexpr std::size_t ranks = 6;
  thread_meeting meeting(ranks, time_bound);
  std::atomic<std::size_t> came = 0;
  std::atomic<std::size_t> took = 0;
  on_threads(ranks, [&](std::size_t self) {
    for (std::size_t turn = 1; turn <= 100; ++turn) {
      ++came;
      EXPECT_TRUE(meeting.meet(self, {{collective::barrier}}, [&] {
        EXPECT_EQ(came, turn * ranks);
        ++took;
      }));
      EXPECT_GE(took, turn * ranks);
    }
  });
}

// The others do not wait for a copy that will never be made.
TEST(ThreadMeeting, IsNotHeldUpByOneWhoThrows)
{
  thread_meeting meeting(3, time_bound);
  on_threads(3, [&](std::size_t self) {
    auto const take = [&] {
      if (self == 1) { throw std::runtime_error("no"); }
    };
    if (self == 1) {
      EXPECT_THROW((void)meeting.meet(self, {{collective::barrier}}, take), std::runtime_error);
    } else {
      EXPECT_TRUE(meeting.meet(self, {{collective::barrier}}, take));
    }
    EXPECT_TRUE(meeting.meet(self, {{collective::barrier}}, [] {}));
  });
}

TEST(ThreadMeeting, SeatsThoseOfAColourInRankOrder)
{
  std::vector<std::uint32_t> const colours{9, 0, 9, 9, 0, 7};
  std::vector<std::size_t> const expected_rank{0, 0, 1, 2, 1, 0};
  thread_meeting meeting(colours.size(), time_bound);
  std::vector<thread_meeting::place> places(colours.size());
  on_threads(colours.size(), [&](std::size_t self) {
    call_offer const offer{{collective::split}, {}, {}, {}, colours[self]};
    EXPECT_TRUE(meeting.meet(self, offer, [&] { places[self] = meeting.place_in_part(self); }));
  });
  for (std::size_t rank = 0; rank < colours.size(); ++rank) {
    EXPECT_EQ(places[rank].rank, expected_rank[rank]);
    EXPECT_EQ(places[rank].group->size(),
              static_cast<std::size_t>(std::ranges::count(colours, colours[rank])));
    for (std::size_t other = 0; other < rank; ++other) {
      EXPECT_EQ(places[rank].group == places[other].group, colours[rank] == colours[other]);
    }
  }
}

TEST(ThreadMeeting, KeepsItsFirstFailure)  // Ensures (3)
{
  thread_meeting meeting(3, std::chrono::milliseconds(1));
  auto const timed_out = meeting.meet(0, {{collective::barrier}}, [] { FAIL(); });
  ASSERT_FALSE(timed_out);
  meeting.leave(1);
  auto const late = meeting.meet(2, {{collective::split}}, [] { FAIL(); });
  ASSERT_FALSE(late);
  EXPECT_TRUE(late.error() == timed_out.error()) << late.error().message;
}

}  // namespace
