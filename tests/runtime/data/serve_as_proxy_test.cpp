// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/data/serve_as_proxy.hpp>

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/runtime/data/data_pipeline.hpp>
#include <ballast/runtime/data/data_setup.hpp>
#include <ballast/runtime/data/data_trainer.hpp>
#include <ballast/runtime/data/serve_as_loader.hpp>
#include "../../support/test.hpp"
#include "../../support/trials.hpp"
#include "data_rank_checks.hpp"
#include "faulty_source.hpp"

#include <stdexcept>

namespace data_ranks_test {

using ballast::data_windows;
using ballast::loader_options;
using ballast::rank_id;
using ballast_test::by_length;
using ballast_test::error_of;
using ballast_test::faulty_source;
using ballast_test::run_ranks_that_stay;
using ballast_test::trained;
using std::chrono::milliseconds;
using testing::HasSubstr;

// Short beside all deadlines.
constexpr milliseconds step_of_time(20);

struct drawn_ranks {
  std::size_t trainers = 1;
  std::size_t loaders = 1;
  faulty_source source;
  ballast::data_setup setup;
  data_windows<> windows = {};
  loader_options options = {};
  std::string state = {};
  std::size_t most_steps = 1'000'000;
  std::size_t sound = 1;  // the last loaders, which neither throw nor are slow
};

// Threads cannot be killed: a loader that throws says so, and one that sleeps is given up.
std::vector<trained> run(drawn_ranks const& drawn)
{
  ballast_test::passing_time const passes(step_of_time);
  auto const part = [&](ballast::thread_communicator& comm) {
    trained own;
    auto const rank = to_index(comm.rank());
    auto const proxy = ballast::to_id<rank_id>(drawn.trainers);
    if (rank < drawn.trainers) {
      own = ballast_test::train_as(comm, proxy, drawn.options, drawn.most_steps);
    } else if (comm.rank() == proxy) {
      own.error = error_of(serve_as_proxy(comm, drawn.trainers, by_length{drawn.trainers},
                                          drawn.setup, drawn.windows, drawn.options, drawn.state));
    } else {
      faulty_source source = drawn.source;
      source.seed += rank;
      if (rank + drawn.sound >= comm.size()) {
        source.throws_per_mille = source.slow_per_mille = 0;
      }
      own.error = error_of(serve_as_loader(comm, proxy, source));
    }
    return own;
  };
  return run_ranks_that_stay(drawn.trainers + 1 + drawn.loaders, std::chrono::seconds(60), part);
}

std::vector<std::uint64_t> expected_digests(drawn_ranks const& drawn)
{
  faulty_source const sound{.bad = drawn.source.bad};
  ballast::data_pipeline plain(sound, by_length{1}, 1, drawn.setup, drawn.windows);
  std::vector<std::uint64_t> all;
  while (auto const batch = plain.next(rank_id{0}).value()) {
    all.push_back(batch->step->digest());
  }
  return all;
}

TEST(ServeAsProxy, GivesWhatOneProcessWould)  // Ensures (1) (2) (3), and resumes
{
  ballast::random_source random(15);
  for (int trial = 0; trial < ballast_test::trials_of(8); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    drawn_ranks drawn;
    drawn.trainers = 1 + random.below(3);
    drawn.loaders = 2 + random.below(3);
    drawn.setup = {.samples = 20 + random.below(30),
                   .step_samples = 4 + random.below(5),
                   .epochs = 2,
                   .seed = random()};
    drawn.windows = {.steps = 1 + random.below(3), .held_back = random.below(3)};
    drawn.source.bad = {random.below(drawn.setup.samples)};
    auto const expected = expected_digests(drawn);

    drawn.source.seed = random();
    drawn.source.throws_per_mille = drawn.loaders > 2 ? 5 : 0;
    drawn.source.slow_per_mille = drawn.loaders > 3 && trial % 4 == 0 ? 5 : 0;
    drawn.source.slow = milliseconds(600);
    drawn.options = {.most = 4, .late_after = milliseconds(500)};
    auto const all = run(drawn);
    auto const& proxy = all[drawn.trainers];
    ASSERT_EQ(proxy.error, "");
    std::vector<std::uint64_t> samples;
    for (std::size_t rank = 0; rank < drawn.trainers; ++rank) {
      ASSERT_EQ(all[rank].error, "");
      ASSERT_EQ(all[rank].digests, expected);
      samples.insert(samples.end(), all[rank].samples.begin(), all[rank].samples.end());
    }
    std::ranges::sort(samples);
    ASSERT_EQ(samples.size(), 2 * (drawn.setup.samples - 1));
    for (std::size_t at = 0; at < samples.size(); at += 2) {
      ASSERT_EQ(samples[at], samples[at + 1]);
      ASSERT_TRUE(at == 0 || samples[at] != samples[at - 1]);
    }

    // Stopped early, and gone on with another number of ranks.
    drawn.most_steps = 1 + random.below(expected.size());
    auto const part = run(drawn).front();
    drawn.state = part.state;
    drawn.most_steps = 1'000'000;
    drawn.trainers = 1 + random.below(3);
    auto joined = part.digests;
    auto const rest = run(drawn).front();
    joined.insert(joined.end(), rest.digests.begin(), rest.digests.end());
    ASSERT_EQ(joined, expected);
  }
}

TEST(ServeAsProxy, NamesALoaderThatIsLost)
{
  drawn_ranks drawn{.trainers = 2,
                    .loaders = 3,
                    .source = {.throws_per_mille = 1000},
                    .setup = {.samples = 60, .step_samples = 6}};
  auto const all = run(drawn);
  EXPECT_EQ(all[0].error, "");
  std::size_t gone = 0;
  for (std::size_t rank = 3; rank < 6; ++rank) {
    if (all[rank].error.empty()) { continue; }
    ++gone;
    EXPECT_THAT(all[rank].error, HasSubstr("load() threw: the disk is gone"));
    EXPECT_THAT(all[0].news,
                testing::Contains(HasSubstr("loader " + std::to_string(rank) +
                                            " was lost: load() threw: the disk is gone; ")));
  }
  EXPECT_GE(gone, 1U);
  EXPECT_EQ(all[5].error, "");
}

TEST(ServeAsProxy, StopsWhenNoLoaderIsLeft)
{
  drawn_ranks drawn{.trainers = 2,
                    .loaders = 2,
                    .source = {.throws_per_mille = 1000},
                    .setup = {.samples = 60, .step_samples = 6},
                    .sound = 0};
  auto const all = run(drawn);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_THAT(all[rank].error, HasSubstr("2 loaders were lost, and none is left"));
  }
}

