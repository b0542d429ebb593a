// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/jagged.hpp>

#include <cstddef>

#if defined(OF_NUMBERS)
// EXPECT: (constraint failure|constraints not satisfied)
ballast::jagged<int, ballast::sample_id> bags;
#else
ballast::jagged<ballast::bag_id, ballast::sample_id> bags;
#endif

#if defined(OF_ANOTHER_KEY)
// EXPECT: (no match for 'operator\[\]'|no viable overloaded operator\[\])
std::size_t count(ballast::rank_id rank)
{
  return bags[rank].size();
}
#else
std::size_t count(ballast::bag_id bag)
{
  return bags[bag].size();
}
#endif
