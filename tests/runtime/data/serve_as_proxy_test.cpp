// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/data/serve_as_proxy.hpp>

#include <ballast/comm/run_ranks.hpp>
#include <ballast/comm/thread_communicator.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/result.hpp>
#include <ballast/runtime/data/data_batch.hpp>
#include <ballast/runtime/data/data_pipeline.hpp>
#include <ballast/runtime/data/data_setup.hpp>
#include <ballast/runtime/data/data_step.hpp>
#include <ballast/runtime/data/data_trainer.hpp>
#include <ballast/runtime/data/data_windows.hpp>
#include <ballast/runtime/data/loader_options.hpp>
#include <ballast/runtime/data/serve_as_loader.hpp>
#include "../../support/trials.hpp"
#include "data_rank_checks.hpp"
#include "faulty_source.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace data_ranks_test {

using ballast::data_setup;
using ballast::data_windows;
using ballast::loader_options;
using ballast::rank_id;
using ballast_test::by_length;
using ballast_test::faulty_source;
using ballast_test::trained;
using std::chrono::milliseconds;
using testing::HasSubstr;

struct drawn_ranks {
  std::size_t trainers = 1;
  std::size_t loaders = 1;
  faulty_source source;
  data_setup setup;
  data_windows<> windows = {};
  loader_options options = {};
  std::string state = {};
  std::size_t most_steps = 1'000'000;
  std::size_t sound = 1;  // the last loaders, which neither throw nor are slow
};

// Threads cannot be killed: a loader that throws says so, and one that sleeps is given up. Both
// keep their communicator to the end, as a rank that left would break it.
std::vector<trained> run(drawn_ranks const& drawn)
{
  std::atomic<bool> over = false;
  auto all = ballast::run_ranks(
      drawn.trainers + 1 + drawn.loaders,
      [&](ballast::thread_communicator& comm) {
        trained own;
        auto const rank = to_index(comm.rank());
        auto const proxy = ballast::to_id<rank_id>(drawn.trainers);
        if (rank < drawn.trainers) {
          own = ballast_test::train_as(comm, proxy, drawn.options, drawn.most_steps);
        } else if (comm.rank() == proxy) {
          auto const done = serve_as_proxy(comm, drawn.trainers, by_length{drawn.trainers},
                                           drawn.setup, drawn.windows, drawn.options, drawn.state);
          if (!done) { own.error = done.error().message; }
          over = true;
        } else {
          faulty_source source = drawn.source;
          source.seed += rank;
          if (rank + drawn.sound >= comm.size()) {
            source.throws_per_mille = source.slow_per_mille = 0;
          }
          auto const done = serve_as_loader(comm, proxy, source);
          if (!done) { own.error = done.error().message; }
        }
        while (!over) { std::this_thread::sleep_for(milliseconds(1)); }
        return own;
      },
      std::chrono::seconds(60));
  return all;
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
    drawn.source.slow = milliseconds(1200);
    drawn.options = {.most = 4, .late_after = milliseconds(1000)};
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

}  // namespace data_ranks_test
