// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/data/data_ranks.hpp>

#include "../runtime/data/data_rank_checks.hpp"  // defines: ballast_test::{train_as, mortal_communicator, ...}
#include "../runtime/data/faulty_source.hpp"  // defines: ballast_test::faulty_source
#include "../support/test.hpp"
#include "mpi_world.hpp"  // defines: ballast_test::{over_world, world_processes, world_rank, ...}

#include <ballast/comm/mpi_communicator.hpp>
#include <ballast/runtime/data/data_pipeline.hpp>
#include <ballast/runtime/data/data_setup.hpp>

#include <mpi.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace mpi_data_test {

using ballast::rank_id;
using ballast_test::faulty_source;

ballast::data_setup const setup{.samples = 150, .step_samples = 8, .epochs = 2, .seed = 3};
ballast::loader_options const options{.most = 8, .late_after = std::chrono::seconds(5)};

std::vector<std::uint64_t> expected_digests(faulty_source const& source)
{
  ballast::data_pipeline plain(source, ballast_test::by_length{1}, 1, setup);
  std::vector<std::uint64_t> all;
  while (auto const batch = plain.next(rank_id{0}).value()) {
    all.push_back(batch->step->digest());
  }
  return all;
}

// Rank 0 and, where there are more than three, rank 1 train; then comes the proxy.
std::size_t trainers()
{
  return ballast_test::world_size() > 3 ? 2 : 1;
}

TEST(MpiDataRanks, TrainOnWhatOneProcessWould)
{
  if (ballast_test::world_size() < 3) { GTEST_SKIP() << "needs a trainer, a proxy and a loader"; }
  auto comm = ballast_test::over_world();
  auto const proxy = ballast::to_id<rank_id>(trainers());
  faulty_source const source{.bad = {5}};
  if (comm.rank() < proxy) {
    auto const own = ballast_test::train_as(comm, proxy, options, 1'000'000);
    EXPECT_EQ(own.error, "");
    EXPECT_EQ(own.digests, expected_digests(source));
  } else if (comm.rank() == proxy) {
    auto const done =
        serve_as_proxy(comm, trainers(), ballast_test::by_length{trainers()}, setup, {}, options);
    EXPECT_TRUE(done) << done.error().message;
  } else {
    auto const done = serve_as_loader(comm, proxy, source);
    EXPECT_TRUE(done) << done.error().message;
  }
  // No message is left that would meet the next ones between two ranks.
  std::vector<std::byte> const own(3, static_cast<std::byte>(to_index(comm.rank())));
  for (std::size_t away = 0; away < comm.size(); ++away) {
    std::size_t const to = (to_index(comm.rank()) + away) % comm.size();
    std::size_t const from = (to_index(comm.rank()) + comm.size() - away) % comm.size();
    std::vector<std::byte> other(3);
    auto const sent = comm.send(own, ballast::to_id<rank_id>(to)).value();
    auto const received = comm.receive(other, ballast::to_id<rank_id>(from)).value();
    ballast::or_throw(comm.wait_for(received));
    ballast::or_throw(comm.wait_for(sent));
    EXPECT_EQ(other, std::vector(3, static_cast<std::byte>(from)));
  }
}

// Four trainers share each video: what each receives from the two loaders are its own frames and
// texts, and no other bytes.
TEST(MpiDataRanks, FetchTheFramesThatTheyCompute)
{
  if (ballast_test::world_size() != 8) { GTEST_SKIP() << "needs 4 trainers, a proxy, 3 loaders"; }
  auto plain = ballast_test::over_world();
  rank_id const proxy{4};
  ballast_test::mortal_communicator comm(plain, ~std::size_t{0}, [] {}, proxy);
  ballast_test::by_frames const plan{4};
  if (comm.rank() > proxy) {
    auto const done = serve_as_loader(comm, proxy, ballast_test::video_source{});
    EXPECT_TRUE(done) << done.error().message;
    return;
  }
  if (comm.rank() == proxy) {
    auto const done = serve_as_proxy(comm, 4, plan, setup, {}, options);
    EXPECT_TRUE(done) << done.error().message;
    return;
  }
  auto const own = ballast_test::train_as(comm, proxy, options, 1'000'000);
  EXPECT_EQ(own.error, "");
  std::uint64_t wanted = 0;
  for (std::uint64_t sample = 0; sample < setup.samples; ++sample) {
    wanted += setup.epochs * plan.bytes_of(sample)[to_index(comm.rank())];
  }
  EXPECT_EQ(own.bytes, wanted);
  EXPECT_EQ(comm.fetched, wanted);
}

// Loads like the other, and dies or stops at some call.
struct mortal_source {
  faulty_source source;
  std::uint64_t last_call = 0;
  int signal = 0;

  [[nodiscard]] ballast::result<ballast::loaded_sample> load(std::uint64_t sample) const
  {
    if (signal != 0 && source.calls->load() == last_call) { std::raise(signal); }
    return source.load(sample);
  }
};

