#include <ballast/cost/known_models.hpp>

constexpr auto shape = ballast::known_shape("llama3-8b");

int main()
{
  return shape.layers > 0 ? 0 : 1;
}
