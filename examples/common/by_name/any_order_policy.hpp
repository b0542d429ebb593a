// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "held_value.hpp"

#include <ballast/core.hpp>
#include <ballast/pipeline/order_policies.hpp>

namespace by_name {

struct held_order_policy : comparable_interface {
  virtual ballast::time_units run(ballast::order_problem const& problem,
                                  std::span<ballast::microbatch_id> order,
                                  ballast::workspace& memory) const = 0;
};

/// An order policy chosen at run time, for command lines and benchmarks. Trainers write the type
/// instead, so that the compiler sees through it. Copies share the policy, which never changes.
///
/// Ensures     (1) its orders and lower bounds are those of the policy that it holds
///             (2) two are equal when they hold equal policies of the same type
class any_order_policy : public any_held<held_order_policy> {
 public:
  any_order_policy() : any_order_policy(ballast::given_order{}) {}

  template <class Policy>
    requires(!std::same_as<Policy, any_order_policy> && ballast::order_policy<Policy>)
  explicit any_order_policy(Policy policy) : any_held(new holder<Policy>(std::move(policy)))
  {}

  ballast::time_units operator()(ballast::order_problem const& problem,
                                 std::span<ballast::microbatch_id> order,
                                 ballast::workspace& memory) const
  {
    return held().run(problem, order, memory);
  }

 private:
  template <class Policy>
  struct holder final : held_value<held_order_policy, Policy> {
    using held_value<held_order_policy, Policy>::held_value;

    ballast::time_units run(ballast::order_problem const& problem,
                            std::span<ballast::microbatch_id> order,
                            ballast::workspace& memory) const override
    {
      if constexpr (std::is_void_v<decltype(this->value(problem, order, memory))>) {
        this->value(problem, order, memory);
        return 0;
      } else {
        return this->value(problem, order, memory);
      }
    }
  };
};

}  // namespace by_name
