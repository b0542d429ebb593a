// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <boost/multiprecision/cpp_int.hpp>

#include <cmath>

namespace ballast_test {

using boost::multiprecision::cpp_int;
using boost::multiprecision::cpp_rational;

inline cpp_rational power_of_two(int exponent)
{
  cpp_int const power = cpp_int(1) << (exponent < 0 ? -exponent : exponent);
  return exponent < 0 ? cpp_rational(1, power) : cpp_rational(power);
}

/// The number a double stands for, without rounding.
inline cpp_rational exact(double value)
{
  int exponent = 0;
  double const fraction = std::frexp(value, &exponent);
  return cpp_rational(static_cast<std::int64_t>(std::ldexp(fraction, 53))) *
         power_of_two(exponent - 53);
}

inline cpp_int round_half_up(cpp_rational const& value)
{
  cpp_rational const raised = value + cpp_rational(1, 2);
  return numerator(raised) / denominator(raised);  // the costs here are not negative
}

/// What a cost model should answer whose exact cost this is.
inline ballast::cost_units as_cost(cpp_rational const& value)
{
  cpp_int const rounded = round_half_up(value);
  return rounded < ballast::no_cost ? static_cast<ballast::cost_units>(rounded) : ballast::no_cost;
}

}  // namespace ballast_test
