// SPDX-License-Identifier: Apache-2.0
#include "../../examples/common/baselines/all_gather_dispatch.hpp"
#include "../route/instances.hpp"
#include "../support/counted_allocations.hpp"
#include "../support/test.hpp"

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/route.hpp>

namespace {

using namespace ballast;
using baselines::price_all_gather;

constexpr std::chrono::seconds patience(20);

// A communicator that notes how much extra memory an exchange asks for.
struct watched_communicator : ballast::thread_communicator {
  explicit watched_communicator(ballast::thread_communicator inner)
      : thread_communicator(std::move(inner))
  {}
  [[nodiscard]] std::span<std::byte> scratch(std::size_t bytes)
  {
    peak_bytes = std::max(peak_bytes, bytes);
    return thread_communicator::scratch(bytes);
  }

  std::size_t peak_bytes = 0;
};
static_assert(ballast::communicator<watched_communicator>);

// Three arrays of different widths and types, filled so that every row of every rank differs.
struct local_arrays {
  std::vector<float> activation;
  std::vector<std::int32_t> tag;
  std::vector<std::array<std::byte, 5>> odd;

  static constexpr std::size_t width = 3;

  explicit local_arrays(tokens rows, std::uint64_t seed = 0)
      : activation(static_cast<std::size_t>(rows) * width),
        tag(static_cast<std::size_t>(rows)),
        odd(static_cast<std::size_t>(rows))
  {
    ballast::random_source random(seed);
    for (float& each : activation) { each = static_cast<float>(random.below(1 << 20)); }
    for (std::int32_t& each : tag) { each = static_cast<std::int32_t>(random.below(1 << 20)); }
    for (auto& each : odd) {
      for (std::byte& byte : each) { byte = static_cast<std::byte>(random.below(256)); }
    }
  }

  friend bool operator==(local_arrays const&, local_arrays const&) = default;
};

template <class Exchange>
result<void> exchange(local_arrays const& from, local_arrays& to, Exchange const& run)
{
  return run(ballast::rows_of(from.activation, to.activation, local_arrays::width),
             ballast::rows_of(from.tag, to.tag), ballast::rows_of(from.odd, to.odd));
}

void expect_the_result_of_a_route(std::size_t ranks, placement const& read,
                                  placement const& computed)
{
  ballast::run_ranks(
      ranks,
      [&](ballast::thread_communicator& comm) {
        local_arrays const before(read.rows(comm.rank()), 1 + to_index(comm.rank()));
        local_arrays routed(computed.rows(comm.rank()));
        local_arrays gathered(computed.rows(comm.rank()));
        auto const plan = ballast::plan_route(read, computed, comm.rank());
        ballast::workspace memory;
        EXPECT_TRUE(exchange(before, routed, [&](auto const&... arrays) {
          return ballast::route(comm, plan, memory, arrays...);
        }));
        EXPECT_TRUE(exchange(before, gathered, [&](auto const&... arrays) {
          return baselines::all_gather_dispatch(comm, read, computed, arrays...);
        }));
        EXPECT_EQ(gathered, routed);
      },
      patience);
}

TEST(AllGatherDispatch, DoesWhatRouteDoesByteForByte)  // Ensures (1)
{
  ballast::random_source random(20240607);
  for (std::size_t ranks = 1; ranks <= 8; ++ranks) {
    for (std::size_t const samples : {0U, 1U, 5U, 60U}) {
      SCOPED_TRACE(testing::Message() << ranks << " ranks, " << samples << " samples");
      auto const bags = ballast_test::random_bags(ranks, random);
      ballast_test::random_step const step(samples, bags, random);
      expect_the_result_of_a_route(ranks, step.read, step.computed);
      expect_the_result_of_a_route(ranks, step.computed, step.read);
    }
  }
}

TEST(AllGatherDispatch, TakesTheMemoryThatItsPriceSays)
{
  ballast::random_source random(11);
  constexpr std::size_t ranks = 4;
  constexpr std::size_t row_bytes = 64;  // whole messages: nothing is padded
  cluster const machines{.nodes = ballast::node_sizes::equal(2, 2)};
  auto const bags = ballast_test::random_bags(ranks, random);
  ballast_test::random_step const step(50, bags, random);
  auto const volume = ballast::measure_route(step.read, step.computed, machines);

  struct peaks {
    std::size_t gathered;
    std::size_t routed;
  };
  auto const peak = ballast::run_ranks(
      ranks,
      [&](ballast::thread_communicator& inner) {
        std::vector<std::byte> const before(static_cast<std::size_t>(step.read.rows(inner.rank())) *
                                            row_bytes);
        std::vector<std::byte> after(static_cast<std::size_t>(step.computed.rows(inner.rank())) *
                                     row_bytes);
        auto const rows = ballast::rows_of(before, after, row_bytes);
        auto const plan = ballast::plan_route(step.read, step.computed, inner.rank());
        ballast::workspace memory;
        watched_communicator comm(std::move(inner));
        EXPECT_TRUE(baselines::all_gather_dispatch(comm, step.read, step.computed, rows));
        std::size_t const gathered = std::exchange(comm.peak_bytes, 0);
        EXPECT_TRUE(ballast::route(comm, plan, memory, rows));
        return peaks{gathered, comm.peak_bytes};
      },
      patience);

  double most_routed = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    EXPECT_EQ(static_cast<double>(peak[rank].gathered),
              price_all_gather(step.read, machines, row_bytes).memory_bytes);
    auto const& [sent, received, kept] = volume.ranks[rank];
    EXPECT_EQ(peak[rank].routed, static_cast<std::size_t>(sent.all() + received.all()) * row_bytes);
    most_routed = std::max(most_routed, static_cast<double>(peak[rank].routed));
  }
  EXPECT_EQ(volume.price(machines, row_bytes).memory_bytes, most_routed);
}

