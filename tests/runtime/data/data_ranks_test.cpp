// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/data/data_ranks.hpp>

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/runtime/data/data_pipeline.hpp>
#include <ballast/runtime/data/data_setup.hpp>
#include "../../support/test.hpp"
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
using ballast_test::step_of_time;
using ballast_test::trained;
using std::chrono::milliseconds;
using testing::HasSubstr;

ballast::data_setup const mortal_setup{.samples = 30, .step_samples = 5, .epochs = 2, .seed = 4};
data_windows const mortal_windows{.steps = 3, .held_back = 1};

std::vector<std::uint64_t> expected_digests()
{
  return ballast_test::run(ballast_test::form::threads, {}, faulty_source{.bad = {5}}, by_length{1},
                           mortal_setup, mortal_windows)
      .trainers.front()
      .digests;
}

TEST(ServeAsProxy, StopsWhenNoLoaderIsLeft)
{
  auto const [trainers, others] = ballast_test::run(
      ballast_test::form::ranks, {.trainers = 2, .last_is_sound = false},
      faulty_source{.throws_per_mille = 1000}, by_length{2}, {.samples = 60, .step_samples = 6});
  std::string const none = "2 loaders were lost, and none is left";
  for (trained const& each : trainers) { EXPECT_THAT(each.error, HasSubstr(none)); }
  EXPECT_THAT(others[0], HasSubstr(none));
}

struct killed {};

// Two trainers, the proxy and two loaders, of whom one ends instead of a send. Threads cannot be
// killed: it keeps its communicator.
struct mortal_run {
  std::vector<trained> ranks;
  std::size_t sent = 0;  // by whoever ends
};

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
  auto const expected = expected_digests();
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
  auto const expected = expected_digests();
  for (auto const& each : run_until_one_ends_at_ten_moments(3, milliseconds(5000))) {
    EXPECT_EQ(each.ranks[3].error, "killed");
    for (std::size_t const rank : {0U, 1U, 2U, 4U}) { EXPECT_EQ(each.ranks[rank].error, ""); }
    EXPECT_EQ(each.ranks[0].digests, expected);
    EXPECT_EQ(each.ranks[1].digests, expected);
  }
}

// Four trainers share each video, and one of two loaders ends at one of ten moments.
TEST(ServeAsProxy, SendsEachItsFramesOnceThoughALoaderIsGone)
{
  ballast_test::passing_time const passes(step_of_time);
  rank_id const proxy{4};
  loader_options const options{.least = 2, .late_after = milliseconds(300)};
  ballast_test::by_frames const plan{4};
  auto const runs = ballast::run_ranks(10, [&](ballast::thread_communicator& moment) {
    return run_ranks_that_stay(7, milliseconds(5000), [&](ballast::thread_communicator& plain) {
      bool const mortal = plain.rank() == rank_id{5};
      ballast_test::mortal_communicator comm(
          plain, mortal ? 2 * to_index(moment.rank()) : ~std::size_t{0}, [] { throw killed{}; },
          proxy);
      try {
        if (comm.rank() < proxy) {
          trained own = ballast_test::train_as(comm, proxy, options, 1'000'000);
          // What is sent anew, since its loader was lost, may come twice.
          EXPECT_GE(comm.fetched, own.bytes);
          return own;
        }
        return trained{
            .error =
                error_of(comm.rank() == proxy
                             ? serve_as_proxy(comm, 4, plan, mortal_setup, mortal_windows, options)
                             : serve_as_loader(comm, proxy, ballast_test::video_source{}))};
      } catch (killed const&) {
        return trained{.error = "killed"};
      }
    });
  });
  std::vector<std::uint64_t> wanted(4);
  for (std::uint64_t sample = 0; sample < mortal_setup.samples; ++sample) {
    auto const own = plan.bytes_of(sample);
    for (std::size_t rank = 0; rank < 4; ++rank) { wanted[rank] += 2 * own[rank]; }
  }
  for (auto const& ranks : runs) {
    EXPECT_EQ(ranks[5].error, "killed");
    for (std::size_t rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(ranks[rank].error, "");
      EXPECT_EQ(ranks[rank].bytes, wanted[rank]);
      EXPECT_EQ(ranks[rank].digests, ranks[0].digests);
    }
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
                                         data_windows{.steps = 6, .held_back = 1}, options)
                        : serve_as_loader(comm, proxy, faulty_source{}));
  };
  auto const said = run_ranks_that_stay(4, milliseconds(600), part);
  EXPECT_THAT(said, testing::Each(""));
}

constexpr std::size_t nobody = 9;

struct short_table {
  ballast::tokens longest = 400;

  ballast::cost_units operator()(std::span<ballast::tokens const> lengths) const
  {
    if (lengths[0] > longest) { throw std::runtime_error("the table ends"); }
    return lengths[0];
  }
};

// What each rank says where the proxy is told so many trainers, and one rank calls as another part;
// else where a cost throws, which would end it as well.
std::vector<std::string> said_by_all(std::size_t trainers, std::size_t loads_instead,
                                     std::size_t trains_instead, rank_id proxy_of_last)
{
  ballast_test::passing_time const passes(step_of_time);
  bool const right = trainers == 2 && std::min(loads_instead, trains_instead) == nobody;
  auto const part = [&](ballast::thread_communicator& comm) {
    auto const own = to_index(comm.rank());
    rank_id const proxy = own == 4 ? proxy_of_last : rank_id{2};
    if (own == 2) {
      data_windows const windows{
          .steps = 2, .held_back = 1, .cost = short_table{right ? 400 : 1000}};
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

}  // namespace data_ranks_test
