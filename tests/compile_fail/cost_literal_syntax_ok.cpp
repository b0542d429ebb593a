#include <ballast/cost/cost_literal.hpp>

using namespace ballast::literals;
constexpr auto cost = "tokens"_cost;

int main()
{
  return cost(16) > 0 ? 0 : 1;
}