TEST(AllGatherDispatch, AllocatesNothingInTheSteadyState)  // Ensures (2)
{
  std::array<tokens, 3> const lengths{4, 0, 9};
  auto const read = ballast::place(lengths, std::array{rank_id{0}, rank_id{0}, rank_id{1}}, 2);
  auto const computed = ballast::place(lengths, std::array{rank_id{1}, rank_id{1}, rank_id{0}}, 2);
  ballast::run_ranks(
      2,
      [&](ballast::thread_communicator& comm) {
        local_arrays const before(read.rows(comm.rank()), 5);
        local_arrays after(computed.rows(comm.rank()));
        auto const step = [&] {
          return exchange(before, after, [&](auto const&... arrays) {
            return baselines::all_gather_dispatch(comm, read, computed, arrays...);
          });
        };
        EXPECT_TRUE(step());
        EXPECT_TRUE(comm.barrier());
        auto const warm = ballast_test::allocations();
        EXPECT_TRUE(step());
        EXPECT_TRUE(comm.barrier());
        EXPECT_EQ(ballast_test::allocations(), warm);
        EXPECT_TRUE(comm.barrier());  // nobody leaves, which may allocate, before all have counted
      },
      patience);
}

// Padded, both take as many bytes.
TEST(AllGatherDispatch, TellsAllRanksOfOtherElements)  // Errors
{
  auto const where = ballast::place(std::array<tokens, 1>{1}, std::array{rank_id{0}}, 3);
  auto const there = ballast::place(std::array<tokens, 1>{1}, std::array{rank_id{2}}, 3);
  ballast::run_ranks(3, [&](ballast::thread_communicator& comm) {
    auto const dispatch = [&](auto element) {
      std::vector from(static_cast<std::size_t>(where.rows(comm.rank())), element);
      std::vector to(static_cast<std::size_t>(there.rows(comm.rank())), element);
      return baselines::all_gather_dispatch(comm, where, there, ballast::rows_of(from, to));
    };
    auto const done = comm.rank() == rank_id{1} ? dispatch(1.0F) : dispatch(1.0);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ballast::error_code::mismatch);
    EXPECT_EQ(done.error().ranks, std::vector{rank_id{1}});
  });
}

TEST(AllGatherDispatch, PassesOnTheErrorOfItsCommunicator)  // Errors
{
  std::array<tokens, 1> const lengths{4};
  auto const read = ballast::place(lengths, std::array{rank_id{0}}, 2);
  auto const codes = ballast::run_ranks(
      2,
      [&](ballast::thread_communicator& comm) {
        if (to_index(comm.rank()) == 1) { return ballast::error_code::peer_lost; }  // it leaves
        std::vector<std::byte> const before(4);
        std::vector<std::byte> after(4);
        auto const done =
            baselines::all_gather_dispatch(comm, read, read, ballast::rows_of(before, after));
        return done ? ballast::error_code{} : done.error().code;
      },
      patience);
  EXPECT_EQ(codes[0], ballast::error_code::peer_lost);
}

// From the definition, part by part: every rank sends its part to its own node and to one rank of
// each other node, chosen so that a node's ranks take equal shares of it, and these pass their
// share on inside the node.
struct gathered_bytes {
  std::vector<double> within_sent;
  std::vector<double> within_received;
  std::vector<double> between_sent;
  std::vector<double> between_received;
};

gathered_bytes gather_part_by_part(std::vector<std::uint32_t> const& gpus_of_nodes, double part)
{
  std::vector<std::size_t> node_of;
  for (std::size_t node = 0; node < gpus_of_nodes.size(); ++node) {
    node_of.insert(node_of.end(), gpus_of_nodes[node], node);
  }
  std::size_t const ranks = node_of.size();
  std::vector<double> const nothing(ranks, 0.0);
  gathered_bytes moved{nothing, nothing, nothing, nothing};
  for (std::size_t owner = 0; owner < ranks; ++owner) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      bool const own_node = node_of[rank] == node_of[owner];
      if (own_node && rank != owner) {
        moved.within_sent[owner] += part;
        moved.within_received[rank] += part;
      }
      if (own_node) { continue; }
      double const share = part / gpus_of_nodes[node_of[rank]];
      moved.between_sent[owner] += share;
      moved.between_received[rank] += share;
      for (std::size_t peer = 0; peer < ranks; ++peer) {
        if (peer == rank || node_of[peer] != node_of[rank]) { continue; }
        moved.within_sent[rank] += share;
        moved.within_received[peer] += share;
      }
    }
  }
  return moved;
}

