#include <ballast/partition/concepts.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"
#include "../support/vector_checks.hpp"

namespace {

using namespace ballast;
using namespace ballast_test;

struct knows_two_dimensions {
  void operator()(cost_vector_problem<2> const&, std::span<cost_vector<2>>, std::span<bag_id>,
                  workspace&) const
  {}
  friend bool operator==(knows_two_dimensions, knows_two_dimensions) = default;
};

static_assert(cost_vector_policy<all_in_first_bin, 1>);
static_assert(cost_vector_policy<all_in_first_bin, 3>);
static_assert(cost_vector_policy<knows_two_dimensions, 2>);
static_assert(!cost_vector_policy<knows_two_dimensions, 3>);

TEST(VectorPartitionPolicy, IsAllThatTheFrontDoorAsksFor)
{
  EXPECT_EQ(all_in_first_bin{}, all_in_first_bin{});
  EXPECT_EQ(knows_two_dimensions{}, knows_two_dimensions{});
  expect_valid_vector_plans(all_in_first_bin{}, 3);
}

struct clip {
  cost_vector<3> stages{};
  std::array<double, 2> seconds{};
  std::int64_t tokens = 0;
};
using clips = std::vector<clip>;

static_assert(cost_vector_projection<std::identity, std::vector<cost_vector<2>>&>);
static_assert(cost_vector_projection<cost_vector<3> clip::*, clips&>);
static_assert(!cost_vector_projection<std::array<double, 2> clip::*, clips&>);
static_assert(!cost_vector_projection<std::int64_t clip::*, clips&>);
static_assert(!cost_vector_projection<std::identity, std::vector<std::int64_t>>);
static_assert(!cost_vector_projection<int, clips&>);
static_assert(!cost_vector_projection<std::identity, cost_vector<2> const*>);
static_assert(cost_projection<std::int64_t clip::*, clips&>);
static_assert(!cost_projection<std::array<double, 2> clip::*, clips&>);
static_assert(std::same_as<planned_cost<cost_vector<3> clip::*, clips const&>, cost_vector<3>>);
static_assert(std::same_as<planned_cost<std::int64_t clip::*, clips&>, cost_units>);

TEST(VectorProblem, OfCostsAloneHasEqualBins)
{
  std::vector<cost_vector<1>> const costs{{1}};
  cost_vector_problem<1> const problem{costs};
  EXPECT_EQ(problem.speed(7), 1U);
  EXPECT_TRUE(problem.fits(0, 7));
  EXPECT_TRUE(problem.one_speed());
  EXPECT_TRUE(problem.any_bag_is_open());
}

TEST(VectorProblem, KnowsWhichBinsAreOpen)
{
  std::vector<cost_vector<1>> const costs{{1}, {1}, {1}};
  std::vector<tokens> lengths{4, 3, 0};
  std::vector<std::uint32_t> const gpus{4, 1};
  std::vector<std::uint32_t> const speeds{8, 2};
  cost_vector_problem<1> problem{costs, lengths, gpus, speeds};
  EXPECT_EQ(problem.speed(1), 2U);
  EXPECT_FALSE(problem.one_speed());
  EXPECT_TRUE(problem.fits(0, 0));
  EXPECT_FALSE(problem.fits(1, 0));
  EXPECT_TRUE(problem.fits(1, 1));
  EXPECT_TRUE(problem.fits(2, 0));
  EXPECT_FALSE(problem.any_bag_is_open());
  lengths[1] = 4;
  EXPECT_TRUE(problem.any_bag_is_open());
  problem.capacities = std::span<std::int64_t const>(&longest_sample, 1);
  EXPECT_FALSE(problem.any_bag_is_open());
}

}  // namespace
