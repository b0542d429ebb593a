// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/detail/plan_together.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/comm/run_ranks.hpp>
#include <ballast/comm/thread_communicator.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace {

using ballast::error_code;
using ballast::rank_id;
using ballast::result;
using ballast::thread_communicator;
using ballast::detail::plan_together;
using testing::ElementsAre;

constexpr auto nothing_to_do = [] { return result<void>(); };

// What each of three ranks is told where rank 1 makes another plan.
template <class Make>
std::vector<result<void>> told(Make const& make, std::uint64_t word = 5)
{
  return ballast::run_ranks(3, [&](thread_communicator& comm) {
    bool const other = comm.rank() == rank_id{1};
    result<void> said;
    try {
      said = plan_together(
          comm, [&] { return comm.barrier(); }, [&] { return other ? make() : result<void>(); },
          [&] { return other ? word : std::uint64_t{5}; });
    } catch (std::runtime_error const&) {
      EXPECT_TRUE(other);
    }
    EXPECT_TRUE(plan_together(comm, nothing_to_do, nothing_to_do, [] { return std::uint64_t{5}; }));
    return said;
  });
}

void expect_rank_1_named(std::vector<result<void>> const& said)
{
  for (std::size_t const rank : {0U, 2U}) {
    ASSERT_FALSE(said[rank]);
    EXPECT_EQ(said[rank].error().code, error_code::mismatch);
    EXPECT_THAT(said[rank].error().ranks, ElementsAre(rank_id{1}));
  }
}

TEST(PlanTogether, TellsEveryRankWhoPlansOtherwise)
{
  for (auto const& each : told(nothing_to_do)) { EXPECT_TRUE(each); }
  expect_rank_1_named(told(nothing_to_do, 6));
}

TEST(PlanTogether, TellsEveryRankThatOneCannotPlan)
{
  auto const said = told([] { return result<void>(ballast::fail(error_code::infeasible, 4, "")); });
  EXPECT_EQ(said[1].error().code, error_code::infeasible);
  expect_rank_1_named(said);
}

TEST(PlanTogether, TellsEveryRankThatPlanningThrewOnOne)
{
  expect_rank_1_named(told([]() -> result<void> { throw std::runtime_error("no"); }));
}

TEST(PlanTogether, ReturnsTheErrorThatAllRanksHave)
{
  ballast::run_ranks(2, [](thread_communicator& comm) {
    auto const said = plan_together(
        comm, nothing_to_do,
        [] { return result<void>(ballast::fail(error_code::infeasible, 4, "too long")); },
        [] { return std::uint64_t{0}; });
    ASSERT_FALSE(said);
    EXPECT_EQ(said.error().message, "too long");
  });
}

TEST(PlanTogether, LetsNobodyWaitWhereOneCannotGather)
{
  for (bool const has_called : {false, true}) {
    auto const said = ballast::run_ranks(3, [&](thread_communicator& comm) {
      bool const other = comm.rank() == rank_id{1};
      auto const gather = [&] {
        if (other && !has_called) { throw std::runtime_error("no"); }
        auto gathered = comm.barrier();
        if (other) { throw std::runtime_error("no"); }
        return gathered;
      };
      auto const five = [] { return std::uint64_t{5}; };
      result<void> refused;
      try {
        refused = plan_together(comm, gather, nothing_to_do, five);
      } catch (std::runtime_error const&) {
        EXPECT_TRUE(other);
      }
      EXPECT_TRUE(plan_together(comm, nothing_to_do, nothing_to_do, five));
      return refused;
    });
    expect_rank_1_named(said);
  }
}

TEST(PlanTogether, ReturnsWhyAllRanksCouldNotGather)
{
  ballast::run_ranks(2, [](thread_communicator& comm) {
    auto const said = plan_together(
        comm, [] { return result<void>(ballast::fail(error_code::out_of_range, 1, "too many")); },
        [] { return result<void>(ballast::fail(error_code::infeasible, 4, "not planned")); },
        [] { return std::uint64_t{0}; });
    ASSERT_FALSE(said);
    EXPECT_EQ(said.error().message, "too many");
    EXPECT_TRUE(comm.barrier());
  });
}

}  // namespace
