// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/data/data_pipeline.hpp>

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/runtime/data/data_setup.hpp>
#include <ballast/runtime/data/producer_count.hpp>
#include "../../support/test.hpp"
#include "../../support/trials.hpp"
#include "data_rank_checks.hpp"
#include "faulty_source.hpp"

#include <atomic>
#include <cstdlib>
#include <stdexcept>

namespace pipeline_of_data_test {

using ballast::data_pipeline;
using ballast::data_setup;
using ballast::data_windows;
using ballast::rank_id;
using ballast_test::by_length;
using ballast_test::faulty_source;
using ballast_test::hand_moved_clock;
using ballast_test::trained;
using std::chrono::milliseconds;
using testing::HasSubstr;

// Says when it acts, so that no loader is late but those that wait for the clock.
struct counted_source : faulty_source {
  [[nodiscard]] ballast::result<ballast::loaded_sample> load(std::uint64_t sample) const
  {
    hand_moved_clock::begin_to_act();
    hand_moved_clock::acts_until_here const ends;
    return faulty_source::load(sample);
  }
};

// What each rank sees of up to so many steps.
template <class Pipeline>
std::vector<trained> run(Pipeline& pipeline, std::size_t ranks, std::size_t most_steps = 1'000'000,
                         milliseconds computing = milliseconds(0))
{
  hand_moved_clock::begin_to_act(ranks);
  return ballast::run_ranks(ranks, [&](ballast::thread_communicator& comm) {
    hand_moved_clock::acts_until_here const ends;
    return ballast_test::take_steps(comm.rank(), most_steps, [&] {
      if (computing.count() > 0) { std::this_thread::sleep_for(computing); }
      return pipeline.next(comm.rank());
    });
  });
}

std::vector<std::uint64_t> all_samples(std::vector<trained> const& ranks)
{
  std::vector<std::uint64_t> all;
  for (trained const& each : ranks) {
    all.insert(all.end(), each.samples.begin(), each.samples.end());
  }
  std::ranges::sort(all);
  return all;
}

// 20 runs here; as many as BALLAST_DATA_RUNS says by hand.
int runs()
{
  char const* const asked = std::getenv("BALLAST_DATA_RUNS");
  return asked != nullptr ? std::atoi(asked) : ballast_test::trials_of(20);
}

TEST(DataPipeline, TrainsTheSameWhoeverIsLost)  // Ensures (1) (2), and resumes
{
  ballast_test::passing_time const passes(milliseconds(2));
  ballast::random_source random(5);
  for (int trial = 0; trial < runs(); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    data_setup const setup{.samples = 40 + random.below(40),
                           .step_samples = 6 + random.below(6),
                           .epochs = 2,
                           .seed = random(),
                           .fetched_ahead = 1 + random.below(2)};
    data_windows<> const windows{.steps = 1 + random.below(3), .held_back = random.below(3)};
    faulty_source const sound{.bad = {random.below(setup.samples)}};
    data_pipeline plain(sound, by_length{1}, 1, setup, windows);
    auto const expected = run(plain, 1).front();
    EXPECT_EQ(expected.error, "");
    std::vector<std::uint64_t> wanted;
    for (std::uint64_t sample = 0; sample < setup.samples; ++sample) {
      if (!sound.bad.contains(sample)) { wanted.insert(wanted.end(), 2, sample); }
    }

    counted_source faulty{sound};
    faulty.seed = random();
    faulty.throws_per_mille = static_cast<std::uint32_t>(random.below(60));
    faulty.slow_per_mille = static_cast<std::uint32_t>(random.below(30));
    faulty.slow = milliseconds(30);
    std::size_t const ranks = 1 + random.below(4);
    ballast::loader_options const options{.most = 1 + random.below(5),
                                          .late_after = milliseconds(10)};
    data_pipeline pipeline(faulty, by_length{ranks}, ranks, setup, windows, options);
    auto const found = run(pipeline, ranks);
    for (trained const& each : found) {
      ASSERT_EQ(each.error, "");
      ASSERT_EQ(each.digests, expected.digests);
      ASSERT_EQ(each.plans, found.front().plans);
    }
    ASSERT_EQ(all_samples(found), wanted);

    // Stopped at any step, and gone on with other ranks and loaders.
    std::size_t const stop = random.below(expected.states.size());
    std::size_t const others = 1 + random.below(3);
    data_pipeline resumed(faulty, by_length{others}, others, setup, windows, options);
    ballast::or_throw(resumed.restore(found.front().states[stop]));
    auto const rest = run(resumed, others);
    ASSERT_EQ(rest.front().error, "");
    auto joined = expected.digests;
    joined.resize(stop + 1);
    joined.insert(joined.end(), rest.front().digests.begin(), rest.front().digests.end());
    ASSERT_EQ(joined, expected.digests);
  }
}

TEST(DataPipeline, PlansWindowsByLengthsThatAreKnown)
{
  data_setup const setup{.samples = 60, .step_samples = 5};
  data_windows<> const windows{.steps = 4, .held_back = 2};
  data_pipeline decoded(faulty_source{}, by_length{2}, 2, setup, windows);
  data_pipeline known(ballast_test::measured_source{}, by_length{2}, 2, setup, windows);
  EXPECT_EQ(run(decoded, 2).front().digests, run(known, 2).front().digests);
}

// The samples of another set.
struct other_source : faulty_source {
  [[nodiscard]] static ballast::result<ballast::loaded_sample> load(std::uint64_t sample)
  {
    return ballast::loaded_sample{lengths_of(sample + 1), bytes_of(sample + 1)};
  }
};

TEST(DataPipeline, TakesAStateOnlyOfTheSameData)
{
  data_setup setup{.samples = 60, .step_samples = 5};
  data_pipeline pipeline(faulty_source{}, by_length{2}, 2, setup);
  auto const states = run(pipeline, 2, 5).front().states;
  data_pipeline same(faulty_source{}, by_length{1}, 1, setup);
  EXPECT_TRUE(same.restore(states[4]));
  EXPECT_EQ(run(same, 1).front().samples.size(), 35U);
  data_pipeline other(other_source{}, by_length{2}, 2, setup);
  auto const refused = other.restore(states[4]);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ballast::error_code::mismatch);
  EXPECT_THAT(refused.error().message, HasSubstr("when the state was saved, and has"));
  EXPECT_EQ(run(other, 2).back().error, refused.error().message);
  setup.samples = 61;
  data_pipeline grown(faulty_source{}, by_length{2}, 2, setup);
  EXPECT_THAT(grown.restore(states[4]).error().message, HasSubstr("of samples = 60, and"));
}

