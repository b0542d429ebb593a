// SPDX-License-Identifier: Apache-2.0
#include <ballast/partition/vectors/vector_projection.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

namespace {

using ballast::cost_vector;
using ballast::dimensions_of;
using ballast::vector_projection;

struct clip {
  cost_vector<3> stages{};
  std::array<double, 2> seconds{};
  std::int64_t tokens = 0;
};

using clips = std::vector<clip>;
using three_costs = cost_vector<3> clip::*;
using floating_costs = std::array<double, 2> clip::*;
using one_cost = std::int64_t clip::*;

static_assert(vector_projection<std::identity, std::vector<cost_vector<2>>&>);
static_assert(vector_projection<three_costs, clips&>);
static_assert(!vector_projection<floating_costs, clips&>);
static_assert(!vector_projection<one_cost, clips&>);
static_assert(!vector_projection<std::identity, std::vector<std::int64_t>>);
static_assert(!vector_projection<int, clips&>);
static_assert(!vector_projection<std::identity, cost_vector<2> const*>);

TEST(VectorProjection, CountsTheCostsOfASample)
{
  EXPECT_EQ((dimensions_of<std::identity, std::vector<cost_vector<2>>&>), 2U);
  EXPECT_EQ((dimensions_of<three_costs, clips const&>), 3U);
}

}  // namespace