TEST(ServeAsProxy, TellsTrainersWhatStopsIt)
{
  drawn_ranks drawn{
      .trainers = 2,
      .loaders = 2,
      .source = {.bad = {7}},
      .setup = {.samples = 60, .step_samples = 6, .when_undecodable = ballast::undecodable::stops}};
  auto all = run(drawn);
  EXPECT_THAT(all[0].error, HasSubstr("sample 7 cannot be decoded: it is broken"));
  EXPECT_EQ(all[0].error, all[1].error);
  EXPECT_EQ(all[0].digests, all[1].digests);
  drawn.state = "nonsense";
  all = run(drawn);
  EXPECT_THAT(all[1].error, HasSubstr("the saved state has 'nonsense'"));
}

// Samples of another set: where they were longer, they are shorter.
struct other_source {
  [[nodiscard]] static ballast::result<ballast::loaded_sample> load(std::uint64_t sample)
  {
    return ballast::loaded_sample{{501 - faulty_source::lengths_of(sample)[0]}, {}};
  }
};

TEST(ServeAsProxy, TakesAStateOnlyOfTheSameData)
{
  drawn_ranks drawn{.source = {}, .setup = {.samples = 60, .step_samples = 6}, .most_steps = 3};
  std::string const state = run(drawn).front().state;
  auto const said = ballast::run_ranks(3, [&](ballast::thread_communicator& comm) {
    if (comm.rank() == rank_id{0}) { return ballast_test::train_as(comm, rank_id{1}, {}, 9).error; }
    return error_of(comm.rank() == rank_id{1}
                        ? serve_as_proxy(comm, 1, by_length{1}, drawn.setup, {}, {}, state)
                        : serve_as_loader(comm, rank_id{1}, other_source{}));
  });
  EXPECT_THAT(said, testing::Each(testing::MatchesRegex(
                        "sample [0-9]+ had length [0-9]+ when the state was saved, and has [0-9]+ "
                        "now; give the data with which it was saved")));
}

