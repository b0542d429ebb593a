// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/quantities.hpp>
#include <ballast/partition/capped.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/partition_constraints.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <cstdint>
#include <string>
#include <vector>

#if defined(OF_TEXTS)
// EXPECT: constraints.together and constraints.apart take an array of
std::vector<std::string> const prompts = {"a", "a", "b"};
#else
std::vector<std::int16_t> const prompts = {1, 1, 2};
#endif

#if defined(OF_PLAIN_HOMES)
// EXPECT: constraints.home takes an array of rank_id
std::vector<std::uint32_t> const homes = {0, 1, 1};
#else
std::vector<ballast::rank_id> const homes(3);
#endif

#if defined(OF_FLOATING_POINT)
// EXPECT: constraints.weights takes an array of std::int64_t
std::vector<double> const weights = {0.5, 1, 2};
#else
std::vector<std::int64_t> const weights = {5, 1, 2};
#endif

// A program that always has rules asks for a policy whose type keeps them.
template <ballast::rule_keeping_policy Policy>
void plan_apart(Policy const&)
{}

#if defined(OF_A_POLICY_WITHOUT_RULES)
// EXPECT: rule_keeping_policy
using policy = ballast::longest_processing_time;
#else
using policy = ballast::refine<>;
#endif

int main()
{
  plan_apart(policy{});
  std::vector<std::int64_t> const lengths = {3, 2, 1};
  auto const cost = [](std::int64_t length) { return length; };
  auto const plan = ballast::partition(
      lengths, ballast::one_gpu_bags(2), ballast::capped{}, cost,
      {.together = prompts, .home = homes, .most_per_gpu = 7, .weights = weights});
  return plan ? 0 : 1;
}
