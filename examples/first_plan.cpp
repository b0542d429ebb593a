// SPDX-License-Identifier: Apache-2.0
// Plans ten samples for three GPUs.

// [first_plan]
#include <ballast/ballast.hpp>

#include <cstdio>
#include <vector>

int main()
{
  using namespace ballast;
  std::vector<tokens> const lengths{9000, 3900, 2800, 2600, 2200, 1800, 1700, 1300, 900, 700};
  constexpr auto cost = "transformer:d=3072,gamma=0.405"_cost;
  auto const plan = ballast::partition(lengths, one_gpu_bags(3), cost);
  if (!plan) { return std::puts(plan.error().message.c_str()), 1; }
  for (auto const samples : plan->samples) {  // one row per GPU
    for (auto const sample : samples) { std::printf("%6ld", lengths[sample]); }
    std::puts("");
  }
  std::printf("at most %.1f %% above the best plan there is\n", 100 * plan->gap());
}
// [first_plan]
