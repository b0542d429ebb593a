#include <ballast/partition/vectors/concepts.hpp>  // first: proves it is self-contained

#include "../../support/all_in_first_bin.hpp"
#include "../../support/vector_checks.hpp"

#include <gtest/gtest.h>

#include <span>

namespace {

using ballast::bin_id;
using ballast::cost_vector;
using ballast_test::all_in_first_bin;

struct knows_two_dimensions {
  void operator()(ballast::vector_problem<2> const&, std::span<cost_vector<2>>, std::span<bin_id>,
                  ballast::workspace&) const
  {}
  friend bool operator==(knows_two_dimensions, knows_two_dimensions) = default;
};

static_assert(ballast::vector_partition_policy<all_in_first_bin, 1>);
static_assert(ballast::vector_partition_policy<all_in_first_bin, 3>);
static_assert(ballast::vector_partition_policy<knows_two_dimensions, 2>);
static_assert(!ballast::vector_partition_policy<knows_two_dimensions, 3>);

TEST(VectorPartitionPolicy, IsAllThatTheFrontDoorAsksFor)
{
  EXPECT_EQ(all_in_first_bin{}, all_in_first_bin{});
  EXPECT_EQ(knows_two_dimensions{}, knows_two_dimensions{});
  ballast_test::expect_valid_vector_plans(all_in_first_bin{}, 3);
}

}  // namespace
