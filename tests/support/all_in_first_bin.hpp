// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_SUPPORT_ALL_IN_FIRST_BIN_HPP
#define BALLAST_TESTS_SUPPORT_ALL_IN_FIRST_BIN_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/cost_vector.hpp>

#include <cstddef>
#include <span>

namespace ballast_test {

/// Satisfies cost_vector_policy and nothing more, and is as bad as can be: everything in the
/// first bin.
struct all_in_first_bin {
  template <std::size_t D>
  void operator()(ballast::cost_vector_problem<D> const& problem,
                  std::span<ballast::cost_vector<D>> loads, std::span<ballast::bag_id> owner,
                  ballast::workspace&) const
  {
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      owner[sample] = ballast::bag_id{0};
      for (std::size_t d = 0; d < D; ++d) { loads[0][d] += problem.costs[sample][d]; }
    }
  }
  friend bool operator==(all_in_first_bin, all_in_first_bin) = default;
};

}  // namespace ballast_test

#endif  // BALLAST_TESTS_SUPPORT_ALL_IN_FIRST_BIN_HPP
