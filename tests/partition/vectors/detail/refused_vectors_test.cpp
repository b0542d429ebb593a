// SPDX-License-Identifier: Apache-2.0
#include <ballast/partition/vectors/detail/refused_vectors.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/partition/vectors/partition_vectors.hpp>
#include <ballast/partition/vectors/vector_refine.hpp>

#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace {

namespace refused_of_vectors {

using namespace ballast::detail;
using ballast::bag_layout;
using ballast::cost_vector;

struct clip {
  cost_vector<2> stages{};
  std::array<double, 2> seconds{};
  std::int64_t tokens = 0;
  double weight = 0;
};

using clips = std::vector<clip>;
using policy = ballast::vector_refine<>;
using stages = cost_vector<2> clip::*;
using seconds = std::array<double, 2> clip::*;
using length = std::int64_t clip::*;
using weight = double clip::*;
struct no_policy {};

template <class... Arguments>
concept can_be_planned = requires(Arguments&&... arguments) {
  ballast::partition_vectors(std::forward<Arguments>(arguments)...);
};

// What does not compile is no call either, though an overload takes it.
static_assert(can_be_planned<clips&, int, policy, stages>);
static_assert(can_be_planned<std::vector<cost_vector<3>>, std::size_t, policy>);
static_assert(can_be_planned<clips&, bag_layout, policy, stages, length>);
static_assert(!can_be_planned<clips&, int, policy>);
static_assert(!can_be_planned<clips&, int, policy, seconds>);
static_assert(!can_be_planned<clips&, int, no_policy, stages>);
static_assert(!can_be_planned<clips&, bag_layout, policy, stages>);
static_assert(!can_be_planned<clips&, bag_layout, policy, stages, weight>);

template <class Expected, class... Arguments>
constexpr bool refused_as = std::same_as<refused_vectors<Arguments...>, Expected>;

TEST(RefusedVectors, SaysWhatIsWrongFirst)
{
  using of_result = ballast::result<bag_layout>;
  using none = std::identity;
  EXPECT_TRUE(
      (refused_as<samples_must_be_a_range_that_can_be_read_twice, int, int, int, int, none>));
  EXPECT_TRUE((refused_as<bags_must_be_the_value_of_the_result_not_the_result, clips&, of_result,
                          policy, stages, length>));
  EXPECT_TRUE(
      (refused_as<bins_must_be_a_number_or_a_bag_layout, clips&, policy, policy, stages, length>));
  EXPECT_TRUE((refused_as<costs_of_must_take_a_sample, clips&, int, policy, int, none>));
  EXPECT_TRUE((refused_as<the_costs_of_a_sample_must_be_a_cost_vector, clips&, int, no_policy,
                          seconds, none>));
  EXPECT_TRUE((refused_as<the_policy_must_take_a_vector_problem_loads_owner_and_workspace, clips&,
                          bag_layout, no_policy, stages, none>));
  EXPECT_TRUE((refused_as<samples_that_are_no_integers_need_length_of, clips&, bag_layout, policy,
                          stages, none>));
  EXPECT_TRUE((refused_as<length_of_must_take_a_sample, clips&, bag_layout, policy, stages, int>));
  EXPECT_TRUE((refused_as<the_length_of_a_sample_must_be_an_integer, clips&, bag_layout, policy,
                          stages, weight>));
}

}  // namespace refused_of_vectors

}  // namespace
