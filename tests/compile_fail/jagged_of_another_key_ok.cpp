// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/jagged.hpp>

std::size_t count(ballast::jagged<ballast::bag_id, ballast::sample_id> const& bags,
                  ballast::bag_id bag)
{
  return bags[bag].size();
}
