// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_ANY_POLICY_HPP
#define BALLAST_PARTITION_ANY_POLICY_HPP

#include <ballast/core/result.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/greedy_knapsack.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/round_robin.hpp>

#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace ballast::inline v0 {

/// A policy chosen at run time, for command lines and benchmarks. Trainers write the type instead,
/// so that the compiler sees through it.
struct any_policy {
  std::variant<greedy_knapsack, longest_processing_time, round_robin> policy;

  void operator()(partition_problem const& problem, std::span<cost_units> loads,
                  std::span<bag_id> owner, workspace& memory) const
  {
    std::visit([&](auto const& chosen) { chosen(problem, loads, owner, memory); }, policy);
  }

  friend bool operator==(any_policy const&, any_policy const&) = default;
};

/// The names that parse_policy knows, as a sentence can list them.
inline constexpr std::string_view policy_names =
    "greedy_knapsack, greedy_knapsack:capacity=full, longest_processing_time (lpt), round_robin";

/// The policy with this name.
///
/// Errors      unknown_name, with the names that exist.
[[nodiscard]] inline result<any_policy> parse_policy(std::string_view name)
{
  if (name == "greedy_knapsack" || name == "greedy_knapsack:capacity=remaining") {
    return any_policy{greedy_knapsack{}};
  }
  if (name == "greedy_knapsack:capacity=full") {
    return any_policy{greedy_knapsack{knapsack_capacity::full}};
  }
  if (name == "longest_processing_time" || name == "lpt") {
    return any_policy{longest_processing_time{}};
  }
  if (name == "round_robin") { return any_policy{round_robin{}}; }
  return fail(
      error_code::unknown_name, 0,
      "there is no policy '" + std::string(name) + "'; choose one of " + std::string(policy_names));
}

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_ANY_POLICY_HPP