TEST(PriceAllGather, IsWhatTheDefinitionCountsPartByPartOnNodesOfAnySizes)
{
  ballast::random_source random(13);
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<std::uint32_t> gpus_of_nodes(1 + random.below(5));
    for (auto& gpus : gpus_of_nodes) { gpus = static_cast<std::uint32_t>(1 + random.below(8)); }
    auto machines = ballast::cluster_of(gpus_of_nodes).value();
    if (machines.gpus() == 1) { continue; }
    machines.within_node_bytes_per_second = 1 + static_cast<double>(random.below(100));
    machines.between_nodes_bytes_per_second = 10;
    std::array<tokens, 1> const lengths{7};
    auto const read = ballast::place(lengths, std::array{rank_id{0}}, machines.gpus());
    route_volume::cost const cost = price_all_gather(read, machines, 2);
    auto const moved = gather_part_by_part(gpus_of_nodes, 2 * 7);

    double most = 0;
    double seconds = 0;
    double within = 0;
    double between = 0;
    for (std::size_t rank = 0; rank < machines.gpus(); ++rank) {
      EXPECT_NEAR(moved.within_received[rank] + moved.between_received[rank],
                  14.0 * static_cast<double>(machines.gpus() - 1), 1e-9);
      within += moved.within_sent[rank];
      between += moved.between_sent[rank];
      for (auto const& [inside, outside] :
           {std::pair{moved.within_sent[rank], moved.between_sent[rank]},
            std::pair{moved.within_received[rank], moved.between_received[rank]}}) {
        most = std::max(most, inside + outside);
        seconds = std::max({seconds, inside / machines.within_node_bytes_per_second,
                            outside / machines.between_nodes_bytes_per_second});
      }
    }
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    EXPECT_NEAR(cost.within_node_bytes, within, 1e-9 * (1 + within));
    EXPECT_NEAR(cost.between_nodes_bytes, between, 1e-9 * (1 + between));
    EXPECT_NEAR(cost.bytes_max, most, 1e-9 * most);
    EXPECT_NEAR(cost.seconds, machines.latency_seconds + seconds, 1e-9 * seconds);
    EXPECT_GE(cost.messages_max, cost.messages_mean);
    EXPECT_DOUBLE_EQ(cost.memory_bytes, 14.0 * static_cast<double>(machines.gpus() + 1));
    EXPECT_EQ(cost.kept_share, 0);
  }
}

TEST(PriceAllGather, CountsTheMessagesOfNodesOfThreeAndOne)
{
  // A rank of three sends to two neighbours and one node; the lonely rank sends to one node, and
  // receives from three ranks.
  auto const machines = ballast::cluster_of({3, 1}).value();
  std::array<tokens, 1> const lengths{7};
  auto const read = ballast::place(lengths, std::array{rank_id{0}}, 4);
  route_volume::cost const cost = price_all_gather(read, machines, 2);
  EXPECT_DOUBLE_EQ(cost.messages_mean, (3 * 3 + 1) / 4.0);
  EXPECT_DOUBLE_EQ(cost.messages_max, 3);
}

TEST(PriceAllGather, ChargesNothingWhereNothingMoves)
{
  std::array<tokens, 1> const lengths{7};
  auto const alone = ballast::place(lengths, std::array{rank_id{0}}, 1);
  route_volume::cost nothing{.kept_share = 1, .memory_bytes = 2 * 7};
  EXPECT_EQ(price_all_gather(alone, cluster{.nodes = ballast::node_sizes::equal(1, 1)}, 1),
            nothing);

  auto const empty = ballast::place(std::span<tokens const>(), std::span<rank_id const>(), 8);
  nothing.memory_bytes = 0;
  EXPECT_EQ(price_all_gather(empty, cluster{}, 1), nothing);
}

TEST(PriceAllGather, IsNeverCheaperThanTheRouteInBytesAndMemory)
{
  ballast::random_source random(12);
  cluster const machines{.nodes = ballast::node_sizes::equal(2, 4)};
  for (int trial = 0; trial < 50; ++trial) {
    auto const bags = ballast_test::random_bags(machines.gpus(), random);
    ballast_test::random_step const step(1 + random.below(60), bags, random);
    auto const gather = price_all_gather(step.read, machines, 8);
    auto const route =
        ballast::measure_route(step.read, step.computed, machines).price(machines, 8);
    EXPECT_GE(gather.bytes_max, route.bytes_max);
    EXPECT_GE(gather.memory_bytes, route.memory_bytes);
  }
}

}  // namespace
