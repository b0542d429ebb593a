// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/concepts.hpp>

namespace ballast::inline v0 {

/// Sample i goes to bag i mod m: what a data loader does without balancing, and the baseline of
/// every table.
///
/// A sample that does not fit its bag goes to the next one, in cyclic order, that it fits.
///
/// Ensures     (1) every sample has one bag, which it fits
///             (2) loads have grown by exactly the costs of the samples each bag now owns
///             (3) with all samples fitting everywhere, counts per bag differ by at most one
/// Complexity  O(n), and O(n m) in the worst case of samples that hardly fit anywhere.
struct round_robin {
  void operator()(partition_problem const& problem, std::span<cost_units> loads,
                  std::span<bag_id> owner, workspace&) const
  {
    detail::expect_policy_arrays(problem, loads, owner);
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      std::size_t bag = sample % loads.size();
      for (std::size_t tried = 1; tried < loads.size() && !problem.fits(sample, bag); ++tried) {
        bag = bag + 1 == loads.size() ? 0 : bag + 1;
      }
      loads[bag] += problem.costs[sample];
      owner[sample] = to_id<bag_id>(bag);
    }
  }

  friend bool operator==(round_robin, round_robin) = default;
};

}  // namespace ballast::inline v0
