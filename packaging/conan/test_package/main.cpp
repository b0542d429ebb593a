// SPDX-License-Identifier: Apache-2.0
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <functional>
#include <vector>

int main()
{
  std::vector<ballast::tokens> const lengths = {100, 900, 200};
  auto const plan = ballast::partition(lengths, ballast::one_gpu_bags(2), std::identity{}, {},
                                       ballast::longest_processing_time{});
  return plan && plan->loads == std::vector<ballast::cost_units>{900, 300} ? 0 : 1;
}
