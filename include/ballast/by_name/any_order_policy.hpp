// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_BY_NAME_ANY_ORDER_POLICY_HPP
#define BALLAST_BY_NAME_ANY_ORDER_POLICY_HPP

#include <ballast/by_name/detail/held_value.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/concepts.hpp>
#include <ballast/pipeline/given_order.hpp>

#include <concepts>
#include <span>
#include <utility>

namespace ballast::inline v0 {

namespace detail {

struct held_order_policy : comparable_interface {
  virtual time_units run(order_problem const& problem, std::span<microbatch_id> order,
                         workspace& memory) const = 0;
};

}  // namespace detail

/// An order policy chosen at run time, for command lines and benchmarks. Trainers write the type
/// instead, so that the compiler sees through it. Copies share the policy, which never changes.
///
/// Ensures     (1) its orders and lower bounds are those of the policy that it holds
///             (2) two are equal when they hold equal policies of the same type
class any_order_policy : public detail::any_held<detail::held_order_policy> {
 public:
  any_order_policy() : any_order_policy(given_order{}) {}

  template <class Policy>
    requires(!std::same_as<Policy, any_order_policy> && order_policy<Policy>)
  explicit any_order_policy(Policy policy) : any_held(new holder<Policy>(std::move(policy)))
  {}

  time_units operator()(order_problem const& problem, std::span<microbatch_id> order,
                        workspace& memory) const
  {
    return held().run(problem, order, memory);
  }

 private:
  template <class Policy>
  struct holder final : detail::held_value<detail::held_order_policy, Policy> {
    using detail::held_value<detail::held_order_policy, Policy>::held_value;

    time_units run(order_problem const& problem, std::span<microbatch_id> order,
                   workspace& memory) const override
    {
      return detail::run_order_policy(this->value, problem, order, memory);
    }
  };
};

}  // namespace ballast::inline v0

#endif  // BALLAST_BY_NAME_ANY_ORDER_POLICY_HPP