// The first two loaders are killed, the third is stopped, each at any time.
TEST(MpiDataDeath, LosesNoSample)
{
  char const* const asked = std::getenv("BALLAST_DATA_SEED");
  ballast::random_source random(asked != nullptr ? std::strtoull(asked, nullptr, 10) : 1);
  auto const processes = ballast_test::world_processes();
  auto comm = ballast_test::over_world();
  auto const proxy = ballast::to_id<rank_id>(trainers());
  std::vector<std::uint64_t> last_calls;
  for (int loader = 0; loader < 3; ++loader) { last_calls.push_back(random.below(60)); }
  faulty_source const source{.bad = {5}, .usual = std::chrono::microseconds(200)};
  if (comm.rank() > proxy) {
    std::size_t const own = to_index(comm.rank()) - trainers() - 1;
    mortal_source mortal{source};
    if (own < 3 && own + 1 < comm.size() - trainers() - 1) {
      mortal.last_call = last_calls[own];
      mortal.signal = own == 2 ? SIGSTOP : SIGKILL;
    }
    (void)serve_as_loader(comm, proxy, mortal);
    _exit(0);  // MPI_Finalize would wait for the dead
  }
  if (comm.rank() == proxy) {
    auto const done =
        serve_as_proxy(comm, trainers(), ballast_test::by_length{trainers()}, setup, {}, options);
    if (!done) { std::printf("%s\n", done.error().message.c_str()); }
    _exit(0);
  }
  auto const own = ballast_test::train_as(comm, proxy, options, 1'000'000);
  int good = own.error.empty() && own.digests == expected_digests(source) ? 1 : 0;
  std::uint64_t samples = own.samples.size();
  if (comm.rank() != rank_id{0}) {
    MPI_Send(&good, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    MPI_Send(&samples, 1, MPI_UINT64_T, 0, 0, MPI_COMM_WORLD);
  } else {
    int other = 0;
    std::uint64_t theirs = 0;
    MPI_Recv(&other, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(&theirs, 1, MPI_UINT64_T, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    std::printf("%d of 2 trainers agree on all steps, with %d of 298 samples\n", good + other,
                static_cast<int>(samples + theirs));
    for (std::string const& each : own.news) { std::printf("%s\n", each.c_str()); }
    if (!own.error.empty()) { std::printf("%s\n", own.error.c_str()); }
    std::fflush(stdout);
    if (comm.size() > trainers() + 3) { kill(processes[trainers() + 3], SIGKILL); }
  }
  _exit(0);
}

// What all processes see, also while others are dead.
struct seen_by_all {
  std::atomic<int> named{0};  // survivors who named who is gone
  std::atomic<int> again{0};  // groups that went on to the end
  std::atomic<int> ready{0};
};

// Three groups of two trainers, a proxy and a loader, at the same time: in the first a trainer is
// killed, in the second the proxy, in the third it is stopped, each in the middle of a message.
TEST(MpiDataSurvivors, NameWhoIsGoneAndGoOn)
{
  ASSERT_EQ(ballast_test::world_size(), 12U);
  auto const processes = ballast_test::world_processes();
  std::size_t const world = ballast_test::world_rank();
  ballast_test::shared_object<seen_by_all> const shared;
  seen_by_all& all = *shared;

  std::size_t const group = world / 4;
  MPI_Comm part = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, static_cast<int>(group), 0, &part);
  auto plain = ballast::mpi_communicator::over(part, {.deadline = std::chrono::seconds(6)}).value();
  std::size_t const gone = group == 0 ? 1 : 2;
  bool const ends = to_index(plain.rank()) == gone;
  ballast_test::mortal_communicator comm(plain, ends ? 60 : ~std::size_t{0},
                                         [&] { std::raise(group == 2 ? SIGSTOP : SIGKILL); });
  rank_id const proxy{2};
  faulty_source const source{.bad = {5}};
  ballast_test::trained own;
  if (comm.rank() < proxy) {
    own = ballast_test::train_as(comm, proxy, options, 1'000'000);
  } else {
    auto const done = comm.rank() == proxy
                          ? serve_as_proxy(comm, 2, ballast_test::by_length{2}, setup, {}, options)
                          : serve_as_loader(comm, proxy, source);
    if (!done) { own.error = done.error().message; }
  }
  std::string const who = "rank " + std::to_string(gone) + ", ";
  if (own.error.starts_with(who)) { ++all.named; }
  if (comm.rank() == rank_id{0}) {
    ballast::data_pipeline next(source, ballast_test::by_length{1}, 1, setup);
    if (!own.state.empty()) { ballast::or_throw(next.restore(own.state)); }
    while (auto const batch = next.next(rank_id{0}).value()) {
      own.digests.push_back(batch->step->digest());
    }
    if (own.digests == expected_digests(source)) { ++all.again; }
  }
  ++all.ready;
  if (world == 0) {
    auto const limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (all.ready < 9 && std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    std::printf("%d of 9 survivors named who was gone, and %d of 3 groups went on\n",
                all.named.load(), all.again.load());
    std::fflush(stdout);
    kill(processes[10], SIGKILL);
  }
  _exit(0);  // MPI_Finalize would wait for the dead
}

}  // namespace mpi_data_test
