// SPDX-License-Identifier: Apache-2.0
// Ten samples of very different lengths on eight GPUs, planned and printed.

// [first_plan]
#include <ballast/ballast.hpp>

#include <cstdio>
#include <vector>

int main()
{
  using namespace ballast;
  std::vector<tokens> const lengths{16000, 3900, 2800, 2600, 2200, 1800, 1700, 1300, 900, 700};
  constexpr auto cost = "transformer:d=3072,gamma=0.405"_cost;
  bag_layout const bags("g1n4+g4n1"_bags, 8);
  auto const plan = ballast::partition(lengths, bags, cost);
  if (!plan) { return std::puts(plan.error().message.c_str()), 1; }
  for (auto const samples : plan->samples) {  // one row per bag
    for (auto const sample : samples) { std::printf("%6ld", lengths[sample]); }
    std::puts("");
  }
  std::printf("at most %.1f %% above the best plan there is\n", 100 * plan->gap());
}
// [first_plan]
