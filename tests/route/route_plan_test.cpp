// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/placement.hpp>

#include "../support/counted_allocations.hpp"
#include "../support/test.hpp"
#include "instances.hpp"

#include <ballast/route/route_plan.hpp>

namespace {

using ballast::bag;
using ballast::bag_id;
using ballast::placement;
using ballast::rank_id;
using ballast::route_plan;
using ballast::route_table;
using ballast::row_traffic;
using ballast::tokens;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::IsEmpty;

// Carries the rows of all ranks out in one process, message by message.
std::vector<std::vector<std::int64_t>> carry_out(std::vector<route_plan> const& plans,
                                                 std::vector<std::vector<std::int64_t>> const& rows)
{
  std::size_t const ranks = plans.size();
  std::vector<std::vector<std::int64_t>> arrived(ranks);
  for (std::size_t to = 0; to < ranks; ++to) {
    arrived[to].assign(static_cast<std::size_t>(plans[to].rows_after), -1);
    for (route_plan::kept_rows const kept : plans[to].kept) {
      for (tokens row = 0; row < kept.count; ++row) {
        arrived[to].at(static_cast<std::size_t>(kept.to_row + row)) =
            rows[to].at(static_cast<std::size_t>(kept.from_row + row));
      }
    }
    for (std::size_t from = 0; from < ranks; ++from) {
      std::vector<std::int64_t> message;
      for (route_table::range const range : plans[from].sent[ballast::to_id<rank_id>(to)]) {
        for (tokens row = 0; row < range.count; ++row) {
          message.push_back(rows[from].at(static_cast<std::size_t>(range.first + row)));
        }
      }
      std::size_t next = 0;
      for (route_table::range const range : plans[to].received[ballast::to_id<rank_id>(from)]) {
        for (tokens row = 0; row < range.count; ++row) {
          arrived[to].at(static_cast<std::size_t>(range.first + row)) = message.at(next++);
        }
      }
      EXPECT_EQ(next, message.size());
      EXPECT_EQ(plans[from].sent.rows()[to], static_cast<tokens>(message.size()));
      EXPECT_EQ(plans[to].received.rows()[from], static_cast<tokens>(message.size()));
    }
  }
  return arrived;
}

std::vector<route_plan> plans_of(placement const& from, placement const& to)
{
  std::vector<route_plan> plans;
  for (std::size_t rank = 0; rank < from.ranks(); ++rank) {
    plans.push_back(ballast::plan_route(from, to, ballast::to_id<rank_id>(rank)));
  }
  return plans;
}

TEST(RoutePlan, SendsReceivesAndKeeps)
{
  std::array<tokens, 2> const lengths{5, 3};
  auto const read = ballast::place(lengths, std::array{rank_id{0}, rank_id{1}}, 2);
  auto const computed = ballast::place(lengths, std::array{bag_id{0}, bag_id{0}},
                                       ballast::bag_layout(std::array{bag{rank_id{0}, 2}}));
  auto const plan = ballast::plan_route(read, computed, rank_id{0});
  EXPECT_EQ(plan.rows_before, 5);
  EXPECT_EQ(plan.rows_after, 5);
  EXPECT_THAT(plan.kept, ElementsAre(route_plan::kept_rows{0, 0, 3}));
  EXPECT_THAT(plan.sent[rank_id{0}], IsEmpty());
  EXPECT_THAT(plan.sent[rank_id{1}], ElementsAre(route_table::range{3, 2}));
  EXPECT_THAT(plan.received[rank_id{1}], ElementsAre(route_table::range{3, 2}));
}

TEST(RoutePlan, BringsEveryTokenToItsRow)  // Ensures (1) (2) (3)
{
  ballast::random_source random(3);
  for (int trial = 0; trial < 300; ++trial) {
    auto const bags = ballast_test::random_bags(1 + random.below(12), random);
    ballast_test::random_step const step(random.below(20), bags, random);
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const before = ballast_test::named_rows(step.read);
    auto const after = ballast_test::named_rows(step.computed);
    auto const plans = plans_of(step.read, step.computed);
    ASSERT_EQ(carry_out(plans, before), after);
    for (std::size_t rank = 0; rank < plans.size(); ++rank) {
      ASSERT_EQ(plans[rank].sent.rows()[rank], 0);
      ASSERT_EQ(plans[rank].received.rows()[rank], 0);
    }
    ASSERT_EQ(carry_out(plans_of(step.computed, step.read), after), before);
  }
}

TEST(RoutePlan, MovesNothingWhereNothingChanges)
{
  auto const read = ballast::place(std::array<tokens, 3>{4, 0, 2},
                                   std::array{rank_id{0}, rank_id{0}, rank_id{1}}, 3);
  for (route_plan const& plan : plans_of(read, read)) {
    EXPECT_THAT(plan.sent.rows(), ElementsAre(0, 0, 0));
    EXPECT_THAT(plan.received.rows(), ElementsAre(0, 0, 0));
  }
}

TEST(RoutePlan, OfNoSamplesIsEmpty)
{
  auto const nothing = ballast::place(std::vector<tokens>{}, std::vector<rank_id>{}, 2);
  auto const plan = ballast::plan_route(nothing, nothing, rank_id{1});
  EXPECT_EQ(plan.ranks(), 2U);
  EXPECT_EQ(plan.rows_before + plan.rows_after, 0);
  EXPECT_THAT(plan.kept, IsEmpty());
}

TEST(RoutePlan, AllocatesNothingInTheSteadyState)
{
  ballast::random_source random(9);
  auto const bags = ballast_test::random_bags(8, random);
  ballast_test::random_step const step(200, bags, random);
  ballast_test::random_step const smaller(100, bags, random);
  route_plan plan;
  ballast::plan_route(plan, step.read, step.computed, rank_id{2});
  auto const before = ballast_test::allocations();
  ballast::plan_route(plan, step.read, step.computed, rank_id{2});
  EXPECT_EQ(ballast_test::allocations(), before);
  auto const again = ballast::plan_route(smaller.read, smaller.computed, rank_id{2});
  ballast::plan_route(plan, smaller.read, smaller.computed, rank_id{2});
  EXPECT_TRUE(std::ranges::equal(plan.sent.rows(), again.sent.rows()));
  EXPECT_EQ(plan.kept, again.kept);
}

TEST(RoutePlanDeathTest, NeedsTheSameSamplesOnBothSides)
{
  auto const one = ballast::place(std::array<tokens, 1>{3}, std::array{rank_id{0}}, 2);
  auto other = ballast::place(std::array<tokens, 1>{4}, std::array{rank_id{0}}, 2);
  auto const plan = [&] { (void)ballast::plan_route(one, other, rank_id{0}); };
  EXPECT_DEATH(plan(), "sample 0 has .* tokens in one placement and .* in the other");
  ballast::place(other, std::array<tokens, 1>{3}, std::array{rank_id{0}}, 3);
  EXPECT_DEATH(plan(), "is over .* ranks and the other over ");
  ballast::place(other, std::vector<tokens>{}, std::vector<rank_id>{}, 2);
  EXPECT_DEATH(plan(), "has 1 sample and the other 0");
}

TEST(RowTraffic, ReversedIsWhatTheReverseExchangeMoves)
{
  std::array<tokens, 2> const sent{0, 3};
  std::array<tokens, 2> const received{0, 5};
  row_traffic const there{rank_id{0}, 10, 12, sent, received};
  row_traffic const back = there.reversed();
  EXPECT_EQ(back.rank, rank_id{0});
  EXPECT_EQ(back.rows_before, 12);
  EXPECT_EQ(back.rows_after, 10);
  EXPECT_THAT(back.sent, ElementsAreArray(received));
  EXPECT_THAT(back.received, ElementsAreArray(sent));
}

}  // namespace
