// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/pipeline_setup.hpp>

#include "../support/test.hpp"
#include "../support/toy_pipeline.hpp"
#include "../support/trials.hpp"

#include <ballast/comm/communicator.hpp>
#include <ballast/comm/thread_communicator.hpp>
#include <ballast/runtime/pipeline_runner.hpp>

#include <mutex>

namespace {

using ballast::rank_id;
using ballast::rank_pair;
using ballast::result;
using ballast::thread_communicator;
using ballast::to_index;
using ballast::transfer_id;

/// Threads, and a list of who has sent to whom.
struct watched {
  thread_communicator& comm;
  std::set<rank_pair>& seen;
  std::mutex& mutex;

  [[nodiscard]] rank_id rank() const { return comm.rank(); }
  [[nodiscard]] std::size_t size() const { return comm.size(); }
  result<void> all_gather(std::span<std::byte const> send, std::span<std::byte> receive)
  {
    return comm.all_gather(send, receive);
  }
  result<void> all_to_all_v(std::span<std::byte const> send, std::span<std::size_t const> sent,
                            std::span<std::byte> receive, std::span<std::size_t const> received)
  {
    return comm.all_to_all_v(send, sent, receive, received);
  }
  result<void> wait() { return comm.wait(); }
  std::span<std::byte> scratch(std::size_t size) { return comm.scratch(size); }
  result<transfer_id> send(std::span<std::byte const> array, rank_id peer)
  {
    std::lock_guard const lock(mutex);
    seen.insert({rank(), peer});
    return comm.send(array, peer);
  }
  result<transfer_id> receive(std::span<std::byte> array, rank_id peer)
  {
    return comm.receive(array, peer);
  }
  result<void> start() { return comm.start(); }
  result<bool> is_done(transfer_id transfer) { return comm.is_done(transfer); }
  result<void> wait_for(transfer_id transfer) { return comm.wait_for(transfer); }
  bool cancel(transfer_id transfer) { return comm.cancel(transfer); }
};

std::set<rank_pair> who_sends(toy::job const& job)
{
  std::set<rank_pair> seen;
  std::mutex mutex;
  ballast::run_ranks(job.setup.grid.ranks(), [&](thread_communicator& comm) {
    watched each{comm, seen, mutex};
    auto runner = ballast::pipeline_runner<>::make(job.setup, comm.rank()).value();
    ballast::or_throw(runner.plan(job.plan));
    toy::stage stage(job, comm.rank());
    ballast::or_throw(runner.run(each, job.order, stage));
  });
  return seen;
}

TEST(PipelinePairs, AreThoseOfEveryRun)
{
  ballast::random_source random(71);
  for (int trial = 0; trial < ballast_test::trials_of(200); ++trial) {
    auto job = toy::draw(random, 10);
    auto const pairs = ballast::pipeline_pairs(job.setup);
    EXPECT_TRUE(std::ranges::is_sorted(pairs));
    EXPECT_EQ(std::ranges::adjacent_find(pairs), pairs.end());
    for (rank_pair const& each : who_sends(job)) {
      EXPECT_TRUE(std::ranges::binary_search(pairs, each)) << to_index(each.from);
    }
  }
}

TEST(PipelinePairs, AreNoMoreThanAChainNeeds)
{
  auto const job = toy::chain_job(4, 3);
  auto const seen = who_sends(job);
  EXPECT_THAT(ballast::pipeline_pairs(job.setup), testing::ElementsAreArray(seen));
}

}  // namespace
