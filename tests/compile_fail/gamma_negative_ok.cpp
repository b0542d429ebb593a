#include <ballast/cost/gamma_correction.hpp>
#include <ballast/cost/transformer_shape.hpp>

constexpr auto cost = ballast::gamma_corrected(ballast::classic_transformer(3072), 0.405);

int main()
{
  return cost(16) > 0 ? 0 : 1;
}
