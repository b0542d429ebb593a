// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_GIVEN_ORDER_HPP
#define BALLAST_PIPELINE_GIVEN_ORDER_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/concepts.hpp>

#include <span>

namespace ballast::inline v0 {

/// As the data loader gave them: the baseline.
///
/// Ensures     (1) the order is left as it is
/// Complexity  O(1).
struct given_order {
  void operator()(order_problem const&, std::span<microbatch_id>, workspace&) const noexcept {}

  friend bool operator==(given_order const&, given_order const&) = default;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PIPELINE_GIVEN_ORDER_HPP
