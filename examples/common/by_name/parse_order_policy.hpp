// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "any_order_policy.hpp"
#include "named_value.hpp"
#include "policy_expression.hpp"
#include "settings_reader.hpp"

#include <ballast/core.hpp>
#include <ballast/pipeline/local_search.hpp>
#include <ballast/pipeline/order_policies.hpp>
#include <ballast/pipeline/order_search.hpp>

namespace by_name {

using named_order_policy = named_value<any_order_policy, settings_reader>;

inline constexpr std::array named_order_policies = {
    named_order_policy{"given", "", "",
                       [](settings_reader&) { return any_order_policy{ballast::given_order{}}; }},
    named_order_policy{
        "ascending", "", "",
        [](settings_reader&) { return any_order_policy{ballast::ascending_order{}}; }},
    named_order_policy{
        "interval", "", "",
        [](settings_reader&) { return any_order_policy{ballast::interval_filling{}}; }},
    named_order_policy{"insertion", "", "evaluations=N",
                       [](settings_reader& read) {
                         ballast::insertion policy;
                         read.number("evaluations", policy.evaluations);
                         return any_order_policy{policy};
                       }},
    named_order_policy{"search", "", "evaluations=N,seed=S",
                       [](settings_reader& read) {
                         ballast::local_search policy;
                         read.number("evaluations", policy.evaluations);
                         read.number("seed", policy.seed);
                         return any_order_policy{policy};
                       }},
    named_order_policy{
        "exact", "", "nodes=N",
        [](settings_reader& read) {
          ballast::exact_order<ballast::local_search<>> policy;  // never worse than search
          read.number("nodes", policy.nodes);
          return any_order_policy{policy};
        }},
};

/// The names that parse_order_policy knows and what each takes, as a sentence can list them.
[[nodiscard]] inline std::string order_policy_names()
{
  return list_names(named_order_policies);
}

/// The order policy that a text names, with its parameters: `given`, `interval`,
/// `search:evaluations=5000,seed=7`, `exact:nodes=1000`. Parameters that are not written have the
/// defaults of the policy's type.
///
/// Errors      syntax, unknown_name or out_of_range with a byte offset: a name or parameter that
///             does not exist, a value that the parameter cannot have.
/// Complexity  O(bytes).
[[nodiscard]] inline ballast::result<any_order_policy> parse_order_policy(std::string_view text)
{
  auto const parsed = parse_policy_expression(text, "search:evaluations=5000,seed=7");
  if (!parsed) { return tl::unexpected(parsed.error()); }
  return read_named(named_order_policies, *parsed, "order policy");
}

}  // namespace by_name
