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
#include <memory>
#include <span>
#include <utility>

namespace ballast::inline v0 {

/// An order policy chosen at run time, for command lines and benchmarks. Trainers write the type
/// instead, so that the compiler sees through it. Copies share the policy, which never changes.
///
/// Ensures     (1) its orders and lower bounds are those of the policy that it holds
///             (2) two are equal when they hold equal policies of the same type
class any_order_policy {
 public:
  any_order_policy() : any_order_policy(given_order{}) {}

  template <class Policy>
    requires(!std::same_as<Policy, any_order_policy> && order_policy<Policy>)
  explicit any_order_policy(Policy policy)
      : any_order_policy(static_cast<held_policy const*>(new holder<Policy>(std::move(policy))))
  {}

  // There is no move, which would leave an any_order_policy without a policy.
  any_order_policy(any_order_policy const&) = default;
  any_order_policy& operator=(any_order_policy const&) = default;

  time_units operator()(order_problem const& problem, std::span<microbatch_id> order,
                        workspace& memory) const
  {
    return held_->run(problem, order, memory);
  }

  friend bool operator==(any_order_policy const& a, any_order_policy const& b)
  {
    return a.held_->equals(*b.held_);
  }

 private:
  struct held_policy : detail::comparable_interface {
    virtual time_units run(order_problem const& problem, std::span<microbatch_id> order,
                           workspace& memory) const = 0;
  };

  template <class Policy>
  struct holder final : detail::held_value<held_policy, Policy> {
    using detail::held_value<held_policy, Policy>::held_value;

    time_units run(order_problem const& problem, std::span<microbatch_id> order,
                   workspace& memory) const override
    {
      return detail::run_order_policy(this->value, problem, order, memory);
    }
  };

  // One type of shared pointer for all policies compiles faster than std::make_shared of each.
  explicit any_order_policy(held_policy const* held) : held_(held) {}

  std::shared_ptr<held_policy const> held_;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_BY_NAME_ANY_ORDER_POLICY_HPP
