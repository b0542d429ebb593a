// SPDX-License-Identifier: Apache-2.0
#include "../support/test.hpp"

#include "../gpu/host_work.hpp"
#include "../route/instances.hpp"
#include "../route/random_rows.hpp"
#include "../route/step_arrays.hpp"
#include "../support/hand_moved_clock.hpp"
#include "../support/time_limits.hpp"
#include "../support/trials.hpp"
#include "mover.hpp"
#include "nccl_ranks.hpp"

#include <ballast/cuda/detail/temporary_storage.hpp>
#include <ballast/cuda/device_route.hpp>
#include <ballast/cuda/route_rows.cuh>
#include <ballast/cuda/tables.hpp>
#include <ballast/gpu/streams.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/route.hpp>
#include <ballast/route/route_plan.hpp>
#include <ballast/route/row_array.hpp>

#include <deque>
#include <latch>

namespace {

using ballast::device_route;
using ballast::device_rows;
using ballast::error_code;
using ballast::prepared_route;
using ballast::rank_id;
using ballast::result;
using ballast::row_array;
using ballast::to_index;
using ballast::tokens;
using ballast::unpack_part;
using ballast::detail::route_direction;
using ballast_test::byte_array;
using ballast_test::mover;
using ballast_test::nccl_ranks;
using ballast_test::random_step;
using ballast_test::step_arrays;
using ballast_test::time_bound;
using testing::Each;
using testing::ElementsAre;

using ballast_test::host_work;
using communicator = ballast::nccl_communicator<>;

/// What a rank keeps from step to step to route by either mover.
class router {
 public:
  explicit router(std::size_t ranks)
      : tables_(largest(ranks)), there_(device_route_in(tables_, ranks))
  {}

  result<void> route(communicator& comm, mover by, route_direction direction,
                     ballast::route_plan const& plan, std::vector<row_array> const& arrays)
  {
    if (by == mover::of_host) {
      return ballast::detail::route_on_host(comm, plan, direction, arrays, memory_);
    }
    if (auto uploaded = upload(comm, plan); !uploaded) { return uploaded; }
    return queue(comm, by, direction, arrays);
  }

  result<void> upload(communicator& comm, ballast::route_plan const& plan)
  {
    EXPECT_EQ(cudaStreamSynchronize(comm.stream()), cudaSuccess);  // the last upload is done
    if (auto staged = there_.stage(plan); !staged) { return staged; }
    EXPECT_EQ(there_.upload(comm.stream()), cudaSuccess);
    return {};
  }

  /// Another exchange by the plan that was uploaded.
  result<void> queue(communicator& comm, mover by, route_direction direction,
                     std::vector<row_array> const& arrays)
  {
    device_rows const rows(arrays);
    std::size_t bytes = 0;
    EXPECT_EQ(prepared_route::device_bytes(there_, rows, bytes), cudaSuccess);
    auto& memory = memories_.emplace_back(bytes);
    bool const beside = by == mover::queued_beside;
    if (beside && !side_) { side_.emplace(ballast::side_stream::make().value()); }
    auto const& ready = routes_.emplace_back(there_, rows, memory, beside ? &*side_ : nullptr);
    ready.unpacked = unpacked;
    EXPECT_EQ(ready.prepare(comm.stream()), cudaSuccess);
    std::size_t messages = ballast::detail::temporary_storage::alignment;
    for (row_array const& each : arrays) {
      messages += each.from.size() + each.to.size() + 2 * 16 * comm.size();
    }
    return ballast::detail::route_on_device(comm, ready, direction, arrays,
                                            memories_.emplace_back(messages));
  }

  std::function<void(unpack_part)> unpacked;  // as in prepared_route

  [[nodiscard]] host_work& work() { return work_; }

 private:
  static ballast::route_bound largest(std::size_t ranks)
  {
    return {.ranks = static_cast<std::uint32_t>(ranks), .ranges = 200};
  }
  static device_route device_route_in(ballast_test::route_memory& tables, std::size_t ranks)
  {
    return device_route(largest(ranks), tables.device(), tables.pinned());
  }

