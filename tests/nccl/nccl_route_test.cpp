// SPDX-License-Identifier: Apache-2.0
#include "../support/test.hpp"

#include "../cuda/staged_on_host.hpp"
#include "../route/instances.hpp"
#include "../route/random_rows.hpp"
#include "../route/step_arrays.hpp"
#include "../support/hand_moved_clock.hpp"
#include "../support/queued_work.hpp"
#include "../support/time_limits.hpp"
#include "nccl_ranks.hpp"

#include <ballast/cuda/detail/temporary_storage.hpp>
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

using ballast::prepared_route;
using ballast::rank_id;
using ballast::result;
using ballast::row_array;
using ballast::to_index;
using ballast::unpack_part;
using ballast::detail::route_direction;
using ballast_test::byte_array;
using ballast_test::nccl_ranks;
using ballast_test::random_step;
using ballast_test::step_arrays;
using ballast_test::time_bound;

using communicator = ballast::nccl_communicator<>;

/// Who packs and unpacks: the host, or what is queued on streams.
enum class mover { of_host, queued };

/// What a rank keeps from step to step to route by either mover.
class router {
 public:
  explicit router(std::size_t ranks)
      : tables_({.ranks = static_cast<std::uint32_t>(ranks), .ranges = 200}), there_(*tables_)
  {}

  result<void> route(communicator& comm, mover by, route_direction direction,
                     ballast::route_plan const& plan, std::vector<row_array> const& arrays)
  {
    if (by == mover::of_host) {
      return ballast::detail::route_on_host(comm, plan, direction, arrays, memory_);
    }
    if (auto uploaded = upload(comm, plan); !uploaded) { return uploaded; }
    return queue(comm, direction, arrays);
  }

  result<void> upload(communicator& comm, ballast::route_plan const& plan)
  {
    EXPECT_EQ(cudaStreamSynchronize(comm.stream()), cudaSuccess);  // the last upload is done
    if (auto staged = there_.stage(plan); !staged) { return staged; }
    EXPECT_EQ(there_.upload(comm.stream()), cudaSuccess);
    return {};
  }

  /// Another exchange by the plan that was uploaded.
  result<void> queue(communicator& comm, route_direction direction,
                     std::vector<row_array> const& arrays)
  {
    ballast::device_rows const rows(arrays);
    std::size_t bytes = 0;
    EXPECT_EQ(prepared_route::device_bytes(there_, rows, bytes), cudaSuccess);
    auto& memory = memories_.emplace_back(bytes);
    auto const& ready = routes_.emplace_back(there_, rows, memory, &side_);
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

 private:
  ballast_test::staged_on_host<ballast::route_plan> tables_;
  ballast::staged<ballast::route_plan>& there_;
  ballast::workspace memory_;
  ballast::side_stream side_ = ballast::side_stream::make().value();
  std::deque<byte_array> memories_;
  std::deque<prepared_route> routes_;
};

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
    EXPECT_EQ(ballast_test::launch(comm.stream(), [&] { released.wait(); }), cudaSuccess);
    auto there = arrays.unwritten(rank);
    auto back = arrays.unwritten_before(rank);
    EXPECT_TRUE(
        routes.queue(comm, route_direction::forward, arrays.between(arrays.before(rank), there)));
    EXPECT_TRUE(routes.queue(comm, route_direction::reverse, arrays.between(there, back)));
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
    EXPECT_TRUE(routes.route(comm, mover::queued, route_direction::forward, plan_of(comm),
                             arrays.between(arrays.before(rank), there)));
    EXPECT_TRUE(comm.wait());
    EXPECT_EQ(there, arrays.after(rank));
    EXPECT_THAT(order, testing::ElementsAre(unpack_part::kept, unpack_part::messages));
  });
}

TEST_F(NcclRouteOfFour, OfDifferentPlansIsAMismatchOnAllBeforeAByteMoves)
{
  // One rank has planned with other lengths: its messages have other sizes.
  auto lengths = step.lengths;
  for (ballast::tokens& length : lengths) { length += length > 0 ? 5 : 0; }
  auto const other = ballast::place(lengths, step.source, count);
  std::vector<rank_id> const owner(lengths.size(), rank_id{0});
  auto const elsewhere = ballast::place(lengths, owner, count);

  for (mover const by : {mover::of_host, mover::queued}) {
    for (std::size_t wrong = 0; wrong < count; ++wrong) {
      ranks.run({.deadline = time_bound, .verify = true}, [&](communicator& comm) {
        std::size_t const rank = to_index(comm.rank());
        router routes(count);
        auto const plan =
            rank == wrong ? ballast::plan_route(other, elsewhere, comm.rank()) : plan_of(comm);
        byte_array const from(static_cast<std::size_t>(plan.rows_before) * 4);
        byte_array to(static_cast<std::size_t>(plan.rows_after) * 4, std::byte{0xee});
        auto const moved = routes.route(comm, by, route_direction::forward, plan, {{from, to, 4}});
        ASSERT_FALSE(moved);
        EXPECT_EQ(moved.error().code, ballast::error_code::mismatch);
        EXPECT_THAT(to, testing::Each(std::byte{0xee}));
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

}  // namespace
