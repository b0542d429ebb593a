#include <ballast/partition/any_policy.hpp>  // first: proves it is self-contained

#include "../support/instances.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace {

using ballast::any_policy;
using ballast::parse_policy;

static_assert(ballast::partition_policy<any_policy>);

TEST(AnyPolicy, PlansAsThePolicyItNames)
{
  ballast::random_source random(23);
  auto const step = ballast_test::random_instance(random, 40, 5, 4);
  auto const owners = [&](auto const& policy) {
    return ballast_test::plan_instance(step, policy).value().owner;
  };
  EXPECT_EQ(owners(*parse_policy("greedy_knapsack")), owners(ballast::greedy_knapsack{}));
  EXPECT_EQ(owners(*parse_policy("greedy_knapsack:capacity=full")),
            owners(ballast::greedy_knapsack{ballast::knapsack_capacity::full}));
  EXPECT_EQ(owners(*parse_policy("longest_processing_time")),
            owners(ballast::longest_processing_time{}));
  EXPECT_EQ(owners(*parse_policy("lpt")), owners(ballast::longest_processing_time{}));
  EXPECT_EQ(owners(*parse_policy("round_robin")), owners(ballast::round_robin{}));
}

TEST(AnyPolicy, ListsTheNamesItKnowsWhenOneIsUnknown)
{
  auto const policy = parse_policy("magic");
  ASSERT_FALSE(policy);
  EXPECT_EQ(policy.error().code, ballast::error_code::unknown_name);
  EXPECT_THAT(policy.error().message, testing::HasSubstr("'magic'"));
  EXPECT_THAT(policy.error().message, testing::HasSubstr("longest_processing_time"));
}

}  // namespace
