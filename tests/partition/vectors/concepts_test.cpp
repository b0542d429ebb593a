#include <ballast/partition/vectors/concepts.hpp>  // first: proves it is self-contained

#include "../../support/vector_checks.hpp"

#include <gtest/gtest.h>

#include <span>

namespace {

using ballast::bin_id;
using ballast::cost_vector;

// Satisfies vector_partition_policy and nothing more: everything in the first bin.
struct all_in_one {
  template <std::size_t D>
  void operator()(ballast::vector_problem<D> const& problem, std::span<cost_vector<D>> loads,
                  std::span<bin_id> owner, ballast::workspace&) const
  {
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      owner[sample] = bin_id{0};
      for (std::size_t d = 0; d < D; ++d) { loads[0][d] += problem.costs[sample][d]; }
    }
  }
  friend bool operator==(all_in_one, all_in_one) = default;
};

struct knows_two_dimensions {
  void operator()(ballast::vector_problem<2> const&, std::span<cost_vector<2>>, std::span<bin_id>,
                  ballast::workspace&) const
  {}
  friend bool operator==(knows_two_dimensions, knows_two_dimensions) = default;
};

static_assert(ballast::vector_partition_policy<all_in_one, 1>);
static_assert(ballast::vector_partition_policy<all_in_one, 3>);
static_assert(ballast::vector_partition_policy<knows_two_dimensions, 2>);
static_assert(!ballast::vector_partition_policy<knows_two_dimensions, 3>);

TEST(VectorPartitionPolicy, IsAllThatTheFrontDoorAsksFor)
{
  EXPECT_EQ(all_in_one{}, all_in_one{});
  EXPECT_EQ(knows_two_dimensions{}, knows_two_dimensions{});
  ballast_test::expect_valid_vector_plans(all_in_one{}, 3);
}

}  // namespace