struct killed {};

// Two trainers, the proxy and two loaders, of whom one ends instead of a send. Threads cannot be
// killed: it keeps its communicator.
struct mortal_run {
  std::vector<trained> ranks;
  std::size_t sent = 0;  // by whoever ends
};

ballast::data_setup const mortal_setup{.samples = 30, .step_samples = 5, .epochs = 2, .seed = 4};
data_windows<> const mortal_windows{.steps = 3, .held_back = 1};

mortal_run run_until_one_ends(std::size_t who, std::size_t last, milliseconds deadline)
{
  mortal_run all;
  rank_id const proxy{2};
  loader_options const options{.least = 2, .late_after = milliseconds(300)};
  auto const part = [&](ballast::thread_communicator& plain) {
    trained own;
    bool const mortal = to_index(plain.rank()) == who;
    ballast_test::mortal_communicator comm(plain, mortal ? last : ~std::size_t{0},
                                           [] { throw killed{}; });
    try {
      if (comm.rank() < proxy) {
        own = ballast_test::train_as(comm, proxy, options, 1'000'000);
      } else if (comm.rank() == proxy) {
        own.error =
            error_of(serve_as_proxy(comm, 2, by_length{2}, mortal_setup, mortal_windows, options));
      } else {
        // The last one is slow, so that the other has many samples.
        auto const usual = std::chrono::microseconds(to_index(comm.rank()) == 4 ? 1000 : 0);
        own.error =
            error_of(serve_as_loader(comm, proxy, faulty_source{.bad = {5}, .usual = usual}));
      }
    } catch (killed const&) {
      own.error = "killed";
    }
    if (mortal) { all.sent = comm.sent; }
    return own;
  };
  all.ranks = run_ranks_that_stay(5, deadline, part);
  return all;
}

// Ten moments of what a rank has to say, at the same time. How much a loader has to say is not the
// same in all runs: of that the first twenty messages.
std::vector<mortal_run> run_until_one_ends_at_ten_moments(std::size_t who, milliseconds deadline)
{
  ballast_test::passing_time const passes(step_of_time);
  std::size_t const all = who > 2 ? 20 : run_until_one_ends(who, ~std::size_t{0}, deadline).sent;
  return ballast::run_ranks(10, [&](ballast::thread_communicator& comm) {
    return run_until_one_ends(who, all * to_index(comm.rank()) / 10, deadline);
  });
}

TEST(ServeAsProxy, TellsAllWhoIsGoneAndANewGroupGoesOn)
{
  milliseconds const deadline(700);
  auto const expected =
      expected_digests({.source = {.bad = {5}}, .setup = mortal_setup, .windows = mortal_windows});
  for (std::size_t const who : {1U, 2U}) {
    std::string const gone = who == 1 ? "rank 1, a trainer of the data pipeline, said nothing for"
                                      : "rank 2, the proxy of the data pipeline, said nothing for";
    auto const runs = run_until_one_ends_at_ten_moments(who, deadline);
    for (std::size_t moment = 0; moment < runs.size(); ++moment) {
      SCOPED_TRACE(testing::Message() << "rank " << who << " at moment " << moment);
      auto const& ranks = runs[moment].ranks;
      EXPECT_EQ(ranks[who].error, "killed");
      for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        // At the end some have all they need, or have been told that it is over.
        bool const last = who == 2 && moment == 9;
        bool const ends = rank == 0 ? ranks[rank].digests == expected : last;
        if (rank == who || (ends && ranks[rank].error.empty())) { continue; }
        EXPECT_THAT(ranks[rank].error, HasSubstr(gone)) << "said rank " << rank;
      }
      ballast::data_pipeline next(faulty_source{.bad = {5}}, by_length{1}, 1, mortal_setup,
                                  mortal_windows);
      trained const& survivor = ranks[0];
      if (!survivor.state.empty()) { ballast::or_throw(next.restore(survivor.state)); }
      auto joined = survivor.digests;
      while (auto const batch = next.next(rank_id{0}).value()) {
        joined.push_back(batch->step->digest());
      }
      EXPECT_EQ(joined, expected);
    }
  }
}

