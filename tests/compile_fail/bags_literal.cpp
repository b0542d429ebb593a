// SPDX-License-Identifier: Apache-2.0
#include <ballast/topology/bag_layout.hpp>

using namespace ballast::literals;

#if defined(SYNTAX)
// EXPECT: a_bag_specification_reads_like_g1n2_plus_g4n1
constexpr ballast::bag_spec bags = "g1n2+n1"_bags;
#elif defined(ZERO)
// EXPECT: a_bag_specification_has_no_zero
constexpr ballast::bag_spec bags = "g1n2+g0n1"_bags;
#else
constexpr ballast::bag_spec bags = "g1n2+g1n1"_bags;
#endif

int main()
{
  return static_cast<int>(bags.gpus()) - 3;
}
