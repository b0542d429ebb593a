// SPDX-License-Identifier: Apache-2.0
#include "../support/test.hpp"
#include "seeded_world.hpp"
#include "world_run.hpp"

#include <condition_variable>
#include <mutex>

namespace {

using namespace seeded_world;

std::vector<known_case> known_of(std::string const& kind)
{
  std::vector<known_case> found;
  for (world_case const& each : all_cases(4)) {
    if (each.name != kind) { continue; }
    auto [known, wrong] = learn(each);
    EXPECT_EQ(wrong, "");
    found.push_back(std::move(known));
  }
  return found;
}

// Runs with every loss of that kind of these ranks, at each message, in a few orders.
template <class IsMeant>
void expect_sound_at_each_loss(known_case const& known, loss what, IsMeant is_meant)
{
  for (std::size_t rank = 0; rank < known.each.ranks; ++rank) {
    for (std::size_t at = 1; at <= known.messages[0][rank] && is_meant(rank); ++at) {
      for (std::uint64_t seed = 0; seed < 2; ++seed) {
        drawn_run drawn;
        drawn.how.by_priority = seed == 1;
        drawn.network.seed = seed;
        drawn.network.usual_delay = std::chrono::microseconds(10);
        drawn.network.goes_wrong = {what, rank, at, 0, known.each.deadline * (2 + seed) / 4};
        choices from(seed);
        EXPECT_EQ(judge(known, drawn, execute(known.each, drawn, from)), "")
            << "rank " << rank << " at message " << at << ", seed " << seed;
      }
    }
  }
}

TEST(SeededWorld, RepeatsARunExactly)
{
  for (known_case const& known : known_of("step_balancer")) {
    std::set<std::uint64_t> traces;
    for (std::uint64_t const seed : {1U, 2U, 3U, 1U, 2U, 3U}) {
      choices from(seed);
      traces.insert(execute(known.each, {}, from).world.trace);
    }
    EXPECT_EQ(traces.size(), 3U);
  }
}

TEST(SeededWorld, SaysWhereAllWaitForEver)
{
  std::mutex mutex;
  std::condition_variable never;
  auto const waits = [&] {
    std::unique_lock lock(mutex);
    never.wait(lock);
  };
  choices from(1);
  auto const said = run(from, {}, {waits, [] {}, waits});
  EXPECT_EQ(said.how, ending::stuck);
  EXPECT_EQ(said.where,
            "thread 0 of body 0 waits for a condition, thread 2 of body 2 waits for a condition");
}

TEST(SeededWorld, FindsTheOrderInWhichAWakeUpIsLost)
{
  auto const ways = [](bool looks) {
    std::set<ending> ends;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> path;
    do {
      std::mutex mutex;
      std::condition_variable changed;
      bool done = false;
      choices from(path);
      auto const waits = [&] {
        std::unique_lock lock(mutex);
        if (!looks || !done) { changed.wait(lock); }
      };
      auto const wakes = [&] {
        std::lock_guard const lock(mutex);
        done = true;
        changed.notify_all();
      };
      ends.insert(run(from, {.most_preemptions = 1}, {waits, wakes}).how);
    } while (next_path(path));
    return ends;
  };
  EXPECT_THAT(ways(true), testing::ElementsAre(ending::all_ended));
  EXPECT_THAT(ways(false), testing::ElementsAre(ending::all_ended, ending::stuck));
}

TEST(SeededWorld, SleepsByAClockOfItsOwnAndJoinsThreads)
{
  choices from(1);
  std::vector<int> order;
  auto const body = [&] {
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::seconds(1));
      order.push_back(2);
    });
    order.push_back(1);
    other.join();
    order.push_back(3);
  };
  auto const said = run(from, {}, {body});
  EXPECT_EQ(said.how, ending::all_ended);
  EXPECT_THAT(order, testing::ElementsAre(1, 2, 3));
  EXPECT_GE(said.lasted, std::chrono::seconds(1));
}

// The last loader fell silent after the last step was announced: trainers waited for its payloads.
TEST(DataRanks, EndWhereverALoaderIsLost)
{
  for (known_case const& known : known_of("data pipeline")) {
    for (loss const what : {loss::silent, loss::cut}) {
      expect_sound_at_each_loss(known, what,
                                [&](std::size_t rank) { return rank + 1 == known.each.ranks; });
    }
  }
}

// What a loader sent that had just been given up took the place of another payload.
TEST(DataRanks, HaveTheirOwnPayloadsWhereALoaderIsLate)
{
  for (known_case const& known : known_of("data pipeline")) {
    if (known.each.spare.empty()) { continue; }  // there is no other loader
    std::size_t const loader = known.each.ranks - 1;
    for (std::size_t at = 1; at <= known.messages[0][loader]; ++at) {
      for (int more = 4; more < 12; ++more) {
        drawn_run drawn;
        drawn.network.usual_delay = std::chrono::microseconds(10);
        drawn.network.goes_wrong = {loss::late, loader, at, 0,
                                    std::chrono::microseconds(10'000 + 100 * more)};
        choices from(at);
        EXPECT_EQ(judge(known, drawn, execute(known.each, drawn, from)), "")
            << "late at message " << at << " by " << more;
      }
    }
  }
}

// A loader without memory gave up its payloads the first one first, so that the next one took its
// place; and a trainer that was told so ended the others, which took the data for complete.
TEST(DataRanks, EndWhereverALoaderLacksMemory)
{
  for (known_case const& known : known_of("data pipeline")) {
    std::size_t const loader = known.each.ranks - 1;
    for (std::size_t at = 1; at <= known.allocations[1][loader]; ++at) {
      for (std::uint64_t seed = 0; seed < 3; ++seed) {
        drawn_run drawn;
        drawn.over_threads = true;
        drawn.how.one_in = 1;
        drawn.lacks_memory = loader;
        drawn.allocation = at;
        choices from(seed);
        EXPECT_EQ(judge(known, drawn, execute(known.each, drawn, from)), "")
            << "allocation " << at << ", seed " << seed;
      }
    }
  }
}

TEST(BrokenCommunicators, TellAtOnceOfARankThatLeaves)
{
  for (known_case const& known : known_of("agree")) {
    for (std::size_t rank = 0; rank < known.each.ranks; ++rank) {
      for (std::size_t at = 1; at <= known.messages[1][rank]; ++at) {
        drawn_run drawn;
        drawn.over_threads = true;
        drawn.network.goes_wrong = {loss::closes, rank, at, 0, {}};
        choices from(at);
        EXPECT_EQ(judge(known, drawn, execute(known.each, drawn, from)), "");
      }
    }
  }
}

// What a rank says after its communicator broke was a copy that ended the program without memory.
TEST(BrokenCommunicators, SayWhyWhereMemoryIsShort)
{
  choices from(1);
  auto const body = [] {
    auto comms = ballast::thread_communicator::make(2);
    comms.pop_back();
    EXPECT_FALSE(comms[0].barrier());
    ballast_test::failing_allocation const failing(1);
    EXPECT_THROW((void)comms[0].wait(), std::bad_alloc);
  };
  EXPECT_EQ(run(from, {}, {body}).how, ending::all_ended);
}

}  // namespace
