// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/data/data_pipeline.hpp>

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/runtime/data/data_setup.hpp>
#include "../../support/test.hpp"
#include "data_rank_checks.hpp"
#include "faulty_source.hpp"

#include <atomic>
#include <cstdlib>
#include <stdexcept>

namespace pipeline_of_data_test {

using ballast::data_pipeline;
using ballast::data_setup;
using ballast::data_windows;
using ballast::loader_options;
using ballast::rank_id;
using ballast_test::by_frames;
using ballast_test::by_length;
using ballast_test::faulty_source;
using ballast_test::form;
using ballast_test::measured_source;
using ballast_test::run;
using ballast_test::trained;
using ballast_test::video_source;
using std::chrono::milliseconds;
using testing::HasSubstr;

// Both forms: loaders and trainers are threads, or ranks.
class DataPipeline : public testing::TestWithParam<form> {};
INSTANTIATE_TEST_SUITE_P(Forms, DataPipeline, testing::Values(form::threads, form::ranks),
                         [](auto const& each) {
                           return each.param == form::threads ? "threads" : "ranks";
                         });

std::vector<std::uint64_t> all_samples(std::vector<trained> const& ranks)
{
  std::vector<std::uint64_t> all;
  for (trained const& each : ranks) {
    all.insert(all.end(), each.samples.begin(), each.samples.end());
  }
  std::ranges::sort(all);
  return all;
}

// 10 runs here; as many as BALLAST_DATA_RUNS says by hand.
int runs()
{
  char const* const asked = std::getenv("BALLAST_DATA_RUNS");
  return asked != nullptr ? std::atoi(asked) : ballast_test::trials_of(10);
}

TEST_P(DataPipeline, TrainsTheSameWhoeverIsLost)  // Ensures (1) (2), and resumes
{
  ballast::random_source random(5);
  for (int trial = 0; trial < runs(); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    data_setup const setup{.samples = 40 + random.below(40),
                           .step_samples = 6 + random.below(6),
                           .epochs = 2,
                           .seed = random(),
                           .fetched_ahead = 1 + random.below(2)};
    data_windows const windows{.steps = 1 + random.below(3), .held_back = random.below(3)};
    faulty_source const sound{.bad = {random.below(setup.samples)}};
    auto const expected =
        run(form::threads, {}, sound, by_length{1}, setup, windows).trainers.front();
    EXPECT_EQ(expected.error, "");
    std::vector<std::uint64_t> wanted;
    for (std::uint64_t sample = 0; sample < setup.samples; ++sample) {
      if (!sound.bad.contains(sample)) { wanted.insert(wanted.end(), 2, sample); }
    }

    faulty_source faulty{sound};
    faulty.seed = random();
    faulty.throws_per_mille = static_cast<std::uint32_t>(random.below(60));
    faulty.slow_per_mille = static_cast<std::uint32_t>(random.below(30));
    faulty.slow = milliseconds(600);
    std::size_t const ranks = 1 + random.below(4);
    loader_options const options{.most = 1 + random.below(5), .late_after = milliseconds(500)};
    std::size_t const loaders = 2 + random.below(4);
    auto const found = run(GetParam(), {.trainers = ranks, .loaders = loaders}, faulty,
                           by_length{ranks}, setup, windows, options)
                           .trainers;
    for (trained const& each : found) {
      ASSERT_EQ(each.error, "");
      ASSERT_EQ(each.digests, expected.digests);
      ASSERT_EQ(each.plans, found.front().plans);
    }
    ASSERT_EQ(all_samples(found), wanted);

    // Stopped at any step, and gone on with other ranks and loaders.
    std::size_t const stop = random.below(expected.digests.size());
    std::size_t const others = 1 + random.below(3);
    auto const part =
        run(GetParam(), {.trainers = ranks, .loaders = loaders, .most_steps = stop + 1}, faulty,
            by_length{ranks}, setup, windows, options)
            .trainers.front();
    ASSERT_EQ(part.error, "");
    auto const rest = run(GetParam(), {.trainers = others, .state = part.state}, faulty,
                          by_length{others}, setup, windows, options)
                          .trainers.front();
    ASSERT_EQ(rest.error, "");
    auto joined = part.digests;
    joined.insert(joined.end(), rest.digests.begin(), rest.digests.end());
    ASSERT_EQ(joined, expected.digests);
  }
}

TEST_P(DataPipeline, GivesEachRankItsPartOfASampleWhoeverIsLost)
{
  ballast::random_source random(6);
  for (int trial = 0; trial < runs(); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    data_setup const setup{.samples = 30 + random.below(30), .step_samples = 6, .epochs = 2};
    std::size_t const ranks = 1 + random.below(4);
    video_source faulty;
    faulty.bad = {random.below(setup.samples)};
    faulty.throws_per_mille = trial < 2 ? 0 : static_cast<std::uint32_t>(random.below(60));
    auto const found =
        run(GetParam(), {.trainers = ranks, .loaders = 2 + random.below(3)}, faulty,
            by_frames{ranks}, setup, data_windows{.steps = 2, .held_back = 1}, {.most = 4})
            .trainers;
    std::vector<std::uint64_t> wanted;
    std::vector<std::uint64_t> bytes(ranks);
    for (std::uint64_t sample = 0; sample < setup.samples; ++sample) {
      if (faulty.bad.contains(sample)) { continue; }
      // Two ranks have the first byte of a sample without frames.
      bool const two = sample % 6 == 0 && ranks > 1;
      wanted.insert(wanted.end(), two ? 4 : 2, sample);
      auto const own = by_frames{ranks}.bytes_of(sample);
      for (std::size_t rank = 0; rank < ranks; ++rank) { bytes[rank] += 2 * own[rank]; }
    }
    ASSERT_EQ(all_samples(found), wanted);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      ASSERT_EQ(found[rank].error, "");
      ASSERT_EQ(found[rank].bytes, bytes[rank]);
      ASSERT_EQ(found[rank].plans, found.front().plans);
    }
  }
}

