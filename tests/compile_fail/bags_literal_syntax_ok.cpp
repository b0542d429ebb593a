#include <ballast/topology/bag_spec.hpp>

using namespace ballast::literals;
constexpr ballast::bag_spec bags = "g1n2+g1n1"_bags;

int main()
{
  return static_cast<int>(bags.gpus()) - 3;
}