  ballast_test::route_memory tables_;
  device_route there_;
  ballast::workspace memory_;
  std::optional<ballast::side_stream> side_;
  std::deque<byte_array> memories_;
  std::deque<prepared_route> routes_;
  host_work work_;
};

// Two hundred random placements, by ranks that all pack on the host, or of each kind some.
void expect_routed(std::uint64_t seed, std::function<mover(std::size_t rank)> const& by)
{
  ballast::random_source random(seed);
  for (int round = 0; round < ballast_test::trials_of(25); ++round) {
    for (std::size_t count = 1; count <= 8; ++count) {
      auto const bags = ballast_test::random_bags(count, random);
      random_step const step(random.below(30), bags, random);
      step_arrays const arrays(step.read, step.computed, ballast_test::random_widths(random),
                               random);
      SCOPED_TRACE(testing::Message() << "round " << round << ", " << count << " ranks");
      nccl_ranks ranks(count);
      ranks.make_non_blocking(random.below(3));
      ranks.run({.deadline = time_bound, .verify = round % 2 == 0}, [&](communicator& comm) {
        std::size_t const rank = to_index(comm.rank());
        auto const plan = ballast::plan_route(step.read, step.computed, comm.rank());
        router routes(count);
        auto there = arrays.unwritten(rank);
        EXPECT_TRUE(routes.route(comm, by(rank), route_direction::forward, plan,
                                 arrays.between(arrays.before(rank), there)));
        auto back = arrays.unwritten_before(rank);
        EXPECT_TRUE(routes.route(comm, by(rank), route_direction::reverse, plan,
                                 arrays.between(there, back)));
        EXPECT_TRUE(comm.wait());
        EXPECT_EQ(there, arrays.after(rank));
        EXPECT_EQ(back, arrays.before(rank));
      });
      if (testing::Test::HasFailure()) { return; }
    }
  }
}

TEST(NcclRoute, BringsEveryRowAndBackPackedByTheHost)
{
  expect_routed(1, [](std::size_t) { return mover::of_host; });
}

TEST(NcclRoute, BringsEveryRowAndBackWhereAllKindsOfRanksMeet)
{
  expect_routed(3, [](std::size_t rank) {
    return std::array{mover::queued_beside, mover::queued, mover::of_host}[rank % 3];
  });
}

/// Four ranks' step, with something of every kind.
struct NcclRouteOfFour : testing::Test {
  static constexpr std::size_t count = 4;

  ballast::random_source random{4};
  random_step const step{40, ballast_test::random_bags(count, random), random};
  step_arrays const arrays{step.read, step.computed, {8, 3, 16}, random};
  nccl_ranks ranks{count};

