// EXPECT: a_dimension_of_a_transformer_is_at_least_1
#include <ballast/cost/cost_literal.hpp>

using namespace ballast::literals;
constexpr auto cost = "transformer:d=0"_cost;

int main()
{
  return cost(16) > 0 ? 0 : 1;
}
