// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_POLICY_ARRAYS_HPP
#define BALLAST_PARTITION_DETAIL_POLICY_ARRAYS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/cost_vector.hpp>

#include <cstddef>
#include <span>

namespace ballast::inline v0::detail {

/// What every policy expects of the arrays that it is run with.
inline void expect_policy_arrays(partition_problem const& problem,
                                 std::span<cost_units const> loads, std::span<bag_id const> owner)
{
  BALLAST_EXPECTS(!loads.empty(), "a policy was run without bags: `loads` is empty");
  BALLAST_EXPECTS(loads.size() == problem.gpus.size(), "a policy was run with `loads` of ",
                  counted(loads.size(), "bag"), " for a problem of ", problem.gpus.size());
  BALLAST_EXPECTS(owner.size() == problem.costs.size(), "a policy was run with `owner` of ",
                  counted(owner.size(), "sample"), " for a problem of ", problem.costs.size());
}

/// The same by several quantities, where bags may all be equal.
template <std::size_t D>
void expect_policy_arrays(cost_vector_problem<D> const& problem,
                          std::span<cost_vector<D> const> loads, std::span<bag_id const> owner)
{
  BALLAST_EXPECTS(!loads.empty(), "a policy was run without bags: `loads` is empty");
  BALLAST_EXPECTS(owner.size() == problem.costs.size(), "a policy was run with `owner` of ",
                  counted(owner.size(), "sample"), " for a problem of ", problem.costs.size());
}

/// What policies that pad attention alone expect besides.
inline void expect_attention(partition_problem const& problem)
{
  BALLAST_EXPECTS(problem.attention.size() == problem.costs.size(),
                  "a policy that pads attention was run with attention parts of ",
                  counted(problem.attention.size(), "sample"), " for a problem of ",
                  problem.costs.size());
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_POLICY_ARRAYS_HPP