// Parts that are not those of the payload, or not the same again.
struct wrong_parts : video_source {
  ballast::data_part last{0, 1, 8};

  [[nodiscard]] ballast::result<ballast::loaded_sample> load(std::uint64_t sample) const
  {
    auto loaded = video_source::load(sample);
    if (loaded) { loaded->parts.push_back(last); }
    return loaded;
  }
};

TEST_P(DataPipeline, RefusesPartsThatAreNotThoseOfThePayload)
{
  data_setup const setup{.samples = 20, .step_samples = 5};
  for (ballast::data_part const last :
       {ballast::data_part{0, 1, 8}, {0, 1, ~std::uint64_t{0}}, {1, 1, 0}, {0, -1, 0}}) {
    for (trained const& each :
         run(GetParam(), {.trainers = 2}, wrong_parts{{}, last}, by_frames{2}, setup).trainers) {
      EXPECT_THAT(each.error, testing::MatchesRegex("sample [0-9]+ has [0-9]+ parts of a payload "
                                                    "of [0-9]+ bytes; load\\(\\) has to .*"));
    }
  }
}

TEST_P(DataPipeline, PlansWindowsByLengthsThatAreKnown)
{
  data_setup const setup{.samples = 60, .step_samples = 5};
  data_windows const windows{.steps = 4, .held_back = 2};
  auto const digests = [&](auto const& source) {
    return run(GetParam(), {.trainers = 2}, source, by_length{2}, setup, windows)
        .trainers.front()
        .digests;
  };
  EXPECT_EQ(digests(faulty_source{}), digests(measured_source{}));
}

// The samples of another set.
struct other_source : faulty_source {
  [[nodiscard]] static ballast::result<ballast::loaded_sample> load(std::uint64_t sample)
  {
    return ballast::loaded_sample{lengths_of(sample + 1), bytes_of(sample + 1)};
  }
};

TEST_P(DataPipeline, TakesAStateOnlyOfTheSameData)
{
  data_setup setup{.samples = 60, .step_samples = 5};
  auto const state =
      run(GetParam(), {.most_steps = 5}, faulty_source{}, by_length{1}, setup).trainers[0].state;
  auto const gone_on = [&](auto const& source, std::string const& from) {
    return run(GetParam(), {.trainers = 2, .state = from}, source, by_length{2}, setup).trainers;
  };
  EXPECT_EQ(all_samples(gone_on(faulty_source{}, state)).size(), 35U);
  for (trained const& each : gone_on(other_source{}, state)) {
    EXPECT_THAT(each.error, testing::MatchesRegex(
                                "sample [0-9]+ had length [0-9]+ when the state was saved, and has "
                                "[0-9]+ now; give the data with which it was saved"));
  }
  EXPECT_THAT(gone_on(faulty_source{}, "nonsense")[1].error,
              HasSubstr("the saved state has 'nonsense'"));
  setup.samples = 61;
  EXPECT_THAT(gone_on(faulty_source{}, state)[1].error, HasSubstr("of samples = 60, and"));
}