TEST(DataPipeline, NamesWhoIsLostAndWhatIsLeftOut)
{
  faulty_source source{.bad = {3}, .seed = 2, .throws_per_mille = 100};
  data_pipeline pipeline(source, by_length{1}, 1, {.samples = 50, .step_samples = 5});
  auto const all = run(pipeline, 1).front();
  EXPECT_EQ(all.error, "");
  EXPECT_THAT(all.news,
              testing::Contains("sample 3 cannot be decoded: it is broken; it is left out"));
  EXPECT_THAT(all.news,
              testing::Contains(testing::MatchesRegex(
                  "loader [0-9]+ was lost: load\\(\\) threw: the disk is gone; 1 sample was dealt "
                  "anew")));
}

TEST(DataPipeline, StopsEveryRankAtTheSameStep)  // Ensures (3)
{
  faulty_source source{.bad = {3}};
  data_setup const setup{
      .samples = 50, .step_samples = 5, .when_undecodable = ballast::undecodable::stops};
  data_pipeline pipeline(source, by_length{3}, 3, setup);
  auto const all = run(pipeline, 3);
  for (trained const& each : all) {
    EXPECT_THAT(each.error, HasSubstr("sample 3 cannot be decoded: it is broken"));
  }
}

// Of two samples the second one is broken, which shows while the step of the first is planned.
struct broken_meanwhile {
  std::uint64_t bad;
  std::atomic<bool>* planning;
  std::atomic<bool>* broken;

  [[nodiscard]] ballast::result<ballast::loaded_sample> load(std::uint64_t sample) const
  {
    if (sample != bad) { return faulty_source{}.load(sample); }
    while (!*planning) { std::this_thread::yield(); }
    *broken = true;
    return ballast::fail(ballast::error_code::bad_row, 0, "it is broken");
  }
};

TEST(DataPipeline, GivesEveryRankTheStepThatIsPlannedWhenAnErrorComes)  // Ensures (3)
{
  data_setup const setup{
      .samples = 2, .step_samples = 1, .when_undecodable = ballast::undecodable::stops};
  data_pipeline sound(faulty_source{}, by_length{1}, 1, setup);
  auto const expected = run(sound, 1).front();
  std::atomic<bool> planning = false;
  std::atomic<bool> broken = false;
  auto const plan = [&](ballast::data_step const& step, std::span<rank_id> owner) {
    planning = true;
    while (!broken) { std::this_thread::yield(); }
    std::this_thread::sleep_for(milliseconds(50));  // ranks hear of the error before this ends
    return by_length{3}(step, owner);
  };
  data_pipeline pipeline(broken_meanwhile{expected.samples[1], &planning, &broken}, plan, 3, setup,
                         data_windows<>{}, {.least = 2});
  for (trained const& each : run(pipeline, 3)) {
    EXPECT_THAT(each.digests, testing::ElementsAre(expected.digests[0]));
    EXPECT_THAT(each.error, HasSubstr("cannot be decoded: it is broken"));
  }
}

