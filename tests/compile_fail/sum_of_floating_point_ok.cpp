#include <ballast/core/quantities.hpp>
#include <ballast/cost/composed_cost.hpp>
#include <ballast/cost/quadratic_cost.hpp>

ballast::cost_units price()
{
  auto const model = ballast::sum_of{ballast::quadratic_cost{1}, [](ballast::tokens) { return 1; }};
  return model(ballast::tokens{7});
}
