// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/route.hpp>

#include "../support/test.hpp"

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/route_plan.hpp>
#include <ballast/route/row_array.hpp>

namespace {

using ballast::rank_id;
using ballast::result;
using ballast::row_array;

/// All that is asked of a carrier.
struct least_carrier {
  [[nodiscard]] rank_id rank() const { return {}; }
  [[nodiscard]] std::size_t size() const { return 1; }
  result<void> begin_step() { return {}; }
  result<void> route(ballast::route_plan const&, row_array const&) { return {}; }
  result<void> reverse_route(ballast::route_plan const&, row_array const&) { return {}; }
  result<void> copy(row_array const&) { return {}; }
};
static_assert(ballast::row_carrier<least_carrier>);
static_assert(ballast::row_carrier<ballast::host_carrier<ballast::thread_communicator>>);

TEST(HostCarrier, MovesRowsThereAndBack)
{
  std::vector<ballast::tokens> const lengths{3, 2};
  std::vector<rank_id> const source{rank_id{0}, rank_id{1}};
  std::vector<rank_id> const owner{rank_id{1}, rank_id{0}};
  auto const read = ballast::place(lengths, source, 2);
  auto const computed = ballast::place(lengths, owner, 2);
  ballast::run_ranks(2, [&](ballast::thread_communicator& comm) {
    ballast::host_carrier carrier(comm);
    EXPECT_EQ(carrier.rank(), comm.rank());
    EXPECT_EQ(carrier.size(), 2U);
    auto const plan = ballast::plan_route(read, computed, comm.rank());
    bool const first = comm.rank() == rank_id{0};
    std::vector<int> const own = first ? std::vector{1, 2, 3} : std::vector{4, 5};
    std::vector<int> there(5 - own.size());
    std::vector<int> copied(there.size());
    std::vector<int> back(own.size());
    EXPECT_TRUE(carrier.begin_step());
    EXPECT_TRUE(carrier.route(plan, ballast::rows_of(own, there)));
    EXPECT_TRUE(carrier.copy(ballast::rows_of(there, copied)));
    EXPECT_EQ(copied, first ? (std::vector{4, 5}) : (std::vector{1, 2, 3}));
    EXPECT_TRUE(carrier.reverse_route(plan, ballast::rows_of(copied, back)));
    EXPECT_EQ(back, own);
  });
}

}  // namespace
