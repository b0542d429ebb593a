// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "held_value.hpp"

#include <ballast/core.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/longest_processing_time.hpp>

namespace by_name {

struct held_partition_policy : comparable_interface {
  virtual ballast::ratio run(ballast::partition_problem const& problem,
                             std::span<ballast::cost_units> loads, std::span<ballast::bag_id> owner,
                             ballast::workspace& memory) const = 0;
  [[nodiscard]] virtual ballast::batching batches() const = 0;
  [[nodiscard]] virtual std::uint64_t work_within_limits() const = 0;
};

/// A policy chosen at run time, for command lines and benchmarks. Trainers write the type instead,
/// so that the compiler sees through it.
///
/// It is a value that holds any policy, of the library or of the caller, nested ones too:
/// `any_policy{refine{any_policy{round_robin{}}}}`. Copies share the policy, which never changes.
///
/// Ensures     (1) its plans, within limits too, and batches are those of the policy that it holds
///             (2) two are equal when they hold equal policies of the same type
class any_policy : public any_held<held_partition_policy> {
 public:
  any_policy() : any_policy(ballast::longest_processing_time{}) {}

  template <class Policy>
    requires(!std::same_as<Policy, any_policy> && ballast::partition_policy<Policy>)
  explicit any_policy(Policy policy) : any_held(new holder<Policy>(std::move(policy)))
  {}

  ballast::ratio operator()(ballast::partition_problem const& problem,
                            std::span<ballast::cost_units> loads, std::span<ballast::bag_id> owner,
                            ballast::workspace& memory) const
  {
    return held().run(problem, loads, owner, memory);
  }
  [[nodiscard]] ballast::batching batches() const { return held().batches(); }
  [[nodiscard]] std::uint64_t work_within_limits() const { return held().work_within_limits(); }

 private:
  template <class Policy>
  struct holder final : held_value<held_partition_policy, Policy> {
    using held_value<held_partition_policy, Policy>::held_value;

    ballast::ratio run(ballast::partition_problem const& problem,
                       std::span<ballast::cost_units> loads, std::span<ballast::bag_id> owner,
                       ballast::workspace& memory) const override
    {
      return ballast::run_policy(this->value, problem, loads, owner, memory);
    }
    [[nodiscard]] ballast::batching batches() const override
    {
      return ballast::batching_of(this->value);
    }
    [[nodiscard]] std::uint64_t work_within_limits() const override
    {
      if constexpr (requires(Policy const& policy) { policy.work_within_limits(); }) {
        return this->value.work_within_limits();
      } else {
        return 0;
      }
    }
  };
};

}  // namespace by_name