  [[nodiscard]] ballast::route_plan plan_of(communicator const& comm) const
  {
    return ballast::plan_route(step.read, step.computed, comm.rank());
  }
};

TEST_F(NcclRouteOfFour, WaitsForNothingOnTheStream)
{
  ranks.run({.deadline = time_bound}, [&](communicator& comm) {
    std::size_t const rank = to_index(comm.rank());
    router routes(count);
    EXPECT_TRUE(routes.upload(comm, plan_of(comm)));
    std::latch released(1);
    routes.work().queue(comm.stream(), [&] { released.wait(); });
    auto there = arrays.unwritten(rank);
    auto back = arrays.unwritten_before(rank);
    EXPECT_TRUE(routes.queue(comm, mover::queued_beside, route_direction::forward,
                             arrays.between(arrays.before(rank), there)));
    EXPECT_TRUE(routes.queue(comm, mover::queued_beside, route_direction::reverse,
                             arrays.between(there, back)));
    EXPECT_EQ(there, arrays.unwritten(rank));
    EXPECT_EQ(cudaStreamQuery(comm.stream()), cudaErrorNotReady);
    released.count_down();
    EXPECT_TRUE(comm.wait());
    EXPECT_EQ(there, arrays.after(rank));
    EXPECT_EQ(back, arrays.before(rank));
  });
}

// Rank 3 sends its rows only when the others have copied what stays with them.
TEST_F(NcclRouteOfFour, CopiesWhatStaysWhileMessagesTravel)
{
  std::latch kept(count - 1);
  ranks.run({.deadline = time_bound}, [&](communicator& comm) {
    std::size_t const rank = to_index(comm.rank());
    router routes(count);
    std::vector<unpack_part> order;
    routes.unpacked = [&](unpack_part part) {
      order.push_back(part);
      if (rank < 3 && part == unpack_part::kept) { kept.count_down(); }
    };
    if (rank == 3) { kept.wait(); }
    auto there = arrays.unwritten(rank);
    EXPECT_TRUE(routes.route(comm, mover::queued_beside, route_direction::forward, plan_of(comm),
                             arrays.between(arrays.before(rank), there)));
    EXPECT_TRUE(comm.wait());
    EXPECT_EQ(there, arrays.after(rank));
    EXPECT_THAT(order, ElementsAre(unpack_part::kept, unpack_part::messages));
  });
}

TEST_F(NcclRouteOfFour, OfDifferentPlansIsAMismatchOnAllBeforeAByteMoves)
{
  // One rank has planned with other lengths: its messages have other sizes.
  auto lengths = step.lengths;
  for (tokens& length : lengths) { length += length > 0 ? 5 : 0; }
  auto const other = ballast::place(lengths, step.source, count);
  std::vector<rank_id> const owner(lengths.size(), rank_id{0});
  auto const elsewhere = ballast::place(lengths, owner, count);

  for (mover const by : {mover::of_host, mover::queued_beside}) {
    for (std::uint32_t wrong = 0; wrong < count; ++wrong) {
      ranks.run({.deadline = time_bound, .verify = true}, [&](communicator& comm) {
        std::size_t const rank = to_index(comm.rank());
        router routes(count);
        if (comm.rank() == rank_id{wrong}) {
          auto const plan = ballast::plan_route(other, elsewhere, comm.rank());
          byte_array const from(static_cast<std::size_t>(plan.rows_before) * 4);
          byte_array to(static_cast<std::size_t>(plan.rows_after) * 4, std::byte{0xee});
          auto const moved =
              routes.route(comm, by, route_direction::forward, plan, {{from, to, 4}});
          ASSERT_FALSE(moved);
          EXPECT_EQ(moved.error().code, error_code::mismatch);
          EXPECT_THAT(to, Each(std::byte{0xee}));
        } else {
          auto there = arrays.unwritten(rank);
          auto const moved = routes.route(comm, by, route_direction::forward, plan_of(comm),
                                          arrays.between(arrays.before(rank), there));
          ASSERT_FALSE(moved);
          EXPECT_EQ(moved.error().code, error_code::mismatch);
          EXPECT_EQ(there, arrays.unwritten(rank));
        }
        // And with equal plans the next step is one like any other.
        auto there = arrays.unwritten(rank);
        EXPECT_TRUE(routes.route(comm, by, route_direction::forward, plan_of(comm),
                                 arrays.between(arrays.before(rank), there)));
        EXPECT_TRUE(comm.wait());
        EXPECT_EQ(there, arrays.after(rank));
      });
    }
  }
}

TEST_F(NcclRouteOfFour, EndsOnAllRanksWhereALinkGoesDownInTheMiddle)
{
  ballast_test::hand_moved_clock clock;
  for (mover const by : {mover::of_host, mover::queued_beside}) {
    nccl_ranks links(count);
    links.run({.deadline = time_bound}, [&](communicator& comm) {
      std::size_t const rank = to_index(comm.rank());
      bool const cut_off = rank == 2;
      router routes(count);
      auto there = arrays.unwritten(rank);
      auto const step_of_all = [&] {
        auto moved = routes.route(comm, by, route_direction::forward, plan_of(comm),
                                  arrays.between(arrays.before(rank), there));
        return moved ? comm.wait() : moved;
      };
      EXPECT_TRUE(step_of_all());
      EXPECT_TRUE(comm.barrier());
      if (cut_off) { ballast_test::fail_asynchronously(comm.native(), ncclRemoteError); }
      // A peer may have its part of this one, but none gets through the next.
      auto done = step_of_all();
      if (done) { done = comm.barrier(); }
      if (cut_off) { clock.pass_when(3, time_bound); }
      ASSERT_FALSE(done);
      EXPECT_EQ(done.error().code, cut_off ? error_code::transport : error_code::timed_out);
      EXPECT_EQ(comm.native(), nullptr);
      auto const again = step_of_all();
      ASSERT_FALSE(again);
      EXPECT_EQ(again.error(), done.error());
      EXPECT_EQ(cudaStreamSynchronize(comm.stream()), cudaSuccess);
    });
  }
  EXPECT_EQ(ballast_test::live_communicators(), count);  // the fixture's
}

}  // namespace