// Notes where the bytes of each sample lie.
struct noted_source {
  std::array<std::atomic<std::byte const*>, 20>* places;

  [[nodiscard]] ballast::result<ballast::loaded_sample> load(std::uint64_t sample) const
  {
    auto loaded = faulty_source{}.load(sample);
    (*places)[sample] = loaded->bytes.data();
    return loaded;
  }
};

TEST(DataPipelineOfThreads, HandsOverPayloadsWithoutACopy)
{
  std::array<std::atomic<std::byte const*>, 20> places{};
  data_pipeline pipeline(noted_source{&places}, by_length{1}, 1, {.samples = 20});
  std::size_t handed = 0;
  while (auto const batch = pipeline.next(rank_id{0}).value()) {
    for (auto const& own : batch->own) {
      EXPECT_EQ(own.bytes.data(), places[batch->step->samples[own.entry]]);
      ++handed;
    }
  }
  EXPECT_EQ(handed, 20U);
}

TEST(DataPipelineOfThreads, RefusesAStateOfOtherDataAtOnce)
{
  data_setup const setup{.samples = 60, .step_samples = 5};
  auto const state =
      run(form::threads, {.most_steps = 5}, faulty_source{}, by_length{1}, setup).trainers[0].state;
  data_pipeline other(other_source{}, by_length{1}, 1, setup);
  auto const refused = other.restore(state);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ballast::error_code::mismatch);
  EXPECT_EQ(other.next(rank_id{0}).error(), refused.error());
}

TEST_P(DataPipeline, NamesWhoIsLostAndWhatIsLeftOut)
{
  bool const replaced = GetParam() == form::threads;
  faulty_source const source{.bad = {3}, .seed = 2, .throws_per_mille = replaced ? 100U : 1000U};
  auto const [trainers, others] = run(GetParam(), {.trainers = 2, .loaders = 3}, source,
                                      by_length{2}, {.samples = 60, .step_samples = 6});
  for (trained const& each : trainers) {
    EXPECT_EQ(each.error, "");
    EXPECT_THAT(each.news,
                testing::Contains("sample 3 cannot be decoded: it is broken; it is left out"));
    EXPECT_THAT(each.news, testing::Contains(testing::MatchesRegex(
                               "loader [0-9]+ was lost: load\\(\\) threw: the disk is gone; "
                               "[0-9]+ samples? w[a-z]+ dealt anew")));
  }
  for (std::size_t other = 0; other < others.size(); ++other) {
    if (others[other].empty()) { continue; }
    EXPECT_THAT(others[other], HasSubstr("load() threw: the disk is gone"));
    EXPECT_THAT(trainers[0].news,
                testing::Contains(testing::StartsWith("loader " + std::to_string(2 + other) +
                                                      " was lost: load() threw")));
  }
}

