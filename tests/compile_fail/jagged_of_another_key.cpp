// EXPECT: (no match for 'operator\[\]'|no viable overloaded operator\[\])
// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/jagged.hpp>

std::size_t count(ballast::jagged<ballast::bag_id, ballast::sample_id> const& bags,
                  ballast::rank_id rank)
{
  return bags[rank].size();
}
