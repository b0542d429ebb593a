// SPDX-License-Identifier: Apache-2.0
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/round_robin.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/cluster.hpp>

#include <cstdint>
#include <vector>

struct document {
  std::int64_t words = 0;
};

int main()
{
  using namespace ballast::literals;
  std::vector<document> const documents(4);
  auto const laid_out = ballast::lay_out("g1n8"_bags, ballast::cluster{});
  ballast::bag_layout const bags = ballast::one_gpu_bags(8);
  ballast::longest_processing_time const policy;
  auto const words = &document::words;
  auto const others = [](char const*) { return 1; };
  auto const both = [](document const& each) { return ballast::cost_vector<2>{each.words, 1}; };
  auto const half = [](document) { return 0.5; };
#if defined(BY_HALF_A_LENGTH)
  // EXPECT: the_length_of_a_sample_must_be_an_integer
  auto const plan = ballast::partition(documents, bags, words, half, {}, policy);
#elif defined(BY_NO_POLICY)
  // EXPECT: the_policy_must_take_a_partition_problem_loads_owner_and_workspace
  auto const plan = ballast::partition(documents, bags, words, words, {}, [](int) {});
#elif defined(BY_NO_POLICY_OF_SEVERAL_COSTS)
  // EXPECT: the_policy_must_take_a_cost_vector_problem_loads_owner_and_workspace
  auto const plan = ballast::partition(documents, bags, both, words, {}, ballast::round_robin{});
#elif defined(BY_THE_COST_OF_OTHERS)
  // EXPECT: cost_of_must_take_a_sample
  auto const plan = ballast::partition(documents, bags, others, words, {}, policy);
#elif defined(BY_THE_LENGTH_OF_OTHERS)
  // EXPECT: length_of_must_take_a_sample
  auto const plan = ballast::partition(documents, bags, words, others, {}, policy);
#elif defined(OF_A_NUMBER)
  // EXPECT: samples_must_be_a_range_that_can_be_read_twice
  auto const plan = ballast::partition(4, bags, words, words, {}, policy);
#elif defined(OF_A_RESULT)
  // EXPECT: bags_must_be_the_value_of_the_result_not_the_result
  auto const plan = ballast::partition(documents, laid_out, words, words, {}, policy);
#elif defined(OF_FLOATING_POINT)
  // EXPECT: the_cost_of_a_sample_must_be_an_integer_or_ranks_could_differ
  auto const plan = ballast::partition(documents, bags, half, words, {}, policy);
#elif defined(WITH_THE_POLICY_FIRST)
  // EXPECT: the_cost_comes_before_limits_and_policy
  auto const plan = ballast::partition(documents, bags, policy, words);
#elif defined(WITHOUT_LAYOUT)
  // EXPECT: bags_must_be_a_bag_layout_as_lay_out_makes_it
  auto const plan = ballast::partition(documents, 8, words, words, {}, policy);
#elif defined(WITHOUT_LENGTH)
  // EXPECT: samples_that_are_no_integers_need_length_of
  auto const plan = ballast::partition(documents, bags, words, {}, policy);
#else
  auto const plan = ballast::partition(documents, bags, words, words, {}, policy);
#endif
  auto const by_both = ballast::partition(documents, bags, both, words, {}, policy);
  return plan && by_both && laid_out && policy == policy ? bags.size() == 8 : 1;
}
