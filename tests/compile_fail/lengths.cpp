// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/workload/synthetic_lengths.hpp>

struct fixed {
  ballast::tokens length = 7;
#if defined(OF_NO_DISTRIBUTION)
// EXPECT: length_distribution
#else
  ballast::tokens operator()(ballast::random_source&) const { return length; }
#endif
};

int main()
{
  ballast::clamped_lengths<fixed> const lengths{fixed{}, 1, 9};
  return lengths.shortest == 1 ? 0 : 1;
}
