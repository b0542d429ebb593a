// EXPECT: no_known_model_has_this_name
#include <ballast/cost/known_models.hpp>

constexpr auto shape = ballast::known_shape("llama3-8");

int main()
{
  return shape.layers > 0 ? 0 : 1;
}
