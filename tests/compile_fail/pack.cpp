// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/quantities.hpp>
#include <ballast/partition/packing/first_fit_decreasing.hpp>
#include <ballast/partition/packing/pack_to_capacity.hpp>

#include <vector>

bool packs(std::vector<ballast::tokens> const& lengths)
{
#if defined(BY_NO_POLICY)
  // EXPECT: packing_policy
  return ballast::pack_to_capacity(lengths, 8192, [](int) {}).has_value();
#else
  return ballast::pack_to_capacity(lengths, 8192, ballast::first_fit_decreasing{}).has_value();
#endif
}