TEST(ServeAsProxy, LosesNoSampleWhenALoaderIsGoneAtAnyMoment)
{
  auto const expected =
      expected_digests({.source = {.bad = {5}}, .setup = mortal_setup, .windows = mortal_windows});
  for (auto const& each : run_until_one_ends_at_ten_moments(3, milliseconds(5000))) {
    EXPECT_EQ(each.ranks[3].error, "killed");
    for (std::size_t const rank : {0U, 1U, 2U, 4U}) { EXPECT_EQ(each.ranks[rank].error, ""); }
    EXPECT_EQ(each.ranks[0].digests, expected);
    EXPECT_EQ(each.ranks[1].digests, expected);
  }
}

// Six plans, each shorter than the deadline and together longer, while one loader is parked.
TEST(ServeAsProxy, IsHeardBetweenPlans)
{
  auto const slow = [](ballast::data_step const&, std::span<rank_id> owner) {
    ballast_test::hand_moved_clock::sleep(milliseconds(150));
    std::ranges::fill(owner, rank_id{0});
    return ballast::result<void>();
  };
  loader_options const options{.most = 1};
  ballast_test::passing_time const passes(step_of_time);
  auto const part = [&](ballast::thread_communicator& comm) {
    rank_id const proxy{1};
    if (comm.rank() < proxy) { return ballast_test::train_as(comm, proxy, options, 100).error; }
    return error_of(comm.rank() == proxy
                        ? serve_as_proxy(comm, 1, slow, {.samples = 12, .step_samples = 2},
                                         data_windows<>{.steps = 6, .held_back = 1}, options)
                        : serve_as_loader(comm, proxy, faulty_source{}));
  };
  auto const said = run_ranks_that_stay(4, milliseconds(600), part);
  EXPECT_THAT(said, testing::Each(""));
}

struct short_table {
  ballast::cost_units operator()(std::span<ballast::tokens const> lengths) const
  {
    if (lengths[0] > 400) { throw std::runtime_error("the table ends"); }
    return lengths[0];
  }
};

// What each rank says where the proxy is told so many trainers, and one rank calls as another part.
std::vector<std::string> said_by_all(std::size_t trainers, std::size_t loads_instead,
                                     std::size_t trains_instead, rank_id proxy_of_last)
{
  ballast_test::passing_time const passes(step_of_time);
  auto const part = [&](ballast::thread_communicator& comm) {
    auto const own = to_index(comm.rank());
    rank_id const proxy = own == 4 ? proxy_of_last : rank_id{2};
    if (own == 2) {
      data_windows const windows{
          .steps = 2, .held_back = 1, .policy = ballast::long_rounds{}, .cost = short_table{}};
      return error_of(serve_as_proxy(comm, trainers, by_length{2}, mortal_setup, windows));
    }
    if ((own < 2 && own != loads_instead) || own == trains_instead) {
      ballast::data_trainer data(comm, proxy);
      auto batch = data.next();
      while (batch && *batch) { batch = data.next(); }
      (void)data.finish();
      return batch ? "" : batch.error().message;
    }
    return error_of(serve_as_loader(comm, proxy, faulty_source{}));
  };
  return run_ranks_that_stay(5, milliseconds(500), part);
}

