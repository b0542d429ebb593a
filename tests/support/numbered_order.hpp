// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_SUPPORT_NUMBERED_ORDER_HPP
#define BALLAST_TESTS_SUPPORT_NUMBERED_ORDER_HPP

#include <ballast/core/ids.hpp>

#include <cstddef>
#include <vector>

namespace ballast_test {

/// Microbatches in the order in which they are numbered.
[[nodiscard]] inline std::vector<ballast::microbatch_id> numbered_order(std::size_t microbatches)
{
  std::vector<ballast::microbatch_id> order(microbatches);
  for (std::size_t at = 0; at < microbatches; ++at) {
    order[at] = ballast::to_id<ballast::microbatch_id>(at);
  }
  return order;
}

}  // namespace ballast_test

#endif  // BALLAST_TESTS_SUPPORT_NUMBERED_ORDER_HPP
