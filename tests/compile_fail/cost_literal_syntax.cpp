// EXPECT: a_cost_reads_like_transformer_d_3072_gamma_0_405_or_tokens.*"transformers"
#include <ballast/cost/cost_literal.hpp>

using namespace ballast::literals;
constexpr auto cost = "transformers"_cost;

int main()
{
  return cost(16) > 0 ? 0 : 1;
}
