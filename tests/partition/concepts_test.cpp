#include <ballast/partition/concepts.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>

#include <span>

namespace {

using ballast::bag_id;
using ballast::cost_units;
using ballast::partition_policy;
using ballast::partition_problem;
using ballast::workspace;

// The least that is a policy.
struct archetype {
  void operator()(partition_problem const&, std::span<cost_units>, std::span<bag_id>,
                  workspace&) const
  {}
  friend bool operator==(archetype, archetype) = default;
};
static_assert(partition_policy<archetype> && archetype{} == archetype{});

struct cannot_be_compared {
  void operator()(partition_problem const&, std::span<cost_units>, std::span<bag_id>,
                  workspace&) const
  {}
};
static_assert(!partition_policy<cannot_be_compared>);

struct changes_itself {
  void operator()(partition_problem const&, std::span<cost_units>, std::span<bag_id>, workspace&) {}
  friend bool operator==(changes_itself, changes_itself) = default;
};
static_assert(!partition_policy<changes_itself> && changes_itself{} == changes_itself{});

struct wants_floating_point {
  void operator()(partition_problem const&, std::span<double>, std::span<bag_id>, workspace&) const
  {}
  friend bool operator==(wants_floating_point, wants_floating_point) = default;
};
static_assert(!partition_policy<wants_floating_point> &&
              wants_floating_point{} == wants_floating_point{});

TEST(PartitionProblem, LetsASampleIntoBagsWithNoMoreGpusThanItHasTokens)
{
  EXPECT_TRUE(partition_problem::fits(4, 4));
  EXPECT_TRUE(partition_problem::fits(5, 4));
  EXPECT_FALSE(partition_problem::fits(3, 4));
  EXPECT_FALSE(partition_problem::fits(1, 2));
  EXPECT_TRUE(partition_problem::fits(1, 1));
}

TEST(PartitionProblem, LetsASampleWithoutTokensInEverywhere)
{
  EXPECT_TRUE(partition_problem::fits(0, 1));
  EXPECT_TRUE(partition_problem::fits(0, 8));
}

}  // namespace
