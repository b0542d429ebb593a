// EXPECT: a_bag_specification_reads_like_g1n2_plus_g4n1
#include <ballast/topology/bag_spec.hpp>

using namespace ballast::literals;
constexpr ballast::bag_spec bags = "g1n2+n1"_bags;

int main()
{
  return static_cast<int>(bags.gpus()) - 2;
}
