// EXPECT: a_cost_has_no_such_key.*"gama"
#include <ballast/cost/cost_literal.hpp>

using namespace ballast::literals;
constexpr auto cost = "transformer:d=3072,gama=0.405"_cost;

int main()
{
  return cost(16) > 0 ? 0 : 1;
}
