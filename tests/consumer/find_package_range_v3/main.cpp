// SPDX-License-Identifier: Apache-2.0
#include <ballast/ballast.hpp>
#include <ballast/interop/range_v3.hpp>
#include <range/v3/numeric/accumulate.hpp>

#include <vector>

// The tokens of each bag, summed over views.
int main()
{
  std::vector<ballast::tokens> const lengths = {100, 900, 200};
  auto const plan =
      ballast::partition(lengths, ballast::one_gpu_bags(2), ballast::quadratic_cost{.linear = 1},
                         {}, ballast::longest_processing_time{});
  if (!plan) { return 1; }
  std::vector<ballast::tokens> sums;
  for (auto bag : ballast::view_rows(plan->samples, lengths)) {
    sums.push_back(ranges::accumulate(bag, ballast::tokens{0}));
  }
  return sums == std::vector<ballast::tokens>{900, 300} ? 0 : 1;
}
