// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/route/placement.hpp>

namespace ballast_test {

/// The rank of every token of a sample, one by one.
inline std::vector<std::size_t> ranks_of_tokens(ballast::placement const& where,
                                                ballast::sample_id sample)
{
  std::vector<std::size_t> ranks;
  for (ballast::piece const& each : where[sample]) {
    for (ballast::tokens token = 0; token < each.count; ++token) {
      ranks.push_back(to_index(each.rank));
    }
  }
  return ranks;
}

}  // namespace ballast_test
