// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm/thread_communicator.hpp>
#include <ballast/runtime/agreed_clock.hpp>
#include <ballast/topology/cluster.hpp>

#include "../support/test.hpp"

#include <stdexcept>

namespace {

using ballast::error_code;
using ballast::measure_links;
using ballast::thread_communicator;

static_assert(ballast::profiler_clock<ballast::agreed_clock<ballast::thread_communicator>>);

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

TEST(AgreedClock, IsThatOfTheSlowestRank)
{
  ballast::run_ranks(4, [&](auto& comm) {
    std::size_t const rank = to_index(comm.rank());
    ballast::agreed_clock clock(comm, constant_clock{static_cast<std::int64_t>(10 + rank % 3)});
    EXPECT_EQ(clock.time([] {}).value(), 12);
    EXPECT_EQ(clock.now().value(), 12);
  });
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

TEST(MeasureLinks, TellsAllRanksTheSameOfBothKinds)
{
  auto const nodes = ballast::cluster_of({3, 2, 1}).value().nodes;
  auto const all = ballast::run_ranks(6, [&](thread_communicator& comm) {
    return measure_links(comm, nodes, {.bytes = {16, 4096, 65'536}, .repeats = 2}).value();
  });
  for (ballast::measured_links const& each : all) {
    EXPECT_THAT(each.within_node,
                testing::AllOf(testing::SizeIs(3), testing::Each(testing::Gt(0))));
    EXPECT_EQ(each.within_node, all[0].within_node);
    EXPECT_EQ(each.between_nodes, all[0].between_nodes);
    EXPECT_THAT(each.between_nodes,
                testing::AllOf(testing::SizeIs(3), testing::Each(testing::Gt(0))));
  }
}

TEST(MeasureLinks, TellsAllRanksOfOtherSizes)  // Errors
{
  auto const nodes = ballast::cluster_of({2, 2}).value().nodes;
  ballast::run_ranks(4, [&](thread_communicator& comm) {
    std::size_t const last = comm.rank() < ballast::rank_id{2} ? 64 : 128;  // by pairs
    auto const found = measure_links(comm, nodes, {.bytes = {16, last}, .repeats = 1});
    ASSERT_FALSE(found);
    EXPECT_THAT(found.error().message,
                testing::HasSubstr("the nodes, sizes or repeats (ranks 2 and 3"));
  });
}

TEST(MeasureLinks, MeasuresNothingWhereThereIsNoPair)
{
  auto const lone = ballast::cluster_of(1).value().nodes;
  ballast::run_ranks(1, [&](thread_communicator& comm) {
    auto const found = measure_links(comm, lone).value();
    EXPECT_THAT(found.within_node, testing::IsEmpty());
    EXPECT_THAT(found.between_nodes, testing::IsEmpty());
    auto const machines = ballast::cluster_of(8).value();
    EXPECT_EQ(found.apply_to(machines), machines);
  });
}

TEST(MeasuredLinks, AreLatencyAndBandwidthOfACluster)
{
  ballast::measured_links const found{.bytes = {1000, 101'000},
                                      .within_node = {2e-6, 12e-6},      // 1e10 bytes per second
                                      .between_nodes = {6e-6, 106e-6}};  // 1e9
  auto const machines = found.apply_to(ballast::cluster_of(16).value());
  EXPECT_DOUBLE_EQ(machines.within_node_bytes_per_second, 1e10);
  EXPECT_DOUBLE_EQ(machines.between_nodes_bytes_per_second, 1e9);
  EXPECT_DOUBLE_EQ(machines.latency_seconds, 5e-6);
}

// Partners are mutual, and of the kind that is measured.
TEST(MeasureLinks, PairsRanks)
{
  auto const nodes = ballast::cluster_of({3, 4, 1, 2, 2}).value().nodes;
  for (std::size_t rank = 0; rank < nodes.gpus(); ++rank) {
    for (bool const same : {true, false}) {
      std::size_t const partner = ballast::detail::link_partner(nodes, rank, same);
      EXPECT_EQ(ballast::detail::link_partner(nodes, partner, same), rank);
      if (partner == rank) { continue; }
      bool const is_same = nodes.node_of(ballast::to_id<ballast::rank_id>(rank)) ==
                           nodes.node_of(ballast::to_id<ballast::rank_id>(partner));
      EXPECT_EQ(is_same, same);
    }
  }
}

}  // namespace
