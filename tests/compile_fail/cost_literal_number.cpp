// EXPECT: a_value_of_a_cost_is_a_number_without_sign_or_exponent.*"gamma"
// TWIN: cost_literal_key_ok.cpp
#include <ballast/cost/cost_literal.hpp>

using namespace ballast::literals;
constexpr auto cost = "transformer:d=3072,gamma=1e3"_cost;

int main()
{
  return cost(16) > 0 ? 0 : 1;
}
