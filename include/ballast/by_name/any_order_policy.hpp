// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_BY_NAME_ANY_ORDER_POLICY_HPP
#define BALLAST_BY_NAME_ANY_ORDER_POLICY_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/units.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/ascending_order.hpp>
#include <ballast/pipeline/concepts.hpp>
#include <ballast/pipeline/exact_order.hpp>
#include <ballast/pipeline/given_order.hpp>
#include <ballast/pipeline/insertion.hpp>
#include <ballast/pipeline/interval_filling.hpp>
#include <ballast/pipeline/local_search.hpp>

#include <span>
#include <variant>

namespace ballast::inline v0 {

/// An order policy chosen at run time, for command lines and benchmarks. Trainers write the type
/// instead, so that the compiler sees through it.
///
/// Ensures     (1) its orders and lower bounds are those of the policy that it holds
struct any_order_policy {
  std::variant<given_order, ascending_order, interval_filling, insertion, local_search<>,
               exact_order<>>
      policy;

  time_units operator()(order_problem const& problem, std::span<microbatch_id> order,
                        workspace& memory) const
  {
    return std::visit(
        [&](auto const& held) { return detail::run_order_policy(held, problem, order, memory); },
        policy);
  }

  friend bool operator==(any_order_policy const&, any_order_policy const&) = default;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_BY_NAME_ANY_ORDER_POLICY_HPP
