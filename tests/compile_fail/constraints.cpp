// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/quantities.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/placement_limits.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <cstdint>
#include <string>
#include <vector>

#if defined(OF_TEXTS)
// EXPECT: limits.together and limits.apart take an array of
std::vector<std::string> const prompts = {"a", "a", "b"};
#else
std::vector<std::int16_t> const prompts = {1, 1, 2};
#endif

#if defined(OF_PLAIN_HOMES)
// EXPECT: limits.home takes an array of rank_id
std::vector<std::uint32_t> const homes = {0, 1, 1};
#else
std::vector<ballast::rank_id> const homes(3);
#endif

#if defined(OF_FLOATING_POINT)
// EXPECT: limits.also.of takes an array of std::int64_t
std::vector<double> const weights = {0.5, 1, 2};
#else
std::vector<std::int64_t> const weights = {5, 1, 2};
#endif

int main()
{
  std::vector<std::int64_t> const lengths = {3, 2, 1};
  auto const cost = [](std::int64_t length) { return length; };
  auto const plan = ballast::partition(
      lengths, ballast::one_gpu_bags(2), cost,
      {.together = prompts, .home = homes, .also = {{.of = weights, .most_per_gpu = 7}}});
  return plan ? 0 : 1;
}
