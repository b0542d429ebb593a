// EXPECT: a_transformer_needs_its_hidden_size.*"d"
// TWIN: cost_literal_key_ok.cpp
#include <ballast/cost/cost_literal.hpp>

using namespace ballast::literals;
constexpr auto cost = "transformer:layers=2,gamma=0.405"_cost;

int main()
{
  return cost(16) > 0 ? 0 : 1;
}
