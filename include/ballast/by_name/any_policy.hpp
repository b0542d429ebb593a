// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_BY_NAME_ANY_POLICY_HPP
#define BALLAST_BY_NAME_ANY_POLICY_HPP

#include <ballast/by_name/detail/held_value.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/batching.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/counts/keeps_counts.hpp>
#include <ballast/partition/longest_processing_time.hpp>

#include <concepts>
#include <memory>
#include <span>
#include <utility>

namespace ballast::inline v0 {

/// A policy chosen at run time, for command lines and benchmarks. Trainers write the type instead,
/// so that the compiler sees through it.
///
/// It is a value that holds any policy, of the library or of the caller, nested ones too:
/// `any_policy{refine{any_policy{multifit{}}}}`. Copies share the policy, which never changes.
///
/// Ensures     (1) its plans, restrictions and batches are those of the policy that it holds
///             (2) two are equal when they hold equal policies of the same type
class any_policy {
 public:
  any_policy() : any_policy(longest_processing_time{}) {}

  template <class Policy>
    requires(!std::same_as<Policy, any_policy> && partition_policy<Policy>)
  explicit any_policy(Policy policy)
      : any_policy(static_cast<held_policy const*>(new holder<Policy>(std::move(policy))))
  {}

  // There is no move, which would leave an any_policy without a policy.
  any_policy(any_policy const&) = default;
  any_policy& operator=(any_policy const&) = default;

  ratio operator()(partition_problem const& problem, std::span<cost_units> loads,
                   std::span<bag_id> owner, workspace& memory) const
  {
    return held_->run(problem, loads, owner, memory);
  }
  [[nodiscard]] bool restricts() const { return held_->restricts(); }
  [[nodiscard]] batching batches() const { return held_->batches(); }
  [[nodiscard]] bool keeps_counts() const { return held_->keeps_counts(); }

  friend bool operator==(any_policy const& a, any_policy const& b)
  {
    return a.held_->equals(*b.held_);
  }

 private:
  struct held_policy : detail::comparable_interface {
    virtual ratio run(partition_problem const& problem, std::span<cost_units> loads,
                      std::span<bag_id> owner, workspace& memory) const = 0;
    [[nodiscard]] virtual bool restricts() const = 0;
    [[nodiscard]] virtual batching batches() const = 0;
    [[nodiscard]] virtual bool keeps_counts() const = 0;
  };

  template <class Policy>
  struct holder final : detail::held_value<held_policy, Policy> {
    using detail::held_value<held_policy, Policy>::held_value;

    ratio run(partition_problem const& problem, std::span<cost_units> loads,
              std::span<bag_id> owner, workspace& memory) const override
    {
      return run_policy(this->value, problem, loads, owner, memory);
    }
    [[nodiscard]] bool restricts() const override { return restricts_plans(this->value); }
    [[nodiscard]] batching batches() const override { return batching_of(this->value); }
    [[nodiscard]] bool keeps_counts() const override { return detail::keeps_counts(this->value); }
  };

  // One type of shared pointer for all policies compiles faster than std::make_shared of each.
  explicit any_policy(held_policy const* held) : held_(held) {}

  std::shared_ptr<held_policy const> held_;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_BY_NAME_ANY_POLICY_HPP
