// EXPECT: a_flag_of_a_cost_is_0_or_1.*"causal"
// TWIN: cost_literal_key_ok.cpp
#include <ballast/cost/cost_literal.hpp>

using namespace ballast::literals;
constexpr auto cost = "transformer:d=3072,causal=2"_cost;

int main()
{
  return cost(16) > 0 ? 0 : 1;
}
