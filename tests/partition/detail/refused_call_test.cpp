// SPDX-License-Identifier: Apache-2.0
#include <ballast/partition/detail/refused_call.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

namespace refused {

using namespace ballast::detail;
using ballast::bag_layout;
using ballast::longest_processing_time;

struct letter {
  std::uint16_t words = 0;
  double weight = 0;
};

template <class... Arguments>
concept can_be_planned = requires(Arguments&&... arguments) {
  ballast::partition(std::forward<Arguments>(arguments)...);
};

using letters = std::vector<letter>;
using policy = longest_processing_time;
using words = std::uint16_t letter::*;
using weight = double letter::*;
struct no_policy {};

// What does not compile is no call either, though an overload takes it.
static_assert(can_be_planned<letters&, bag_layout, policy, words, words>);
static_assert(can_be_planned<std::vector<std::int64_t>, bag_layout, policy, std::identity>);
static_assert(!can_be_planned<letters&, bag_layout, policy, words>);
static_assert(!can_be_planned<letters&, bag_layout, policy, weight, words>);
static_assert(!can_be_planned<letters&, bag_layout, no_policy, words, words>);
static_assert(!can_be_planned<letters&, int, policy, words, words>);

template <class Expected, class... Arguments>
constexpr bool refused_as = std::same_as<refused_call<Arguments...>, Expected>;

TEST(RefusedCall, SaysWhatIsWrongFirst)
{
  using layout = ballast::bag_layout;
  using of_result = ballast::result<layout>;
  EXPECT_TRUE(
      (refused_as<samples_must_be_a_range_that_can_be_read_twice, int, int, int, int, int>));
  EXPECT_TRUE((refused_as<bags_must_be_the_value_of_the_result_not_the_result, letters&, of_result,
                          policy, words, words>));
  EXPECT_TRUE((refused_as<bags_must_be_a_bag_layout_as_lay_out_makes_it, letters&, int, no_policy,
                          words, words>));
  EXPECT_TRUE((refused_as<the_policy_must_take_a_partition_problem_loads_owner_and_workspace,
                          letters&, layout, no_policy, int, words>));
  EXPECT_TRUE((refused_as<cost_of_must_take_a_sample, letters&, layout, policy, int, words>));
  EXPECT_TRUE((refused_as<the_cost_of_a_sample_must_be_an_integer_or_ranks_could_differ, letters&,
                          layout, policy, weight, std::identity>));
  EXPECT_TRUE((refused_as<samples_that_are_no_integers_need_length_of, letters&, layout, policy,
                          words, std::identity>));
  EXPECT_TRUE((refused_as<length_of_must_take_a_sample, letters&, layout, policy, words, int>));
  EXPECT_TRUE((refused_as<the_length_of_a_sample_must_be_an_integer, letters&, layout, policy,
                          words, weight>));
}

}  // namespace refused

}  // namespace