TEST(ServeAsProxy, TellsAllWhoseCostThrewOrWhoHasAnotherPart)
{
  constexpr std::size_t nobody = 9;
  EXPECT_THAT(said_by_all(2, nobody, nobody, rank_id{2}),
              testing::Each("the cost of data_windows threw: the table ends"));
  EXPECT_THAT(said_by_all(3, nobody, nobody, rank_id{2}),
              testing::Each("rank 2 calls serve_as_proxy with 3 trainers, whose proxy is rank 3; "
                            "give every rank the same number of trainers"));
  EXPECT_THAT(said_by_all(2, nobody, 3, rank_id{2}),
              testing::Each("rank 3 calls data_trainer, and the proxy was told of 2 trainers; give "
                            "every rank the same number of trainers"));
  EXPECT_THAT(
      said_by_all(2, 1, nobody, rank_id{2}),
      testing::Each(HasSubstr("rank 1 calls serve_as_loader, and the proxy was told of 2")));
  EXPECT_THAT(said_by_all(2, nobody, nobody, rank_id{1})[4],
              HasSubstr("rank 1, the proxy of the data pipeline, said nothing for 500 ms"));
}

// The third loader sleeps for longer than it may, and learns that it was given up.
TEST(ServeAsLoader, IsToldThatItWasGivenUp)
{
  ballast_test::passing_time const passes(step_of_time);
  auto const part = [&](ballast::thread_communicator& comm) {
    rank_id const proxy{1};
    loader_options const options{.least = 2, .late_after = milliseconds(300)};
    if (comm.rank() == rank_id{0}) {
      return ballast_test::train_as(comm, proxy, options, 1000).error;
    }
    if (comm.rank() == proxy) {
      return error_of(
          serve_as_proxy(comm, 1, by_length{1}, {.samples = 40, .step_samples = 4}, {}, options));
    }
    faulty_source source{.slow = milliseconds(600)};
    source.slow_per_mille = comm.rank() == rank_id{3} ? 1000 : 0;
    return error_of(serve_as_loader(comm, proxy, source));
  };
  auto const said = run_ranks_that_stay(4, ballast::default_deadline, part);
  EXPECT_THAT(said, testing::ElementsAre("", "", "",
                                         HasSubstr("rank 3 was silent for too long and "
                                                   "was given up as a loader")));
}

TEST(DataTrainer, IsALoopOfEachRank)
{
  ballast::data_setup const setup{.samples = 50, .step_samples = 8};
  ballast_test::faulty_source const source;
  ballast_test::by_length const plan{2};
  auto const trained = ballast::run_ranks(5, [&](ballast::thread_communicator& comm) {
    std::size_t samples = 0;
    // [ranks]
    rank_id const proxy{2};
    if (comm.rank() < proxy) {  // ranks 0 and 1 train
      ballast::data_trainer data(comm, proxy);
      while (auto const batch = data.next().value()) { samples += batch->own.size(); }
      ballast::or_throw(data.finish());
    } else if (comm.rank() == proxy) {
      ballast::or_throw(serve_as_proxy(comm, 2, plan, setup));
    } else {  // all others load
      ballast::or_throw(serve_as_loader(comm, proxy, source));
    }
    // [ranks]
    return samples;
  });
  EXPECT_EQ(trained[0] + trained[1], 50U);
}

TEST(DataTrainer, MayFinishBeforeTheLastStep)
{
  ballast::data_setup const setup{.samples = 500, .step_samples = 8};
  ballast_test::faulty_source const source;
  auto const steps = ballast::run_ranks(4, [&](ballast::thread_communicator& comm) {
    rank_id const proxy{1};
    if (comm.rank() == rank_id{0}) {
      return ballast_test::train_as(comm, proxy, {}, 3).digests.size();
    }
    auto const done = comm.rank() == proxy
                          ? serve_as_proxy(comm, 1, ballast_test::by_length{1}, setup)
                          : serve_as_loader(comm, proxy, source);
    EXPECT_TRUE(done) << done.error().message;
    return std::size_t{0};
  });
  EXPECT_EQ(steps[0], 3U);
}

}  // namespace data_ranks_test
