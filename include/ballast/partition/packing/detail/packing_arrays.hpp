// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PACKING_DETAIL_PACKING_ARRAYS_HPP
#define BALLAST_PARTITION_PACKING_DETAIL_PACKING_ARRAYS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/partition/packing/concepts.hpp>

#include <span>

namespace ballast::inline v0::detail {

/// What every packing policy expects of the arrays that it is run with.
inline void expect_packing_arrays(packing_problem const& problem, std::span<bag_id const> owner)
{
  BALLAST_EXPECTS(owner.size() == problem.weights.size(),
                  "a packing policy was run with `owner` of ", counted(owner.size(), "sample"),
                  " for a problem of ", problem.weights.size());
  BALLAST_EXPECTS(problem.heaviest_first.size() == problem.weights.size(),
                  "a packing policy was run with `heaviest_first` of ",
                  counted(problem.heaviest_first.size(), "sample"), " for a problem of ",
                  problem.weights.size());
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_PACKING_DETAIL_PACKING_ARRAYS_HPP
