// SPDX-License-Identifier: Apache-2.0
#include <ballast/ballast.hpp>

#include <cstdio>
#include <vector>

static_assert(BALLAST_VERSION >= 100);

// Three samples on two GPUs: the long one by itself.
int main()
{
  std::vector<ballast::tokens> const lengths = {100, 900, 200};
  auto const plan =
      ballast::partition(lengths, ballast::one_gpu_bags(2), ballast::quadratic_cost{.linear = 1},
                         {}, ballast::longest_processing_time{});
  if (!plan) { return 1; }
  std::printf("loads %ld and %ld\n", plan->loads[0], plan->loads[1]);
  return plan->loads == std::vector<ballast::cost_units>{900, 300} ? 0 : 1;
}