TEST_P(DataPipeline, StopsEveryRankAtTheSameStep)  // Ensures (3)
{
  data_setup const setup{.samples = 50, .step_samples = 5, .stops_at_undecodable = true};
  auto const [trainers, others] =
      run(GetParam(), {.trainers = 3}, faulty_source{.bad = {3}}, by_length{3}, setup);
  for (trained const& each : trainers) {
    EXPECT_THAT(each.error, HasSubstr("sample 3 cannot be decoded: it is broken"));
    EXPECT_EQ(each.digests, trainers[0].digests);
  }
  EXPECT_THAT(others, testing::Each(trainers[0].error));
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

TEST_P(DataPipeline, GivesEveryRankTheStepThatIsPlannedWhenAnErrorComes)  // Ensures (3)
{
  data_setup const setup{.samples = 2, .step_samples = 1, .stops_at_undecodable = true};
  auto const expected = run(form::threads, {}, faulty_source{}, by_length{1}, setup).trainers[0];
  std::atomic<bool> planning = false;
  std::atomic<bool> broken = false;
  auto const plan = [&](ballast::data_step const& step, std::span<rank_id> owner) {
    planning = true;
    while (!broken) { std::this_thread::yield(); }
    std::this_thread::sleep_for(milliseconds(50));  // ranks hear of the error before this ends
    return by_length{3}(step, owner);
  };
  broken_meanwhile const source{expected.samples[1], &planning, &broken};
  auto const seen =
      run(GetParam(), {.trainers = 3}, source, plan, setup, data_windows{}, {.least = 2});
  for (trained const& each : seen.trainers) {
    EXPECT_THAT(each.digests, testing::ElementsAre(expected.digests[0]));
    EXPECT_THAT(each.error, HasSubstr("cannot be decoded: it is broken"));
  }
}

TEST_P(DataPipeline, GivesUpWhenTooManyLoadersAreLost)
{
  faulty_source const source{.throws_per_mille = 1000};
  for (auto const& [most, lost] : {std::pair(0U, "1 loader was"), {3U, "4 loaders were"}}) {
    auto const seen = run(GetParam(), {.loaders = 5, .last_is_sound = false}, source, by_length{1},
                          {.samples = 50, .step_samples = 10}, data_windows{},
                          {.least = 5, .most = 5, .most_lost = most});
    EXPECT_THAT(seen.trainers[0].error,
                HasSubstr(lost + std::string(" lost, the last of them: load() threw: the disk")));
  }
}

TEST_P(DataPipeline, ReportsWhatThePlanGetsWrong)
{
  data_setup const setup{.samples = 50, .step_samples = 5};
  auto const nobody = [](ballast::data_step const&, std::span<rank_id> owner) {
    std::ranges::fill(owner, rank_id{2});
    return ballast::result<void>{};
  };
  for (trained const& each :
       run(GetParam(), {.trainers = 2}, faulty_source{}, nobody, setup).trainers) {
    EXPECT_THAT(each.error, HasSubstr("to rank 2 of 2"));
  }
  auto const first_bytes = [](ballast::data_step const& step,
                              std::vector<ballast::data_share>& shares) {
    for (std::size_t entry = 0; entry + 1 < step.samples.size(); ++entry) {
      shares.push_back({entry, rank_id{0}, 0, step.parts_of(entry)[0].bytes});
    }
    return ballast::result<void>{};
  };
  auto const too_many = [](ballast::data_step const&, std::vector<ballast::data_share>& shares) {
    shares.push_back({1, rank_id{0}, 8, 4000});
    return ballast::result<void>{};
  };
  data_setup const two{.samples = 2, .step_samples = 2};
  auto const error_with = [&](auto const& plan) {
    return run(GetParam(), {.trainers = 2}, video_source{}, plan, two).trainers[1].error;
  };
  EXPECT_THAT(error_with(first_bytes),
              testing::MatchesRegex("the plan of step 0 gave nobody byte [0-9]+ of the [0-9]+ of "
                                    "sample [01]; give each to a rank"));
  EXPECT_THAT(error_with(too_many),
              HasSubstr("gave 4000 bytes from byte 8 of entry 1, of 2 samples, to rank 0 of 2"));
  auto const throws = [](ballast::data_step const&, std::span<rank_id>) -> ballast::result<void> {
    throw std::runtime_error("no solver");
  };
  for (trained const& each :
       run(GetParam(), {.trainers = 2}, faulty_source{}, throws, setup).trainers) {
    EXPECT_THAT(each.error, HasSubstr("the plan of a step threw: no solver"));
  }
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

TEST_P(DataPipeline, ReportsWhatIsThrownInPlanningAWindow)
{
  data_setup const setup{.samples = 50, .step_samples = 5};
  auto const said = [&](auto const& source, auto const& windows) {
    auto const all =
        run(GetParam(), {.trainers = 2}, source, by_length{2}, setup, windows).trainers;
    EXPECT_EQ(all[0].error, all[1].error);
    EXPECT_EQ(all[0].digests, all[1].digests);
    return all[0].error;
  };
  auto const said_by_both = [&](auto const& windows) {  // each with a count of its own
    return std::vector{said(faulty_source{}, windows()), said(measured_source{}, windows())};
  };
  for (int calls = 0; calls < 50; calls += 7) {
    auto const bad_cost = [&] {
      return data_windows{.steps = 3, .held_back = 1, .cost = late_thrower{calls}};
    };
    EXPECT_THAT(said_by_both(bad_cost),
                testing::Each("the cost of data_windows threw: the table ends"));
  }
  for (int calls = 0; calls < 3; ++calls) {
    auto const bad_policy = [&] {
      return data_windows{.steps = 3, .held_back = 1, .policy = late_thrower{calls}};
    };
    EXPECT_THAT(said_by_both(bad_policy),
                testing::Each("the policy of data_windows threw: the table ends"));
  }
  EXPECT_EQ(said(unmeasured_source{}, data_windows{.steps = 3}), "lengths() threw: no index");
}

TEST_P(DataPipeline, EndsWhileSamplesAreFetchedAhead)  // Ensures (4)
{
  faulty_source const source{.usual = std::chrono::microseconds(300)};
  for (std::size_t steps = 0; steps < 5; ++steps) {
    auto const seen = run(GetParam(), {.trainers = 2, .most_steps = steps}, source, by_length{2},
                          {.samples = 500, .step_samples = 5});
    for (trained const& each : seen.trainers) {
      EXPECT_EQ(each.digests.size(), steps);
      EXPECT_EQ(each.error, "");
    }
    EXPECT_THAT(seen.others, testing::Each(""));
  }
}

TEST_P(DataPipeline, HasNothingToTrainOn)
{
  auto const own =
      run(GetParam(), {}, faulty_source{}, by_length{1}, {.samples = 0}).trainers.front();
  EXPECT_TRUE(own.digests.empty());
  EXPECT_EQ(own.error, "");
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

TEST(DataPipelineOfThreads, StartsAndEndsThreadsAsRatesAskFor)
{
  std::atomic<bool> is_slow = true;
  data_pipeline pipeline(improving_source{&is_slow}, by_length{1}, 1,
                         {.samples = 400, .step_samples = 8}, {}, {.most = 3});
  for (int step = 0; step < 5; ++step) { (void)pipeline.next(rank_id{0}); }
  EXPECT_EQ(pipeline.loaders(), 3U);
  // Now it computes much longer than one loader loads: one after the other ends.
  is_slow = false;
  for (int step = 0; step < 25; ++step) {
    std::this_thread::sleep_for(milliseconds(60));
    (void)pipeline.next(rank_id{0});
  }
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
std::size_t counted(std::int64_t loading, std::int64_t computing, std::size_t least,
                    std::size_t most)
{
  std::size_t loaders = least;
  while (loaders < most && static_cast<std::int64_t>(loaders) * computing * 4 < loading * 5) {
    ++loaders;
  }
  return loaders;
}

// The number after a step of one sample and rank.
std::size_t after(ballast::detail::producer_count& count, std::int64_t loading,
                  std::int64_t computing)
{
  count.loaded(std::chrono::nanoseconds(loading));
  count.computed(std::chrono::nanoseconds(computing));
  count.stepped(1, 1);
  return count.now();
}

TEST(ProducerCount, IsWhatLoadsAStepInTheTimeOfOne)  // Ensures (1)
{
  ballast::random_source random(4);
  for (int trial = 0; trial < 2000; ++trial) {
    std::size_t const least = 1 + random.below(3);
    std::size_t const most = least + random.below(9);
    auto const loading = random.between(0, 1000);
    auto const computing = random.between(0, 200);
    ballast::detail::producer_count count(least, most);
    EXPECT_EQ(count.now(), least);
    EXPECT_EQ(after(count, loading, computing), counted(loading, computing, least, most))
        << loading << " " << computing;
  }
}

TEST(ProducerCount, CountsStepsOfSeveralSamplesAndRanks)
{
  ballast::detail::producer_count count(1, 8);
  count.loaded(milliseconds(10));
  for (int rank = 0; rank < 2; ++rank) { count.computed(milliseconds(30)); }
  count.stepped(6, 2);  // 60 ms of loading, 30 of computing, and a quarter more
  EXPECT_EQ(count.now(), 3U);
}

TEST(ProducerCount, GrowsAtOnceAndShrinksSlowly)  // Ensures (2)
{
  ballast::detail::producer_count count(1, 8);
  EXPECT_EQ(after(count, 400, 100), 5U);
  for (int step = 0; step < 3; ++step) { EXPECT_EQ(after(count, 400, 400), 5U); }
  EXPECT_EQ(after(count, 400, 400), 4U);
  for (int step = 0; step < 3; ++step) { EXPECT_EQ(after(count, 400, 400), 4U); }
  EXPECT_EQ(after(count, 400, 100), 5U);
  ballast::detail::producer_count slow(1, 8);
  EXPECT_EQ(after(slow, std::numeric_limits<std::int64_t>::max(), 1), 8U);
}

}  // namespace pipeline_of_data_test
