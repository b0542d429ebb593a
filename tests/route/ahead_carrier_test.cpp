// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/ahead_carrier.hpp>

#include "../support/counted_allocations.hpp"
#include "../support/test.hpp"

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/route/placement.hpp>

#include <atomic>
#include <latch>

namespace {

using ballast::ahead_carrier;
using ballast::rank_id;
using ballast::route_plan;
using ballast::rows_of;
using ballast::thread_communicator;
using ballast::to_id;
using ballast::tokens;
using namespace std::chrono_literals;

// Routes of samples from where they were read to where they are computed, at random.
std::vector<route_plan> draw_routes(std::uint64_t seed, std::size_t ranks, rank_id rank, int count)
{
  ballast::random_source random(seed);  // the same on all ranks
  std::vector<route_plan> routes;
  for (int each = 0; each < count; ++each) {
    std::vector<tokens> lengths(random.below(12));
    std::vector<rank_id> from;
    std::vector<rank_id> to;
    for (tokens& length : lengths) {
      length = random.between(0, 40);
      from.push_back(to_id<rank_id>(random.below(ranks)));
      to.push_back(to_id<rank_id>(random.below(ranks)));
    }
    ballast::plan_route(routes.emplace_back(), ballast::place(lengths, from, ranks),
                        ballast::place(lengths, to, ranks), rank);
  }
  return routes;
}

route_plan to_the_next_rank(std::size_t ranks, rank_id rank)
{
  std::vector<tokens> const lengths(ranks, 8);
  std::vector<rank_id> from;
  std::vector<rank_id> to;
  for (std::size_t each = 0; each < ranks; ++each) {
    from.push_back(to_id<rank_id>(each));
    to.push_back(to_id<rank_id>((each + 1) % ranks));
  }
  route_plan plan;
  ballast::plan_route(plan, ballast::place(lengths, from, ranks),
                      ballast::place(lengths, to, ranks), rank);
  return plan;
}

std::vector<std::int64_t> numbered(tokens rows, rank_id rank)
{
  std::vector<std::int64_t> x(static_cast<std::size_t>(rows) * 2);
  std::iota(x.begin(), x.end(), 1'000'000 * static_cast<std::int64_t>(ballast::to_index(rank)));
  return x;
}

TEST(AheadCarrier, PutsRowsWhereARouteDoesHoweverManyAreUnderWay)  // Ensures (1) (2)
{
  for (std::size_t const ranks : {1U, 2U, 5U}) {
    for (int seed = 0; seed < ballast_test::trials_of(20); ++seed) {
      ballast::run_ranks(ranks, [&](thread_communicator& comm) {
        auto const plans = draw_routes(static_cast<std::uint64_t>(seed), ranks, comm.rank(), 8);
        ballast::workspace memory;
        ahead_carrier rows(comm);
        ballast::random_source random(static_cast<std::uint64_t>(seed));
        std::vector<std::vector<std::int64_t>> there, back, ought;
        for (route_plan const& plan : plans) {
          auto x = numbered(plan.rows_before, comm.rank());
          auto& y = there.emplace_back(static_cast<std::size_t>(plan.rows_after) * 2);
          ought.push_back(y);
          or_throw(ballast::route(comm, plan, memory, rows_of(x, ought.back(), 2)));
          or_throw(rows.route(plan, rows_of(x, y, 2)));
          std::ranges::fill(x, -1);  // it has left
          std::size_t const left = random.below(4);
          or_throw(rows.wait(left));
          EXPECT_LE(rows.under_way(), left);
          for (std::size_t at = 0; at + rows.under_way() < there.size(); ++at) {
            EXPECT_EQ(there[at], ought[at]);
          }
        }
        or_throw(rows.wait());
        back.resize(plans.size());
        for (std::size_t at = 0; at < plans.size(); ++at) {
          back[at].resize(static_cast<std::size_t>(plans[at].rows_before) * 2);
          or_throw(rows.reverse_route(plans[at], rows_of(there[at], back[at], 2)));
        }
        or_throw(rows.begin_step());
        for (std::size_t at = 0; at < plans.size(); ++at) {
          EXPECT_EQ(back[at], numbered(plans[at].rows_before, comm.rank()));
        }
        EXPECT_EQ(rows.begun(), 2 * plans.size());
        EXPECT_LE(rows.late(), rows.begun());
      });
    }
  }
}

TEST(AheadCarrier, AllocatesNothingOnceAsManyWereUnderWay)  // Ensures (3)
{
  // How many are under way at once depends on which rank is ahead, so some rounds are tried.
  std::atomic<bool> has_none = false;
  ballast::run_ranks(3, [&has_none](thread_communicator& comm) {
    auto const plans = draw_routes(3, 3, comm.rank(), 4);
    ahead_carrier rows(comm);
    std::vector<std::vector<std::int64_t>> x, y;
    for (route_plan const& plan : plans) {
      x.push_back(numbered(plan.rows_before, comm.rank()));
      y.emplace_back(static_cast<std::size_t>(plan.rows_after) * 2);
    }
    for (int round = 0; round < 50 && !has_none; ++round) {
      or_throw(comm.barrier());
      std::size_t const before = ballast_test::allocations();
      for (int step = 0; step < 4; ++step) {
        or_throw(comm.barrier());
        for (std::size_t at = 0; at < plans.size(); ++at) {
          or_throw(rows.route(plans[at], rows_of(x[at], y[at], 2)));
        }
        or_throw(rows.begin_step());
      }
      or_throw(comm.barrier());
      if (comm.rank() == ballast::rank_id{0}) { has_none = ballast_test::allocations() == before; }
      or_throw(comm.barrier());
    }
  });
  EXPECT_TRUE(has_none);
}

TEST(AheadCarrier, TellsOfOtherArraysAndOfRanksThatLeft)  // Ensures (4), Errors
{
  auto const errors = ballast::run_ranks(2, [](thread_communicator& comm) {
    std::vector<tokens> const lengths{8, 8};
    std::array const from{rank_id{0}, rank_id{1}};
    std::array const to{rank_id{1}, rank_id{0}};
    route_plan plan;
    ballast::plan_route(plan, ballast::place(lengths, from, 2), ballast::place(lengths, to, 2),
                        comm.rank());
    ahead_carrier rows(comm);
    std::vector<std::int32_t> x(16), y(16);
    std::vector<float> u(16), v(16);
    auto const begun = comm.rank() == rank_id{0} ? rows.route(plan, rows_of(x, y, 2))
                                                 : rows.reverse_route(plan, rows_of(u, v, 2));
    auto const done = begun ? rows.wait() : begun;
    return done ? std::string() : done.error().message;
  });
  EXPECT_THAT(errors, testing::Contains(testing::HasSubstr("the plan or its direction")));
  ballast::run_ranks(2, [](thread_communicator& comm) {
    if (comm.rank() == rank_id{1}) { return; }
    route_plan plan;
    std::array const from{rank_id{1}};
    std::array const to{rank_id{0}};
    std::vector<tokens> const lengths{8};
    ballast::plan_route(plan, ballast::place(lengths, from, 2), ballast::place(lengths, to, 2),
                        rank_id{0});
    ahead_carrier rows(comm);
    std::vector<float> x, y(8);
    // Rank 1 may have left before the receive begins, or after.
    auto const begun = rows.route(plan, rows_of(x, y));
    auto const done = begun ? rows.wait() : begun;
    ASSERT_FALSE(done);
    EXPECT_THAT(done.error().ranks, testing::ElementsAre(rank_id{1}));
    EXPECT_EQ(rows.under_way(), 0U);
  });
}

// Rank 1 comes once rank 0 has begun both.
TEST(AheadCarrier, WaitsForNobodyWhereItBegins)
{
  std::latch begun(1);
  ballast::run_ranks(
      2,
      [&](thread_communicator& comm) {
        bool const is_first = comm.rank() == rank_id{0};
        auto const plan = to_the_next_rank(2, comm.rank());
        ahead_carrier rows(comm);
        auto const x = numbered(plan.rows_before, comm.rank());
        std::array there{std::vector<std::int64_t>(x.size()), std::vector<std::int64_t>(x.size())};
        if (!is_first) { begun.wait(); }
        auto const first = rows.route(plan, rows_of(x, there[0], 2));
        auto const second = rows.route(plan, rows_of(x, there[1], 2));
        if (is_first) { begun.count_down(); }
        or_throw(first);
        or_throw(second);
        or_throw(rows.wait(1));
        auto const of_other = numbered(8, is_first ? rank_id{1} : rank_id{0});
        EXPECT_EQ(there[0], of_other);
        or_throw(rows.begin_step());
        EXPECT_EQ(there[1], of_other);
      },
      1min);
}

}  // namespace
