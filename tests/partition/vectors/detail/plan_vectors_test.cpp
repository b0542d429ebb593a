#include <ballast/partition/vectors/detail/plan_vectors.hpp>  // first: proves it is self-contained

#include "../../../support/bag_vectors.hpp"

#include <gtest/gtest.h>
#include <ballast/partition/vectors/vector_longest_processing_time.hpp>

#include <cstdint>
#include <vector>

namespace {

using ballast::bin_id;
using ballast::cost_vector;

TEST(AddCosts, RefusesWhatCannotBePlanned)
{
  cost_vector<2> total{5, ballast::no_cost - 3};
  EXPECT_TRUE(ballast::detail::add_costs<2>(total, {0}, {1, 2}));
  EXPECT_EQ(total, (cost_vector<2>{6, ballast::no_cost - 1}));
  EXPECT_EQ(ballast::detail::add_costs<2>(total, {7}, {0, 1}).error().position, 7U);
  EXPECT_FALSE(ballast::detail::add_costs<2>(total, {0}, {-1, 0}));
  EXPECT_FALSE(ballast::detail::add_costs<2>(total, {0}, {ballast::no_cost, 0}));
}

TEST(PlanVectors, GivesSamplesThatStayTogetherOneBin)
{
  std::vector<cost_vector<2>> const costs{{4, 0}, {0, 4}, {1, 0}, {0, 1}};
  std::vector<std::int64_t> const keys{9, 3, 9, 3};
  std::vector<std::int64_t> const weights{3, 2, 1, 2};
  std::vector<cost_vector<2>> loads(2, cost_vector<2>{});
  std::vector<bin_id> owner(4);
  ballast::workspace memory;
  ballast::ratio bound;
  auto const planned = ballast::detail::plan_vectors(
      ballast::vector_problem<2>{costs}, {}, weights, {.together = keys, .most_per_gpu = 4},
      ballast::vector_longest_processing_time{}, std::span(loads), std::span(owner), bound, memory);
  ASSERT_TRUE(planned) << planned.error().message;
  EXPECT_EQ(bound, ballast::ratio{5});
  EXPECT_EQ(owner, (std::vector{bin_id{0}, bin_id{1}, bin_id{0}, bin_id{1}}));
  EXPECT_EQ(loads, (std::vector<cost_vector<2>>{{5, 0}, {0, 5}}));
}

TEST(PlanVectors, HasNoLimitWhereGpusHoldMoreThanAWordDoes)
{
  std::vector<cost_vector<1>> const costs{{4}};
  std::vector<ballast::tokens> const lengths{8};
  std::vector<std::uint32_t> const gpus{4};
  std::vector<std::int64_t> const weights{1};
  std::vector<cost_vector<1>> loads(1, cost_vector<1>{});
  std::vector<bin_id> owner(1);
  ballast::workspace memory;
  ballast::ratio bound;
  auto const planned = ballast::detail::plan_vectors(
      ballast::vector_problem<1>{costs, lengths, gpus, gpus}, {}, weights,
      {.most_per_gpu = ballast::partition_constraints::no_limit - 1},
      ballast::vector_longest_processing_time{}, std::span(loads), std::span(owner), bound, memory);
  ASSERT_TRUE(planned) << planned.error().message;
  EXPECT_EQ(bound, ballast::ratio{1});
}

}  // namespace
