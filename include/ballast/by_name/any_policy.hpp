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
#include <ballast/partition/longest_processing_time.hpp>

#include <concepts>
#include <span>
#include <utility>

namespace ballast::inline v0 {

namespace detail {

struct held_partition_policy : comparable_interface {
  virtual ratio run(partition_problem const& problem, std::span<cost_units> loads,
                    std::span<bag_id> owner, workspace& memory) const = 0;
  [[nodiscard]] virtual bool restricts() const = 0;
  [[nodiscard]] virtual batching batches() const = 0;
  [[nodiscard]] virtual bool keeps_counts() const = 0;
  [[nodiscard]] virtual bool keeps_homes() const = 0;
  [[nodiscard]] virtual bool keeps_rules() const = 0;
};

}  // namespace detail

/// A policy chosen at run time, for command lines and benchmarks. Trainers write the type instead,
/// so that the compiler sees through it.
///
/// It is a value that holds any policy, of the library or of the caller, nested ones too:
/// `any_policy{refine{any_policy{karmarkar_karp{}}}}`. Copies share the policy, which never changes.
///
/// Ensures     (1) its plans, restrictions, rules and batches are those of the policy that it holds
///             (2) two are equal when they hold equal policies of the same type
class any_policy : public detail::any_held<detail::held_partition_policy> {
 public:
  any_policy() : any_policy(longest_processing_time{}) {}

  template <class Policy>
    requires(!std::same_as<Policy, any_policy> && partition_policy<Policy>)
  explicit any_policy(Policy policy) : any_held(new holder<Policy>(std::move(policy)))
  {}

  ratio operator()(partition_problem const& problem, std::span<cost_units> loads,
                   std::span<bag_id> owner, workspace& memory) const
  {
    return held().run(problem, loads, owner, memory);
  }
  [[nodiscard]] bool restricts() const { return held().restricts(); }
  [[nodiscard]] batching batches() const { return held().batches(); }
  [[nodiscard]] bool keeps_counts() const { return held().keeps_counts(); }
  [[nodiscard]] bool keeps_homes() const { return held().keeps_homes(); }
  [[nodiscard]] bool keeps_rules() const { return held().keeps_rules(); }

 private:
  template <class Policy>
  struct holder final : detail::held_value<detail::held_partition_policy, Policy> {
    using detail::held_value<detail::held_partition_policy, Policy>::held_value;

    ratio run(partition_problem const& problem, std::span<cost_units> loads,
              std::span<bag_id> owner, workspace& memory) const override
    {
      return run_policy(this->value, problem, loads, owner, memory);
    }
    [[nodiscard]] bool restricts() const override { return restricts_plans(this->value); }
    [[nodiscard]] batching batches() const override { return batching_of(this->value); }
    [[nodiscard]] bool keeps_counts() const override { return plans_keep_counts(this->value); }
    [[nodiscard]] bool keeps_homes() const override
    {
      return detail::plans_keep_homes(this->value);
    }
    [[nodiscard]] bool keeps_rules() const override { return keeps_placement_rules(this->value); }
  };
};

}  // namespace ballast::inline v0

#endif  // BALLAST_BY_NAME_ANY_POLICY_HPP