TEST(DataPipeline, GivesUpWhenTooManyLoadersAreLost)
{
  faulty_source source{.throws_per_mille = 1000};
  for (auto const& [most, lost] : {std::pair(0U, "1 loader was"), {3U, "4 loaders were"}}) {
    data_pipeline pipeline(source, by_length{1}, 1, {.samples = 50}, {}, {.most_lost = most});
    EXPECT_THAT(run(pipeline, 1).front().error,
                HasSubstr(lost + std::string(" lost, the last of them: load() threw: the disk")));
  }
}

TEST(DataPipeline, ReportsWhatThePlanGetsWrong)
{
  auto const nobody = [](ballast::data_step const&, std::span<rank_id> owner) {
    std::ranges::fill(owner, rank_id{2});
    return ballast::result<void>{};
  };
  data_pipeline wrong(faulty_source{}, nobody, 2, {.samples = 50, .step_samples = 5});
  EXPECT_THAT(run(wrong, 2).front().error, HasSubstr("to rank 2 of 2"));
  auto const throws = [](ballast::data_step const&, std::span<rank_id>) -> ballast::result<void> {
    throw std::runtime_error("no solver");
  };
  data_pipeline thrown(faulty_source{}, throws, 2, {.samples = 50, .step_samples = 5});
  EXPECT_THAT(run(thrown, 2).back().error, HasSubstr("the plan of a step threw: no solver"));
}

// Windows whose cost or policy throws once it has been called so often.
struct late_thrower {
  int calls = 0;
  std::shared_ptr<std::atomic<int>> called = std::make_shared<std::atomic<int>>(0);

  void count() const
  {
    if ((*called)++ == calls) { throw std::runtime_error("the table ends"); }
  }
  ballast::cost_units operator()(std::span<ballast::tokens const> lengths) const
  {
    count();
    return lengths[0];
  }
  void operator()(ballast::window_problem const& problem, std::span<ballast::cost_units> loads,
                  std::span<std::uint32_t> step) const
  {
    count();
    ballast::long_rounds{}(problem, loads, step);
  }
};

struct unmeasured_source : faulty_source {
  [[nodiscard]] static std::vector<ballast::tokens> lengths(std::uint64_t sample)
  {
    if (sample == 7) { throw std::runtime_error("no index"); }
    return lengths_of(sample);
  }
};

TEST(DataPipeline, ReportsWhatIsThrownInPlanningAWindow)
{
  data_setup const setup{.samples = 50, .step_samples = 5};
  auto const said = [&](auto const& source, auto const& windows) {
    data_pipeline pipeline(source, by_length{2}, 2, setup, windows);
    auto const all = run(pipeline, 2);
    EXPECT_EQ(all[0].error, all[1].error);
    EXPECT_EQ(all[0].digests, all[1].digests);
    return all[0].error;
  };
  std::string const cost = "the cost of data_windows threw: the table ends";
  std::string const policy = "the policy of data_windows threw: the table ends";
  for (int calls = 0; calls < 50; calls += 7) {
    data_windows const bad_cost{
        .steps = 3, .held_back = 1, .policy = ballast::long_rounds{}, .cost = late_thrower{calls}};
    EXPECT_EQ(said(faulty_source{}, bad_cost), cost);
    data_windows const again{
        .steps = 3, .held_back = 1, .policy = ballast::long_rounds{}, .cost = late_thrower{calls}};
    EXPECT_EQ(said(ballast_test::measured_source{}, again), cost);
  }
  for (int calls = 0; calls < 3; ++calls) {
    data_windows<late_thrower> const bad_policy{3, 1, {calls}, {}};
    EXPECT_EQ(said(faulty_source{}, bad_policy), policy);
    data_windows<late_thrower> const again{3, 1, {calls}, {}};
    EXPECT_EQ(said(ballast_test::measured_source{}, again), policy);
  }
  EXPECT_EQ(said(unmeasured_source{}, data_windows<>{.steps = 3}), "lengths() threw: no index");
}

TEST(DataPipeline, EndsWhileSamplesAreFetchedAhead)  // Ensures (4)
{
  faulty_source source{.usual = std::chrono::microseconds(300)};
  for (std::size_t steps = 0; steps < 5; ++steps) {
    data_pipeline pipeline(source, by_length{2}, 2, {.samples = 500, .step_samples = 5});
    EXPECT_EQ(run(pipeline, 2, steps).front().digests.size(), steps);
  }
}

