// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_BY_NAME_ANY_POLICY_HPP
#define BALLAST_BY_NAME_ANY_POLICY_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/core/units.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/batching.hpp>
#include <ballast/partition/best_of.hpp>
#include <ballast/partition/capped.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/conv_transformer_batches.hpp>
#include <ballast/partition/equal_count.hpp>
#include <ballast/partition/exact.hpp>
#include <ballast/partition/greedy_knapsack.hpp>
#include <ballast/partition/karmarkar_karp.hpp>
#include <ballast/partition/least_movement.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/multifit.hpp>
#include <ballast/partition/padded_batches.hpp>
#include <ballast/partition/quadratic_with_tolerance.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/partition/round_robin.hpp>

#include <concepts>
#include <memory>
#include <span>
#include <utility>
#include <variant>

namespace ballast::inline v0 {

namespace detail {
struct policy_variant;
}

/// A policy chosen at run time, for command lines and benchmarks. Trainers write the type instead,
/// so that the compiler sees through it.
///
/// It is a value that holds any policy of the library, nested ones too:
/// `any_policy{refine{any_policy{multifit{}}}}`. Copies share the policy, which never changes.
///
/// Ensures     (1) its plans, restrictions and batches are those of the policy that it holds
class any_policy {
 public:
  any_policy();  ///< longest_processing_time

  template <class Policy>
    requires(!std::same_as<Policy, any_policy> && partition_policy<Policy>)
  explicit any_policy(Policy policy);

  // There is no move, which would leave an any_policy without a policy.
  any_policy(any_policy const&) = default;
  any_policy& operator=(any_policy const&) = default;

  ratio operator()(partition_problem const& problem, std::span<cost_units> loads,
                   std::span<bag_id> owner, workspace& memory) const;
  [[nodiscard]] bool restricts() const;
  [[nodiscard]] batching batches() const;

  friend bool operator==(any_policy const& a, any_policy const& b);

 private:
  std::shared_ptr<detail::policy_variant const> held_;
};

namespace detail {

struct policy_variant {
  std::variant<longest_processing_time, karmarkar_karp, multifit, greedy_knapsack, round_robin,
               equal_count, padded_batches, conv_transformer_batches, quadratic_with_tolerance,
               refine<any_policy>, exact<any_policy>, capped<any_policy>,
               least_movement<any_policy>, best_of<any_policy, any_policy>>
      policy;

  friend bool operator==(policy_variant const&, policy_variant const&) = default;
};

}  // namespace detail

inline any_policy::any_policy() : any_policy(longest_processing_time{}) {}

template <class Policy>
  requires(!std::same_as<Policy, any_policy> && partition_policy<Policy>)
any_policy::any_policy(Policy policy)
    : held_(std::make_shared<detail::policy_variant>(detail::policy_variant{std::move(policy)}))
{}

inline ratio any_policy::operator()(partition_problem const& problem, std::span<cost_units> loads,
                                    std::span<bag_id> owner, workspace& memory) const
{
  return std::visit(
      [&](auto const& policy) { return run_policy(policy, problem, loads, owner, memory); },
      held_->policy);
}

inline bool any_policy::restricts() const
{
  return std::visit([](auto const& policy) { return restricts_plans(policy); }, held_->policy);
}

inline batching any_policy::batches() const
{
  return std::visit([](auto const& policy) { return batching_of(policy); }, held_->policy);
}

inline bool operator==(any_policy const& a, any_policy const& b)
{
  return *a.held_ == *b.held_;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_BY_NAME_ANY_POLICY_HPP