TEST(DataPipeline, HasNothingToTrainOn)
{
  data_pipeline pipeline(faulty_source{}, by_length{1}, 1, {.samples = 0});
  EXPECT_TRUE(run(pipeline, 1).front().digests.empty());
}

// Slow until it is told otherwise.
struct improving_source {
  std::atomic<bool> const* is_slow;

  [[nodiscard]] ballast::result<ballast::loaded_sample> load(std::uint64_t sample) const
  {
    if (*is_slow) { std::this_thread::sleep_for(milliseconds(10)); }
    return faulty_source{}.load(sample);
  }
};

TEST(DataPipeline, StartsAndEndsThreadsAsRatesAskFor)
{
  std::atomic<bool> is_slow = true;
  data_pipeline pipeline(improving_source{&is_slow}, by_length{1}, 1,
                         {.samples = 400, .step_samples = 8}, {}, {.most = 3});
  (void)run(pipeline, 1, 5);
  EXPECT_EQ(pipeline.loaders(), 3U);
  // Now it computes much longer than one loader loads: one after the other ends.
  is_slow = false;
  (void)run(pipeline, 1, 25, milliseconds(60));
  EXPECT_LT(pipeline.loaders(), 3U);
}

TEST(LoaderOptions, GiveALoaderMinutesUnlessToldOtherwise)
{
  ballast::loader_options const options;
  EXPECT_GE(options.late_after, std::chrono::minutes(1));
  EXPECT_LE(options.least, options.most);
}

TEST(LoaderOptions, NeverGiveALoaderUpAtTheLargestTime)
{
  ballast_test::faulty_source const source{.usual = std::chrono::microseconds(500)};
  ballast::data_pipeline pipeline(source, ballast_test::by_length{1}, 1,
                                  {.samples = 20, .step_samples = 8}, {},
                                  {.late_after = std::chrono::milliseconds::max()});
  std::size_t samples = 0;
  while (auto const batch = pipeline.next(ballast::rank_id{0}).value()) {
    samples += batch->own.size();
    EXPECT_TRUE(batch->step->news.empty());
  }
  EXPECT_EQ(samples, 20U);
}

TEST(LoaderOptionsDeathTest, RefuseATimeThatIsNone)
{
  auto const make = [](std::chrono::milliseconds late_after) {
    ballast::data_pipeline pipeline(ballast_test::faulty_source{}, ballast_test::by_length{1}, 1,
                                    {.samples = 20}, {}, {.late_after = late_after});
  };
  EXPECT_DEATH(make(std::chrono::milliseconds(0)), "late_after is 0 ms");
  EXPECT_DEATH(make(std::chrono::milliseconds(-5)), "late_after is -5 ms");
}

// Oracle: adds loaders until they load a step, and a quarter more, in the time of one.
std::size_t counted(ballast::time_units loading, ballast::time_units computing, std::size_t least,
                    std::size_t most)
{
  std::size_t loaders = least;
  while (loaders < most &&
         static_cast<ballast::time_units>(loaders) * computing * 4 < loading * 5) {
    ++loaders;
  }
  return loaders;
}

TEST(ProducerCount, IsWhatLoadsAStepInTheTimeOfOne)  // Ensures (1)
{
  ballast::random_source random(4);
  for (int trial = 0; trial < 2000; ++trial) {
    std::size_t const least = 1 + random.below(3);
    std::size_t const most = least + random.below(9);
    auto const loading = random.between(0, 1000);
    auto const computing = random.between(0, 200);
    ballast::producer_count count(least, most);
    EXPECT_EQ(count.now(), least);
    EXPECT_EQ(count.after(loading, computing), counted(loading, computing, least, most))
        << loading << " " << computing;
  }
}

TEST(ProducerCount, GrowsAtOnceAndShrinksSlowly)  // Ensures (2)
{
  ballast::producer_count count(1, 8);
  EXPECT_EQ(count.after(400, 100), 5U);
  for (int step = 0; step < 3; ++step) { EXPECT_EQ(count.after(100, 100), 5U); }
  EXPECT_EQ(count.after(100, 100), 4U);
  for (int step = 0; step < 3; ++step) { EXPECT_EQ(count.after(100, 100), 4U); }
  EXPECT_EQ(count.after(400, 100), 5U);
  EXPECT_EQ(count.after(std::numeric_limits<ballast::time_units>::max(), 1), 8U);
}

}  // namespace pipeline_of_data_test
